"""Holes in tables that another job goes on with: `doctor` names each, and its command ends it (R5, R7)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.grid import grid
from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.epoch import EpochState
from airflow_provider.domain.errors import InvalidInput, NotReady, TopologyError
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Kind
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Job, increment, previous
from airflow_provider.sources.readers import SourceReaders
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner

FILES = SourceReaders()
WHY = {"reason": "k goes on", "by": "ada"}
_SKIP = re.compile(r"`airflow epochs skip (\w+) (\S+)/(\S+) --reason")


def left(world: World, days: Sequence[int], hole: int, *, kind: str = "incremental", **options: Any) -> Job:
    """Compute *days* of job j, and *hole* among them by an older declaration, which lacks t2."""
    tables = [world.table("t1", kind=kind), world.table("t2", kind=kind)]
    old, new = world.job("j", tables[:1], **options), world.job("j", tables, **options)
    world.coordinator.register(old)
    world.coordinator.register(new)
    for number in days:
        world.run(old if number == hole else new, day(number), [number])
    return new


def retire(world: World, job: Job, *, alone: bool = False) -> None:
    """Retire *job*, or t2 *alone*, which it leaves first."""
    if alone:
        world.coordinator.register(world.job("j", job.outputs[:1], inactive_after=9))
    world.coordinator.retire(DOMAIN, "j", table="t2" if alone else None, **WHY)


def successor(world: World, *names: str, kind: str = "incremental", **options: Any) -> Job:
    return world.job("k", [world.table(name, kind=kind) for name in names], **options)


def commands(world: World) -> list[tuple[str, str, Interval]]:
    """Return what `doctor` says of holes: the table, and the job and the time to skip."""
    found = []
    for symptom in examine(world.store, world.formats, DOMAIN).symptoms:
        command = _SKIP.search(symptom.next_step)
        if symptom.subject.startswith("table ") and command is not None:
            assert "--domain cascade" in symptom.next_step
            start, end = map(datetime.fromisoformat, command.groups()[1:])
            found.append((symptom.subject.removeprefix("table "), command[1], Interval(start, end)))
    return found


def follow(world: World) -> list[tuple[str, Interval]]:
    """Run what `doctor` says until it names no hole; return the tables and the times."""
    done: list[tuple[str, Interval]] = []
    while found := commands(world):
        assert len(done) < 9, done
        for table, job, span in found:
            done.append((table, span))
            world.coordinator.skip(DOMAIN, job, span, "nothing will come", by="me")
    return done


def slices(world: World, table: str) -> set[tuple[str, str]]:
    """Return the recorded slices of *table*: where each begins and its revision, and its job."""
    items = [stamped.key.item.rpartition(":") for stamped in world.store.scan(DOMAIN, Kind.SLICE, table)]
    return {(start, job) for start, _, job in items}


SUCCESSORS = {
    "alone": ("t2", ()),
    "beside a new table": ("t2 u", ()),
    "beside a table that begins before": ("t2 u", (0,)),
    "beside a table that lacks the day": ("t2 u", (1, 3)),
    "beside a table that has the day": ("t2 u", (1, 2, 3)),
    "with both": ("t1 t2", ()),
    "with both and a new table": ("t1 t2 u", ()),
    "with both and a table that has the day": ("t1 t2 u", (1, 2, 3)),
}
"""The tables of the job that goes on, and the days that it has computed of its own table before."""
ENDS = {"the job is retired": False, "the table is retired": True}
_TAKEN_OVER = [
    pytest.param(tables, earlier, alone, id=f"{end}-{successor}")
    for end, alone in ENDS.items()
    for successor, (tables, earlier) in SUCCESSORS.items()
    if not (alone and "t1" in tables)  # then j goes on with t1
]


@pytest.mark.parametrize(("tables", "earlier", "alone"), _TAKEN_OVER)
def test_inherited_hole_is_named_with_its_next_step(
    world: World, tables: str, earlier: tuple[int, ...], alone: bool
) -> None:
    """R5, R7, I1: a reader of the hole goes on, and so do cuts of the whole domain; what j has computed stays."""
    before, own = left(world, (1, 2, 3), 2), world.job("k", [world.table("u")])
    world.coordinator.register(own) if earlier == (0,) else None
    for number in earlier:
        world.run(own, day(number), [number]) if number else None
    retire(world, before, alone=alone)
    job = successor(world, *tables.split())
    world.run(job, day(4), [4])
    reader = world.job("r", inputs=[increment(world.table("t2"))])
    world.run(reader, day(1), [1])
    with pytest.raises(NotReady):
        world.begin(reader, day(2))
    kept = {name: slices(world, name) for name in ("t1", "t2")}
    assert ("t2", day(2)) in follow(world)
    for number in (2, 3, 4):
        world.run(reader, day(number), [number])
    assert slices(world, "t1") == kept["t1"]
    assert [by for _, by in slices(world, "t2") - kept["t2"]] == ["k"]
    assert world.rows("t2") == {"t2": [(1, 1), (3, 3), (4, 4)]}
    if not alone:
        together = [*tables.split(), "r"]
        assert world.cuts.cut(DOMAIN, together, consistency="altogether").barrier == barrier(4)


@pytest.mark.parametrize("tables", ["t2", "t1 t2"])
def test_a_hole_is_ended_before_its_new_job_has_run(world: World, tables: str) -> None:
    """R7: it is enough that the job is registered."""
    retire(world, left(world, (1, 2, 3), 2))
    world.coordinator.register(successor(world, *tables.split()))
    assert follow(world) == [("t2", day(2))]
    assert world.rows("t2") == {"t2": [(1, 1), (3, 3)]}


def test_holes_behind_all_rows_of_a_table_are_named(world: World) -> None:
    """R7: the job before has ended with epochs that lack it, and the next goes on behind them, or has yet to."""
    retire(world, left(world, (1, 2), 2))
    job = successor(world, "t1", "t2")
    world.coordinator.register(job)
    assert [(table, span) for table, _, span in commands(world)] == [("t2", day(2))]
    world.run(job, day(3), [3])
    assert follow(world) == [("t2", day(2))]
    assert world.rows("t1", "t2") == {"t1": [(1, 1), (2, 2), (3, 3)], "t2": [(1, 1), (3, 3)]}


@pytest.mark.parametrize("kind", ["incremental", "full"])
@pytest.mark.parametrize("tables", ["t2", "t1 t2"])
@pytest.mark.parametrize("hole", [1, 2])
def test_a_hole_at_the_beginning_and_of_a_full_table(world: World, tables: str, hole: int, kind: str) -> None:
    """R5, R7: nothing is before the first epoch; a full table has at a skipped barrier what it had before."""
    retire(world, left(world, (1, 2, 3), hole, kind=kind))
    world.run(successor(world, *tables.split(), kind=kind), day(4), [4])
    assert follow(world) == [("t2", day(hole))]
    assert world.cut("t2").barrier == barrier(4)
    if kind == "full" and hole == 2:
        assert world.rows("t2", at=barrier(2)) == {"t2": [(2, 1)]}
    if "t1" in tables:
        assert world.rows("t1", at=barrier(hole))["t1"][-1] == (hole, hole)


@pytest.mark.parametrize("tables", ["t2", "t1 t2"])
@pytest.mark.parametrize("origin", [None, barrier(0), barrier(1)])
def test_a_hole_below_where_a_table_begins(world: World, tables: str, origin: datetime | None) -> None:
    """R7: j declares no origin; t2 begins at day 3 until days 1 and 2 are in."""
    retire(world, left(world, (3, 2, 1), 2, origin=None))
    with pytest.raises(
        TopologyError, match="'t2' goes on at 2024-01-02.* no job would compute the epochs between"
    ):
        world.coordinator.register(successor(world, *tables.split(), origin=barrier(2)))
    world.run(successor(world, *tables.split(), origin=origin), day(4), [4])
    assert follow(world) == [("t2", day(2))]
    assert world.rows("t2") == {"t2": [(1, 1), (3, 3), (4, 4)]}


def test_a_run_over_the_hole_names_the_way_out(world: World) -> None:
    """R7: a job computes no epoch that another has computed for one of its tables, also after the skip."""
    retire(world, left(world, (1, 2, 3), 2))
    job = successor(world, "t1", "t2")
    world.run(job, day(4), [4])
    before = world.rows("t1")
    with pytest.raises(TopologyError, match="'t1' was computed before job 'k'") as refused:
        world.begin(job, day(2), owner("day 2"))
    told = explain(world.store, DOMAIN, "k")
    assert told.interval == day(2)
    for step in (refused.value.next_step, told.next_step):
        assert _SKIP.search(step) is not None
        assert "for t2 alone" in step
    with pytest.raises(TopologyError) as refused:
        world.begin(job, day(3), owner("day 3"))
    assert "skip" not in refused.value.next_step
    assert explain(world.store, DOMAIN, "k", day(3)).next_step == "nothing to do."
    follow(world)
    assert world.coordinator.skip(DOMAIN, "k", day(2), "again", by="me").left == (day(2),)
    assert "skipped by skip by me" in explain(world.store, DOMAIN, "k", day(2)).summary
    with pytest.raises(TopologyError, match="'t1' was computed before job 'k'"):
        world.begin(job, day(2), owner("after the skip"))
    assert world.rows("t1") == before
    cells = {row.table.name: row.cells[1] for row in grid(world.store, DOMAIN).rows}
    assert (cells["t1"].state, cells["t2"].state) == (EpochState.COMMIT, EpochState.SKIPPED)


def test_an_epoch_of_its_own_that_is_no_fill_names_the_way_out(world: World) -> None:
    """R7: all tables would be computed anew, also the one that has the epoch from the job before."""
    retire(world, left(world, (1, 2, 3), 2))
    for number in (1, 2, 3):
        world.run(successor(world, "u"), day(number), [number])
    job = successor(world, "t1", "t2", "u", determinism="keep_first")
    world.run(job, day(4), [4])
    with pytest.raises(TopologyError, match="'t1' was computed before job 'k'") as refused:
        world.begin(job, day(2), owner("cleared"))
    assert "for t2 alone" in refused.value.next_step
    assert follow(world) == [("t2", day(2))]
    assert world.rows("t1", "u", at=barrier(2)) == {"t1": [(1, 1), (2, 2)], "u": [(1, 1), (2, 2)]}


def test_epoch_skipped_for_one_table_can_be_run_later(world: World) -> None:
    """R5: where no other job has computed the epoch for another table."""
    retire(world, left(world, (1, 2, 3), 2))
    job = successor(world, "t2", "u")
    world.run(job, day(4), [4])
    assert follow(world) == [("t2", day(2))], "u begins later, and is not skipped with it"
    world.run(job, day(2), [20], owner("after all"))
    assert world.rows("t2") == {"t2": [(1, 1), (2, 20), (3, 3), (4, 4)]}
    assert follow(world) == [("u", day(3))], "it begins with day 2 by now"
    assert world.rows("t2", "u")["u"] == [(2, 20), (4, 4)]


def test_new_table_without_columns_is_named_with_its_next_step(world: World) -> None:
    """R5, R7: the error of the skip says what goes first, and then the skip works."""
    retire(world, left(world, (1, 2, 3), 2))
    job = successor(world, "t2", "u")
    world.coordinator.register(job)
    ((_, _, span),) = commands(world)
    with pytest.raises(InvalidInput, match="'u' has no columns yet") as refused:
        world.coordinator.skip(DOMAIN, "k", span, "nothing will come", by="me")
    assert "run the job for any other epoch first, then skip this one" in refused.value.next_step
    world.run(job, day(4), [4])
    assert follow(world) == [("t2", day(2))]


def test_a_job_that_builds_on_its_past_goes_on(world: World) -> None:
    """R7, R12: it waits for the hole in its own table, and its errors lead to the skip."""
    retire(world, left(world, (1, 2, 3), 2))
    job = successor(world, "t1", "t2", inputs=[previous(world.table("t2"))])
    with pytest.raises(NotReady, match="the job itself has not committed") as raised:
        world.begin(job, day(4))
    assert _SKIP.search(str(raised.value)) is not None
    world.coordinator.register(job)
    follow(world)
    world.run(job, day(4), [4])


def test_several_holes_are_named_apart(world: World) -> None:
    """R7: those of the job before, and those of the job itself; what may still be computed is not among them."""
    retire(world, left(world, (1, 2, 3), 2))
    world.run(successor(world, "t1", "t2"), day(4), [4])
    old, new = successor(world, "t1", inactive_after=9), successor(world, "t1", "t2", inactive_after=8)
    for number, job in ((5, old), (7, old), (8, new)):
        world.run(job, day(number), [number])
    assert [(table, span) for table, _, span in commands(world)] == [("t2", day(n)) for n in (2, 5, 7)]
    assert len(follow(world)) == 3
    assert world.cut("t2").barrier == barrier(5), "day 6 is yet to be run"


def test_extra_output_of_a_table_skip_is_vacuumed(table_world: World) -> None:
    """R16: the tables that have the epoch were written, too; a day later nothing of it is left."""
    world = table_world
    retire(world, left(world, (1, 2, 3), 2))
    world.run(successor(world, "t1", "t2"), day(4), [4])
    follow(world)
    rows = world.rows("t1", "t2")
    world.clock.advance(world.coordinator.defaults.orphan_grace * 2)
    world.retention.vacuum(DOMAIN)
    assert world.data() == world.newest_data("t1", "t2")
    assert world.rows("t1", "t2") == rows


@pytest.mark.parametrize("reads", ["feed", "feed_2"])
def test_files_that_the_job_before_has_read_are_read(world: World, tmp_path: Path, reads: str) -> None:
    """I11: those of a day that its successor has skipped for a table alone are no files that no epoch reads."""
    feed, other = (
        FileSource(name, f"{tmp_path}/{{start:%Y-%m-%d}}/*.csv", complete=none_needed())
        for name in ("feed", "feed_2")
    )

    def run(job: Job, number: int) -> list[str]:
        attempt = world.begin(job, day(number), sources=FILES)
        world.write(attempt, [number])
        world.coordinator.publish(attempt)
        return [Path(file.uri).name for file in attempt.sources[0].files]

    for number in (1, 2, 3, 4):
        folder = tmp_path / f"{day(number).start:%Y-%m-%d}"
        folder.mkdir()
        (folder / f"{number}.csv").touch()
    tables = [world.table("t1"), world.table("t2")]
    old, new = (world.job("j", tables[:number], inputs=[feed]) for number in (1, 2))
    world.coordinator.register(old)
    world.coordinator.register(new)
    for number, job in ((1, new), (2, old), (3, new)):
        assert run(job, number) == [f"{number}.csv"]
    retire(world, new)
    assert run(world.job("k", tables, inputs=[feed if reads == "feed" else other]), 4) == ["4.csv"]
    assert follow(world) == [("t2", day(2))]
    symptoms = examine(world.store, world.formats, DOMAIN).symptoms
    assert [symptom for symptom in symptoms if symptom.subject.startswith("source ")] == []
    (tmp_path / f"{day(2).start:%Y-%m-%d}" / "late.csv").touch()
    told = [
        symptom.found
        for symptom in examine(world.store, world.formats, DOMAIN).symptoms
        if "source" in symptom.subject
    ]
    assert told, "for the source that the job has, and for the one that it has left"
    assert all("late.csv" in words and "2.csv" not in words for words in told)
