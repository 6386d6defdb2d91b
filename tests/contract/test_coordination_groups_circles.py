"""Commit groups that would wait for each other are refused when they are declared (R40)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider.coordination.commits.group_declarations import refuse_endless_wait
from airflow_provider.domain.errors import TopologyError
from airflow_provider.domain.topology import Group, Job, increment, previous
from tests.contract.coordination_world import World, day
from tests.contract.groups import Chain, committed, declared

Declared = tuple[Job, ...]


def _two_groups(world: World) -> Declared:
    """Each group has a job that reads the other group."""
    first, second = Group("first", jobs=["a", "b"]), Group("second", jobs=["c", "d"])
    return (
        world.job("a", group=first),
        world.job("d", group=second),
        world.job("c", inputs=[increment(world.table("a"))], group=second),
        world.job("b", inputs=[increment(world.table("d"))], group=first),
    )


def _three_groups(world: World) -> Declared:
    """The circle goes through a job outside of groups, too."""
    first, second = Group("first", jobs=["a", "b"]), Group("second", jobs=["c", "d"])
    return (
        world.job("a", group=first),
        world.job("d", group=second),
        world.job("c", inputs=[increment(world.table("a"))], group=second),
        world.job("x", inputs=[increment(world.table("c"))]),
        world.job("b", inputs=[increment(world.table("x"))], group=first),
    )


def _reader_leaves(world: World) -> Declared:
    """A job reads the group that its list still names."""
    return (*Chain.of(world).jobs, declared(world, None)[2])


def _reader_leaves_through_another(world: World) -> Declared:
    return (
        *Chain.of(world).jobs,
        world.job("x", inputs=[increment(world.table("b"))]),
        world.job("t", inputs=[increment(world.table("x"))]),
    )


CIRCLES = [_two_groups, _three_groups, _reader_leaves, _reader_leaves_through_another]


@pytest.mark.parametrize("declare", CIRCLES)
def test_a_circle_of_commits_is_refused(world: World, declare: Callable[[World], Declared]) -> None:
    *jobs, last = declare(world)
    for job in jobs:
        world.coordinator.register(job)
    with pytest.raises(TopologyError, match="would wait for the other's commit") as refused:
        world.coordinator.register(last)
    assert refused.value.job == last.name
    with pytest.raises(TopologyError):
        world.begin(last, day(1))


@pytest.mark.parametrize("declare", CIRCLES)
def test_a_task_does_not_wait_for_what_never_comes(
    world: World, declare: Callable[[World], Declared]
) -> None:
    """R40: a begin registers a job once its inputs are there; a task that waits for them is told before."""
    *jobs, last = declare(world)
    for job in jobs:
        refuse_endless_wait(world.store, job)
        world.coordinator.register(job)
        refuse_endless_wait(world.store, job)
    with pytest.raises(TopologyError, match="would wait for the other's commit"):
        refuse_endless_wait(world.store, last)


def test_the_epoch_before_makes_no_circle(world: World) -> None:
    first, second = Group("first", jobs=["a", "b"]), Group("second", jobs=["c", "d"])
    world.coordinator.register(world.job("a", group=first))
    world.coordinator.register(world.job("d", group=second))
    world.coordinator.register(world.job("c", inputs=[increment(world.table("a"))], group=second))
    assert world.coordinator.register(world.job("b", inputs=[previous(world.table("d"))], group=first))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_a_group_may_be_renamed_job_by_job(world: World, order: tuple[int, ...]) -> None:
    """R40: a list counts for the jobs that it names: each of them is about to declare it."""
    chain = Chain.of(world)
    chain.run(1)
    chain.stage(chain.jobs[0], 2)
    renamed = declared(world, Group("days", jobs=["b", "d", "t"]))
    for number in order:
        world.coordinator.register(renamed[number])
    Chain(world, (renamed[0], renamed[1], renamed[2])).run(2)
    assert committed(world) == [["b", "d", "t"]] * 2


def test_a_reader_leaves_once_the_others_name_it_no_more(world: World) -> None:
    """The way out that the refusal names."""
    Chain.of(world).run(1)
    two = Group("two", jobs=["b", "d"])
    base = world.job("b", group=two)
    daily = world.job("d", inputs=[increment(world.table("b"))], group=two)
    left = declared(world, None)[2]
    chain = Chain(world, (base, daily, left))
    chain.stage(base, 2)
    chain.stage(daily, 2)
    world.run(left, day(2), [1])
    assert committed(world) == [["b", "d", "t"], ["b", "d"], ["t"]]
