"""Epochs that stand behind a source since it was bound anew: nothing reads them beside those that do not (I11, R18)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.attempts.rerun import refuse_reruns
from airflow_provider.coordination.reading.wait import JobInputs, check_inputs
from airflow_provider.coordination.upkeep.bind import Bound, bind
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.domain.behind import MOST_BEHIND, Behind, bound_anew, caught_up
from airflow_provider.domain.epoch import AlreadyCommitted
from airflow_provider.domain.errors import (
    Conflict,
    DependentReaders,
    InvalidInput,
    NotReady,
    RecordFull,
    TopologyError,
    Unavailable,
)
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.records import topology_key
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Job, increment, previous, state
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.base import Put, Transaction
from tests.contract.coordination_world import DOMAIN, World, day, owner
from tests.contract.interruptions import interrupted
from tests.contract.test_coordination_source_revisions import compute, feed, land

FILES = SourceReaders()


def bound(world: World, number: int = 1, reason: str = "a file came late") -> Bound:
    return bind(world.coordinator.context, DOMAIN, "feed", day(number), FILES, reason=reason, by="ada")


def behind(world: World) -> list[tuple[str, int, int]]:
    """Jobs that are behind, each with the revision that it has read and the newest."""
    key = topology_key(DOMAIN)
    entries = world.store.read(DOMAIN, [key]).records[key].record.behind
    return sorted((str(entry.job), entry.read, entry.revision) for entry in entries if not entry.until)


def two_jobs(world: World, directory: Path, **options: Any) -> tuple[Job, Job, Job]:
    """D and E read the source, F reads both tables."""
    d = world.job("d", inputs=[feed(directory)], **options)
    e = world.job("e", inputs=[feed(directory)])
    f = world.job("f", inputs=[increment(world.table("d")), increment(world.table("e"))])
    return d, e, f


def late_file(world: World, directory: Path, *jobs: Job) -> None:
    """All *jobs* have committed their first epoch; then a file comes late to it."""
    land(directory, 1, x="1")
    for job in jobs:
        compute(world, job, 1)
    land(directory, 1, y="100")


# --- what reads them ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_rerun", ["keep", "new_revision", "fail"])
def test_src2_no_reader_mixes_two_revisions_of_a_source(world: World, tmp_path: Path, on_rerun: str) -> None:
    """I11, R18: after `bind` a reader of both waits for the second one, which is computed again whatever it says."""
    d, e, f = two_jobs(world, tmp_path, on_rerun=on_rerun)
    late_file(world, tmp_path, d, e)
    assert bound(world).is_new
    assert compute(world, e, 1, owner("again")) == 2
    with pytest.raises(NotReady, match="job d has computed .* from revision 1 of source 'feed'") as refused:
        world.begin(f, day(1))
    assert [missing.table for missing in refused.value.missing] == ["d"]
    assert "clear the task of job d" in refused.value.next_step
    waiting = check_inputs(world.store, DOMAIN, JobInputs.of(f, day(1)), FILES)
    assert [(str(lag.table), "revision 1 of source" in lag.reason) for lag in waiting.missing] == [
        ("d", True)
    ]
    refuse_reruns(world.store, d, [day(1), day(2)], owner("again"))
    assert compute(world, d, 1, owner("again")) == 2
    assert check_inputs(world.store, DOMAIN, JobInputs.of(f, day(1)), FILES).ready
    world.run(f, day(1))
    assert world.rows("d", "e") == {"d": [(1, 101)], "e": [(1, 101)]}
    assert behind(world) == []
    same = world.coordinator.begin(d, day(1), owner("again"), sources=FILES)
    assert isinstance(same, AlreadyCommitted)


@pytest.mark.parametrize(("on_rerun", "binds"), [("keep", True), ("new_revision", False)])
def test_how_a_file_that_came_late_is_read(world: World, tmp_path: Path, on_rerun: str, binds: bool) -> None:
    """I11: as docs/how-to/write-jobs.md says: clearing is enough unless the job keeps what it has committed."""
    job = world.job("d", inputs=[feed(tmp_path)], on_rerun=on_rerun)
    late_file(world, tmp_path, job)
    if binds:
        kept = world.coordinator.begin(job, day(1), owner(generation=1), sources=FILES)
        assert isinstance(kept, AlreadyCommitted)
        bound(world)
    assert compute(world, job, 1, owner(generation=2)) == 2
    assert examine(world.store, world.formats, DOMAIN).symptoms == ()


def test_readers_of_equal_bounds_share_one_source_revision(world: World, tmp_path: Path) -> None:
    """I11: bound back to what D has read, the source has a third revision; E makes no fourth beside D."""
    d, e, f = two_jobs(world, tmp_path)
    late_file(world, tmp_path, d, e)
    bound(world)
    (tmp_path / "2024-01-01" / "y").unlink()
    assert (bound(world).bounds.revision, behind(world)) == (3, [])
    assert compute(world, e, 1, owner("again")) == 3
    land(tmp_path, 1, z="1000")
    with pytest.raises(DependentReaders, match="d has committed what it computed from that"):
        compute(world, e, 1, owner("once more"))
    g = world.job("g", inputs=[feed(tmp_path)])
    assert compute(world, g, 1) == 3, "its first begin reads what D has read"
    world.run(f, day(1))
    assert world.rows("d", "e", "g") == {"d": [(1, 1)], "e": [(1, 1)], "g": [(1, 1)]}


def test_epoch_before_the_source_was_declared_does_not_depend_on_it(world: World, tmp_path: Path) -> None:
    """I11: D declares the source from its second day on, and its first has a reader."""
    e = world.job("e", inputs=[feed(tmp_path)])
    world.run(world.job("d"), day(1))
    world.run(world.job("r", inputs=[increment(world.table("d"))]), day(1))
    late_file(world, tmp_path, e)
    land(tmp_path, 2, x="2")
    compute(world, world.job("d", inputs=[feed(tmp_path)]), 2)
    assert compute(world, e, 1, owner("again")) == 2
    assert bound(world).behind == ()


def test_a_reader_that_began_before_is_not_published(world: World, tmp_path: Path) -> None:
    """I11, R18: it has read revision 1; its next try waits."""
    d, e, f = two_jobs(world, tmp_path)
    late_file(world, tmp_path, d, e)
    slow = world.begin(f, day(1))
    world.write(slow, [2])
    bound(world)
    before = world.commits()
    with pytest.raises(
        Conflict, match="sources of its inputs were bound anew meanwhile: d: job d"
    ) as refused:
        world.coordinator.publish(slow)
    assert "clear the task of job d" in refused.value.next_step
    assert world.commits() == before
    with pytest.raises(NotReady):
        world.begin(f, day(1), owner(try_number=2))


def test_job_over_its_past_that_began_before_is_not_published(world: World, tmp_path: Path) -> None:
    """R18: the next epoch has read the one that fell behind, which must still be computed again by itself."""
    d = world.job("d", inputs=[feed(tmp_path), previous(world.table("d"))])
    late_file(world, tmp_path, d)
    land(tmp_path, 2, x="2")
    slow = world.begin(d, day(2), sources=FILES)
    world.write(slow, [2])
    world.coordinator.complete(slow)
    bound(world)
    before = world.commits()
    with pytest.raises(Conflict, match="sources of its inputs were bound anew meanwhile: d: job d"):
        world.coordinator.publish(slow)
    assert world.commits() == before
    assert compute(world, d, 1, owner("again")) == 2
    compute(world, d, 2, owner(try_number=2))


@pytest.mark.parametrize("first", ["bind", "reader"])
def test_bind_and_a_reader_that_publishes_meanwhile(world: World, tmp_path: Path, first: str) -> None:
    """I11, R18: one of them loses, wherever the other came between its look and its transaction."""
    d, e, f = two_jobs(world, tmp_path)
    late_file(world, tmp_path, d, e)
    attempt = world.begin(f, day(1))
    world.write(attempt, [2])
    if first == "bind":
        with pytest.raises(Conflict, match="bound anew"):
            interrupted(world, lambda: bound(world)).publish(attempt)
        assert behind(world) == [("d", 1, 2), ("e", 1, 2)]
        return
    other = interrupted(world, lambda: world.coordinator.publish(attempt))
    with pytest.raises(DependentReaders, match="cannot be bound anew"):
        bind(other.context, DOMAIN, "feed", day(1), FILES, reason="a file came late", by="ada")
    assert behind(world) == []


def test_bind_and_a_reader_that_begins_meanwhile(world: World, tmp_path: Path) -> None:
    """R18: begin decides on the topology that it requires."""
    d, e, f = two_jobs(world, tmp_path)
    late_file(world, tmp_path, d, e)
    world.coordinator.register(f)
    with pytest.raises(NotReady):
        interrupted(world, lambda: bound(world)).begin(f, day(1), owner())


@pytest.mark.parametrize("kind", ["previous", "skip", "state"])
def test_range_readers_wait_for_the_recomputed_epoch(world: World, tmp_path: Path, kind: str) -> None:
    """R18: a job's own next epoch, the copy that a skip would make of a full table, and whole states."""
    table = world.table("d", kind=TableKind.FULL if kind == "skip" else TableKind.INCREMENTAL)
    inputs = [feed(tmp_path), *([previous(table)] if kind == "previous" else [])]
    d = world.job("d", outputs=[table], inputs=inputs)
    late_file(world, tmp_path, d)
    bound(world)
    land(tmp_path, 2, x="2")
    whole = world.job("f", inputs=[state(table)])
    if kind == "state":
        compute(world, d, 2)
    reads: dict[str, Callable[[], object]] = {
        "skip": lambda: world.coordinator.skip(DOMAIN, "d", day(2), "nothing comes", by="ada"),
        "previous": lambda: compute(world, d, 2),
        "state": lambda: world.begin(whole, day(2)),
    }
    with pytest.raises(NotReady, match="bound anew as revision 2"):
        reads[kind]()
    assert compute(world, d, 1, owner("again")) == 2
    reads[kind]()


