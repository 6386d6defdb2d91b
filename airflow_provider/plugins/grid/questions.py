"""Parts that all questions of the page share: their arguments, the store, recent answers, and errors as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import JSONResponse

from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.dags import dags_of_jobs
from airflow_provider.domain.errors import (
    Conflict,
    DependentReaders,
    EpochBusy,
    EpochError,
    InvalidInput,
    NotReady,
    RetryableError,
    TopologyError,
    Unavailable,
    UnknownName,
)
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.schedule import run_barrier
from airflow_provider.plugins.access import NotAllowed, address_hidden, allowed_hook
from airflow_provider.plugins.recent import Recent
from airflow_provider.stores.base import MetadataReader

MAX_TEXT = 255
recent = Recent()

ConnectionId = Annotated[str | None, Query(max_length=MAX_TEXT)]
Name = Annotated[str, Query(max_length=MAX_TEXT)]
Words = Annotated[str, Query(max_length=MAX_TEXT)]
Tag = Annotated[str, Query(max_length=MAX_TEXT)]
Time = Annotated[str | None, Query(max_length=64)]

_STATUS: dict[tuple[type[EpochError], ...], int] = {
    (NotAllowed,): 403,
    (UnknownName,): 404,
    (InvalidInput,): 400,
    (Conflict, DependentReaders, EpochBusy, NotReady, TopologyError, Unavailable): 409,
    (RetryableError,): 503,
}
"""Status of an answer by the class of its error; the first that fits."""


@contextmanager
def reader_of(conn_id: str | None, user: Any) -> Iterator[MetadataReader]:
    """Open the store of a connection for reading."""
    hook = allowed_hook(conn_id)
    with address_hidden(hook, user), hook.get_reader() as reader:
        yield reader


@contextmanager
def service_of(conn_id: str | None, user: Any) -> Iterator[EpochService]:
    """Open the store and the tables of a connection."""
    hook = allowed_hook(conn_id)
    with address_hidden(hook, user), hook.get_conn(create=False) as service:
        yield service


def recent_dags(conn_id: str | None, reader: MetadataReader, domain: DomainName) -> dict[JobName, str]:
    """Return for each job the DAG that worked on its latest epoch, as of a minute ago at most."""
    head = reader.read(domain, []).head
    question = ("dags", conn_id or "", domain, head.incarnation)
    found: dict[JobName, str] = recent.answer(question, head.csn, lambda: dags_of_jobs(reader, domain)).value
    return found


def moment_of(text: str | None, field: str) -> datetime | None:
    """Return the time *text*; None without one.

    :raises InvalidInput: not a time. :param field: name of the argument, for the error.
    """
    if not text:
        return None
    try:
        return run_barrier(explicit=text)
    except InvalidInput as error:
        raise InvalidInput(field=field, value=text, expected="a time such as 2013-02-08T00:00:00Z") from error


def refused(_request: Request, error: Exception) -> JSONResponse:
    """Return an error of this package as JSON: its class, message and next step."""
    status = next((status for kinds, status in _STATUS.items() if isinstance(error, kinds)), 500)
    message, next_step = (
        (error.message, error.next_step) if isinstance(error, EpochError) else (str(error), "")
    )
    body = {"error": type(error).__name__, "message": message, "next_step": next_step}
    return JSONResponse(body, status_code=status)
