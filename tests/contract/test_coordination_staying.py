"""Tables that keep rows of an epoch whose next revision does not write them: what these have read stays (R7, R18)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.binding import bind
from airflow_provider.coordination.doctor import examine
from airflow_provider.domain.epoch import Commitment
from airflow_provider.domain.errors import DependentReaders, TopologyError
from airflow_provider.domain.records import epoch_key
from airflow_provider.domain.topology import EpochJob, increment
from airflow_provider.sources.roots import RootSources
from tests.contract.coordination_world import DOMAIN, World, day, owner
from tests.contract.test_coordination_root_revisions import compute, feed, land

HOW = pytest.mark.parametrize("how", ["left", "older"])


def less_and_more(world: World, how: str, *inputs: Any, less: tuple[Any, ...] = ()) -> list[EpochJob]:
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
    root = feed(tmp_path)
    less, more = less_and_more(world, how, root, less=(root,))
    land(tmp_path, 1, x="1")
    compute(world, more, 1)
    if how == "left":
        world.coordinator.register(less)
    assert compute(world, less, 1, owner("nothing new")) == 1
    land(tmp_path, 1, y="100")
    before = world.exactly()
    with pytest.raises(TopologyError, match="lacks d2: these rows would stay") as refused:
        world.begin(less, day(1), owner("again"), roots=RootSources())
    step = "declare d2 again" if how == "left" else "by the newest declaration"
    assert step in refused.value.next_step
    assert world.exactly() == before
    if how == "left":
        more = world.job("d", outputs=more.outputs, inputs=[root], lapses_after=9)
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
        world.begin(e, day(1), owner("again"), roots=RootSources())
    if how == "left":
        with pytest.raises(TopologyError, match="no longer declares d2"):
            bind(world.coordinator, DOMAIN, "feed", day(1), RootSources(), reason="late", by="ada")


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
