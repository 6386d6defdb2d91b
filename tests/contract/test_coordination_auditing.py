"""What ``doctor`` finds of a store in which an invariant is broken: stale inputs (I4), missing files (I6).

The states are written by hand: no operation of the package makes them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider.coordination.upkeep.audit import missing_files, stale_reads
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.domain.auditing import Change, TableHistory
from airflow_provider.domain.epoch_id import RevisionId
from airflow_provider.domain.identifiers import ChangeSetId, JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import epoch_key, slice_key
from airflow_provider.domain.source_bounds import FileSource, SourceBounds
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import OnUpstreamRevision, Table, previous, state
from airflow_provider.domain.version import CommitRecord, TableDelta
from airflow_provider.stores.base import Number, Put, Transaction
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, barrier, day, owner


def told(world: World, subject: str) -> str:
    """What doctor finds of *subject*; empty when it finds nothing."""
    found = examine(world.store, world.formats, DOMAIN).symptoms
    return next((symptom.found for symptom in found if symptom.subject == subject), "")


def commit(world: World, *updates: Any) -> int:
    """Write records in a commit that no job makes."""
    record = CommitRecord(change_set=ChangeSetId("by hand"), members=(), by="a test", tables=())
    receipt = world.store.transact(Transaction(domain=DOMAIN, updates=updates, number=Number(record)))
    return receipt.csn or 0


def revise(world: World, table: str, job: str, epoch: Interval) -> int:
    """Commit another revision of one slice, without asking who has read it."""
    first, second = (
        slice_key(RevisionId(DOMAIN, JobName(job), epoch, revision), TableName(table)) for revision in (1, 2)
    )
    record = world.store.read(DOMAIN, [first]).records[first].record
    return commit(world, Put(second, replace(record, revision=2)))


@pytest.mark.parametrize("policy", OnUpstreamRevision)
def test_committed_epoch_with_a_changed_input_is_named(world: World, policy: OnUpstreamRevision) -> None:
    """I4: the epoch, the table, the time that changed and the commit; not by edges that ignore."""
    source = world.job("source")
    world.run(source, day(1))
    world.run(source, day(2))
    reader = world.job("reader", inputs=[state(world.table("source"), on_upstream_revision=policy)])
    world.run(reader, day(1))
    world.run(reader, day(2))
    assert list(stale_reads(world.store, DOMAIN)) == []
    csn = revise(world, "source", "source", day(2))
    found = list(stale_reads(world.store, DOMAIN))
    if policy is OnUpstreamRevision.IGNORE:
        assert found == []
        assert told(world, "inputs of reader") == ""
        return
    assert [
        (stale.job, stale.interval, stale.subject, stale.changed, stale.changed_csn) for stale in found
    ] == [("reader", day(2), "source", day(2), csn)]
    said = told(world, "inputs of reader")
    assert said.startswith("1 inputs")
    assert str(day(2)) in said
    assert f"CSN {csn}" in said


def test_rows_that_another_program_committed_count_as_a_change(world: World) -> None:
    """I4: what was adopted has no slice."""
    world.run(world.job("source"), day(1))
    world.run(world.job("reader", inputs=[world.table("source")]), day(1))
    delta = TableDelta(
        table=TableName("source"), interval=day(1), revision=0, watermark=None, ref=None, rows=0
    )
    record = CommitRecord(
        change_set=ChangeSetId("adopted"), members=(), by="another program", tables=(delta,)
    )
    world.store.transact(Transaction(domain=DOMAIN, number=Number(record)))
    assert [stale_read.interval for stale_read in stale_reads(world.store, DOMAIN)] == [day(1)]


def test_the_copy_of_a_skipped_epoch_is_an_input(world: World) -> None:
    """I4, R5: a full table's epoch was computed again after a later one had copied it."""
    job = world.job("totals", [world.table("totals", kind=TableKind.FULL)])
    world.run(job, day(1))
    world.coordinator.skip(DOMAIN, "totals", day(2), reason="nothing came", by="me")
    assert told(world, "inputs of totals") == ""
    revise(world, "totals", "totals", day(1))
    assert [(stale_read.interval, stale_read.changed) for stale_read in stale_reads(world.store, DOMAIN)] == [
        (day(2), day(1))
    ]
    assert str(day(2)) in told(world, "inputs of totals")


