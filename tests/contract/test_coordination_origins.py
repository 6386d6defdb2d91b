"""Where tables begin: origins that are corrected, backfills below them, and what readers see of it (R7, R12, R13)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider.coordination.reading.wait import JobInputs, check_inputs
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Conflict, DependentReaders, NotReady, TopologyError
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import table_key
from airflow_provider.domain.topology import Job, increment, previous, state, window
from airflow_provider.domain.watermark import Progress
from airflow_provider.stores.base import Put, Transaction
from airflow_provider.testing.arrow_attempts import read_rows
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner, values_of


def progress(world: World, table: str) -> Progress:
    key = table_key(DOMAIN, world.table(table).name)
    found: Progress = world.store.read(DOMAIN, [key]).records[key].record.progress
    return found


def read(world: World, attempt: Attempt, table: str) -> list[tuple[int, int]]:
    found = read_rows(world.coordinator, attempt, table)
    return [] if found is None else values_of(found)


def running_total(world: World, job: Job, number: int) -> int:
    """Compute a day of a job that adds 1 to what its own table had the day before."""
    attempt = world.begin(job, day(number), owner(f"run{number}"))
    total = max((value for _, value in read(world, attempt, "balance")), default=0) + 1
    world.write(attempt, [total])
    world.coordinator.complete(attempt)
    world.coordinator.publish(attempt)
    return total


# --- what a cut says of it ---------------------------------------------------------------------------------------


def test_a_cut_of_tables_that_begin_at_different_times_says_so(world: World) -> None:
    """R7, section 6: a backfill has reached one table and not yet the other, whose origin no job has declared."""
    d = world.job("d", origin=None)
    e = world.job("e", inputs=[increment(world.table("d"))], origin=None)
    for number in (11, 12):
        world.run(d, day(number))
        world.run(e, day(number))
    assert (world.cut("d", "e").begins, world.cut("d", "e").notes) == ({}, ())
    world.run(d, day(10), by=owner("backfill"))
    uneven = world.cut("d", "e")
    assert uneven.begins == {"d": day(10).start, "e": day(11).start}
    note = (
        f"e: no rows before {day(11).start.isoformat()}, while d has rows from {day(10).start.isoformat()} on"
    )
    assert uneven.notes == (note,)
    held = world.leases.cut(DOMAIN, ["d", "e"], name="report", owner="me").cut
    assert held.notes == (note,)
    assert world.cut("e").notes == ()
    world.run(e, day(10), by=owner("backfill"))
    assert world.cut("d", "e").notes == ()


# --- an origin that is corrected -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["full", "incremental"])
def test_chg1_earlier_origin_before_the_first_commit(world: World, kind: str) -> None:
    """R7: the table begins where its job does, so that each epoch reads the one before it."""
    table = world.table("balance", kind=kind)

    def job(origin: int) -> Job:
        return world.job("j", [table], inputs=[previous(table)], origin=barrier(origin))

    world.coordinator.abort(world.begin(job(5), day(6), owner("failed")), "failed")
    assert [running_total(world, job(0), number) for number in range(1, 9)] == list(range(1, 9))


@pytest.mark.parametrize("reads", ["its own past", "another table"])
def test_chg1_earlier_origin_that_was_read(world: World, reads: str) -> None:
    """R7: what has read "nothing before" would be wrong, whichever job it is; nothing is changed, and it is named."""
    table = world.table("balance")
    own = [previous(table)] if reads == "its own past" else []
    world.run(world.job("j", [table], inputs=own, origin=barrier(5)), day(6))
    if not own:
        world.run(world.job("r", inputs=[previous(table)], origin=barrier(5)), day(6))
    before = world.exactly()
    with pytest.raises(TopologyError, match=r"cannot move back to 2024-01-01") as refused:
        world.begin(world.job("j", [table], inputs=own, origin=barrier(0)), day(1))
    (reader,) = refused.value.details["readers"]
    assert (reader.job, reader.interval) == ("j" if own else "r", day(6))
    assert world.exactly() == before


def test_chg1_earlier_origin_that_is_being_read(world: World) -> None:
    """R13: an open epoch that found nothing there begins again, and waits for what is to come."""
    table = world.table("balance")
    reader = world.job("r", inputs=[previous(table)], origin=barrier(5))
    world.coordinator.register(world.job("j", [table], origin=barrier(5)))
    attempt = world.begin(reader, day(6))
    world.write(attempt)
    world.coordinator.register(world.job("j", [table], origin=barrier(0)))
    with pytest.raises(Conflict, match="computed again"):
        world.coordinator.publish(attempt)
    with pytest.raises(NotReady, match="nothing is committed from its origin .* on"):
        world.begin(reader, day(6), owner(try_number=2))


def test_an_origin_that_nothing_came_of_moves_forward(world: World) -> None:
    """R7: a reader that was declared to begin before its input is not stuck; the error says what to declare."""
    d, table = world.job("d", origin=barrier(5)), world.table("r")

    def reader(origin: int) -> Job:
        inputs = [increment(d.outputs[0]), previous(table)]
        return world.job("r", [table], inputs=inputs, origin=barrier(origin))

    world.run(d, day(6))
    world.coordinator.register(reader(0))
    with pytest.raises(NotReady, match=r"declare the origin 2024-01-06T00:00:00\+00:00 or a later one"):
        world.begin(reader(0), day(1))
    world.run(reader(5), day(6))
    assert world.cut("d", "r").barrier == barrier(6)


def test_an_origin_that_is_declared_after_the_first_commit_is_a_fact(world: World) -> None:
    """R7, R12: what reads back to before it was told to let it be declared."""
    d = world.job("d", origin=None)
    world.run(d, day(5), [5])
    reader = world.job("r", inputs=[window(d.outputs[0], barrier(2) - barrier(0))], origin=barrier(4))
    with pytest.raises(NotReady, match="declares no origin"):
        world.begin(reader, day(5))
    world.coordinator.register(world.job("d", origin=barrier(4)))
    attempt = world.begin(reader, day(5))
    assert read(world, attempt, "d") == [(5, 5)]


def test_a_table_that_its_job_got_later_stays_where_it_begins(world: World) -> None:
    """R7: the epochs before were committed without it, whatever the job's origin becomes."""
    d, e = world.table("d"), world.table("e")
    world.run(world.job("j", [d], origin=barrier(4)), day(5), [5])
    world.run(world.job("j", [d, e], origin=barrier(4)), day(6), [6])
    world.coordinator.register(world.job("j", [d, e], origin=barrier(0)))
    assert (progress(world, "d").reaches, progress(world, "e").reaches) == (barrier(0), None)
    assert world.rows("d", "e") == {"d": [(5, 5), (6, 6)], "e": [(6, 6)]}


