"""Tables × epochs as people look at them: what each cell says, and which epochs are shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_provider.coordination.reading.delay import delays
from airflow_provider.coordination.upkeep.dags import dags_of_jobs, dags_of_members
from airflow_provider.coordination.upkeep.grid import Cell, Grid, Row, grid
from airflow_provider.coordination.upkeep.grid_frame import frame
from airflow_provider.domain.epoch import Attempt, EpochState
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.restatement import JobEpochs
from airflow_provider.domain.table_kind import TableKind
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, barrier, day, owner

DAY = timedelta(days=1)


def shown(world: World, **wish: Any) -> Grid:
    """The grid; nothing is changed by looking."""
    before = world.exactly()
    found = grid(world.store, DOMAIN, **wish)
    assert world.exactly() == before
    return found


def row_of(world: World, table: str = "d", **wish: Any) -> Row:
    (row,) = (found for found in shown(world, **wish).rows if found.table.name == table)
    return row


def cells(world: World, table: str = "d", **wish: Any) -> dict[Interval, Cell]:
    """The cells of a table, which come in the order of time."""
    found = row_of(world, table, **wish).cells
    assert [cell.interval for cell in found] == sorted({cell.interval for cell in found})
    return {cell.interval: cell for cell in found}


def run_of(cell: Cell) -> str | None:
    return None if cell.owner is None else cell.owner.run_id


def days(world: World, table: str = "d", **wish: Any) -> list[float]:
    """The numbers of the days that are shown."""
    return [(cell.end - barrier(0)) / DAY for cell in cells(world, table, **wish)]


def test_cell_tells_the_newest_attempts_progress_and_the_readable_revision(world: World) -> None:
    """R1: from nothing to its commit, over a revision that is never published."""
    job = world.job("j", [world.table("d"), world.table("e")])
    world.run(job, day(1), [7])
    attempt = world.begin(job, day(2), owner("first"))
    nothing = cells(world)[day(2)]
    assert (nothing.state, nothing.revision, run_of(nothing)) == (EpochState.OPEN, 1, "first")
    assert (nothing.sink, nothing.silent, nothing.committed) == (EpochState.NOTHING, False, None)
    world.write(attempt, [1, 2, 3], sinks=["d"])
    assert [cells(world, name)[day(2)].sink for name in ("d", "e")] == [
        EpochState.WRITTEN,
        EpochState.NOTHING,
    ]
    world.write(attempt, [4], sinks=["e"])
    assert cells(world)[day(2)].state is EpochState.PRECOMMIT
    world.clock.advance(PAST_TTL)
    assert cells(world)[day(2)].silent
    published = world.coordinator.publish(attempt)
    done = cells(world)[day(2)]
    assert (done.state, done.revision, run_of(done), done.silent) == (EpochState.COMMIT, 1, "first", False)
    assert done.sink is EpochState.COMMIT
    assert done.committed is not None
    assert (done.committed.revision, done.committed.csn, done.committed.rows) == (1, published.csn, 3)
    assert (done.committed.files, done.committed.at) == (1, published.at)
    assert done.committed.size_bytes > 0
    again = world.begin(job, day(2), owner("second"))
    newer = cells(world)[day(2)]
    assert (newer.state, newer.revision, run_of(newer)) == (EpochState.OPEN, 2, "second")
    assert newer.sink is EpochState.NOTHING, "the earlier attempt's output is not its own"
    assert newer.committed == done.committed, "readers get the first revision until the second is published"
    world.coordinator.abort(again, "it failed")
    ended = cells(world)[day(2)]
    assert (ended.state, ended.silent, ended.committed) == (EpochState.ABORTED, False, done.committed)
    world.run(job, day(2), [5], owner("third"))
    last = cells(world)[day(2)]
    assert (last.revision, last.committed and last.committed.revision) == (2, 2)
    assert (last.committed and last.committed.rows) == 1
    row = row_of(world)
    assert (row.job, row.cadence, row.watermark, row.csn) == ("j", job.cadence, barrier(2), 3)
    assert (row.inactive, row.retired) == (None, "")


def test_a_row_ends_where_the_domain_is_and_goes_a_week_back(world: World) -> None:
    """At the latest barrier that a table has or tries to reach; epochs that no run began are shown between."""
    world.begin(world.job("e"), day(1))
    assert shown(world).shown.end == barrier(1), "before anything is committed"
    world.clock.advance(PAST_TTL)
    for number in (1, 10):
        world.run(world.job("d"), day(number), [1])
    world.run(world.job("e"), day(2), [1])
    assert shown(world).shown == Interval(barrier(3), barrier(10))
    assert days(world) == [4, 5, 6, 7, 8, 9, 10]
    assert {interval: cell.state for interval, cell in cells(world).items() if cell.committed} == {
        day(10): EpochState.COMMIT
    }
    world.begin(world.job("e"), day(11))
    found = shown(world)
    assert (found.shown, found.csn, found.now) == (Interval(barrier(4), barrier(11)), 3, world.clock.now())
    assert days(world) == [5, 6, 7, 8, 9, 10, 11]
    assert days(world, span=2 * DAY) == [10, 11]


def test_a_range_that_is_asked_for(world: World) -> None:
    """From its start to its end, not before the job begins, and not beyond now."""
    world.run(world.job("d"), day(3), [1])
    assert days(world, start=barrier(1), end=barrier(5)) == [2, 3, 4, 5]
    assert days(world, start=barrier(-9), end=barrier(2)) == [1, 2], "not before the origin"
    assert days(world, start=barrier(1.5), end=barrier(3.5)) == [2, 3], (
        "the epoch that the start lies in, whole"
    )
    today = (world.clock.now() - barrier(0)) / DAY
    assert days(world, start=world.clock.now() - DAY, end=world.clock.now() + 5 * DAY) == [today]
    for wish in ({"start": barrier(2), "end": barrier(2)}, {"start": barrier(3), "end": barrier(2)}):
        with pytest.raises(InvalidInput):
            grid(world.store, DOMAIN, **wish)
    with pytest.raises(InvalidInput, match="the first one that UTC can express") as refused:
        grid(world.store, DOMAIN, end=datetime(1, 1, 2, tzinfo=UTC))
    assert refused.value.field == "end"


def test_the_epoch_that_a_range_begins_in_is_shown_as_it_is(world: World) -> None:
    """R1: with its run and what readers get of it, also when it has another length than the others."""
    changing = Cadence("@hourly", since=barrier(2), before=Cadence("@daily"))
    for number in (1, 2):
        world.run(world.job("d"), day(number), [number])
    world.run(world.job("d", cadence=changing), Interval(barrier(2), barrier(2) + DAY / 24), [3])
    found = cells(world, start=barrier(1.5), end=barrier(2))
    assert list(found) == [day(2)]
    assert (run_of(found[day(2)]), found[day(2)].state) == ("scheduled", EpochState.COMMIT)
    assert found[day(2)].committed is not None


def test_computed_epochs_before_the_first_one_are_shown(world: World) -> None:
    """R12: of a job without an origin, an epoch before the first one, too; the gap between is waited for."""
    for number in (4, 5, 2):
        world.run(world.job("d", origin=None), day(number), [number])
    assert days(world) == [2, 3, 4, 5]
    assert days(world, max_cells=2) == [4, 5]
    assert shown(world, max_cells=2).left_out
    assert not shown(world, max_cells=4).left_out


def test_grid_tells_that_due_epochs_are_left_out(world: World) -> None:
    """R12: the first of those that are due is not shown, and that is told."""
    world.run(world.job("d"), day(5), [5])
    assert days(world, max_cells=4) == [2, 3, 4, 5]
    assert shown(world, max_cells=4).left_out
    assert not shown(world, max_cells=5).left_out


def test_of_too_many_epochs_the_latest_are_shown(world: World) -> None:
    """That there are earlier ones is told, and of the jobs that are shown alone."""
    for name in ("d", "e"):
        for number in range(1, 6):
            world.run(world.job(name), day(number), [1])
    few = shown(world, max_cells=3)
    assert [[cell.interval for cell in row.cells] for row in few.rows] == [[day(3), day(4), day(5)]] * 2
    assert all(cell.owner is not None for row in few.rows for cell in row.cells)
    assert few.left_out
    assert not shown(world, start=barrier(3), max_cells=2).left_out
    assert not shown(world, max_cells=5).left_out
    world.run(world.job("f", origin=barrier(4)), day(5), [1])
    assert not shown(world, tables=["f"], max_cells=1).left_out
    assert shown(world, tables=["d", "f"], max_cells=1).left_out


def test_frame_has_the_tables_and_their_time_without_epochs(world: World) -> None:
    """The page draws its axes from it, and asks for the epochs of the tables on the screen."""
    world.run(world.job("apples", [world.table("a"), world.table("b")]), day(1))
    world.run(world.job("apples", [world.table("a"), world.table("b")]), day(3))
    hour = Interval(barrier(3), barrier(3) + timedelta(hours=1))
    world.begin(world.job("bees", cadence="@hourly", origin=barrier(2)), hour, owner("buzz"))
    world.coordinator.register(world.job("idle", origin=None))
    found = frame(world.store, DOMAIN)
    assert [(row.table, row.job, row.length / DAY) for row in found.rows] == [
        ("a", "apples", 1),
        ("b", "apples", 1),
        ("bees", "bees", 1 / 24),
        ("idle", "idle", 1),
    ]
    assert [row.reaches for row in found.rows] == [barrier(3), barrier(3), hour.end, None]
    assert [row.begins for row in found.rows] == [barrier(0), barrier(0), barrier(2), None]
    assert [row.dag for row in found.rows][2:] == [owner("buzz").dag_id, None]
    assert (found.end, found.shortest) == (hour.end, DAY / 24)
    assert found.within(barrier(-9), barrier(2)) == Interval(barrier(0), barrier(2))
    assert found.within(barrier(1), barrier(2)) == Interval(barrier(1), barrier(2))
    assert found.within(barrier(-9), barrier(-2)) == Interval(barrier(-9), barrier(-2))
    idle = found.where(lambda row: row.job == "idle")
    assert ([row.table for row in idle.rows], idle.end) == (["idle"], found.now)


def test_window_reads_no_record_of_other_jobs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 tables do not cost a window of ten what they would cost the whole grid."""
    for name in ("apples", "bees", "cars"):
        for number in (1, 2, 3, 4):
            world.run(world.job(name), day(number), [1])
    whole = shown(world, start=barrier(1), end=barrier(3))
    read, scanned = list[str](), list[str]()
    reads, scans = world.store.read, world.store.scan

    def noted(domain: Any, keys: Any, **rest: Any) -> Any:
        read.extend(f"{key.partition}{key.item}" for key in keys)
        return reads(domain, keys, **rest)

    def noted_scan(domain: Any, kind: Any, partition: str, **rest: Any) -> Any:
        scanned.append(partition)
        return scans(domain, kind, partition, **rest)

    monkeypatch.setattr(world.store, "read", noted)
    monkeypatch.setattr(world.store, "scan", noted_scan)
    found = grid(
        world.store, DOMAIN, start=barrier(1), end=barrier(3), tables=["bees"], jobs=[JobName("bees")]
    )
    assert found.rows == whole.rows[1:2]
    assert found.rows[0].reaches == barrier(4)
    assert set(scanned) == {"bees"}
    assert not [name for name in read if "apples" in name or "cars" in name]