def test_an_input_that_was_read_as_nothing(world: World) -> None:
    """I4: an epoch took for the beginning what has rows before it."""
    job = world.job("total", inputs=[previous(Table("total", domain=DOMAIN, format=world.table_format))])
    for number in (1, 2):
        world.run(job, day(number))
    assert list(stale_reads(world.store, DOMAIN)) == []
    key = epoch_key(DOMAIN, job.name, day(2).start)
    epoch = world.store.read(DOMAIN, [key]).records[key]
    nothing = tuple(replace(provenance, ref=None) for provenance in epoch.record.committed.inputs)
    wrong = replace(epoch.record, committed=replace(epoch.record.committed, inputs=nothing))
    world.store.transact(Transaction(domain=DOMAIN, updates=(Put(key, wrong),)))
    assert "nothing was read where there are rows" in told(world, "inputs of total")


def test_two_revisions_of_a_source_at_one_barrier(world: World) -> None:
    """I4, I11: the epoch that stands on the older one is named."""
    landing = FileSource("landing", "file:///landing/of/no/host/{start}/1.json")
    bounds = {"landing": SourceBounds(source="landing")}
    for name in ("left", "right"):
        attempt = world.begin(world.job(name, inputs=[landing]), day(1), sources=bounds)
        world.write(attempt)
        world.coordinator.publish(attempt)
    assert list(stale_reads(world.store, DOMAIN)) == []
    key = epoch_key(DOMAIN, world.job("right").name, day(1).start)
    epoch = world.store.read(DOMAIN, [key]).records[key].record
    later = replace(epoch.committed, source_revisions=(("landing", 2),))
    world.store.transact(Transaction(domain=DOMAIN, updates=(Put(key, replace(epoch, committed=later)),)))
    assert [(stale_read.job, stale_read.subject) for stale_read in stale_reads(world.store, DOMAIN)] == [
        ("left", "source landing")
    ]
    assert "revision 2" in told(world, "inputs of left")


def test_missing_files_are_named_with_their_epochs(table_world: World) -> None:
    """I6: a file of the newest version, and one that only a lease still reads."""
    world = table_world
    job = world.job("t")
    world.run(job, day(1), [1])
    first = world.newest_data("t")
    world.leases.cut(DOMAIN, ["t"], name="mine", owner="me")
    world.clock.advance(PAST_TTL * 60)
    world.run(job, day(1), [2], owner("again"))
    newest = world.newest_data("t")
    assert list(missing_files(world.store, world.formats, DOMAIN)) == []
    for uri in (*first, *newest):
        world.lose(uri)
    (found,) = missing_files(world.store, world.formats, DOMAIN)
    assert found.used_by == "readers"
    assert {file.uri for file in found.files} == {*first, *newest}
    assert found.barriers == (barrier(1),)
    said = told(world, "files of t")
    assert said.startswith("2 files are missing")
    assert f"ends at {barrier(1).isoformat()}" in said


def test_output_of_a_live_attempt_that_is_gone(table_world: World) -> None:
    """I6: what an attempt has WRITTEN and is about to publish."""
    world = table_world
    attempt = world.begin(world.job("t"), day(1))
    world.write(attempt, [1])
    assert list(missing_files(world.store, world.formats, DOMAIN)) == []
    for uri in world.staged():
        world.lose(uri)
    (found,) = missing_files(world.store, world.formats, DOMAIN)
    assert found.table == "t"
    assert str(day(1)) in found.used_by
    world.coordinator.abort(attempt, "it is over")
    assert list(missing_files(world.store, world.formats, DOMAIN)) == []


@pytest.mark.parametrize("number", [0, 1, 255, 256, 257, 1500])
def test_a_history_finds_the_newest_commit_of_any_range(number: int) -> None:
    """The same answer as looking at all, also across and beside its blocks."""
    changes = [
        Change(
            interval=Interval(barrier(place), barrier(place + 1)), csn=(place * 7919) % 1601, rows=place % 2
        )
        for place in range(number)
    ]
    history = TableHistory(changes)
    for low, high in ((None, 0), (None, number), (0, number), (3, 600), (255, 257), (256, 512), (900, 901)):
        start = None if low is None else barrier(low)
        meant = [change for change in changes if change.interval.meets(start, barrier(high))]
        assert history.newest(start, barrier(high)) == max(meant, key=lambda change: change.csn, default=None)
        assert (history.has_rows(start, barrier(high)) is None) == (not any(change.rows for change in meant))


def test_of_two_revisions_the_later_one_counts() -> None:
    first, second = (Change(interval=day(1), csn=csn, rows=1) for csn in (3, 9))
    assert TableHistory([second, first]).newest(None, barrier(2)) == second
