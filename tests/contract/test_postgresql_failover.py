"""A standby that lacks the primary's last commits is promoted while epochs are open: a real server takes over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.coordination.attempts.resume import Begun, resume
from airflow_provider.coordination.reading.change_feed import Position, events
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import Attempt, Published
from airflow_provider.domain.errors import LeaseExpired, StoreReplaced, StoreUnavailable, Unavailable
from airflow_provider.domain.identifiers import ChangeSetId
from airflow_provider.domain.session import Session
from airflow_provider.domain.topology import Job, Table
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores.base import Exists, Number, RequirementFailed, SameStore, Transaction
from airflow_provider.stores.factory import open_store
from airflow_provider.stores.sql.postgresql import statements
from airflow_provider.testing.arrow_attempts import write_rows
from airflow_provider.testing.store_cases.backend import counter_key, put, write
from tests.contract.coordination_world import DOMAIN, ORIGIN, day, owner
from tests.servers.postgresql import PostgresqlServer
from tests.services.directories import quick_directory
from tests.services.postgresql import Pair, postgresql_pair
from tests.services.stores import empty_store

__all__ = ["postgresql_pair"]

ON_POSTGRESQL = pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
"""The only store with a server that another one may replace behind its clients' back."""
LOST = 40
"""Commits that the standby never hears of."""


class Pipelines:
    """Jobs of one table each, worked on through one service."""

    def __init__(self, url: str, warehouse: Path) -> None:
        self.service = EpochService.open(Settings(store_url=url, warehouse=f"file://{warehouse}"))
        self.coordinator: EpochService = self.service

    def job(self, name: str) -> Job:
        table = Table(name, domain=DOMAIN, format="iceberg")
        return Job(name, outputs=[table], cadence="@daily", origin=ORIGIN)

    def begin(self, name: str, number: int, try_number: int = 1) -> Attempt:
        attempt = self.coordinator.begin(self.job(name), day(number), owner(try_number=try_number))
        assert isinstance(attempt, Attempt)
        return attempt

    def written(self, name: str, number: int, value: int, try_number: int = 1) -> Attempt:
        attempt = self.begin(name, number, try_number)
        write_rows(self.coordinator, attempt, name, pa.table({"number": [value]}))
        return attempt

    def run(self, name: str, number: int, value: int, try_number: int = 1) -> Published:
        return self.coordinator.publish(self.written(name, number, value, try_number))

    def rows(self, name: str) -> list[int]:
        found = self.service.cuts.read(self.service.cuts.cut(DOMAIN, [name]), name, columns=["number"])
        return sorted(found["number"].to_pylist())


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """The name of the store, for the table of anomalies."""
    return str(request.param)


@pytest.fixture
def warehouse() -> Iterator[Path]:
    with quick_directory("epochs-tables-") as folder:
        yield folder


@ON_POSTGRESQL
@pytest.mark.usefixtures("backend")
def test_ha2_a_reader_is_sent_to_a_standby(postgresql_pair: Pair) -> None:
    """R3, R20: what a standby says may be old, so it is no store; of several servers the primary is found."""
    standby = postgresql_pair.standby.url(postgresql_pair.database)
    with pytest.raises(StoreUnavailable, match="is a standby") as refused:
        open_store(standby)
    assert "HOST:PORT,HOST:PORT" in refused.value.next_step
    with open_store(postgresql_pair.url) as store:
        key = counter_key(DOMAIN)
        write(store, put(key, 7))
        assert store.read(DOMAIN, [key]).records[key].record.generation == 7


