"""Attempts, locks, fencing: the named schedules ATT1 to ATT14 on each store."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from airflow_provider.coordination.attempts.fence import fenced
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt
from airflow_provider.domain.errors import (
    EpochBusy,
    EpochError,
    Fenced,
    InvalidInput,
    NotReady,
    PackageTooOld,
    StoreIncompatible,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Kind, lock_key
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import increment, previous
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.testing.arrow_attempts import stage_rows
from airflow_provider.testing.manual_clock import ManualClock
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, day, owner, rows, side_by_side


def changes(world: World, attempt: Attempt, committable: Any) -> dict[str, Callable[[], object]]:
    """Every call by which an attempt could change something."""
    own = world.coordinator
    sink = attempt.sinks[0].name
    return {
        "processed": lambda: own.processed(attempt, sink),
        "written": lambda: own.written(attempt, sink, committable),
        "complete": lambda: own.complete(attempt),
        "heartbeat": lambda: own.heartbeat(attempt),
        "abort": lambda: own.abort(attempt, "too late"),
        "publish": lambda: own.publish(attempt),
    }


def refuse_all(world: World, attempt: Attempt, committable: Any, recorded: Sequence[str] = ()) -> None:
    """Each call of *attempt* is refused as final and changes nothing (R10, I5).

    :param recorded: reports that it made before it was over: repeated, they are answered as they were (R15).
    """
    before = world.exactly()
    for name, call in changes(world, attempt, committable).items():
        if name in recorded:
            call()
            continue
        with pytest.raises(Fenced) as refused:
            call()
        assert refused.value.details["expected"] == attempt.token, name
        assert refused.value.next_step
    assert world.exactly() == before


def test_a_source_is_listed_when_nothing_else_is_in_the_way(world: World, tmp_path: Path) -> None:
    """Neither an interval that is no epoch, nor one that waits for a table, nor one that is committed needs it."""
    landing = tmp_path / "landing.csv"
    source = FileSource("landing", str(landing), late="ignore")
    upstream = world.job("upstream")
    job = world.job("loading", inputs=[source, increment(upstream.outputs[0])])

    def begin(epoch: Interval, try_number: int = 1) -> Attempt | AlreadyCommitted:
        return world.coordinator.begin(job, epoch, owner(try_number=try_number), sources=SourceReaders())

    for wrong in (day(0), Interval(day(1).start, day(2).end)):
        with pytest.raises(InvalidInput, match="interval"):
            begin(wrong)
    with pytest.raises(NotReady, match="upstream"):
        begin(day(1))
    world.run(upstream, day(1))
    with pytest.raises(NotReady, match="landing"):
        begin(day(1))
    landing.touch()
    attempt = begin(day(1))
    assert isinstance(attempt, Attempt)
    assert [file.uri for file in attempt.sources[0].files] == [f"file://{landing}"]
    again = begin(day(1), 2)
    assert isinstance(again, Attempt)
    assert again.sources == attempt.sources
    landing.unlink()
    world.write(again)
    world.coordinator.publish(again)
    assert isinstance(begin(day(1), 2), AlreadyCommitted)


@pytest.mark.parametrize("committed", [False, True], ids=["running", "committed"])
def test_att1_zombie_write(world: World, committed: bool) -> None:
    """R10: try 1 was declared dead and try 2 has begun or committed: whatever try 1 does is refused."""
    job = world.job("d")
    zombie = world.begin(job, day(1))
    committable = stage_rows(world.coordinator, zombie, "d", rows([1]))
    newer = world.begin(job, day(1), owner(try_number=2))
    world.write(newer, [2])
    if committed:
        world.coordinator.publish(newer)
    refuse_all(world, zombie, committable)
    if not committed:
        world.coordinator.publish(newer)
    assert world.rows("d") == {"d": [(1, 2)]}


def test_att1_a_queueing_zombie_may_not_begin_again(world: World) -> None:
    """R10: an older try of the run is refused at begin; it would overtake the newer one."""
    job = world.job("d")
    newer = world.begin(job, day(1), owner(try_number=2))
    with pytest.raises(Fenced, match="older"):
        world.begin(job, day(1), owner(try_number=1))
    world.write(newer)
    world.coordinator.publish(newer)


def _overtaken(world: World, attempt: Attempt) -> None:
    world.begin(world.job(attempt.job), day(1), owner(try_number=2))


def _aborted(world: World, attempt: Attempt) -> None:
    world.coordinator.abort(attempt, "given up")


def _published(world: World, attempt: Attempt) -> None:
    world.write(attempt)
    world.coordinator.publish(attempt)


@pytest.mark.parametrize(
    ("end", "why", "step", "found"),
    [
        (_overtaken, "the newest token is 2, of .*try 2", "the newer attempt does the work", 2),
        (_aborted, "it has ended without a commit: given up", "run again", 1),
        (_published, "it has published the epoch", "its rows are committed", 1),
    ],
)
def test_ended_attempt_gets_the_cause_of_its_end(
    world: World, end: Callable[[World, Attempt], None], why: str, step: str, found: int
) -> None:
    """R10: a newer token exists only where another attempt has begun; the command that shows more can be typed."""
    attempt = world.begin(world.job("d"), day(1))
    end(world, attempt)
    error = fenced(world.store, attempt)
    assert re.search(why, error.message)
    assert step in error.next_step
    assert f"`airflow epochs explain d {day(1).start.isoformat()}/" in error.next_step
    assert (error.expected, error.found, error.by.try_number) == (1, found, found)


def test_a_run_of_another_dag_is_another_run(world: World) -> None:
    """R10, R16: Airflow names the scheduled runs of all DAGs by their time; equal names do not make them one."""
    job = world.job("d")
    other = replace(owner(), dag_id="another dag")
    attempt = world.begin(job, day(1))
    for later in (other, replace(other, try_number=2)):
        with pytest.raises(EpochBusy, match="dag/scheduled"):
            world.begin(job, day(1), later)
    world.write(attempt)
    world.coordinator.publish(attempt)
    assert world.run(job, day(1), [2], other).revision == 2
    assert world.rows("d") == {"d": [(1, 2)]}


def test_what_a_job_does_not_declare_it_neither_reads_nor_writes(world: World) -> None:
    """R6, R18: an attempt has what was fixed at its begin; the error names where to declare more."""
    world.run(world.job("b"), day(1))
    attempt = world.begin(world.job("d", inputs=[increment(world.table("b"))]), day(1))
    for ask, where in (
        (lambda: world.coordinator.input(attempt, "d"), "in the inputs of job 'd'"),
        (lambda: attempt.sink("b"), "in the outputs of job 'd'"),
    ):
        with pytest.raises(InvalidInput) as refused:
            ask()
        assert where in refused.value.next_step


def test_att2_pause_beyond_the_ttl(world: World) -> None:
    """R10, R23: another run takes over when the lock has ended, not before; the first one resumes in vain."""
    job = world.job("d")
    paused = world.begin(job, day(1))
    committable = stage_rows(world.coordinator, paused, "d", rows([1]))
    world.clock.advance(paused.ttl - timedelta(microseconds=1))
    with pytest.raises(EpochBusy) as busy:
        world.begin(job, day(1), owner("manual"))
    assert busy.value.details["until"] == world.clock.now() + timedelta(microseconds=1)
    assert busy.value.details["holder"].run_id == "scheduled"
    assert world.coordinator.heartbeat(paused) == paused.ttl
    world.clock.advance(timedelta(microseconds=1))
    with pytest.raises(EpochBusy):
        world.begin(job, day(1), owner("manual"))
    world.clock.advance(paused.ttl)
    taken = world.begin(job, day(1), owner("manual"))
    refuse_all(world, paused, committable)
    with pytest.raises(EpochBusy, match="manual"):
        world.begin(job, day(1), owner(try_number=2))
    world.write(taken, [2])
    world.coordinator.publish(taken)
    refuse_all(world, paused, committable)


def test_att2_silence_alone_ends_no_attempt(world: World) -> None:
    """R10: an attempt that was silent beyond its lock, and that no other has overtaken, publishes."""
    attempt = world.begin(world.job("d"), day(1))
    world.clock.advance(10 * PAST_TTL)
    world.coordinator.heartbeat(attempt)
    world.clock.advance(10 * PAST_TTL)
    world.write(attempt)
    world.coordinator.publish(attempt)


def test_att3_double_commit(world: World) -> None:
    """R1, R15: publish sent again gives the same answer, also much later; other content is an error."""
    job = world.job("d")
    attempt = world.begin(job, day(1))
    world.write(attempt, [1])
    before = world.exactly()
    other = stage_rows(world.coordinator, attempt, "d", rows([2]))
    with pytest.raises(InvalidInput, match=r"WRITTEN.*1 rows.*checksum"):
        world.coordinator.written(attempt, "d", other)
    assert world.exactly() == before
    first = world.coordinator.publish(attempt)
    done = world.exactly()
    assert world.coordinator.publish(attempt) == first
    with pytest.raises(InvalidInput):
        world.coordinator.written(attempt, "d", other)
    world.coordinator.abort(attempt, "after the commit it does nothing")
    assert world.exactly() == done
    world.run(job, day(2), [2])
    world.run(job, day(1), [3], owner("manual"))
    assert world.coordinator.publish(attempt) == first
    assert world.worker().publish(attempt) == first
    assert len(world.commits()) == 3


def test_att4_partial_set(world: World) -> None:
    """R2, R4: three of five tables are staged when the job dies: nothing visible, the next try writes all."""
    job = world.job("j", [world.table(f"d{number}") for number in range(5)])
    dead = world.begin(job, day(1))
    world.write(dead, [1], sinks=["d0", "d1", "d2"])
    assert world.staged()
    with pytest.raises(NotReady):
        world.rows("d0", "d1")
    with pytest.raises(InvalidInput, match="d3, d4"):
        world.coordinator.publish(dead)
    retry = world.begin(job, day(1), owner(try_number=2))
    assert not retry.adopted
    assert world.staged() == []
    world.write(retry, [2])
    world.coordinator.publish(retry)
    assert world.rows(*(f"d{number}" for number in range(5))) == {f"d{n}": [(1, 2)] for n in range(5)}


def test_att5_deadlock(world: World) -> None:
    """R2: X writes D then E and reads F, Y writes F and reads D and E; at once, none waits for the other."""
    d, e, f = (world.table(name) for name in "def")
    jobs = [
        world.job("x", [d, e], inputs=[previous(f)]),
        world.job("y", [f, world.table("g")], inputs=[previous(e), previous(d)]),
    ]
    for job in jobs:
        world.coordinator.register(job)
    for number in (1, 2, 3):
        attempts = [world.begin(job, day(number)) for job in jobs]
        for attempt in attempts:
            world.write(attempt, [number])
        workers = [world.worker(seed=seed) for seed in (1, 2)]
        found = side_by_side(
            lambda a=attempts[0], w=workers[0]: w.publish(a), lambda a=attempts[1], w=workers[1]: w.publish(a)
        )
        assert sorted(getattr(answer, "csn", 0) for answer in found) == [2 * number - 1, 2 * number], found


@pytest.mark.parametrize(
    ("stored", "refused"),
    [(b'{"format":99,"record":{}}', PackageTooOld), (b'{"format":1,"record":{}}', StoreIncompatible)],
    ids=["of a newer version", "damaged"],
)
def test_att6_unreadable_lock_fails_closed(world: World, stored: bytes, refused: type[EpochError]) -> None:
    """R23: a lock that cannot be read stops the takeover instead of being skipped."""
    job = world.job("d")
    attempt = world.begin(job, day(1))
    world.plant(lock_key(DOMAIN, job.name, day(1).start), stored)
    world.clock.advance(PAST_TTL)
    for by in (owner("manual"), owner(try_number=2)):
        with pytest.raises(refused):
            world.begin(job, day(1), by)
    world.write(attempt)
    world.coordinator.publish(attempt)


@pytest.mark.parametrize("skew", [timedelta(hours=1), timedelta(hours=-1), timedelta(days=400)])
def test_att7_clock_skew(world: World, skew: timedelta) -> None:
    """R23: a worker's clock is off: locks end and epochs are due by the store's clock alone."""
    theirs = ManualClock(world.clock.now() + skew)
    worker = EpochService(world.store, world.formats, clock=theirs, random=Random(7))
    job = world.job("d")
    attempt = world.begin(job, day(1))
    theirs.advance(timedelta(hours=3))
    with pytest.raises(EpochBusy):
        worker.begin(job, day(1), owner("manual"))
    future = job.cadence.ending_at(job.cadence.next_after(world.clock.now() + timedelta(minutes=6)))
    with pytest.raises(InvalidInput, match="tolerance"):
        worker.begin(job, future, owner())
    world.clock.advance(PAST_TTL)
    taken = worker.begin(job, day(1), owner("manual"))
    assert isinstance(taken, Attempt)
    with pytest.raises(Fenced):
        world.coordinator.heartbeat(attempt)


def test_att8_zombie_job(world: World) -> None:
    """R10: silent for hours, overtaken for epoch 7, 8 to 12 committed: what it then publishes is refused."""
    job = world.job("d", inputs=[previous(world.table("d"))])
    for number in range(1, 7):
        world.run(job, day(number), [number])
    zombie = world.begin(job, day(7))
    committable = stage_rows(world.coordinator, zombie, "d", rows([70]))
    world.coordinator.written(zombie, "d", committable)
    world.clock.advance(timedelta(hours=5))
    for number in range(7, 13):
        world.run(job, day(number), [number], owner("manual"))
    with pytest.raises(Fenced):
        world.coordinator.publish(zombie)
    refuse_all(world, zombie, committable, recorded=["written"])
    assert world.rows("d") == {"d": [(n, n) for n in range(1, 13)]}


def test_att8_a_job_with_a_past_does_not_leave_an_epoch_out(world: World) -> None:
    """R12: while epoch 7 of a job that reads its own past is open, epoch 8 is not ready."""
    job = world.job("d", inputs=[previous(world.table("d"))])
    world.run(job, day(1))
    world.begin(job, day(2))
    with pytest.raises(NotReady):
        world.begin(job, day(3))


def test_att9_replay_deterministic(world: World) -> None:
    """R15: committed, the answer lost, the task retried: already committed, no duplicate."""
    job = world.job("d")
    published = world.run(job, day(1), [1])
    before = world.exactly()
    again = world.coordinator.begin(job, day(1), owner(try_number=2))
    assert isinstance(again, AlreadyCommitted)
    assert (again.csn, again.revision, again.change_set) == (1, 1, published.change_set)
    assert world.exactly() == before
    assert world.rows("d") == {"d": [(1, 1)]}


@pytest.mark.parametrize("determinism", ["deterministic", "keep_first", "replace_cascade"])
def test_att10_replay_after_written(world: World, determinism: str) -> None:
    """R16: complete output of a dead try is published by the next, unless the job says to replace it."""
    job = world.job("d", determinism=determinism)
    dead = world.begin(job, day(1))
    written = world.write(dead, [1])
    world.coordinator.complete(dead)
    retry = world.begin(job, day(1), owner(try_number=2))
    assert retry.adopted is (determinism != "replace_cascade")
    assert (world.staged() != []) is retry.adopted
    if not retry.adopted:
        world.write(retry, [2])
    world.coordinator.publish(retry)
    assert world.rows("d") == {"d": [(1, 1 if retry.adopted else 2)]}
    refuse_all(world, dead, written["d"], recorded=["processed", "written", "complete"])


def test_att10_adopted_output_passes_from_try_to_try(world: World) -> None:
    """R16: a try that died after adopting leaves it to the next; an abort ends that, and the rows go."""
    job = world.job("d")
    dead = world.begin(job, day(1))
    world.write(dead, [1])
    world.coordinator.complete(dead)
    assert world.begin(job, day(1), owner(try_number=2)).adopted
    third = world.begin(job, day(1), owner(try_number=3))
    assert third.adopted
    world.coordinator.abort(third, "no")
    fourth = world.begin(job, day(1), owner(try_number=4))
    assert not fourth.adopted
    assert world.staged() == []


def test_att10_output_that_was_adopted_twice_is_published(world: World) -> None:
    """R16: what the third try publishes is the first try's, and no try has deleted it on the way."""
    job = world.job("d")
    dead = world.begin(job, day(1))
    world.write(dead, [1])
    world.coordinator.complete(dead)
    assert world.begin(job, day(1), owner(try_number=2)).adopted
    world.run(job, day(1), [3], owner(try_number=3))
    assert world.rows("d") == {"d": [(1, 1)]}
    assert world.staged() == []
    epoch = world.coordinator.epoch(DOMAIN, "d", day(1))
    done = epoch and epoch.record.committed
    assert done is not None
    assert done.token > done.output_token == dead.token
    (slice_of,) = world.store.scan(DOMAIN, Kind.SLICE, "d")
    assert slice_of.record.token == dead.token, "the rows are of who wrote them"
    if world.warehouse is not None:
        snapshot = StaticTable.from_metadata(str(world.pointers.pointer(DOMAIN, "d"))).current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        assert snapshot.summary.additional_properties["epochs.token"] == str(dead.token)


