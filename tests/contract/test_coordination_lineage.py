"""From which epochs and bounds of sources a state was computed, as ``airflow epochs provenance`` tells it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider.coordination.reading.lineage import Lineage, lineage
from airflow_provider.domain.errors import EpochError, NotReady, UnknownName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.source_bounds import BoundFile, FileSource, SourceBounds
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import EdgeKind, Job, increment, previous, state
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner

FEED = FileSource("feed", "/nowhere/{start:%Y-%m-%d}.csv")


def land(world: World, number: int, *, generation: int = 0) -> None:
    """Compute one day of the table ``raw`` from a file of the source ``feed``."""
    job = world.job("raw", inputs=[FEED])
    file = BoundFile(uri=f"/nowhere/{number}.csv", size_bytes=number)
    bounds = {"feed": SourceBounds(source="feed", files=(file,))}
    attempt = world.begin(job, day(number), owner(generation=generation), sources=bounds)
    world.write(attempt)
    world.coordinator.complete(attempt)
    world.coordinator.publish(attempt)


def epochs(found: Lineage, table: str) -> list[tuple[Interval, int]]:
    return [(each.interval, each.revision) for each in found.of(table).slices]


def test_lineage_leads_to_the_bounds_of_sources(world: World) -> None:
    """Section 5: ranges, CSNs and revisions of every table upstream, and what of the sources was read."""
    for number in (1, 2, 3):
        land(world, number)
    clean = world.job("clean", inputs=[increment(world.table("raw"))])
    report = world.job("report", inputs=[state(world.table("clean"))], origin=barrier(1))
    for number in (1, 2):
        world.run(clean, day(number))
    world.run(report, day(2))
    found = lineage(world.store, DOMAIN, "report", barrier(2))
    assert [(each.table, each.depth) for each in found.tables] == [("report", 0), ("clean", 1), ("raw", 2)]
    assert epochs(found, "report") == [(day(2), 1)]
    assert epochs(found, "clean") == epochs(found, "raw") == [(day(1), 1), (day(2), 1)]
    (read,) = found.of("report").reads
    assert (read.reader, read.table, read.kind, read.low, read.high, read.csns) == (
        "report",
        "clean",
        EdgeKind.STATE,
        None,
        barrier(2),
        (5, 5),
    )
    (read,) = found.of("clean").reads
    assert (read.low, read.high, read.csns, read.epochs) == (barrier(0), barrier(2), (3, 4), 2)
    (source,) = found.of("raw").sources
    assert [(interval, bounds.files[0].uri) for interval, bounds in source.bounds] == [
        (day(1), "/nowhere/1.csv"),
        (day(2), "/nowhere/2.csv"),
    ]


def test_what_came_later_is_no_lineage(world: World) -> None:
    """R3: later revisions and later epochs of an input were not read; the former inputs of a revision are not known."""
    raw = world.job("raw", inputs=[world.table("seed")])
    seed = world.job("seed")
    for number in (1, 2):
        world.run(seed, day(number))
        world.run(raw, day(number))
    reader = world.job("reader", inputs=[state(world.table("raw"), on_upstream_revision="ignore")])
    world.run(reader, day(1))
    world.run(raw, day(1), by=owner("again"))
    found = lineage(world.store, DOMAIN, "reader", barrier(1))
    assert epochs(found, "raw") == [(day(1), 1)]
    assert [(each.interval, each.revision) for each in found.of("raw").recomputed] == [(day(1), 1)]
    assert found.of("raw").reads == ()
    assert [each.table for each in found.tables] == ["reader", "raw"]
    again = lineage(world.store, DOMAIN, "raw", barrier(1))
    assert epochs(again, "raw") == [(day(1), 2)]
    assert epochs(again, "seed") == [(day(1), 1)]


def test_rows_of_an_earlier_revision_keep_their_lineage(world: World) -> None:
    """R7: a fill leaves the other tables alone; what they were computed from stays known."""
    seed = world.job("seed")
    world.run(seed, day(1))
    one = world.job("both", [world.table("one")], inputs=[world.table("seed")])
    world.run(one, day(1))
    two = world.job("both", [world.table("one"), world.table("two")], inputs=[world.table("seed")])
    world.run(two, day(1), by=owner("again"))
    for table, revision in (("one", 1), ("two", 2)):
        found = lineage(world.store, DOMAIN, table, barrier(1))
        assert epochs(found, table)[0][0] == day(1)
        assert found.of(table).recomputed == ()
        assert epochs(found, "seed") == [(day(1), 1)], revision


@pytest.mark.parametrize("kind", list(TableKind))
def test_own_past_ends_at_the_origin(world: World, kind: TableKind) -> None:
    """Section 4: a table that reads its own past is told once, with all epochs of it."""
    total = world.table("total", kind=kind)
    job: Job = world.job("total", [total], inputs=[previous(total)])
    for number in range(1, 6):
        world.run(job, day(number))
    found = lineage(world.store, DOMAIN, "total", barrier(4))
    assert [each.table for each in found.tables] == ["total"]
    assert epochs(found, "total") == [(day(number), 1) for number in range(1, 5)]


def test_two_ways_to_one_table_are_joined(world: World) -> None:
    """Section 4: each way has its own range; the table is told once, with the slices of both."""
    raw = world.job("raw")
    for number in (1, 2, 3):
        world.run(raw, day(number))
    left = world.job("left", inputs=[increment(world.table("raw"))])
    later = increment(world.table("raw"), as_of=timedelta(days=1))
    right = world.job("right", inputs=[later], origin=barrier(1))
    top = world.job("top", inputs=[world.table("left"), world.table("right")], origin=barrier(2))
    for job in (left, right):
        for number in (2, 3) if job is right else (1, 2, 3):
            world.run(job, day(number))
    world.run(top, day(3))
    found = lineage(world.store, DOMAIN, "top", barrier(3))
    assert [each.table for each in found.tables] == ["top", "left", "raw", "right"]
    assert epochs(found, "raw") == [(day(2), 1), (day(3), 1)]


@pytest.mark.parametrize(
    ("table", "number", "error"), [("nix", 1, UnknownName), ("raw", 2, NotReady), ("raw", 0.5, NotReady)]
)
def test_states_that_are_not_there_have_no_lineage(
    world: World, table: str, number: float, error: type[EpochError]
) -> None:
    """R22: an unknown table, a barrier that is not reached, and none of its calendar."""
    world.run(world.job("raw"), day(1))
    with pytest.raises(error):
        lineage(world.store, DOMAIN, table, barrier(number))