def test_an_edge_that_ignores_revisions_reads_them_with_a_label(world: World, tmp_path: Path) -> None:
    """R18: and so do those who read it, until the rows are computed again; a lease of before keeps its label."""
    d, e = (world.job(name, inputs=[feed(tmp_path)]) for name in "de")
    late_file(world, tmp_path, d, e)
    bound(world)
    compute(world, e, 1, owner("again"))
    loose = world.job("f", inputs=[increment(world.table("d"), on_upstream_revision="ignore")])
    world.run(loose, day(1))
    cut = world.cut("d", "e", "f")
    assert [(str(label.table), str(label.source), label.revision) for label in cut.outdated] == [
        ("d", "feed", 2),
        ("f", "feed", 2),
    ]
    assert "before source feed was bound anew (revision 2)" in str(cut.outdated[0])
    assert world.cut("e").outdated == ()
    lease = world.leases.acquire(cut, name="old", owner="reader")
    compute(world, d, 1, owner("again"))
    assert [(str(label.table), label.revision) for label in world.cut("d", "e").outdated] == []
    found = world.leases.find(DOMAIN, "old")
    assert found is not None
    assert {(str(label.table), label.revision) for label in found.cut.outdated if label.revision} == {
        ("d", 2),
        ("f", 2),
    }
    world.leases.drop(lease)


