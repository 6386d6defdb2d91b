"""Retention of histories that no user has vacuumed for long: in pages, each step whole (R24)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.upkeep.retention import Retention
from airflow_provider.domain import sizes
from airflow_provider.domain.cut import as_of, newest_version
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import RecordFull, Unavailable
from airflow_provider.domain.expired import ExpiredPage
from airflow_provider.domain.identifiers import ChangeSetId, TableName
from airflow_provider.domain.records import Kind, retention_key, table_key, whole_versions_key
from airflow_provider.domain.retention import Expired, RetentionRecord, Version, VersionsRecord
from airflow_provider.domain.version import CommitRecord, TableDelta, TableRef
from airflow_provider.stores import codec
from airflow_provider.stores.base import Number, Put, Transaction, pages
from airflow_provider.stores.codec import encode
from airflow_provider.stores.memory import MemoryStore
from airflow_provider.testing.faults import Call, FaultyStore
from tests.contract.coordination_world import DOMAIN, Backend, World, barrier, day, owner
from tests.contract.interruptions import STORE_CALLS, Died, Interrupted, Interruption

PAST_GRACE = DEFAULTS.retention_grace + timedelta(seconds=1)
SMALL = replace(DEFAULTS, versions_in_page=2)


def versions(world: World, table: str = "t") -> list[Version]:
    """The versions of a table that retention knows."""
    found = pages(world.store, DOMAIN, VersionsRecord, table)
    return [version for page in found for version in page.record.versions]


def ref_of(world: World, table: str = "t") -> TableRef:
    """The table's newest version."""
    key = table_key(DOMAIN, TableName(table))
    ref = world.store.read(DOMAIN, [key]).records[key].record.ref
    assert ref is not None
    return ref.lasting()


def commit_bare(world: World, numbers: Iterable[int]) -> None:
    """Commit versions of the table t as publishes of it are recorded, without their rows."""
    like = ref_of(world)
    folder, padding = like.location.rpartition("/")[0], "f" * 100
    for number in numbers:
        ref = replace(like, version=number, location=f"{folder}/snap-{number:020d}-{padding}.avro")
        delta = TableDelta(
            table=TableName("t"), interval=day(1), revision=number, watermark=barrier(1), ref=ref, rows=3
        )
        commit = CommitRecord(change_set=ChangeSetId(f"t#{number}"), members=(), by="a test", tables=(delta,))
        world.store.transact(Transaction(domain=DOMAIN, number=Number(commit)))


