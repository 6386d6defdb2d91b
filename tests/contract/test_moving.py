"""A domain moves from SQLite to PostgreSQL: nothing is lost or done twice, and no process writes to the old one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from airflow_provider.coordination.commits import regroup
from airflow_provider.coordination.commits.sealed import DomainMoved, DomainMoving
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.coordination.upkeep.move import MovedDomain, move_domain
from airflow_provider.coordination.upkeep.moved_records import STAYS, records
from airflow_provider.domain.columns import add, rename
from airflow_provider.domain.compaction import CompactionRecord
from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt
from airflow_provider.domain.errors import (
    EpochBusy,
    Fenced,
    InvalidInput,
    OutcomeUnknown,
    StoreUnavailable,
    UnknownName,
)
from airflow_provider.domain.identifiers import ChangeSetId, RestatementId
from airflow_provider.domain.records import Kind, restatement_key, source_key, topology_key, versions_key
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Job, Table
from airflow_provider.domain.topology_record import MoveState
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores.base import Number, Put, Transaction, pages
from airflow_provider.stores.factory import open_store, redacted, upgrade_schema
from airflow_provider.testing.arrow_attempts import write_rows
from airflow_provider.testing.faults import Fault, FaultyStore
from airflow_provider.testing.manual_clock import ManualClock
from airflow_provider.testing.store_cases.samples import sample
from tests.contract.coordination_world import DOMAIN, PAST_TTL, day, owner
from tests.servers.postgresql import PostgresqlServer

NUMBERS = Table("numbers", domain=DOMAIN, format="iceberg")
DOUBLES = Table("doubles", domain=DOMAIN, format="iceberg")
COUNT = Job("count", outputs=[NUMBERS], cadence="@daily", origin=day(1).start, on_rerun="new_revision")
DOUBLE = Job(
    "double",
    inputs=[NUMBERS],
    outputs=[DOUBLES],
    cadence="@daily",
    origin=day(1).start,
    on_rerun="new_revision",
)


@dataclass(frozen=True, slots=True)
class Site:
    """Two stores beside one warehouse."""

    source: Settings
    target: Settings

    def open(self) -> tuple[EpochService, EpochService]:
        return EpochService.open(self.source), EpochService.open(self.target)

    def move(self, source: EpochService, target: EpochService) -> MovedDomain:
        return move_domain(
            source.context,
            target.context,
            DOMAIN,
            source_place=redacted(self.source.store_url),
            target_place=redacted(self.target.store_url),
        )


@pytest.fixture
def site(quick_path: Path, postgresql: PostgresqlServer) -> Site:
    url = postgresql.url(postgresql.create_database())
    upgrade_schema(url)
    warehouse = f"file://{quick_path}/warehouse"
    return Site(
        Settings(store_url=f"sqlite:///{quick_path}/store.db", warehouse=warehouse),
        Settings(store_url=url, warehouse=warehouse),
    )


@pytest.fixture
def services(site: Site) -> Iterator[tuple[EpochService, EpochService]]:
    source, target = site.open()
    with source, target:
        yield source, target


def publish(service: EpochService, job: Job, number: int, values: list[int], run: str = "scheduled") -> int:
    """Compute one epoch; return its CSN."""
    attempt = service.begin(job, day(number), owner(run))
    assert isinstance(attempt, Attempt), attempt
    write_rows(service, attempt, job.outputs[0].name, pa.table({"number": values}))
    return service.publish(attempt).csn


def history(service: EpochService) -> None:
    """Four commits, one of them a second revision, and an attempt that was aborted."""
    publish(service, COUNT, 1, [1])
    publish(service, COUNT, 1, [1, 10], run="again")
    publish(service, COUNT, 2, [2])
    publish(service, DOUBLE, 1, [2, 20])
    attempt = service.begin(DOUBLE, day(2), owner())
    assert isinstance(attempt, Attempt)
    service.abort(attempt, "it failed")


def rows(service: EpochService) -> Any:
    """What a reader gets, and as of what."""
    cut = service.cuts.cut(DOMAIN, ["numbers", "doubles"])
    read = {
        name: sorted(service.cuts.read(cut, name, columns=["number"])["number"].to_pylist())
        for name in cut.states
    }
    return cut.csn, cut.barrier, dict(cut.states), read


def contents(service: EpochService) -> dict[Any, Any]:
    every = (*records(service.store, DOMAIN), *pages(service.store, DOMAIN, CommitRecord))
    return {stamped.key: (stamped.record, stamped.csn) for stamped in every}


def test_a_moved_domain_reads_the_same_and_goes_on(
    site: Site, services: tuple[EpochService, EpochService]
) -> None:
    source, target = services
    history(source)
    before, held = rows(source), contents(source)
    moved = site.move(source, target)
    assert (moved.csn, moved.tables) == (4, ("doubles", "numbers"))
    assert contents(target) == held
    assert rows(target) == before
    assert isinstance(target.begin(COUNT, day(2), owner()), AlreadyCommitted)
    assert publish(target, DOUBLE, 2, [4]) == 5
    assert publish(target, COUNT, 3, [3]) == 6
    assert rows(target)[3] == {"numbers": [1, 2, 10], "doubles": [2, 4, 20]}
    assert rows(source) == before


def test_a_compaction_that_died_ends_with_the_move(
    site: Site, services: tuple[EpochService, EpochService], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33, R41: its files go, since no vacuum of either store would look for them."""
    source, target = services
    days = range(1, 33)
    for number in days:
        publish(source, COUNT, number, [number])

    def dies(_commit: object, _written: object) -> NoReturn:
        raise SystemExit

    monkeypatch.setattr(regroup._Commit, "run", dies)
    monkeypatch.setattr(regroup, "end_compaction", lambda *_given: None)
    with pytest.raises(SystemExit):
        source.retention.compact(DOMAIN, NUMBERS.name)
    (left,) = pages(source.store, DOMAIN, CompactionRecord, NUMBERS.name)
    folder = Path(left.record.folder.removeprefix("file://"))
    assert list(folder.iterdir())
    site.move(source, target)
    assert not folder.exists()
    cut = target.cuts.cut(DOMAIN, [NUMBERS.name])
    assert sorted(target.cuts.read(cut, NUMBERS.name)["number"].to_pylist()) == [*days]