# --- below the origin ------------------------------------------------------------------------------------------


def backfilled(world: World, origin: int | None, *numbers: int) -> Job:
    """Days 11 to 13 of d, and then *numbers*; the origin 10 is declared and then 0, or neither."""
    first = world.job("d", origin=None if origin is None else barrier(10))
    for number in (11, 12, 13):
        world.run(first, day(number), [number])
    job = world.job("d", origin=None if origin is None else barrier(origin))
    for number in numbers:
        world.run(job, day(number), [number], owner("backfill"))
    return job


@pytest.mark.parametrize("origin", [None, 0], ids=["undeclared", "declared"])
def test_chg3_backfill_below_the_origin(table_world: World, origin: int | None) -> None:
    """R3, R12: it becomes visible in one step, when the chain touches; until then nothing of it is there."""
    world = table_world
    job = backfilled(world, origin)
    late = [(number, number) for number in (11, 12, 13)]
    for number in (1, 2, 3, 4, 6, 7, 8, 9):
        world.run(job, day(number), [number], owner("backfill"))
        assert world.rows("d") == {"d": late}, number
    held = world.cut("d")
    world.run(job, day(5), [5], owner("backfill"))
    assert world.rows("d") == {"d": late}
    world.run(job, day(10), [10], owner("backfill"))
    assert world.rows("d") == {"d": [(number, number) for number in range(1, 14)]}
    assert world.rows_of(held) == {"d": late}
    assert progress(world, "d") == Progress(
        origin=barrier(0), islands=(Interval(barrier(0), barrier(13)),), declared=origin is not None
    )


EDGES: dict[str, Callable[[Any], Any]] = {
    "state": state,
    "window": lambda table: window(table, barrier(3) - barrier(0)),
}


@pytest.mark.parametrize(
    ("origin", "edge"),
    [(None, "state"), (0, "state"), (0, "window")],
    ids=["undeclared, state", "declared, state", "declared, window"],
)
def test_chg3_no_reader_makes_a_hole_permanent(world: World, origin: int | None, edge: str) -> None:
    """R12: what reads to below the origin waits for the backfill, and is told how it ends; then it reads all."""
    job = backfilled(world, origin, 1, 2, 3, 4)
    reader = world.job("r", inputs=[EDGES[edge](job.outputs[0])], origin=barrier(11))
    with pytest.raises(NotReady, match="airflow epochs skip d 2024-01-05T.*/2024-01-11") as refused:
        world.begin(reader, day(12))
    assert "its origin is 2024-01-11" in str(refused.value)
    waiting = check_inputs(world.store, DOMAIN, JobInputs.of(reader, day(12)))
    assert not waiting.ready
    step = next(
        symptom.next_step
        for symptom in examine(world.store, world.formats, DOMAIN).symptoms
        if symptom.subject == "table d"
    )
    assert "airflow epochs skip d 2024-01-05T00:00:00+00:00/2024-01-11T00:00:00+00:00" in step
    world.coordinator.skip(DOMAIN, "d", Interval(barrier(4), barrier(10)), "closed", by="me")
    low = 1 if edge == "state" else 9
    assert read(world, world.begin(reader, day(12)), "d") == [
        (number, number) for number in (*range(low, 5), 11, 12)
    ]


