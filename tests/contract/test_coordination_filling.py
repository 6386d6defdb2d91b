"""Tables that a committed epoch lacks: a later version of the job fills them, and nothing else stops (R5, R7)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.domain.columns import add
from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt, EpochRecord
from airflow_provider.domain.errors import DependentReaders, FinalError, InvalidInput, NotReady, Unavailable
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Job, increment, previous, state
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.testing.arrow_attempts import read_rows
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner, values_of


def versions(world: World, kind: str = "incremental", **options: Any) -> tuple[Job, Job]:
    """A job before and after it got a second table."""
    first, second = world.table("t1"), world.table("t2", kind=kind)
    return world.job("j", [first], **options), world.job("j", [first, second], **options)


def rolled_back(world: World, kind: str = "incremental", **options: Any) -> Job:
    """Days 1 and 2 of the first version, 3 of the second, 4 of the first again, 5 of the second; r has read all."""
    old, new = versions(world, kind, **options)
    reader = world.job("r", inputs=[increment(old.outputs[0])])
    for number, job in enumerate((old, old, new, old, new), start=1):
        world.run(job, day(number), [number])
        world.run(reader, day(number), [number])
    return new


def committed(world: World, number: int) -> EpochRecord:
    found = world.coordinator.epoch(DOMAIN, world.job("j").name, day(number))
    assert found is not None
    record: EpochRecord = found.record
    return record


@pytest.mark.parametrize("on_rerun", ["new_revision", "keep"])
def test_chg4_rollback_of_a_deployment(table_world: World, on_rerun: str) -> None:
    """R7: the missing epochs are filled by computing them again; what is committed stays, and so do its readers."""
    world = table_world
    new = rolled_back(world, on_rerun=on_rerun)
    before = world.cut("t1")
    published = world.run(new, day(4), [4], owner("cleared"))
    assert (published.revision, [table for table, _ in published.tables]) == (2, ["t2"])
    assert world.rows("t1", "t2") == {
        "t1": [(number, number) for number in range(1, 6)],
        "t2": [(number, number) for number in (3, 4, 5)],
    }
    assert world.cut("t1").states["t1"].ref == before.states["t1"].ref


@pytest.mark.parametrize("in_flight", [True, False], ids=["in flight", "an older version is retried"])
def test_chg4_an_epoch_of_the_version_before(world: World, in_flight: bool) -> None:
    """R7: it commits without the new table, which then waits for it."""
    old, new = versions(world)
    for number in (1, 2):
        world.run(old, day(number), [number])
    attempt = world.begin(old, day(3), owner("run3")) if in_flight else None
    world.run(new, day(4), [4], owner("run4"))
    with pytest.raises(NotReady, match="what is committed of t2 lies behind epochs that it lacks.*doctor"):
        world.cut("t2")
    if attempt is not None:
        world.write(attempt, [3])
        world.coordinator.publish(attempt)
    else:
        world.run(old, day(3), [3], owner("run3"))
    world.run(new, day(3), [3], owner("cleared"))
    assert world.rows("t2") == {"t2": [(3, 3), (4, 4)]}


@pytest.mark.parametrize("kind", ["incremental", "full"])
def test_chg4_a_hole_is_skipped(world: World, kind: str) -> None:
    """R5: the table has nothing there, or what it had before; what was computed stays computed."""
    rolled_back(world, kind, on_rerun="fail")
    skipped = world.coordinator.skip(DOMAIN, "j", day(4), "rolled back", by="me")
    assert [published.interval for published in skipped.published] == [day(4)]
    assert world.coordinator.skip(DOMAIN, "j", day(4), "again", by="me").left == (day(4),)
    assert world.rows("t1") == {"t1": [(number, number) for number in range(1, 6)]}
    assert world.rows("t2", at=barrier(4))["t2"] == ([(3, 3)] if kind == "incremental" else [(4, 3)])
    record = committed(world, 4).committed
    assert record is not None
    assert not record.skipped


def test_chg4_nothing_else_stops_without_a_word(world: World) -> None:
    """R7: doctor names what holds the whole domain back, with the command that ends it."""
    new = rolled_back(world)
    assert world.cuts.cut(DOMAIN, ["r"], consistency="altogether").barrier == barrier(3)

    def found() -> list[tuple[str, str]]:
        symptoms = examine(world.store, world.formats, DOMAIN).symptoms
        return [(symptom.found, symptom.next_step) for symptom in symptoms if symptom.subject == "table t2"]

    ((what, step),) = found()
    assert "has committed 1 epochs in [2024-01-04" in what
    assert "airflow epochs skip j 2024-01-04T00:00:00+00:00/2024-01-05T00:00:00+00:00" in step
    assert "adds these tables" in explain(world.store, DOMAIN, "j", day(4)).next_step
    world.run(new, day(4), [4], owner("cleared"))
    assert found() == []
    assert world.cuts.cut(DOMAIN, ["r"], consistency="altogether").barrier == barrier(5)
    old, _ = versions(world)
    world.run(world.job("j", [*old.outputs, world.table("t3")]), day(6), [6])
    ((what, step),) = found()
    assert (what, step.partition(" --reason")[0]) == (
        "job j no longer declares it, and cuts of the whole domain wait for it",
        "`airflow epochs retire j --table t2",
    )


def test_a_fill_reads_the_inputs_of_the_commit(world: World) -> None:
    """I7: also by an edge that ignores what became of it since, so that both tables are of the same rows."""
    source = world.job("s")
    edge = increment(source.outputs[0], on_upstream_revision="ignore")
    old, new = versions(world, inputs=[edge])
    for number, job in enumerate((old, new, old, new), start=1):
        world.run(source, day(number), [number])
        world.run(job, day(number), [number])
    world.run(source, day(3), [30], owner("cleared"))
    attempt = world.begin(new, day(3), owner("cleared"))
    assert values_of(read_rows(world.coordinator, attempt, "s")) == [(3, 3)]


def test_fill_with_unreadable_inputs_is_refused(world: World) -> None:
    """I7: the newest rows are others; here the columns of an input have changed since."""
    source = world.job("s")
    edge = increment(source.outputs[0], on_upstream_revision="ignore")
    old, new = versions(world, inputs=[edge])
    for number, job in enumerate((old, new, old, new), start=1):
        world.run(source, day(number), [number])
        world.run(job, day(number), [number])
    world.run(source, day(3), [30], owner("cleared"))
    wider = world.table("s", column_changes=[add("note", "string")])
    world.begin(world.job("s", [wider]), day(5))
    before = world.exactly()
    with pytest.raises(Unavailable, match="no longer of s at 2024-01-04") as refused:
        world.begin(new, day(3), owner("cleared"))
    assert "airflow epochs skip" in refused.value.next_step
    assert world.exactly() == before
    world.coordinator.skip(DOMAIN, new.name, day(3), "its source is gone", by="ada")
    assert world.rows("t1", "t2")["t2"] == [(2, 2), (4, 4)]


def test_a_fill_of_other_rows_is_refused(world: World) -> None:
    """I7: the code, or what it reads beside its inputs, is another one by now: the tables would not belong together."""
    new = rolled_back(world)
    before = committed(world, 4).committed
    with pytest.raises(InvalidInput, match="of t1 it has computed 2 rows, and 1 are committed"):
        world.run(new, day(4), [4, 5], owner("cleared"))
    assert committed(world, 4).committed == before


@pytest.mark.parametrize("determinism", ["keep_first", "replace_cascade"])
def test_nondeterministic_job_without_readers_recomputes_all_tables(world: World, determinism: str) -> None:
    """R7: then all of its tables are computed again together, where no job has read them."""
    new = rolled_back(world, determinism=determinism)
    with pytest.raises(DependentReaders):
        world.begin(new, day(4), owner("cleared"))


def test_a_fill_where_no_epoch_may_be_computed_again(world: World) -> None:
    """R7: ``on_rerun="fail"`` is kept; a retry of what committed is answered as before."""
    new = rolled_back(world, on_rerun="fail")
    with pytest.raises(FinalError, match="is committed"):
        world.begin(new, day(4), owner("cleared"))
    assert isinstance(world.coordinator.begin(new, day(4), owner()), AlreadyCommitted)


def test_reader_of_a_filled_table_depends_on_inputs_of_both_revisions(world: World) -> None:
    """R18: the filled epoch depends on all that its tables were computed from, in both revisions."""
    source = world.job("s")
    old, new = versions(world, inputs=[increment(source.outputs[0])])
    for number, job in enumerate((old, new, old, new), start=1):
        world.run(source, day(number), [number])
        world.run(job, day(number), [number])
    world.run(new, day(3), [3], owner("cleared"))
    with pytest.raises(DependentReaders, match=r"j \[2024-01-03"):
        world.begin(source, day(3), owner("cleared"))
    world.run(world.job("r", inputs=[state(new.outputs[1])], origin=barrier(1)), day(3))


def test_extra_output_of_a_fill_is_vacuumed(table_world: World) -> None:
    """R16: the tables that stay have been written again; a day later nothing of it is left."""
    new = rolled_back(table_world)
    table_world.run(new, day(4), [4], owner("cleared"))
    tables = ("t1", "t2", "r")
    assert len(table_world.data() - table_world.newest_data(*tables)) == 1
    rows = table_world.rows("t1", "t2")
    table_world.clock.advance(table_world.coordinator.defaults.orphan_grace * 2)
    table_world.retention.vacuum(DOMAIN)
    assert table_world.data() == table_world.newest_data(*tables)
    assert table_world.rows("t1", "t2") == rows


def test_a_fill_outlives_a_merge_of_the_rewrites_in_the_log(world: World) -> None:
    """R13, R7: what its commit has read cannot be computed again, whatever the fence's hull meets."""
    few = replace(DEFAULTS, rewrites_remembered=1)
    world.coordinator.context = replace(world.coordinator.context, defaults=few)
    source = world.job("d")
    for number in (1, 2, 3, 4):
        world.run(source, day(number), [number])
    world.run(source, day(4), [40], owner("before it is read"))
    old, new = versions(world, inputs=[increment(source.outputs[0])], origin=day(3).start)
    world.run(new, day(3), [3])
    world.run(old, day(4), [40])
    for number in (1, 2):
        world.run(source, day(number), [number * 10], owner("later"))
    assert [table for table, _ in world.run(new, day(4), [40], owner("cleared")).tables] == ["t2"]
    assert world.rows("t2") == {"t2": [(3, 3), (4, 40)]}
    with pytest.raises(DependentReaders):
        world.begin(source, day(4), owner("again"))