def test_changed_columns_are_moved_with_the_domain(
    site: Site, services: tuple[EpochService, EpochService]
) -> None:
    """R32: with what each declaration writes; an older one goes on there."""
    source, target = services
    history(source)
    changed = Table(
        "numbers", domain=DOMAIN, column_changes=[rename("number", "amount"), add("number", "int")]
    )
    attempt = source.begin(
        Job("count", outputs=[changed], cadence="@daily", origin=day(1).start, on_rerun="new_revision"),
        day(3),
        owner(),
    )
    assert isinstance(attempt, Attempt)
    source.abort(attempt, "the columns have changed")
    held = contents(source)
    site.move(source, target)
    assert contents(target) == held
    assert publish(target, COUNT, 3, [3]) == 6
    found = target.cuts.read(target.cuts.cut(DOMAIN, ["numbers"]), "numbers")
    assert sorted(found["amount"].to_pylist()) == [1, 2, 3, 10]
    assert found["number"].null_count == 4


def test_nothing_is_changed_where_it_was(site: Site, services: tuple[EpochService, EpochService]) -> None:
    source, target = services
    history(source)
    site.move(source, target)
    other = Job("other", outputs=[Table("others", domain=DOMAIN)], cadence="@daily")
    refused: list[Callable[[], object]] = [
        lambda: source.begin(COUNT, day(3), owner()),
        lambda: source.register(other),
        lambda: source.retention.expire(DOMAIN, "numbers", day(1).end),
        lambda: source.retention.vacuum(DOMAIN),
    ]
    held = contents(source)
    for change in refused:
        with pytest.raises(DomainMoved, match="postgresql") as failed:
            change()
        assert "password" not in str(failed.value)
    assert contents(source) == held
    assert site.move(source, target).csn == 4, "again, it changes nothing"
    with pytest.raises(InvalidInput, match="without the domain"):
        site.move(target, source)


def test_live_work_is_not_interrupted(site: Site, services: tuple[EpochService, EpochService]) -> None:
    source, target = services
    history(source)
    attempt = source.begin(COUNT, day(3), owner())
    assert isinstance(attempt, Attempt)
    with pytest.raises(EpochBusy, match="count") as failed:
        site.move(source, target)
    assert "scheduled" in failed.value.holders[0]
    assert list(target.store.domains()) == []
    write_rows(source, attempt, "numbers", pa.table({"number": [3]}))
    assert source.publish(attempt).csn == 5
    lease = source.leases.cut(DOMAIN, ["numbers"], name="reader", owner="somebody")
    with pytest.raises(EpochBusy, match="reader"):
        site.move(source, target)
    source.leases.drop(lease)
    assert site.move(source, target).csn == 5