def test_delay_counts_to_the_first_publish_of_an_epoch(world: World) -> None:
    """A revision does not make an epoch late; of many epochs the latest are there."""
    for number in (1, 2, 3):
        world.run(world.job("d"), day(number), [1])
    before = delays(world.store, DOMAIN, TableName("d"), end=None, limit=9)
    world.clock.advance(timedelta(hours=1))
    world.run(world.job("d"), day(2), [1, 2], owner("again", generation=1))
    found = delays(world.store, DOMAIN, TableName("d"), end=None, limit=9)
    assert found == before
    assert [epoch.end for epoch in found.epochs] == [barrier(1), barrier(2), barrier(3)]
    assert [epoch.at - epoch.delay for epoch in found.epochs] == [epoch.end for epoch in found.epochs]
    assert delays(world.store, DOMAIN, TableName("d"), end=None, limit=1).epochs == found.epochs[2:]
    assert delays(world.store, DOMAIN, TableName("d"), end=barrier(2), limit=9).epochs == found.epochs[:2]
    for number in (1, 2):
        world.clock.advance(timedelta(hours=1))
        world.run(world.job("d"), day(3), [1, number], owner("again", generation=number))
    assert delays(world.store, DOMAIN, TableName("d"), end=None, limit=1).epochs == found.epochs[2:]


