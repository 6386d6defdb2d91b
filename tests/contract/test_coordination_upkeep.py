"""Retention of histories that nobody has swept for long: in pages, each step whole (R24)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider.coordination.retention import Retention
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.identifiers import ChangeSetId, TableName
from airflow_provider.domain.records import Kind, retention_key, table_key, whole_versions_key
from airflow_provider.domain.retention import RetentionRecord, Version, VersionsRecord
from airflow_provider.domain.version import CommitRecord, TableDelta, TableRef
from airflow_provider.stores import codec
from airflow_provider.stores.base import Number, Put, Transaction, pages
from airflow_provider.stores.codec import encode
from tests.contract.coordination_world import DOMAIN, Backend, World, barrier, day, owner
from tests.contract.interruptions import STORE_CALLS, Died, Interrupted, Interruption

PAST_GRACE = DEFAULTS.retention_grace + timedelta(seconds=1)
SMALL = replace(DEFAULTS, versions_in_page=2)


def versions(world: World, table: str = "t") -> list[Version]:
    """The versions of a table that retention knows."""
    found = pages(world.store, DOMAIN, Kind.VERSIONS, table)
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
def test_liv2_the_first_sweep_of_thousands_of_commits_works(
    world: World, commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R24: nobody has ever swept, and no record grows with what there is to sweep."""
    job = world.job("t")
    world.run(job, day(1), [1])
    commit_bare(world, range(commits))
    world.run(job, day(1), [2], owner("again"))
    replaced = world.staged()
    world.run(job, day(2), [3])
    world.clock.advance(PAST_GRACE)
    monkeypatch.setattr(codec, "MAX_RECORD_BYTES", 200_000)
    swept = world.retention.sweep(DOMAIN)
    assert (swept.horizon, swept.claimed) == (commits + 3, 0)
    assert [version.ref for version in versions(world)] == [ref_of(world)]
    assert not set(replaced) & world.data()
    assert world.rows("t") == {"t": [(1, 2), (2, 3)]}
    assert world.retention.sweep(DOMAIN).deleted == ()


def test_a_sweep_that_dies_anywhere_is_completed_by_the_next() -> None:
    """R24: versions are written down before the horizon passes them, so that none is forgotten."""
    died = 0
    while _is_completed(died):
        died += 1
    assert died > 30


def _is_completed(number: int) -> bool:
    """Let a sweep die at its call with *number*, and look at what the next leaves; return whether it died."""
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
        dying.sweep(DOMAIN)
    except Died:
        died = True
    Retention(world.store, world.formats, clock=world.clock, defaults=SMALL).sweep(DOMAIN)
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
    assert keeper.sweep(DOMAIN).claimed == 1
    assert [version.csn for version in versions(world)] == [3, 7]
    assert world.rows_of(lease.cut) == {"t": [(1, 3)]}
    world.leases.drop(lease)
    assert keeper.sweep(DOMAIN).claimed == 0
    assert [version.csn for version in versions(world)] == [7]


def test_a_record_of_before_that_is_full_is_split(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """R24: a store whose sweeps had ended with a record that was full is swept again (all sizes are a tenth)."""
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
    assert keeper.sweep(DOMAIN).horizon == most + 2
    assert world.store.scan(DOMAIN, Kind.VERSIONS, "") == []
    assert [version.ref for version in versions(world)] == [ref_of(world)]
    assert world.rows("t") == {"t": [(1, 2)]}