def test_two_days_of_a_source_are_bound_anew(world: World, tmp_path: Path) -> None:
    """R18: what reads by an edge that ignores revisions has a label on either day."""
    d, e = (world.job(name, inputs=[feed(tmp_path)]) for name in "de")
    loose = world.job("f", inputs=[increment(world.table("d"), on_upstream_revision="ignore")])
    for number in (1, 2):
        land(tmp_path, number, x="1")
        for job in (d, e):
            compute(world, job, number)
        world.run(loose, day(number))
    for number in (1, 2):
        land(tmp_path, number, y="100")
        bound(world, number)
    for number in (1, 2):
        cut = world.cut("f", "e", at=day(number).end)
        assert [(str(label.table), label.start) for label in cut.outdated if label.table == "f"] == [
            ("f", day(1).start)
        ]


def test_a_lease_keeps_the_label_that_it_was_claimed_with(world: World, tmp_path: Path) -> None:
    """R18: although the rows were computed again, and the store has forgotten that they were behind."""
    d, e = (world.job(name, inputs=[feed(tmp_path)]) for name in "de")
    late_file(world, tmp_path, d, e)
    loose = world.job("f", inputs=[increment(world.table("d"), on_upstream_revision="ignore")])
    world.run(loose, day(1))
    bound(world)
    compute(world, e, 1, owner("again"))
    lease = world.leases.cut(DOMAIN, ["e", "f"], name="old", owner="reader")
    assert [str(label.table) for label in lease.cut.outdated] == ["f"]
    compute(world, d, 1, owner("again"))
    world.run(loose, day(1), by=owner("again"))
    key = topology_key(DOMAIN)
    record = world.store.read(DOMAIN, [key]).records[key].record
    world.store.transact(Transaction(domain=DOMAIN, updates=(Put(key, replace(record, behind=())),)))
    assert world.cut("e", "f").outdated == ()
    found = world.leases.find(DOMAIN, "old")
    assert found is not None
    assert found.cut.outdated == lease.cut.outdated
    left = world.leases.release(lease, ["f"])
    assert left is not None
    assert left.cut.outdated == ()


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", ["another job", "its own past"])
def test_epoch_with_committed_readers_is_not_left_behind(world: World, tmp_path: Path, reader: str) -> None:
    """R18: it could not be computed again, so nothing is bound; who reads it by `ignore` is no reason."""
    own = [previous(world.table("d"))] if reader == "its own past" else []
    d = world.job("d", inputs=[feed(tmp_path), *own])
    loose = world.job("g", inputs=[increment(world.table("d"), on_upstream_revision="ignore")])
    late_file(world, tmp_path, d)
    world.run(loose, day(1))
    if reader == "its own past":
        land(tmp_path, 2, x="2")
        compute(world, d, 2)
    else:
        world.run(world.job("f", inputs=[increment(world.table("d"))]), day(1))
    before = world.exactly()
    with pytest.raises(DependentReaders, match="cannot be bound anew .* committed readers") as refused:
        bound(world)
    assert [str(dependent.job) for dependent in refused.value.readers] == ["d" if own else "f"]
    assert world.exactly() == before