def test_only_the_tables_that_are_asked_for(world: World) -> None:
    world.run(world.job("j", [world.table("d"), world.table("e")]), day(1))
    world.run(world.job("f"), day(1))
    assert [row.table.name for row in shown(world).rows] == ["f", "d", "e"]
    assert [row.table.name for row in shown(world, tables=["e"]).rows] == ["e"]
    assert [row.table.name for row in shown(world, tables=["e", "f"]).rows] == ["f", "e"]


def test_a_second_table_is_shown_from_where_it_begins(world: World) -> None:
    """R7: an epoch before that, which its job has yet to compute, is none of the table's."""
    for number in (1, 3):
        world.run(world.job("j", [world.table("d")]), day(number))
    world.run(world.job("j", [world.table("d"), world.table("late")]), day(4))
    assert days(world) == [1, 2, 3, 4]
    assert days(world, "late") == [1, 3, 4], "the gap before it is the first table's"
    committed = [interval for interval, cell in cells(world, "late").items() if cell.committed is not None]
    assert committed == [day(4)], "an epoch that its job has computed is shown, with nothing of this table"


def test_a_table_that_another_job_took_over_is_that_jobs(world: World) -> None:
    """R7: once, with what the earlier owner published and without its name; of a job that ended, what it had."""
    for number in (1, 2):
        world.run(world.job("d", [world.table("d"), world.table("left")]), day(number), [number])
    world.coordinator.retire(DOMAIN, "d", reason="replaced", by="ada")
    world.run(world.job("successor", [world.table("d")]), day(3), [3], owner("successor"))
    assert [(row.table.name, row.job) for row in shown(world).rows] == [("left", "d"), ("d", "successor")]
    found = cells(world)
    assert [run_of(found[day(number)]) for number in (1, 2, 3)] == [None, None, "successor"]
    assert [found[day(number)].state for number in (1, 2, 3)] == [EpochState.COMMIT] * 3
    assert [found[day(number)].revision for number in (1, 2, 3)] == [1, 1, 1]
    left = row_of(world, "left")
    assert ([cell.interval for cell in left.cells], left.retired) == ([day(1), day(2)], "replaced (ada)")
    assert days(world, "left", start=barrier(0), end=barrier(9)) == [1, 2], "nothing more is due of it"
    assert left.inactive is None, "it is told as retired"


