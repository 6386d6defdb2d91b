"""Restatements: committed epochs are computed again with all that has read them, and published whole (R28, R29)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider.domain.epoch import AlreadyCommitted, AlreadyStaged
from airflow_provider.domain.errors import Conflict, DependentReaders, InvalidInput, NotReady, TopologyError
from airflow_provider.domain.interval import Interval
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner, rows, values_of
from tests.contract.restating import NAME, cascade, computed, opened, published, restated, sound, within


def test_a_read_day_is_computed_again_with_all_that_has_read_it(table_world: World) -> None:
    """R18, R28, RES2: nothing is visible before the one commit; then all of it is."""
    world = table_world
    base, daily, total = cascade(world)
    for number in (1, 2, 3):
        computed(world, base, number, [10 * number])
        computed(world, daily, number)
        computed(world, total, number)
    before = {name: world.rows(name)[name] for name in "bdt"}
    assert before["t"] == [(1, 12), (2, 34), (3, 78)]
    opened(world, "b", 2)
    record = world.coordinator.restatements.status(DOMAIN, NAME).record
    assert {found.job: [interval.end for interval in found.intervals] for found in record.members} == {
        "b": [barrier(2)],
        "d": [barrier(2)],
        "t": [barrier(2), barrier(3)],
    }
    with pytest.raises(NotReady):
        within(world, daily, 2)
    restated(world, base, 2, [1000])
    restated(world, daily, 2)
    with pytest.raises(NotReady):
        published(world)
    restated(world, total, 2)
    restated(world, total, 3)
    assert {name: world.rows(name)[name] for name in "bdt"} == before
    head = len(world.commits())
    csn = published(world)
    assert len(world.commits()) == head + 1 == csn
    assert published(world) == csn
    assert world.rows("b", "d", "t") == {
        "b": [(1, 10), (2, 1000), (3, 30)],
        "d": [(1, 11), (2, 1001), (3, 31)],
        "t": [(1, 12), (2, 1014), (3, 1058)],
    }
    assert sound(world)
    assert isinstance(world.coordinator.begin_within(NAME, daily, day(2), owner("restate")), AlreadyCommitted)
    computed(world, base, 4, [40])
    computed(world, daily, 4)
    computed(world, total, 4)
    assert sound(world)


def test_what_is_staged_is_looked_at_first(table_world: World) -> None:
    """R29: a cut of the restatement, and its differences; the approval is of exactly this."""
    world = table_world
    base, daily, total = cascade(world)
    for number in (1, 2):
        for job in (base, daily, total):
            computed(world, job, number, [number] if job is base else None)
    opened(world, "b", 1, needs_approval=True)
    operations = world.coordinator.restatements
    for job, number in ((base, 1), (daily, 1), (total, 1)):
        restated(world, job, number, [100] if job is base else None)
    with pytest.raises(NotReady):
        operations.cut(DOMAIN, NAME, ["t"])
    restated(world, total, 2)
    seen = world.rows_of(operations.cut(DOMAIN, NAME, ["b", "d", "t"]))
    assert seen == {"b": [(1, 100), (2, 2)], "d": [(1, 101), (2, 3)], "t": [(1, 102), (2, 106)]}
    found = operations.differences(DOMAIN, NAME)
    assert {
        name: (values_of(difference.removed), values_of(difference.added))
        for name, difference in found.items()
    } == {
        "b": ([(1, 1)], [(1, 100)]),
        "d": ([(1, 2)], [(1, 101)]),
        "t": ([(1, 3), (2, 7)], [(1, 102), (2, 106)]),
    }
    with pytest.raises(InvalidInput, match="it has no approval"):
        published(world)
    output = operations.status(DOMAIN, NAME).output
    operations.approve(DOMAIN, NAME, output=output, by="boss")
    restated(world, total, 2, [7], owner("restate", generation=1))
    with pytest.raises(InvalidInput, match="boss has approved other rows"):
        published(world)
    with pytest.raises(Conflict):
        operations.approve(DOMAIN, NAME, output=output, by="boss")
    operations.approve(DOMAIN, NAME, output=operations.status(DOMAIN, NAME).output, by="boss")
    published(world)
    assert world.rows("b", "d", "t") == {**seen, "t": [(1, 102), (2, 7)]}
    assert sound(world)


def test_a_restatement_is_taken_back(table_world: World) -> None:
    """R30, RES8: all of its epochs get the rows of before, unless later epochs have read them; retention meanwhile
    deletes none of these rows.
    """
    world = table_world
    base, daily, total = cascade(world)
    for number in (1, 2):
        for job in (base, daily, total):
            computed(world, job, number, [number] if job is base else None)
    before = world.rows("b", "d", "t")
    opened(world, "b", 1)
    for job, number in ((base, 1), (daily, 1), (total, 1), (total, 2)):
        restated(world, job, number, [100] if job is base else None)
    published(world)
    restated_rows = world.rows("b", "d", "t")
    operations, why = world.coordinator.restatements, {"reason": "it was right before", "by": "me"}
    world.clock.advance(timedelta(days=3))
    world.retention.vacuum(DOMAIN)
    computed(world, base, 3, [3])
    computed(world, daily, 3)
    assert world.rows("b", "d", "t") == restated_rows
    operations.open(DOMAIN, ["b"], Interval(barrier(0), barrier(1)), name="in vain", **why)
    world.coordinator.abort(within(world, base, 1, name="in vain"), "it failed")
    operations.abandon(DOMAIN, "in vain", **why)
    csn = operations.revert(DOMAIN, NAME, **why)
    assert operations.revert(DOMAIN, NAME, **why) == csn == len(world.commits())
    assert world.rows("b", "d", "t") == before
    assert sound(world)
    operations.revert(DOMAIN, f"{NAME}-reverted", **why)
    assert world.rows("b", "d", "t", at=barrier(2)) == restated_rows
    with pytest.raises(
        TopologyError, match=f"taken back by '{NAME}-reverted'.* by 'restatement {NAME}-rev.*-rev"
    ):
        operations.revert(DOMAIN, NAME, **why)  # which changes nothing, and must not say that it has
    computed(world, total, 3)
    assert sound(world)


def test_a_restatement_with_later_readers_stays(world: World) -> None:
    """R30: the readers are listed, and nothing is changed."""
    base, daily, _ = cascade(world)
    computed(world, base, 1)
    opened(world, "b", 1)
    restated(world, base, 1, [100])
    published(world)
    computed(world, daily, 1)
    with pytest.raises(DependentReaders, match=r"have read its rows: d \[.*\) read b\."):
        world.coordinator.restatements.revert(DOMAIN, NAME, reason="it was right before", by="me")
    assert world.rows("b") == {"b": [(1, 100)]}


def test_what_is_staged_stays(world: World) -> None:
    """R28: another run finds it; a cleared task computes it again."""
    base, daily, _ = cascade(world)
    computed(world, base, 1)
    computed(world, daily, 1)
    opened(world, "b", 1)
    restated(world, base, 1, [5])
    assert isinstance(world.coordinator.begin_within(NAME, base, day(1), owner("other")), AlreadyStaged)
    again = within(world, base, 1, owner("restate", generation=1))
    write_rows(world.coordinator, again, "b", rows([6], 1))