@pytest.mark.parametrize("over", ["retired", "left"])
def test_epoch_that_no_job_can_recompute_is_not_left_behind(world: World, tmp_path: Path, over: str) -> None:
    """R18: the epoch of a job that is retired, or a table that its job has left."""
    both = [world.table("d"), world.table("d2")]
    d = world.job("d", outputs=both, inputs=[feed(tmp_path)])
    e = world.job("e", inputs=[feed(tmp_path)])
    late_file(world, tmp_path, d, e)
    if over == "retired":
        world.coordinator.retire(DOMAIN, "d", reason="not needed", by="ada")
    else:
        world.coordinator.register(world.job("d", outputs=both[:1], inputs=[feed(tmp_path)]))
    before = world.exactly()
    with pytest.raises(TopologyError, match="is retired" if over == "retired" else "no longer declares d2"):
        bound(world)
    assert world.exactly() == before
    if over == "retired":
        world.coordinator.revive(DOMAIN, "d")
    else:
        world.coordinator.register(world.job("d", outputs=both, inputs=[feed(tmp_path)], inactive_after=9))
    assert bound(world).is_new


def over_full_table(world: World, directory: Path) -> Job:
    """T reads the source and the full table F at the same barrier: four days of F, three of T; a file came late."""
    table = world.table("f", kind=TableKind.FULL)
    full = world.job("f", outputs=[table])
    job = world.job("t", inputs=[feed(directory), state(table)])
    for number in (1, 2, 3, 4):
        world.run(full, day(number), [number])
    for number in (1, 2, 3):
        land(directory, number, x=str(number))
        compute(world, job, number)
    land(directory, 3, y="30")
    return job


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_epoch_whose_input_is_expired_is_not_left_behind(world: World, tmp_path: Path, when: str) -> None:
    """R18, R24: it could not be computed again, so nothing is bound."""
    over_full_table(world, tmp_path)

    def expire() -> None:
        world.retention.expire(DOMAIN, "f", day(3).end)

    service = interrupted(world, expire) if when == "meanwhile" else world.coordinator
    if when == "before":
        expire()
    with pytest.raises(Unavailable, match="cannot be bound anew .* expired what it reads of f") as refused:
        bind(service.context, DOMAIN, "feed", day(3), FILES, reason="a file came late", by="ada")
    assert refused.value.tables == ("f",)
    assert behind(world) == []


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_state_that_an_epoch_behind_reads_is_not_expired(world: World, tmp_path: Path, when: str) -> None:
    """R18, R24: the epoch must be computed again, and then its input may go; others may go at once."""
    job = over_full_table(world, tmp_path)
    service = interrupted(world, lambda: bound(world, 3)) if when == "meanwhile" else world.coordinator
    if when == "before":
        bound(world, 3)
    with pytest.raises(InvalidInput, match="no epoch behind its source has to read again") as refused:
        service.retention.expire(DOMAIN, "f", day(3).end)
    assert "clear the task of job t" in refused.value.next_step
    world.retention.expire(DOMAIN, "f", day(2).end)
    compute(world, job, 3, owner("again"))
    world.retention.expire(DOMAIN, "f", day(3).end)