def test_chg3_a_reader_of_its_own_day_goes_on(world: World) -> None:
    """R18: who reads what is visible neither waits for a backfill nor holds it back."""
    job = backfilled(world, 0)
    reader = world.job("r", inputs=[increment(job.outputs[0])], origin=barrier(10))
    for number in (11, 12):
        world.run(reader, day(number))
        world.run(job, day(number - 10), [1], owner("backfill"))
    open_reader = world.begin(reader, day(13))
    world.write(open_reader)
    for number in range(3, 11):
        world.run(job, day(number), [number], owner("backfill"))
    world.coordinator.publish(open_reader)
    assert len(world.rows("d")["d"]) == 13


@pytest.mark.parametrize("number", [1, 10], ids=["apart", "touching"])
def test_chg3_a_backfill_that_was_read_over_is_refused_before_any_work(world: World, number: int) -> None:
    """R18: a committed epoch has read that there is nothing below the origin."""
    job = backfilled(world, None)
    world.run(world.job("r", inputs=[state(job.outputs[0])], origin=None), day(13))
    before = world.exactly()
    with pytest.raises(DependentReaders, match=r"r \[2024-01-13"):
        world.begin(job, day(number), owner("backfill"))
    assert world.exactly() == before


def test_chg3_a_backfill_that_is_read_over_meanwhile(world: World) -> None:
    """R13, R18: of a reader and a backfill the first commit wins, and the other is told."""
    job = backfilled(world, None)
    reader = world.job("r", inputs=[state(job.outputs[0])], origin=None)
    reading, filling = world.begin(reader, day(13)), world.begin(job, day(1), owner("backfill"))
    for attempt in (reading, filling):
        world.write(attempt)
    twin = world.begin(world.job("r2", inputs=[state(job.outputs[0])], origin=None), day(13))
    world.write(twin)
    world.coordinator.publish(reading)
    with pytest.raises(DependentReaders):
        world.coordinator.publish(filling)
    world.coordinator.publish(twin)


def test_chg3_a_reader_is_told_of_a_backfill_that_began(world: World) -> None:
    job = backfilled(world, None)
    reader = world.job("r", inputs=[state(job.outputs[0])], origin=None)
    reading = world.begin(reader, day(13))
    world.write(reading)
    world.run(job, day(1), [1], owner("backfill"))
    with pytest.raises(Conflict, match="computed again"):
        world.coordinator.publish(reading)


def test_a_full_table_below_its_origin_is_not_read(world: World) -> None:
    """R6: its states there are complete once the chain is."""
    table = world.table("f", kind="full")
    world.run(world.job("j", [table], origin=barrier(3)), day(4), [4])
    job = world.job("j", [table], origin=barrier(0))
    for number in (1, 2):
        world.run(job, day(number), [number])
        with pytest.raises(NotReady):
            world.cut("f", at=barrier(number))
    world.run(job, day(3), [3])
    assert [world.rows("f", at=barrier(number))["f"] for number in (1, 2, 3, 4)] == [
        [(number, number)] for number in (1, 2, 3, 4)
    ]


def test_an_older_epoch_of_a_job_that_reads_its_own_past(world: World) -> None:
    """R12: a table that the job got later has no epoch before it that the ones between could follow."""
    d, total = world.table("d"), world.table("total")
    for number in (1, 2, 3):
        world.run(world.job("j", [d]), day(number), [number])
    both = world.job("j", [d, total], inputs=[previous(total)])
    world.run(both, day(4), [4])
    with pytest.raises(TopologyError, match="leaves 'total' out"):
        world.begin(both, day(1), owner("again"))


def test_readers_go_on_over_rows_of_an_older_version_below_the_origin(world: World) -> None:
    """R12, R36: it let readers commit over a backfill that was half done; they go on, and see none of it."""
    job = backfilled(world, None, 1, 2, 3, 4)
    key = table_key(DOMAIN, world.table("d").name)
    record = world.store.read(DOMAIN, [key]).records[key].record
    before = replace(record, progress=replace(record.progress, reaches=None))
    world.store.transact(Transaction(domain=DOMAIN, updates=(Put(key, before),)))
    reader = world.job("r", inputs=[state(job.outputs[0])], origin=None)
    attempt = world.begin(reader, day(13))
    assert read(world, attempt, "d") == world.rows("d")["d"] == [(11, 11), (12, 12), (13, 13)]
    world.write(attempt)
    world.coordinator.publish(attempt)
    with pytest.raises(DependentReaders):
        world.begin(job, day(5), owner("backfill"))
