"""Routes of the page. All need a signed-in user; only those that decide on a restatement change anything."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from fastapi import APIRouter, Depends, FastAPI, Query
from fastapi.responses import FileResponse

from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.grid import Grid, grid
from airflow_provider.domain.errors import EpochError, InvalidInput, UnknownName
from airflow_provider.domain.identifiers import DomainName, domain_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import topology_key
from airflow_provider.domain.schedule import run_barrier
from airflow_provider.plugins.access import DagAccess, allowed_connections
from airflow_provider.plugins.grid.answers import (
    Restated,
    domains_answer,
    epoch_answer,
    grid_answer,
    unknown_epoch,
)
from airflow_provider.plugins.grid.questions import (
    ConnectionId,
    Name,
    Tag,
    Time,
    Words,
    reader_of,
    recent,
    recent_dags,
    refused,
)
from airflow_provider.plugins.grid.restatements import restated
from airflow_provider.plugins.grid.restatements import router as restatements
from airflow_provider.stores.base import MetadataReader

_STATIC = Path(__file__).parent / "static"
_MAX_HOURS = 24 * 366
_MAX_ROWS, _MAX_TOTAL = 200, 12_000
"""Maximum number of tables and of cells in one answer: about a second of work, and a few megabytes."""

router = APIRouter(dependencies=[Depends(requires_access_view(AccessView.PLUGINS))])


def _script(path: Path) -> Callable[[], FileResponse]:
    def script() -> FileResponse:
        """Return a script of the page."""
        return FileResponse(path, media_type="text/javascript", headers={"Cache-Control": "no-cache"})

    return script


for _path in sorted(_STATIC.glob("*.js")):
    router.get(f"/static/{_path.name}")(_script(_path))
router.include_router(restatements)


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


@router.get("/api/grid")
def grid_of(
    *,
    user: GetUserDep,
    domain: Name = "default",
    conn_id: ConnectionId = None,
    end: Time = None,
    hours: Annotated[int, Query(ge=1, le=_MAX_HOURS)] = 168,
    words: Words = "",
    since: Tag = "",
) -> dict[str, Any]:
    """Return tables and their epochs in the *hours* before *end*, as far as the user may read the DAGs.

    :param words: only tables whose name, or whose job's name, contains one of these words.
    :param since: ``tag`` of the answer that the page has; an answer with the same tag is not sent again.
    """
    moment, wanted = _moment(end, "end"), tuple(sorted(set(words.lower().replace(",", " ").split())))
    with reader_of(conn_id, user) as reader:
        name = domain_name(domain)
        reading = reader.read(name, [topology_key(name)])
        head, topology = reading.head, reading.get(topology_key(name))
        # A restatement that opens or ends moves no CSN, and writes the topology.
        version = topology.version if topology else 0

        def work() -> tuple[Grid, Restated]:
            found = grid(
                reader,
                name,
                end=moment,
                span=timedelta(hours=hours),
                words=wanted,
                max_rows=_MAX_ROWS,
                max_total=_MAX_TOTAL,
            )
            return found, restated(reader, found)

        question = ("grid", conn_id or "", name, head.incarnation, version, moment, hours, wanted)
        found = recent.answer(question, head.csn, work)
    if since == found.tag:
        return {"unchanged": True, "tag": found.tag}
    return {**grid_answer(found.value[0], DagAccess(user), found.value[1]), "tag": found.tag}


@router.get("/api/epoch")
def epoch_of(
    *,
    user: GetUserDep,
    job: Name,
    start: Annotated[str, Query(max_length=64)],
    end: Annotated[str, Query(max_length=64)],
    domain: Name = "default",
    conn_id: ConnectionId = None,
) -> dict[str, Any]:
    """Return one epoch with what it waits for, the next step and its state log."""
    interval = Interval(run_barrier(explicit=start), run_barrier(explicit=end))
    with reader_of(conn_id, user) as reader:
        try:
            found = explain(reader, domain, job, interval, at_sources=False)
        except UnknownName as error:
            raise unknown_epoch(job, interval) from error
    return epoch_answer(found, DagAccess(user))


def _moment(text: str | None, field: str) -> Any:
    if not text:
        return None
    try:
        return run_barrier(explicit=text)
    except InvalidInput as error:
        raise InvalidInput(field=field, value=text, expected="a time such as 2013-02-08T00:00:00Z") from error