def test_state_that_a_retired_job_would_read_is_expired(world: World, tmp_path: Path) -> None:
    """R24: nothing computes its epochs again."""
    over_full_table(world, tmp_path)
    bound(world, 3)
    world.coordinator.retire(DOMAIN, "t", reason="not needed", by="ada")
    world.retention.expire(DOMAIN, "f", day(3).end)


def test_a_job_that_is_retired_while_it_is_behind(world: World, tmp_path: Path) -> None:
    """R18: its readers are told the way that is left, an edge that ignores revisions, which labels the rows."""
    d, e, f = two_jobs(world, tmp_path)
    late_file(world, tmp_path, d, e)
    bound(world)
    compute(world, e, 1, owner("again"))
    world.coordinator.retire(DOMAIN, "d", reason="not needed", by="ada")
    with pytest.raises(NotReady) as refused:
        world.begin(f, day(1))
    assert "on_upstream_revision='ignore'" in refused.value.next_step
    loose = increment(world.table("d"), on_upstream_revision="ignore")
    world.run(world.job("f", inputs=[loose, increment(world.table("e"))]), day(1))
    assert {str(label.table) for label in world.cut("d", "e", "f").outdated} == {"d", "f"}


@pytest.mark.parametrize("reads", [True, False], ids=["the source", "nothing"])
def test_no_part_of_an_epoch_is_left_behind(world: World, tmp_path: Path, reads: bool) -> None:
    """R7, R18: by an older declaration, or by leaving a table: once a reader has the rest it could not be computed."""
    both = [world.table("d"), world.table("d2")]
    small = world.job("d", outputs=both[:1], inputs=[feed(tmp_path)] if reads else [])
    more = world.job("d", outputs=both, inputs=[feed(tmp_path)])
    for job in (small, more):
        world.coordinator.register(job)
    late_file(world, tmp_path, more)
    bound(world)
    before = world.exactly()
    with pytest.raises(TopologyError, match="lacks d2, which would stay behind"):
        world.begin(small, day(1), owner("again"), sources=FILES)
    left = world.job("d", outputs=both[:1], inputs=[feed(tmp_path)], inactive_after=9)
    with pytest.raises(TopologyError, match="cannot leave d2: job d has computed"):
        world.coordinator.register(left)
    assert world.exactly() == before
    compute(world, more, 1, owner("again"))
    world.coordinator.register(left)