@pytest.mark.parametrize("commits", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_liv2_the_first_vacuum_of_thousands_of_commits_works(
    world: World, commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R24: no user has ever vacuumed, and no record grows with what there is to vacuum."""
    job = world.job("t")
    world.run(job, day(1), [1])
    commit_bare(world, range(commits))
    world.run(job, day(1), [2], owner("again"))
    replaced = world.staged()
    world.run(job, day(2), [3])
    world.clock.advance(PAST_GRACE)
    monkeypatch.setattr(codec, "MAX_RECORD_BYTES", 200_000)
    vacuumed = world.retention.vacuum(DOMAIN)
    assert (vacuumed.horizon, vacuumed.claimed) == (commits + 3, 0)
    assert [version.ref for version in versions(world)] == [ref_of(world)]
    assert not set(replaced) & world.data()
    assert world.rows("t") == {"t": [(1, 2), (2, 3)]}
    assert world.retention.vacuum(DOMAIN).deleted == ()


def test_a_vacuum_that_dies_anywhere_is_completed_by_the_next() -> None:
    """R24: versions are written down before the horizon passes them, so that none is forgotten."""
    died = 0
    while _is_completed(died):
        died += 1
    assert died > 30


def _is_completed(number: int) -> bool:
    """Let a vacuum die at its call with *number*, and look at what the next leaves; return whether it died."""
    world, died = Backend("memory", Path(), Path()).world(), False
    job = world.job("t")
    for revision in range(1, 6):
        world.run(job, day(1), [revision], owner(f"run {revision}"))
    world.clock.advance(PAST_GRACE)
    acts = Interruption(number, act=_die)
    dying = Retention(
        Interrupted(world.store, "store", STORE_CALLS, acts), world.formats, clock=world.clock, defaults=SMALL
    )
    try:
        dying.vacuum(DOMAIN)
    except Died:
        died = True
    Retention(world.store, world.formats, clock=world.clock, defaults=SMALL).vacuum(DOMAIN)
    assert [version.ref for version in versions(world)] == [ref_of(world)]
    assert world.data() == world.newest_data("t")
    assert world.rows("t") == {"t": [(1, 5)]}
    world.close()
    return died


def _die() -> None:
    raise Died


def test_a_leased_version_stays_in_its_page(world: World) -> None:
    """R24: those before and after it go, whichever pages they are in."""
    job = world.job("t")
    for revision in range(1, 8):
        world.run(job, day(1), [revision], owner(f"run {revision}"))
        if revision == 3:
            lease = world.leases.cut(DOMAIN, ["t"], name="mine", owner="me", ttl=timedelta(days=2))
    world.clock.advance(PAST_GRACE)
    keeper = Retention(world.store, world.formats, clock=world.clock, defaults=SMALL)
    assert keeper.vacuum(DOMAIN).claimed == 1
    assert [version.csn for version in versions(world)] == [3, 7]
    assert world.rows_of(lease.cut) == {"t": [(1, 3)]}
    world.leases.drop(lease)
    assert keeper.vacuum(DOMAIN).claimed == 0
    assert [version.csn for version in versions(world)] == [7]


def test_a_leased_version_keeps_files_that_versions_of_other_pages_have_too(world: World) -> None:
    """R24: the page before is deleted, but for what the leased version shares with it."""
    job = world.job("t")
    for number in (1, 2, 3):
        world.run(job, day(number), [number])
    lease = world.leases.cut(DOMAIN, ["t"], name="mine", owner="me", ttl=timedelta(days=2))
    for value in (4, 5, 6):
        world.run(job, day(1), [value], owner(f"run {value}"))
    world.clock.advance(PAST_GRACE)
    keeper = Retention(world.store, world.formats, clock=world.clock, defaults=SMALL)
    assert keeper.vacuum(DOMAIN).claimed == 1
    assert [version.csn for version in versions(world)] == [3, 6]
    assert world.rows_of(lease.cut) == {"t": [(1, 1), (2, 2), (3, 3)]}


def test_a_record_of_before_that_is_full_is_split(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """R24: a store whose vacuums had ended with a record that was full is vacuumed again (all sizes are a tenth)."""
    monkeypatch.setattr(codec, "MAX_RECORD_BYTES", 100_000)
    job, most = world.job("t"), 290
    world.run(job, day(1), [1])
    commit_bare(world, range(most))
    commits = world.store.changes(DOMAIN, 1)
    refs = [(commit.csn or 0, commit.record.tables[0].ref) for commit in commits]
    key = whole_versions_key(DOMAIN, TableName("t"))
    full = VersionsRecord(versions=tuple(Version(csn=csn, ref=ref) for csn, ref in refs))
    assert len(encode(key, full)) > 80_000
    world.run(job, day(1), [2], owner("again"))
    updates = (Put(key, full), Put(retention_key(DOMAIN), RetentionRecord(horizon=most + 1)))
    world.store.transact(Transaction(domain=DOMAIN, updates=updates))
    world.clock.advance(PAST_GRACE)
    keeper = Retention(
        world.store, world.formats, clock=world.clock, defaults=replace(DEFAULTS, versions_in_page=50)
    )
    assert keeper.vacuum(DOMAIN).horizon == most + 2
    assert world.store.scan(DOMAIN, Kind.VERSIONS, "") == []
    assert [version.ref for version in versions(world)] == [ref_of(world)]
    assert world.rows("t") == {"t": [(1, 2)]}


# --- expired ranges --------------------------------------------------------------------------------------------


def calls_of(world: World, *tables: str, at_barrier: datetime | None = None) -> int:
    """How many calls a cut makes of a store."""
    store = FaultyStore(world.store, lambda _: None)
    with suppress(Unavailable):
        Cuts(store, world.formats).cut(DOMAIN, tables, at=at_barrier)
    return len(store.calls)


def test_a_cut_looks_for_expired_barriers_only_where_there_are_some(world: World) -> None:
    """R24: nothing more is read for the newest barriers; for older ones one call, for however many tables."""
    names = ("one", "two", "three")
    job = world.job("j", [world.table(name) for name in names])
    for number in range(1, 8):
        world.run(job, day(number), [number])
    before = calls_of(world, *names)
    for name in names:
        for number in (2, 4):
            world.retention.expire(DOMAIN, name, barrier(number))
    world.run(job, day(8), [8])
    assert calls_of(world, *names) == before
    assert calls_of(world, *names, at_barrier=barrier(7)) == before
    assert calls_of(world, *names, at_barrier=barrier(4)) > before
    assert calls_of(world, *names, at_barrier=barrier(5)) == before + 1
    with pytest.raises(Unavailable) as gone:
        world.cut("one", "three", at=barrier(4))
    assert (gone.value.tables, gone.value.kept) == (("one", "three"), (barrier(3), barrier(5)))


def test_reader_forgets_its_pages_when_more_is_expired(world: World) -> None:
    """R24: a reader that lives for long keeps pages only while nothing is expired."""
    job = world.job("t")
    for number in range(1, 8):
        world.run(job, day(number), [number])
    world.retention.expire(DOMAIN, "t", barrier(2))
    store = FaultyStore(world.store, lambda _: None)
    reader = Cuts(store, world.formats)
    reader.cut(DOMAIN, ["t"], at=barrier(4))
    before = len(store.calls)
    reader.cut(DOMAIN, ["t"], at=barrier(4))
    assert len(store.calls) == before + 1
    world.retention.expire(DOMAIN, "t", barrier(4))
    with pytest.raises(Unavailable):
        reader.cut(DOMAIN, ["t"], at=barrier(4))


def test_expiring_moves_the_table_once_for_many_barriers(world: World) -> None:
    """R24: and its job is not heard of by that, nor are any of its rows read anew (R9, R19)."""
    job = world.job("t", inactive_after=100)
    for number in range(1, 8):
        world.run(job, day(number), [number])
    cut, key = world.cut("t"), table_key(DOMAIN, TableName("t"))
    for number in (5, 2, 3):
        world.clock.advance(timedelta(minutes=1))
        world.retention.expire(DOMAIN, "t", barrier(number))
    stamped = world.store.read(DOMAIN, [key]).records[key]
    assert stamped.record.heard is not None
    assert len(world.commits()) == 8
    assert as_of(stamped, 7) == replace(newest_version(stamped), csn=7)
    assert world.rows_of(cut) == world.rows("t")


@pytest.mark.parametrize("moved_by", ["expire", "vacuum"])
def test_ranges_that_one_record_had_are_moved(world: World, moved_by: str) -> None:
    """R24: what stores of before have stays expired before, while and after it is moved."""
    jobs = [world.job(name) for name in ("one", "two")]
    for number in range(1, 10):
        for job in jobs:
            world.run(job, day(number), [number])
    record = RetentionRecord(expired=(Expired(table=TableName("never"), ranges=()),))
    for name, number in (("one", 2), ("one", 4), ("one", 6), ("two", 3)):
        record = record.expiring(TableName(name), day(number))
    key = retention_key(DOMAIN)
    world.store.transact(Transaction(domain=DOMAIN, updates=(Put(key, record),)))
    assert _kept(world) == {"one": {1, 3, 5, 7, 8, 9}, "two": {1, 2, 4, 5, 6, 7, 8, 9}}
    world.retention.defaults = replace(DEFAULTS, ranges_in_page=2)
    if moved_by == "expire":
        world.retention.expire(DOMAIN, "two", barrier(3))
    else:
        world.retention.vacuum(DOMAIN)
    assert world.store.read(DOMAIN, [key]).records[key].record.expired == ()
    assert _kept(world) == {"one": {1, 3, 5, 7, 8, 9}, "two": {1, 2, 4, 5, 6, 7, 8, 9}}
    world.retention.expire(DOMAIN, "two", barrier(8))
    assert _kept(world)["two"] == {1, 2, 4, 5, 6, 7, 9}


def _kept(world: World) -> dict[str, set[int]]:
    """The days at which a cut of each table can be had."""
    found: dict[str, set[int]] = {}
    for name in ("one", "two"):
        for number in range(1, 10):
            with suppress(Unavailable):
                world.cut(name, at=barrier(number))
                found.setdefault(name, set()).add(number)
    return found


def test_a_store_of_an_older_format_keeps_one_record() -> None:
    """R24: versions of the package that know no pages read it, until the store is upgraded."""
    world = Backend("memory", Path(), Path()).world()
    assert isinstance(world.store, MemoryStore)
    job = world.job("one")
    world.store._server.format = 1
    for number in range(1, 5):
        world.run(job, day(number), [number])
    world.retention.expire(DOMAIN, "one", barrier(2))
    world.retention.vacuum(DOMAIN)
    assert list(pages(world.store, DOMAIN, ExpiredPage, "one")) == []
    key = retention_key(DOMAIN)
    assert world.store.read(DOMAIN, [key]).records[key].record.ranges(TableName("one")) == (day(2),)
    with pytest.raises(Unavailable):
        world.cut("one", at=barrier(2))
    world.store._server.format = 2
    world.retention.expire(DOMAIN, "one", barrier(3))
    assert len(list(pages(world.store, DOMAIN, ExpiredPage, "one"))) == 1
    for number in (2, 3):
        with pytest.raises(Unavailable):
            world.cut("one", at=barrier(number))
    world.close()


def test_a_claim_beside_an_expiry_is_decided_anew(world: World) -> None:
    """R23, R24: the pages are read after the record that the claim requires; what comes between refuses it."""
    job = world.job("t")
    for number in range(1, 6):
        world.run(job, day(number), [number])
    world.retention.expire(DOMAIN, "t", barrier(2))
    cut = world.cut("t", at=barrier(3))
    seen = []

    def plan(call: Call) -> None:
        if call.method == "transact" and not seen:
            seen.append(call)
            world.retention.expire(DOMAIN, "t", barrier(3))

    leases = world.reader(FaultyStore(world.store, plan))
    with pytest.raises(Unavailable):
        leases.acquire(cut, name="mine", owner="me")
    assert seen


# --- records that are refused before any work is done -------------------------------------------------------------


def test_an_epoch_that_would_make_a_gap_too_many_does_not_begin(world: World) -> None:
    """R12: and nothing is written; epochs that touch what is committed go on, and fill the gaps."""
    few = replace(DEFAULTS, most_stretches=2)
    world.coordinator.context = replace(world.coordinator.context, defaults=few)
    job = world.job("t")
    for number in (1, 3):
        world.run(job, day(number))
    before = world.content()
    with pytest.raises(RecordFull) as refused:
        world.begin(job, day(5))
    assert (refused.value.number, refused.value.limit) == (3, 2)
    assert world.content() == before
    for number in (4, 2, 5):
        world.run(job, day(number))


def test_a_job_of_too_many_tables_is_not_registered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """R6: nothing is written, and the job's other declarations work."""
    monkeypatch.setattr(sizes, "MOST_TABLES", 2)
    tables = [world.table(name) for name in ("one", "two", "three")]
    before = world.content()
    with pytest.raises(RecordFull, match="output tables of job 'j'"):
        world.begin(world.job("j", tables), day(1))
    assert world.content() == before
    world.run(world.job("j", tables[:2]), day(1))