def test_a_gap_that_a_retired_job_has_left_is_shown(world: World) -> None:
    """R7: up to the last epoch that it computed; nothing is due of it after that."""
    for number in (1, 4):
        world.run(world.job("d"), day(number), [number])
    world.run(world.job("e"), day(6))
    world.coordinator.retire(DOMAIN, "d", reason="replaced", by="ada")
    found = cells(world, start=barrier(0), end=barrier(6))
    assert list(found) == [day(1), day(2), day(3), day(4)]
    assert found[day(2)].state is EpochState.NOTHING


def test_output_that_a_retry_has_adopted_is_its_own(world: World) -> None:
    """R16: it is as far as the attempt that wrote it."""
    attempt = world.begin(world.job("d"), day(1))
    world.write(attempt)
    world.coordinator.complete(attempt)
    world.clock.advance(PAST_TTL)
    assert world.begin(world.job("d"), day(1), owner(try_number=2)).adopted
    found = cells(world)[day(1)]
    assert (found.state, found.sink, found.silent) == (EpochState.PRECOMMIT, EpochState.WRITTEN, False)


def test_a_table_that_one_participant_has_written_does_not_go_back(world: World) -> None:
    """R1, R10: while the others are at it."""
    attempt = world.begin(world.job("d"), day(1), participants=2)
    first, second = (world.coordinator.join(attempt, participant, owner()) for participant in (0, 1))
    world.write(first)
    world.coordinator.processed(second, "d")
    assert cells(world)[day(1)].sink is EpochState.WRITTEN