@pytest.mark.parametrize("by", [owner(generation=1), owner("manual")], ids=["cleared", "another-run"])
def test_att10_another_wish_adopts_nothing(world: World, by: Owner) -> None:
    """R16: who clears the task, or asks in another run, wants it computed again."""
    job = world.job("d")
    left = world.begin(job, day(1))
    world.write(left, [1])
    world.coordinator.complete(left)
    world.clock.advance(PAST_TTL)
    assert not world.begin(job, day(1), by).adopted
    assert world.staged() == []


@pytest.mark.parametrize("processed", [False, True], ids=["not-processed", "processed"])
@pytest.mark.parametrize("staged", [False, True], ids=["nothing-staged", "staged"])
def test_att12_four_cells(world: World, processed: bool, staged: bool) -> None:
    """R16: killed with and without all sinks PROCESSED, with and without staged output: the next try commits."""
    job = world.job("j", [world.table("d"), world.table("d2")])
    dead = world.begin(job, day(1))
    if staged:
        for sink in ("d", "d2"):
            stage_rows(world.coordinator, dead, sink, rows([1]))
    if processed:
        for sink in ("d", "d2"):
            world.coordinator.processed(dead, sink)
    retry = world.begin(job, day(1), owner(try_number=2))
    assert not retry.adopted
    assert world.staged() == []
    world.write(retry, [2])
    world.coordinator.publish(retry)
    assert world.rows("d", "d2") == {"d": [(1, 2)], "d2": [(1, 2)]}
    assert world.staged() == []