def test_a_silent_attempt_is_fenced(site: Site, services: tuple[EpochService, EpochService]) -> None:
    """Its zombie wakes up after the move and changes nothing; the next try in the new store begins anew."""
    _, target = services
    clock = ManualClock()
    with open_store(site.source.store_url, now=clock.now) as store, EpochService.open(site.source) as tables:
        source = EpochService(store, tables.formats, clock=clock)
        attempt = source.begin(COUNT, day(1), owner())
        assert isinstance(attempt, Attempt)
        write_rows(source, attempt, "numbers", pa.table({"number": [1]}))
        clock.advance(PAST_TTL)
        site.move(source, target)
        with pytest.raises(Fenced):
            source.publish(attempt)
    assert target.store.read(DOMAIN, []).head.csn == 0
    assert publish(target, COUNT, 1, [1]) == 1


def worn_out(service: EpochService, calls: int, fault: Fault) -> EpochService:
    """A coordinator whose store answers so many calls and no more."""
    store = FaultyStore(service.store, lambda call: fault if call.number >= calls else None)
    return EpochService(store, service.formats, clock=ManualClock())


def test_an_interrupted_move_is_run_again(site: Site, services: tuple[EpochService, EpochService]) -> None:
    """It ends after every possible number of calls of either store, its reply lost or its request."""
    source, target = services
    history(source)
    before, held = rows(source), contents(source)
    sealed = 0
    for number in range(200):
        fault = (Fault.REPLY_LOST, Fault.REQUEST_LOST)[number % 2]
        worn = [worn_out(service, number, fault) for service in services]
        with suppress(StoreUnavailable, OutcomeUnknown):
            site.move(*worn)
            break
        topology = target.store.read(DOMAIN, [topology_key(DOMAIN)]).get(topology_key(DOMAIN))
        if topology is not None and topology.record.move.state is MoveState.ARRIVING:
            sealed += 1
            for service in services:
                with pytest.raises(DomainMoving):
                    service.begin(COUNT, day(3), owner())
    assert sealed > 5
    assert rows(target) == before
    assert contents(target) == held
    assert publish(target, DOUBLE, 2, [4]) == 5


def test_impossible_moves_are_refused(site: Site, services: tuple[EpochService, EpochService]) -> None:
    source, target = services
    with pytest.raises(UnknownName, match="not in sqlite"):
        site.move(source, target)
    history(source)
    with pytest.raises(InvalidInput, match="another store"):
        site.move(source, source)
    unknown = CommitRecord(change_set=ChangeSetId("whose?"), members=(), by="hand", tables=())
    target.store.transact(Transaction(domain=DOMAIN, number=Number(unknown)))
    with pytest.raises(InvalidInput, match="without the domain"):
        site.move(source, target)
    publish(target, COUNT, 1, [7])
    with pytest.raises(InvalidInput, match="without the domain"):
        site.move(source, target)
    assert publish(source, DOUBLE, 2, [4]) == 5
    assert rows(source)[0] == 5


def test_every_kind_of_record_is_copied_or_said_to_stay(services: tuple[EpochService, EpochService]) -> None:
    source, _ = services
    history(source)
    source.retention.expire(DOMAIN, "numbers", day(1).end)
    landing = FileSource("landing", "file:///in/*.csv", late="ignore", complete=none_needed())
    job = Job("load", inputs=[landing], outputs=[Table("loaded", domain=DOMAIN)], cadence="@daily")
    source.register(job)
    planted = {
        source_key(DOMAIN, "landing", day(1).end, 1): Kind.SOURCE,
        versions_key(DOMAIN, NUMBERS.name, 1): Kind.VERSIONS,
        restatement_key(DOMAIN, RestatementId("correct")): Kind.RESTATEMENT,
    }
    updates = tuple(Put(key, sample(kind)) for key, kind in planted.items())
    source.store.transact(Transaction(domain=DOMAIN, updates=updates))
    found = [record.key for record in records(source.store, DOMAIN)]
    assert {key.kind for key in found} | STAYS == set(Kind)
    assert planted.keys() <= set(found)
    assert len(found) == len(set(found))
