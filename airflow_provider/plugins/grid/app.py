"""Routes of the page. All need a signed-in user; only those that decide on a restatement change anything."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from fastapi import APIRouter, Depends, FastAPI
from fastapi.responses import FileResponse

from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.plugins.access import DagAccess, allowed_connections
from airflow_provider.plugins.grid.answers import (
    domains_answer,
)
from airflow_provider.plugins.grid.epochs import router as epochs
from airflow_provider.plugins.grid.questions import (
    ConnectionId,
    reader_of,
    recent_dags,
    refused,
)
from airflow_provider.plugins.grid.restate import router as restate
from airflow_provider.plugins.grid.restatements import router as restatements
from airflow_provider.plugins.grid.revert import router as revert
from airflow_provider.plugins.grid.topology import router as topology
from airflow_provider.plugins.grid.windows import router as windows
from airflow_provider.stores.base import MetadataReader

_STATIC = Path(__file__).parent / "static"

router = APIRouter(dependencies=[Depends(requires_access_view(AccessView.PLUGINS))])


def _script(path: Path) -> Callable[[], FileResponse]:
    def script() -> FileResponse:
        """Return a script of the page."""
        return FileResponse(path, media_type="text/javascript", headers={"Cache-Control": "no-cache"})

    return script


for _path in sorted(_STATIC.glob("*.js")):
    router.get(f"/static/{_path.name}")(_script(_path))
router.include_router(windows)
router.include_router(epochs)
router.include_router(restate)
router.include_router(restatements)
router.include_router(revert)
router.include_router(topology)


def create_app() -> FastAPI:
    """Build the application; all of it needs a signed-in user, which is why FastAPI's own documentation is off."""
    app = FastAPI(title="Epochs", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(router)
    app.add_exception_handler(EpochError, refused)
    return app


@router.get("/api/connections")
def connections() -> dict[str, list[str]]:
    """Return the connections that the page may show, the default first."""
    return {"connections": allowed_connections()}


@router.get("/api/domains")
def domains(user: GetUserDep, conn_id: ConnectionId = None) -> dict[str, list[str]]:
    """Return the domains of a connection's store in which the user may read a DAG."""
    with reader_of(conn_id, user) as reader:
        dags = {name: partial(_dags, conn_id, reader, name) for name in reader.domains()}
        return {"domains": domains_answer(dags, DagAccess(user))}


def _dags(conn_id: str | None, reader: MetadataReader, domain: DomainName) -> frozenset[str]:
    return frozenset(recent_dags(conn_id, reader, domain).values())