def test_a_barrier_that_no_cut_can_be_had_at(world: World) -> None:
    """R24: of its table alone."""
    full = world.table("f", kind=TableKind.FULL)
    for number in (1, 2):
        world.run(world.job("f", [full, world.table("d")]), day(number))
    world.retention.expire(DOMAIN, "f", barrier(1))
    assert [cell.expired for cell in cells(world, "f").values()] == [True, False]
    assert [cell.expired for cell in cells(world).values()] == [False, False]


def test_dags_of_the_latest_epochs(world: World) -> None:
    """By their DAGs: the newest epoch of each job counts, whether it is committed or being computed."""
    assert dags_of_jobs(world.store, DOMAIN) == {}
    before, done, still = (replace(owner(), dag_id=name) for name in ("before", "done", "still"))
    world.run(world.job("d"), day(1), by=before)
    assert set(dags_of_jobs(world.store, DOMAIN).values()) == {"before"}
    world.run(world.job("d"), day(2), by=done)
    world.begin(world.job("e"), day(1), still)
    assert set(dags_of_jobs(world.store, DOMAIN).values()) == {"done", "still"}
    world.begin(world.job("d"), day(2), replace(owner("again"), dag_id="again"))
    assert set(dags_of_jobs(world.store, DOMAIN).values()) == {"again", "still"}, (
        "who computes it again, not who did"
    )


def test_dags_of_a_restatements_members(world: World) -> None:
    """All that worked on them, before and within the restatement, and on their jobs' latest epochs."""
    one, other, within, later = (
        replace(owner(), dag_id=name) for name in ("one", "other", "within", "later")
    )
    job = world.job("d")
    for number, by in ((1, one), (2, other), (3, later)):
        world.run(job, day(number), by=by)
    opened = world.coordinator.restatements.open(
        DOMAIN, ["d"], "2024-01-01", name="mend", reason="wrong", by="ada"
    )
    assert dags_of_members(world.store, DOMAIN, opened.members) == {"one", "later"}
    attempt = world.coordinator.begin_within("mend", job, day(1), within)
    assert isinstance(attempt, Attempt)
    assert dags_of_members(world.store, DOMAIN, opened.members) == {"one", "within", "later"}
    world.write(attempt)
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    world.coordinator.restatements.publish(DOMAIN, "mend")
    assert dags_of_members(world.store, DOMAIN, opened.members) == {"one", "within", "later"}


def test_the_author_of_a_skip_is_no_dag_of_its_job(world: World) -> None:
    """No one could have the permission on such a DAG; a job that no DAG worked on has nothing else."""
    job, by_hand = world.job("d"), world.job("e")
    world.run(job, day(1), by=replace(owner(), dag_id="one"))
    world.run(by_hand, day(1), by=replace(owner(), dag_id="ada@laptop"))
    skipped = []
    for name in ("d", "e"):
        world.coordinator.skip(DOMAIN, name, day(2), "nothing came", by="ada")
        skipped.append(JobEpochs(job=JobName(name), intervals=(day(2),)))
    assert dags_of_members(world.store, DOMAIN, skipped[:1]) == {"one"}
    assert dags_of_members(world.store, DOMAIN, skipped[1:]) == {"ada@laptop", "skip by ada"}