@ON_POSTGRESQL
@pytest.mark.usefixtures("backend")
def test_ha1_a_standby_without_the_last_commits_is_promoted(postgresql_pair: Pair, warehouse: Path) -> None:
    """R10, R20, R33: all that was begun or seen before is refused by name, in begin, WRITTEN and publish."""
    pair = postgresql_pair
    work = Pipelines(pair.url, warehouse)
    kept = work.run("kept", 1, 10)
    written = work.written("written", 1, 1)
    wait_for(pair, kept.csn)
    pair.standby.end_receiving()

    begun, in_publish = work.begin("begun", 1), work.written("in_publish", 1, 1)
    lost = work.run("kept", 2, 20)
    lease = work.service.leases.acquire(work.service.cuts.cut(DOMAIN, ["kept"]), name="mine", owner="me")
    session = Session.of(DOMAIN).committed(lost)
    before = work.service.store.read(DOMAIN, []).head
    position = Position(incarnation=before.incarnation, csn=before.csn)
    counter = counter_key(DOMAIN, "shared")
    for number in range(LOST):
        version = write(work.service.store, put(counter, number)).versions[counter]

    publishing = EpochService(
        Interrupted(work.service.store, lambda: fail_over(pair)),
        work.service.formats,  # type: ignore[arg-type]
    )
    with pytest.raises(StoreReplaced, match="a standby was promoted"):
        publishing.publish(in_publish)

    head = work.service.store.read(DOMAIN, []).head
    assert (head.csn, head.incarnation != before.incarnation) == (kept.csn, True)
    refused: list[tuple[type[Exception], Callable[[], Any]]] = [
        *(
            (StoreReplaced, lambda attempt=attempt: work.coordinator.heartbeat(attempt))
            for attempt in (begun, written)
        ),
        (StoreReplaced, lambda: work.coordinator.publish(written)),
        (StoreReplaced, lambda: work.coordinator.abort(begun, "it failed")),
        (StoreReplaced, lambda: resume(work.coordinator.context, work.job("written"), Begun.of(written))),
        (Unavailable, lambda: work.service.cuts.cut(DOMAIN, ["kept"], session=session)),
        (Unavailable, lambda: list(events(work.service.store, DOMAIN, position))),
        (LeaseExpired, lambda: work.service.leases.renew(lease)),
    ]
    for error, call in refused:
        with pytest.raises(error):
            call()

    while write(work.service.store, put(counter, -1)).versions[counter] < version:
        pass  # versions are given out again: alone, one says nothing
    stale = Transaction(
        domain=DOMAIN,
        store=SameStore(before.incarnation),
        requires=(Exists(counter, version),),
        updates=(put(counter, 99),),
    )
    with pytest.raises(RequirementFailed, match="incarnation"):
        work.service.store.transact(stale)

    for name, value in (("begun", 1), ("written", 2), ("in_publish", 3)):
        work.run(name, 1, value, try_number=2)
        assert work.rows(name) == [value]
    work.run("kept", 2, 21, try_number=2)
    assert work.rows("kept") == [10, 21]
    assert work.service.store.read(DOMAIN, []).head.incarnation == head.incarnation
    work.service.close()


def test_transaction_of_an_earlier_incarnation_waits_and_is_refused(
    postgresql: PostgresqlServer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """R33: `airflow epochs db restored` is at work when a transaction of before comes, a commit or a record alone."""
    url = empty_store("postgresql", request, tmp_path)
    database = url.rpartition("/")[2]
    with (
        open_store(url) as store,
        postgresql.connect(database) as restoring,
        ThreadPoolExecutor(2) as threads,
    ):
        old = SameStore(store.read(DOMAIN, []).head.incarnation)
        record = CommitRecord(change_set=ChangeSetId("late"), members=(), by="a test", tables=())
        late = [
            Transaction(domain=DOMAIN, store=old, updates=(put(counter_key(DOMAIN, name), 1),), number=number)
            for name, number in (("alone", None), ("commit", Number(record)))
        ]
        restoring.execute("BEGIN")
        restoring.execute(statements.LOCK_STORE)
        restoring.execute("UPDATE epochs_store SET incarnation = 'restored'")
        waiting = [threads.submit(store.transact, transaction) for transaction in late]
        wait(waiting, timeout=0.3)
        restoring.execute("COMMIT")
        for sent in waiting:
            with pytest.raises(RequirementFailed, match="incarnation"):
                sent.result(60)
        assert not store.read(DOMAIN, [counter_key(DOMAIN, name) for name in ("alone", "commit")]).records


class Interrupted:
    """A store on the way to which something happens, once, before it is asked to publish."""

    def __init__(self, inner: Any, event: Callable[[], None]) -> None:
        self._inner, self._event = inner, event

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def transact(self, transaction: Transaction) -> Any:
        if transaction.number is not None:
            event, self._event = self._event, lambda: None
            event()
        return self._inner.transact(transaction)


def wait_for(pair: Pair, csn: int) -> None:
    """Return when the standby has the commit *csn*."""
    deadline = time.monotonic() + 30
    with pair.standby.connect(pair.database) as connection:
        while connection.execute("SELECT max(csn) FROM epochs_head").fetchone() != (csn,):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def fail_over(pair: Pair) -> None:
    """The primary crashes, and its standby takes over."""
    pair.primary.stop("immediate")
    pair.standby.promote()
