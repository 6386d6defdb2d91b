"""``bench.waiters``: triggers that wait in one process, as a triggerer runs them."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from airflow.triggers.base import TriggerEvent
from sqlalchemy import URL, make_url

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.topology import Job, Table
from airflow_provider.stores.base import MetadataStore
from airflow_provider.stores.factory import open_store
from airflow_provider.stores.sql.store import SqlStore
from airflow_provider.triggers import shared_reader
from airflow_provider.triggers.epochs import EpochTrigger
from benchmarks.figures import figure, progress
from benchmarks.histories import commit_epoch
from benchmarks.job import HOUR, ORIGIN
from benchmarks.sizes import Size
from benchmarks.stores import Store
from tests.committed import FORMATS

DOMAIN = DomainName("waiters")
CONN_ID = "bench_waiters"
TRIGGERS = 10_000
TABLES = 100
"""Each with a job of its own; each trigger waits for two of them."""
SECONDS = 20.0
"""Of the measurement; one commit of one of the jobs each second."""
_FAR = 10_000
"""Number of hours from the origin to the barriers, which are never reached."""


def measure(store: Store, size: Size = Size.FULL) -> None:
    """Print the store's reads a second, the processor's share, and how long the triggers took to begin.

    Commits come from another process: they are in neither figure.
    """
    tables = size.of(TABLES, 3)
    with open_store(store.url) as writer:
        service = EpochService(writer, FORMATS)
        for job in jobs(tables):
            service.register(job)
            commit_epoch(writer, job, 0, moves=True)
    stop: Any = multiprocessing.get_context("spawn").Event() if size is Size.FULL else threading.Event()
    start: Any = multiprocessing.get_context("spawn").Process if size is Size.FULL else threading.Thread
    commits = start(target=_commit, args=(store.url, tables, stop), daemon=True)
    with _counted() as reads, _connection(store.url):
        asyncio.run(_wait(store, size, tables, reads, commits))
    stop.set()
    commits.join(30)


def jobs(number: int) -> list[Job]:
    """Return jobs with one table each."""
    return [
        Job(
            f"job_{position:03d}",
            outputs=[Table(f"table_{position:03d}", domain=DOMAIN, format="memory")],
            cadence="@hourly",
            origin=ORIGIN,
        )
        for position in range(number)
    ]


async def _wait(store: Store, size: Size, tables: int, reads: list[int], commits: Any) -> None:
    number = size.of(TRIGGERS, 20)
    began = time.monotonic()
    waiting = [asyncio.create_task(_event(_trigger(position, tables))) for position in range(number)]
    while _asked() < number:
        await asyncio.wait(waiting, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            if task.done():
                raise RuntimeError(f"a trigger has ended: {task.result()}")
    progress(f"{number} triggers wait on {store.name}")
    figure(f"bench.waiters.{store.name}.begin_seconds", time.monotonic() - began)
    commits.start()
    await asyncio.sleep(size.of(5.0, 0.2))  # the other process starts
    before, busy, began = sum(reads), time.process_time(), time.monotonic()
    await asyncio.sleep(size.of(SECONDS, 0.5))
    took = time.monotonic() - began
    figure(f"bench.waiters.{store.name}.queries_per_second", (sum(reads) - before) / took)
    figure(f"bench.waiters.{store.name}.cores", (time.process_time() - busy) / took)
    assert not any(task.done() for task in waiting)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def _event(trigger: EpochTrigger) -> TriggerEvent:
    return await anext(trigger.run())


def _trigger(position: int, tables: int) -> EpochTrigger:
    two = (position % tables, (position + 1) % tables)
    return EpochTrigger(
        epochs_conn_id=CONN_ID,
        domain=DOMAIN,
        tables=[f"table_{table:03d}" for table in two],
        barrier=(ORIGIN + (_FAR + position // tables) * HOUR).isoformat(),
    )


def _asked() -> int:
    """Return the number of triggers whose first question was answered."""
    readers = shared_reader.of_this_loop().readers.values()
    return sum(reader.questions.asked for reader in readers)


def _commit(url: str, tables: int, stop: Any) -> None:
    with open_store(url) as writer:
        number = 0
        while not stop.wait(1.0):
            job = jobs(tables)[number % tables]
            number += 1
            commit_epoch(writer, job, 1 + number // tables, moves=True)


@contextmanager
def _counted() -> Iterator[list[int]]:
    """Count what this process asks stores for: each read, and each look of a watch that polls."""
    counts: list[int] = []

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            counts.append(1)
            return method(*given, **named)

        return call

    def opened(url: str, **options: Any) -> MetadataStore:
        store = open_store(url, **options)
        asks: Any = store._dialect if isinstance(store, SqlStore) else store  # noqa: SLF001
        name = "look" if isinstance(store, SqlStore) else "read"
        setattr(asks, name, counted(getattr(asks, name)))
        return store

    with patch.object(shared_reader, "open_store", opened):
        yield counts


@contextmanager
def _connection(url: str) -> Iterator[None]:
    """Make Airflow's connection to the store; its catalog is never opened."""
    backend = url.partition(":")[0].partition("+")[0]
    hosts, _, rest = url.partition("//")[2].partition("/")
    # Several servers are one host to a connection; SQLAlchemy reads the address of one.
    several = URL.create(backend, host=hosts, database=rest.partition("?")[0])
    address = several if "," in hosts else make_url(url)
    extra: dict[str, Any] = {"backend": backend, "warehouse": "file:///nowhere"}
    fields: dict[str, Any] = {"conn_type": "epochs", "extra": extra, "host": address.host or address.database}
    if address.host is not None:
        fields |= {"port": address.port, "schema": address.database, "login": address.username}
        fields |= {"password": address.password}
        extra |= {"sslmode": "disable"} if backend == "postgresql" else {"catalog": f"{CONN_ID}_catalog"}
    catalog = {"conn_type": "epochs", "host": "/nowhere.db", "extra": {"backend": "sqlite"}}
    variables = {
        f"AIRFLOW_CONN_{CONN_ID.upper()}": json.dumps(fields),
        f"AIRFLOW_CONN_{CONN_ID.upper()}_CATALOG": json.dumps(catalog),
        "_AIRFLOW_PROCESS_CONTEXT": "server",
    }
    with patch.dict(os.environ, variables):
        yield