@pytest.mark.parametrize("kind", ["incremental", "full"])
def test_reader_of_a_left_table_gets_a_working_next_step(world: World, kind: str) -> None:
    """R7: running or skipping the job as it is declared writes the table no more."""
    old, new = versions(world, kind)
    reader = world.job("r", inputs=[new.outputs[1]])
    world.run(new, day(1), [1])
    world.run(old, day(2), [2])
    world.coordinator.register(world.job("j", [new.outputs[0]], inactive_after=9))
    world.run(reader, day(1), [1])
    with pytest.raises(NotReady, match="t2: needs") as raised:
        world.begin(reader, day(2))
    told = str(raised.value)
    assert "job j no longer declares t2: declare it again" in told
    assert "; or leave t2 out of job r" in told
    assert "job j no longer declares t2" in explain(world.store, DOMAIN, "r", day(2)).next_step
    again = world.job("j", new.outputs, inactive_after=8)
    world.run(again, day(2), [2], owner("declared again"))
    world.run(reader, day(2), [2])


def test_a_hole_below_a_table_that_its_job_has_left(world: World) -> None:
    """R7, R12: the error names all of what ends it: the table's job is to declare it before its epochs are run."""
    old, new = versions(world, origin=None)
    reader = world.job("r", inputs=[state(new.outputs[1])], origin=barrier(3))
    for number in (4, 1):
        world.run(new, day(number), [number])
    for number in (2, 3):
        world.run(old, day(number), [number])
    world.coordinator.register(world.job("j", [new.outputs[0]], origin=None, inactive_after=9))
    with pytest.raises(
        NotReady, match="job j no longer declares t2: declare it again.* and run job j for all"
    ):
        world.begin(reader, day(4))
    again = world.job("j", new.outputs, origin=None, inactive_after=8)
    world.coordinator.register(again)
    with pytest.raises(NotReady, match="Next step: run job j for all") as raised:
        world.begin(reader, day(4))
    assert "no longer declares" not in str(raised.value)
    world.run(again, day(2), [2], owner("cleared"))
    world.coordinator.skip(DOMAIN, "j", day(3), "nothing", by="me")
    world.run(reader, day(4), [4])