def test_att13_moved_head(table_world: World) -> None:
    """R11: epoch 7 is staged, 8 commits, then 7 publishes on the new head: both are there."""
    world = table_world
    job = world.job("d")
    world.run(job, day(1), [1])
    dead = world.begin(job, day(2))
    world.write(dead, [2])
    world.coordinator.complete(dead)
    world.run(job, day(3), [3])
    retry = world.begin(job, day(2), owner(try_number=2))
    assert retry.adopted
    world.coordinator.publish(retry)
    assert world.rows("d") == {"d": [(1, 1), (2, 2), (3, 3)]}


@pytest.mark.parametrize("complete", [False, True], ids=["one-of-two", "both-but-not-ended"])
def test_att14_half_adopted(world: World, complete: bool) -> None:
    """R16: of a try that died between its writes, or before its code ended, nothing is adopted."""
    job = world.job("j", [world.table("d"), world.table("d2")])
    dead = world.begin(job, day(1))
    world.write(dead, [1], sinks=["d", "d2"] if complete else ["d"])
    if not complete:
        world.coordinator.complete(dead)
    retry = world.begin(job, day(1), owner(try_number=2))
    assert not retry.adopted
    with pytest.raises(InvalidInput, match="not WRITTEN"):
        world.coordinator.publish(retry)
    assert world.staged() == []


