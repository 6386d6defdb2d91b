"""Tables that keep rows of an epoch whose next revision does not write them: what these have read stays (R7, R18)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.upkeep.bind import bind
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.epoch import Commitment
from airflow_provider.domain.errors import DependentReaders, TopologyError
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.records import epoch_key
from airflow_provider.domain.source_declarations import FileSource
from airflow_provider.domain.staying import MOST_STAYED, Stayed, after_commit
from airflow_provider.domain.topology import Job, increment
from airflow_provider.sources.readers import SourceReaders
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner
from tests.contract.test_coordination_source_revisions import compute, feed, land

HOW = pytest.mark.parametrize("how", ["left", "older"])


def less_and_more(world: World, how: str, *inputs: Any, less: tuple[Any, ...] = ()) -> list[Job]:
    """Job D without and with its table d2: it comes to leave that, or an older version of its DAG has not got it."""
    both = [world.table("d"), world.table("d2")]
    declarations = [
        world.job("d", outputs=both[:1], inputs=less),
        world.job("d", outputs=both, inputs=inputs),
    ]
    if how == "older":
        for declared in declarations:
            world.coordinator.register(declared)
    return declarations


def committed(world: World) -> Commitment:
    key = epoch_key(DOMAIN, world.job("d").name, day(1).start)
    found: Commitment | None = world.store.read(DOMAIN, [key]).records[key].record.committed
    assert found is not None
    return found


@HOW
def test_no_part_of_an_epoch_reads_a_later_revision(world: World, tmp_path: Path, how: str) -> None:
    """I11, R18: d would have the file that came late, d2 would not, and a job that reads both could not tell."""
    source = feed(tmp_path)
    less, more = less_and_more(world, how, source, less=(source,))
    land(tmp_path, 1, x="1")
    compute(world, more, 1)
    if how == "left":
        world.coordinator.register(less)
    assert compute(world, less, 1, owner("nothing new")) == 1
    land(tmp_path, 1, y="100")
    before = world.exactly()
    with pytest.raises(TopologyError, match="lacks d2: these rows would stay") as refused:
        world.begin(less, day(1), owner("again"), sources=SourceReaders())
    step = "declare d2 again" if how == "left" else "by the newest declaration"
    assert step in refused.value.next_step
    assert world.exactly() == before
    if how == "left":
        more = world.job("d", outputs=more.outputs, inputs=[source], inactive_after=9)
        world.coordinator.register(more)
    assert compute(world, more, 1, owner("whole")) == 2
    assert world.rows("d", "d2") == {"d": [(1, 101)], "d2": [(1, 101)]}


@HOW
def test_rows_that_stay_stand_on_their_source(world: World, tmp_path: Path, how: str) -> None:
    """I11: d is computed again without the source; d2 was computed from it, so that no other job reads it anew."""
    less, more = less_and_more(world, how, feed(tmp_path))
    e = world.job("e", inputs=[feed(tmp_path)])
    land(tmp_path, 1, x="1")
    compute(world, more, 1)
    world.run(less, day(1), [7], owner("again"))
    land(tmp_path, 1, y="100")
    assert compute(world, e, 1) == 1
    with pytest.raises(DependentReaders, match="d has committed what it computed from that"):
        world.begin(e, day(1), owner("again"), sources=SourceReaders())
    if how == "left":
        with pytest.raises(TopologyError, match="no longer declares d2"):
            bind(world.coordinator.context, DOMAIN, "feed", day(1), SourceReaders(), reason="late", by="ada")


@pytest.mark.parametrize("leaves", [True, False])
def test_a_late_file_that_only_rows_of_a_left_table_have_read_is_named(
    world: World, tmp_path: Path, leaves: bool
) -> None:
    """I11: with the table, its job leaves its source; the epoch is computed again without the late file."""
    both = [world.table("d"), world.table("d2")]
    source = feed(tmp_path, late="next")
    more = world.job("d", outputs=both, inputs=[source])
    for number in (1, 2):
        land(tmp_path, number, x="1")
        compute(world, more, number)
    land(tmp_path, 1, late="100")
    land(tmp_path, 3, x="1")
    assert compute(world, more, 3) == 1
    renamed = FileSource("feed_2", source.location, complete=source.complete)
    other = world.job("d", outputs=both[:1] if leaves else both, inputs=[renamed])
    compute(world, other, 3, owner("cleared"))
    found = [
        f"{symptom.found} {symptom.next_step}"
        for symptom in examine(world.store, world.formats, DOMAIN).symptoms
    ]
    assert any("1 came late" in text and "/late" in text for text in found), found


@HOW
def test_rows_that_stay_are_readers_of_their_inputs(world: World, how: str) -> None:
    """R18: d2 was computed from a; that d is computed again, without a, does not let a change beneath d2."""
    a = world.job("a")
    less, more = less_and_more(world, how, increment(world.table("a")))
    world.run(a, day(1), [1])
    world.run(more, day(1), [1])
    world.run(less, day(1), [7], owner("again"))
    with pytest.raises(DependentReaders, match="d .* read a"):
        world.begin(a, day(1), owner("again"))
    if how == "left":  # nothing of d2 stays once all tables are computed without a
        more = world.job("d", outputs=more.outputs)
        world.coordinator.register(more)
        world.run(more, day(1), [7], owner("whole"))
        world.run(a, day(1), [100], owner("again"))


@HOW
def test_rows_that_stay_keep_their_label(world: World, how: str) -> None:
    """R18: what an edge that ignores revisions has let go is still told once d alone is computed from what is there."""
    a = world.job("a")
    edge = increment(world.table("a"), on_upstream_revision="ignore")
    less, more = less_and_more(world, how, edge, less=(edge,))
    world.run(a, day(1), [1])
    world.run(more, day(1), [1])
    for number in (2, 3, 4):
        world.run(a, day(1), [number], owner(f"a{number}"))
        world.run(less, day(1), [number], owner(f"d{number}"))
    assert "d2" in {str(found.table) for found in world.cut("a", "d2").outdated}
    assert [read.csn for read in committed(world).inputs] == [1, 7]


def test_doctor_tells_a_table_that_its_job_has_left(world: World) -> None:
    """R7: a job waits for it, though it has been written before."""
    less, more = less_and_more(world, "left")
    x = world.job("x", inputs=[increment(world.table("d2"))])
    world.run(more, day(1))
    world.run(x, day(1))
    world.run(less, day(2))
    found = [symptom.found for symptom in examine(world.store, world.formats, DOMAIN).symptoms]
    assert "it waits for d2, which its job d has left" in found


def labels(*cuts: Cut) -> list[tuple[str, str, str, int]]:
    return [(label.table, label.source, label.job, label.csn) for cut in cuts for label in cut.outdated]


@HOW
def test_rows_of_an_earlier_revision_carry_a_label(world: World, how: str) -> None:
    """R18: a cut of d and d2 shows two computations of one epoch, and says so; so does what was computed from d2."""
    less, more = less_and_more(world, how)
    x = world.job("x", inputs=[increment(world.table("d2"))])
    for number in (1, 2):
        world.run(more, day(number), [1])
        world.run(x, day(number), [1])
    before = world.cut("d", "d2", "x")
    again = world.run(less, day(1), [7], owner("again"))
    assert world.rows("d", "d2") == {"d": [(1, 7), (2, 1)], "d2": [(1, 1), (2, 1)]}
    own, read = ("d2", "d2", "d", again.csn), ("x", "d2", "d", again.csn)
    mixed = world.cut("d", "d2", "x")
    assert labels(mixed) == [own, read]
    assert {(label.start, label.end) for label in mixed.outdated} == {(day(1).start, day(1).end)}
    assert str(mixed.outdated[0]) == mixed.notes[0]
    assert mixed.notes[0].endswith(
        f"are of an earlier revision of job d than its other tables have (since CSN {again.csn})"
    )
    assert "were computed from rows of d2 that are of" in mixed.notes[1]
    assert labels(world.cut("d2")) == [own]
    assert labels(world.cut("d")) == []
    assert world.cuts.outdated(DOMAIN, before.states, before.csn) == (), "of before the new revision"
    assert "d2: rows from" in explain(world.store, DOMAIN, "d", day(1)).outdated[0]
    [found] = [
        symptom
        for symptom in examine(world.store, world.formats, DOMAIN).symptoms
        if symptom.subject == "table d2"
    ]
    assert "an earlier revision" in found.found
    assert not found.urgent

    third = world.run(less, day(1), [8], owner("once more"))
    assert labels(world.cut("d", "d2")) == [own], f"since then, not since CSN {third.csn}"


@HOW
def test_the_label_ends_when_the_epoch_is_computed_with_the_table(world: World, how: str) -> None:
    """R18: and a cut of before still has it; the epochs beside it keep theirs."""
    less, more = less_and_more(world, how)
    for number in (1, 2, 3):
        world.run(more, day(number), [1])
        world.run(less, day(number), [7], owner("again"))
    mixed = world.cut("d", "d2")
    if how == "left":
        more = world.job("d", outputs=more.outputs, inactive_after=9)
        world.coordinator.register(more)
    assert labels(world.cut("d", "d2")) == labels(mixed) != [], "declared again, and not computed yet"
    world.run(more, day(1), [8], owner("whole"))
    world.run(more, day(3), [8], owner("whole"))
    found = world.cut("d", "d2")
    assert [(label.start, label.end) for label in found.outdated] == [(day(2).start, day(2).end)]
    world.run(more, day(2), [8], owner("whole"))
    assert world.cut("d", "d2").outdated == ()
    assert world.cuts.outdated(DOMAIN, mixed.states, mixed.csn) == mixed.outdated
    assert world.cuts.outdated(DOMAIN, found.states, found.csn) == found.outdated


def test_a_fill_and_a_skip_mix_nothing(world: World) -> None:
    """R7, R18: what lacks is added to what is committed, from what that has read; other tables belong to it."""
    tables = [world.table(name) for name in ("d", "d2", "d3")]
    older = world.job("d", outputs=tables[:2])
    world.run(older, day(1), [1])
    world.run(world.job("d", outputs=tables), day(2), [2])
    for number in (3, 4):
        world.run(older, day(number), [number])
    left = world.job("d", outputs=[tables[0], tables[2]])
    world.coordinator.register(left)
    filled = world.run(left, day(3), [3], owner("fills"))
    assert [name for name, _ in filled.tables] == ["d3"]
    world.coordinator.skip(DOMAIN, "d", day(4), "nothing", by="ada")
    cut = world.cut("d", "d2", "d3")
    assert cut.barrier == barrier(4)
    assert cut.outdated == ()


def test_nondeterministic_job_recomputes_all_its_tables(world: World) -> None:
    """R7, R18: a job that is not deterministic computes all its tables anew, and those that it has left stay."""
    options: dict[str, Any] = {"determinism": "keep_first"}
    world.run(world.job("d", outputs=[world.table("d2")], **options), day(1), [1])
    other = world.job("d", **options)
    world.coordinator.register(other)
    again = world.run(other, day(1), [7], owner("again"))
    assert labels(world.cut("d", "d2")) == [("d2", "d2", "d", again.csn)]


def test_copies_and_a_successor_keep_the_label(world: World) -> None:
    """R5, R7, R18: the rows are what they were, in the copy of a full table and when another job has the table."""
    both = [world.table("d"), world.table("d2", kind="full")]
    world.run(world.job("d", outputs=both), day(1), [1])
    world.coordinator.skip(DOMAIN, "d", day(2), "nothing", by="ada")
    less = world.job("d", outputs=both[:1])
    world.coordinator.register(less)
    again = world.run(less, day(1), [7], owner("again"))
    label = [("d2", "d2", "d", again.csn)]
    assert labels(world.cut("d", "d2", at=barrier(1)), world.cut("d", "d2", at=barrier(2))) == 2 * label
    world.coordinator.retire(DOMAIN, "d", table="d2", reason="over", by="ada")
    successor = world.job("h", outputs=both[1:])
    world.run(successor, day(3), [1])
    assert labels(world.cut("d2", at=barrier(1)), world.cut("d2", at=barrier(2))) == 2 * label
    assert labels(world.cut("d2", at=barrier(3))) == [], "a state of its own"


def test_entries_of_rows_that_stay_are_bounded() -> None:
    """R18: neighbours become one, no label is lost, and a part that is computed again ends by itself."""
    stayed: tuple[Stayed, ...] = ()
    name, table = JobName("d"), TableName("d2")
    days = range(1, MOST_STAYED + 50)
    for number in days:
        stayed = after_commit(stayed, name, day(number), written=(), stay=[table], csn=number)
    assert len(stayed) == MOST_STAYED
    assert all(any(row.is_of(name, table, day(number)) for row in stayed) for number in days)
    stayed = after_commit(stayed, name, day(2), written=[table], stay=(), csn=1000)
    assert [number for number in days if not any(row.is_of(name, table, day(number)) for row in stayed)] == [
        2
    ]
    assert [(row.interval, row.until) for row in stayed if row.until] == [(day(2), 1000)]
    assert after_commit(stayed, name, day(2), written=[table], stay=(), csn=1001) == stayed