def test_more_epochs_behind_than_the_topology_holds() -> None:
    """M5: the record of the topology is read by everything that begins, so that it stays small."""

    def entry(number: int) -> Behind:
        tables = tuple(TableName(f"t{table}") for table in range(10))
        return Behind(job=JobName("d"), interval=day(number), tables=tables, source="r", read=1, revision=2)

    entries = bound_anew((), "r", day(1).end, [entry(number) for number in range(1, MOST_BEHIND // 10 + 1)])
    with pytest.raises(RecordFull, match="1010 would exceed the limit of 1000") as refused:
        bound_anew(entries, "r", day(500).end, [entry(500)])
    assert "clear the tasks" in refused.value.next_step
    done = caught_up(entries, JobName("d"), day(1), entries[0].tables, 7)
    assert (
        len([marked for marked in bound_anew(done, "r", day(500).end, [entry(500)]) if not marked.until])
        == 100
    )


# --- how they catch up --------------------------------------------------------------------------------------------


def test_source_is_bound_back_to_earlier_bounds(world: World, tmp_path: Path) -> None:
    """I11: who has read the same is not behind, whichever number it has; who has read the other is."""
    d, e, f = two_jobs(world, tmp_path)
    late_file(world, tmp_path, d, e)
    bound(world)
    compute(world, e, 1, owner("again"))
    assert behind(world) == [("d", 1, 2)]
    (tmp_path / f"{day(1).start:%Y-%m-%d}" / "y").unlink()
    back = bound(world, reason="it was wrong")
    assert (back.bounds.revision, [str(marked.job) for marked in back.behind]) == (3, ["e"])
    assert behind(world) == [("e", 2, 3)]
    assert compute(world, e, 1, owner("and back")) == 3
    world.run(f, day(1))
    assert world.rows("d", "e") == {"d": [(1, 1)], "e": [(1, 1)]}


@pytest.mark.parametrize("shared", [False, True], ids=["one job", "another job has caught up"])
def test_files_that_an_epoch_behind_has_read_are_no_late_files(
    world: World, tmp_path: Path, shared: bool
) -> None:
    """I11: a file that was gone at `bind` comes back: its epoch reads it again, or a later one does, never both."""
    jobs = [world.job(name, inputs=[feed(tmp_path, "next")]) for name in ("d", "e")[: 1 + shared]]
    land(tmp_path, 1, x="1", y="10")
    for job in jobs:
        compute(world, job, 1)
    (tmp_path / f"{day(1).start:%Y-%m-%d}" / "y").unlink()
    bound(world)
    for job in jobs[1:]:
        compute(world, job, 1, owner("again"))
    land(tmp_path, 1, y="10")
    land(tmp_path, 2, z="100")
    compute(world, jobs[0], 2)
    assert world.rows("d") == {"d": [(1, 11), (2, 100)]}
    compute(world, jobs[0], 1, owner("again"))
    land(tmp_path, 3, last="1000")
    compute(world, jobs[0], 3)
    first, third = (1, 1010) if shared else (11, 1000)
    assert world.rows("d") == {"d": [(1, first), (2, 100), (3, third)]}


def test_two_files_that_come_late_for_the_same_reason(world: World, tmp_path: Path) -> None:
    """I11: the second one is bound, too; the same without a change is told from it."""
    d, e, _ = two_jobs(world, tmp_path)
    late_file(world, tmp_path, d, e)
    assert (bound(world).bounds.revision, bound(world).is_new) == (2, False)
    land(tmp_path, 1, z="1000")
    again = bound(world)
    assert (again.bounds.revision, again.is_new) == (3, True)
    assert behind(world) == [("d", 1, 3), ("e", 1, 3)]
    assert compute(world, d, 1, owner("again")) == 3


def test_a_revision_that_came_to_nothing_is_bound(world: World, tmp_path: Path) -> None:
    """I11: D has recorded revision 2 and failed: nothing else changed, and still it stands behind."""
    d, e, _ = two_jobs(world, tmp_path)
    late_file(world, tmp_path, d)
    failed = world.begin(d, day(1), owner("again"), sources=FILES)
    world.coordinator.abort(failed, "it failed")
    with pytest.raises(DependentReaders, match="airflow epochs bind"):
        world.begin(e, day(1), sources=FILES)
    assert bound(world).bounds.revision == 3
    assert behind(world) == [("d", 1, 3)]
    assert (compute(world, e, 1), compute(world, d, 1, owner("and again"))) == (3, 3)
    assert world.rows("d", "e") == {"d": [(1, 101)], "e": [(1, 101)]}


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_tables_are_not_added_to_an_epoch_that_is_behind(world: World, tmp_path: Path, when: str) -> None:
    """R7, R18: a fill reads what the commit has read; the epoch is computed again with all tables."""
    both = [world.table("d"), world.table("d2")]
    d, more = (
        world.job("d", outputs=outputs, inputs=[feed(tmp_path)], on_rerun="keep")
        for outputs in (both[:1], both)
    )
    land(tmp_path, 1, x="1")
    land(tmp_path, 2, x="2")
    for job in (d, more):
        world.coordinator.register(job)
    compute(world, more, 2)
    compute(world, d, 1)  # its DAG was of the older declaration: the new table lacks it
    land(tmp_path, 1, y="100")
    if when == "meanwhile":
        fill = world.begin(more, day(1), owner("fill"), sources=FILES)
        world.write(fill, [1])
        bound(world)
        with pytest.raises(Conflict, match="bound anew"):
            world.coordinator.publish(fill)
        world.coordinator.abort(fill, "Conflict")
    else:
        bound(world)
    skipped = world.coordinator.skip(DOMAIN, "d", day(1), "nothing comes", by="ada")
    assert skipped.left == (day(1),)
    compute(world, more, 1, owner("again"))
    assert world.rows("d", "d2", at=day(1).end) == {"d": [(1, 101)], "d2": [(1, 101)]}
    assert behind(world) == []


def test_where_they_are_told(world: World, tmp_path: Path) -> None:
    """R18: explain of the epoch and of its reader, and doctor, each with the task to clear."""
    d, e, f = two_jobs(world, tmp_path)
    late_file(world, tmp_path, d, e)
    world.coordinator.register(f)
    bound(world)
    compute(world, e, 1, owner("again"))
    labelled = world.cut("d", "e")
    assert labelled.notes == tuple(map(str, labelled.outdated)) != ()
    own = explain(world.store, DOMAIN, "d", day(1), source_readers=FILES)
    assert "from revision 1 of source 'feed', which was bound anew as revision 2" in own.summary
    assert own.next_step.startswith("clear the task of job d")
    assert own.outdated
    reader = explain(world.store, DOMAIN, "f", day(1), source_readers=FILES)
    assert any("bound anew as revision 2" in line for line in reader.waiting_for)
    assert reader.next_step.startswith("clear the task of job d")
    told = [
        symptom
        for symptom in examine(world.store, world.formats, DOMAIN).symptoms
        if "bound anew" in symptom.found
    ]
    assert [(symptom.subject, symptom.urgent) for symptom in told] == [(f"d {day(1)}", True)]
    compute(world, d, 1, owner("again"))
    assert examine(world.store, world.formats, DOMAIN, source_readers=FILES).symptoms == ()
    assert explain(world.store, DOMAIN, "d", day(1), source_readers=FILES).next_step == "nothing to do."
