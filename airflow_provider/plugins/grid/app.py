"""Routes of the page. All are read-only, and all need a signed-in user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.responses import FileResponse, JSONResponse

from airflow_provider.coordination.upkeep.dags import latest_dags
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.grid import grid
from airflow_provider.domain.errors import (
    EpochError,
    InvalidInput,
    RetryableError,
    UnknownName,
)
from airflow_provider.domain.identifiers import DomainName, domain_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.schedule import run_barrier
from airflow_provider.plugins.access import DagAccess, address_hidden, allowed_connections, allowed_hook
from airflow_provider.plugins.grid.answers import domains_answer, epoch_answer, grid_answer, unknown_epoch
from airflow_provider.plugins.recent import Recent
from airflow_provider.stores.base import MetadataReader

_SCRIPT = Path(__file__).parent / "static" / "epochs.js"
_MAX_TEXT = 255
_MAX_HOURS = 24 * 366
_MAX_ROWS, _MAX_TOTAL = 200, 12_000
"""Maximum number of tables and of cells in one answer: about a second of work, and a few megabytes."""
_recent = Recent()

ConnectionId = Annotated[str | None, Query(max_length=_MAX_TEXT)]
Name = Annotated[str, Query(max_length=_MAX_TEXT)]
Time = Annotated[str | None, Query(max_length=64)]

router = APIRouter(dependencies=[Depends(requires_access_view(AccessView.PLUGINS))])


def create_app() -> FastAPI:
    """Build the application; all of it needs a signed-in user, which is why FastAPI's own documentation is off."""
    app = FastAPI(title="Epochs", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(router)
    app.add_exception_handler(EpochError, _refused)
    return app


@router.get("/static/epochs.js")
def script() -> FileResponse:
    """Return the page's script."""
    return FileResponse(_SCRIPT, media_type="text/javascript", headers={"Cache-Control": "no-cache"})


@router.get("/api/connections")
def connections() -> dict[str, list[str]]:
    """Return the connections that the page may show, the default first."""
    return {"connections": allowed_connections()}


@router.get("/api/domains")
def domains(user: GetUserDep, conn_id: ConnectionId = None) -> dict[str, list[str]]:
    """Return the domains of a connection's store in which the user may read a DAG."""
    with _reader(conn_id, user) as reader:
        dags = {name: partial(_latest_dags, conn_id, reader, name) for name in reader.domains()}
        return {"domains": domains_answer(dags, DagAccess(user))}


def _latest_dags(conn_id: str | None, reader: MetadataReader, domain: DomainName) -> Any:
    head = reader.read(domain, []).head
    question = ("dags", conn_id or "", domain, head.incarnation)
    return _recent.answer(question, head.csn, lambda: latest_dags(reader, domain)).value


@router.get("/api/grid")
def grid_of(
    *,
    user: GetUserDep,
    domain: Name = "default",
    conn_id: ConnectionId = None,
    end: Time = None,
    hours: Annotated[int, Query(ge=1, le=_MAX_HOURS)] = 168,
    words: Annotated[str, Query(max_length=_MAX_TEXT)] = "",
    since: Annotated[str, Query(max_length=64)] = "",
) -> dict[str, Any]:
    """Return tables and their epochs in the *hours* before *end*, as far as the user may read the DAGs.

    :param words: only tables whose name, or whose job's name, contains one of these words.
    :param since: ``tag`` of the answer that the page has; an answer with the same tag is not sent again.
    """
    moment, wanted = _moment(end, "end"), tuple(sorted(set(words.lower().replace(",", " ").split())))
    with _reader(conn_id, user) as reader:
        name = domain_name(domain)
        head = reader.read(name, []).head
        found = _recent.answer(
            ("grid", conn_id or "", name, head.incarnation, moment, hours, wanted),
            head.csn,
            lambda: grid(
                reader,
                name,
                end=moment,
                span=timedelta(hours=hours),
                words=wanted,
                max_rows=_MAX_ROWS,
                max_total=_MAX_TOTAL,
            ),
        )
    if since == found.tag:
        return {"unchanged": True, "tag": found.tag}
    return {**grid_answer(found.value, DagAccess(user)), "tag": found.tag}


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
    with _reader(conn_id, user) as reader:
        try:
            found = explain(reader, domain, job, interval, at_sources=False)
        except UnknownName as error:
            raise unknown_epoch(job, interval) from error
    return epoch_answer(found, DagAccess(user))


@contextmanager
def _reader(conn_id: str | None, user: Any) -> Iterator[MetadataReader]:
    hook = allowed_hook(conn_id)
    with address_hidden(hook, user), hook.get_reader() as reader:
        yield reader


def _moment(text: str | None, field: str) -> Any:
    if not text:
        return None
    try:
        return run_barrier(explicit=text)
    except InvalidInput as error:
        raise InvalidInput(field=field, value=text, expected="a time such as 2013-02-08T00:00:00Z") from error


def _refused(_request: Request, error: Exception) -> JSONResponse:
    """Return an error of this package as JSON: its class, message and next step."""
    status = 500
    if isinstance(error, UnknownName):
        status = 404
    elif isinstance(error, InvalidInput):
        status = 400
    elif isinstance(error, RetryableError):
        status = 503
    message, next_step = (
        (error.message, error.next_step) if isinstance(error, EpochError) else (str(error), "")
    )
    body = {"error": type(error).__name__, "message": message, "next_step": next_step}
    return JSONResponse(body, status_code=status)