@pytest.mark.parametrize("is_complete", [False, True], ids=["died while it wrote", "died before its publish"])
def test_att16_tail(table_world: World, *, is_complete: bool) -> None:
    """R4, R16: epoch 2 is WRITTEN and not committed when epochs 3 and 4 are: no version that they make has it."""
    world = table_world
    job = world.job("d")
    world.run(job, day(1), [1])
    dead = world.begin(job, day(2))
    world.write(dead, [2])
    if is_complete:
        world.coordinator.complete(dead)
    for number in (3, 4):
        world.run(job, day(number), [number])
        assert world.rows("d") == {"d": world.engine_rows("d")} == {"d": [(1, 1)]}
    retry = world.begin(job, day(2), owner(try_number=2))
    assert retry.adopted is is_complete
    if not is_complete:
        world.write(retry, [20])
    world.coordinator.publish(retry)
    epoch = (2, 2 if is_complete else 20)
    assert world.rows("d") == {"d": [(1, 1), epoch, (3, 3), (4, 4)]}
    assert world.staged() == []


def test_an_aborted_attempt_changes_nothing_any_more(world: World) -> None:
    """R10: no newer one is there, and yet it is over: what it staged is deleted."""
    attempt = world.begin(world.job("d"), day(1))
    written = world.write(attempt, [1])
    world.coordinator.abort(attempt, "given up")
    refuse_all(world, attempt, written["d"], recorded=["processed", "written", "abort"])
    assert world.commits() == []


def test_an_abort_after_the_own_commit_deletes_nothing(world: World) -> None:
    """R15, I6: the task fails after its publish; its abort finds the commit and leaves it alone."""
    job = world.job("d")
    attempt = world.begin(job, day(1))
    world.write(attempt, [1])
    world.coordinator.publish(attempt)
    before = world.exactly()
    world.coordinator.abort(attempt, "too late")
    assert world.coordinator.heartbeat(attempt) == attempt.ttl, "its own commit does not fence an attempt"
    assert world.exactly() == before
    assert world.rows("d") == {"d": [(1, 1)]}