def test_a_reader_of_a_retired_table_is_told_to_leave_it_out(world: World) -> None:
    """R7: nothing more comes of it, unless its job is brought back."""
    _, new = versions(world)
    reader = world.job("r", inputs=[new.outputs[1]])
    world.run(new, day(1), [1])
    world.coordinator.retire(DOMAIN, "j", reason="another goes on", by="me")
    with pytest.raises(
        NotReady, match="leave t2 out of job r: nothing more comes of it, or `airflow epochs revive j`"
    ):
        world.begin(reader, day(2))
    world.coordinator.revive(DOMAIN, "j")
    world.run(new, day(2), [2])
    world.run(reader, day(2), [2])


def test_unregistered_job_gets_its_missing_inputs(world: World) -> None:
    """R12: also of its own past, which it is about to register."""
    table = world.table("t")
    with pytest.raises(NotReady, match="t: needs"):
        world.begin(world.job("j", [table], inputs=[previous(table)]), day(2))


def test_a_fill_adopts_no_output_of_a_whole_revision(world: World, tmp_path: Path) -> None:
    """R7, R16: its table begins meanwhile where the epoch lacks it; one epoch's tables are of the same files."""
    folder = tmp_path / f"{day(2).start:%Y-%m-%d}"
    folder.mkdir()
    (folder / "a.csv").touch()
    feed = FileSource("feed", f"{tmp_path}/{{start:%Y-%m-%d}}/*.csv", complete=none_needed(), late="revision")
    both = [world.table("d"), world.table("d2")]
    old, more = (world.job("d", outputs, inputs=[feed], origin=None) for outputs in (both[:1], both))

    def compute(job: Job, number: int, by: Owner) -> Attempt:
        attempt = world.begin(job, day(number), by, sources=SourceReaders())
        if not attempt.adopted:
            world.write(attempt, [len(attempt.sources[0].files)])
            world.coordinator.complete(attempt)
        return attempt

    world.coordinator.register(old)
    world.coordinator.register(more)
    world.coordinator.publish(compute(old, 2, owner("older")))
    (folder / "late.csv").touch()
    compute(more, 2, owner("again"))  # its process dies
    world.coordinator.publish(compute(more, 1, owner("day 1")))
    tried = compute(more, 2, owner("again", try_number=2))
    assert not tried.adopted
    world.coordinator.publish(tried)
    assert world.rows("d", "d2", at=day(2).end) == {"d": [(1, 0), (2, 1)], "d2": [(1, 0), (2, 1)]}
