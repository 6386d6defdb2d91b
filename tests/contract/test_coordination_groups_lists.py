"""The jobs that a commit group's list names: misspelt, dropped, moved (R7, R39, R40)."""

from __future__ import annotations

import pytest

from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.domain.errors import NotReady, TopologyError
from airflow_provider.domain.topology import Group, increment
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner
from tests.contract.groups import DAY_1, WHY, Chain, committed


def _two(world: World, name: str = "two") -> Chain:
    """The first two jobs, as a group of their own."""
    group = Group(name, jobs=["b", "d"])
    daily = world.job("d", inputs=[increment(world.table("b"))], group=group)
    return Chain(world, (world.job("b", group=group), daily, daily))


def test_a_name_that_no_job_has_is_told(world: World) -> None:
    """R40: it is misspelt, its job was dropped, or has not run yet: no skip and no retirement ends that."""
    group = Group("flights", jobs=["b", "dd"])
    base = world.job("b", group=group)
    chain = Chain(world, (base, base, base))
    chain.stage(base)
    with pytest.raises(NotReady, match="1 of 2 jobs are not staged: dd") as caught:
        world.coordinator.restatements.publish(DOMAIN, DAY_1)
    told = explain(world.store, DOMAIN, "b", day(1))
    assert "job dd has never run, or was dropped" in told.summary
    for step in (caught.value.next_step, told.next_step):
        assert "run the tasks of dd" in step
        assert "the list of group 'flights' is wrong" in step
        assert f"restate abandon '{DAY_1}'" in step
    right = _two(world)
    right.stage(right.jobs[0], by=owner(try_number=2))
    right.stage(right.jobs[1])
    assert committed(world) == [["b", "d"]]


def test_a_job_is_not_dropped_while_a_group_names_it(world: World) -> None:
    """R39, R40: the others would wait for it for ever."""
    chain = Chain.of(world)
    chain.run(1)
    world.coordinator.retire(DOMAIN, "t", **WHY)
    plan = world.coordinator.plan_drop(DOMAIN, "job", "t")
    assert plan.obstacles == (
        "the commit group of job b would wait for it",
        "the commit group of job d would wait for it",
    )
    with pytest.raises(TopologyError, match="the commit group of job b, job d would wait for it"):
        world.coordinator.drop(DOMAIN, plan, **WHY)
    two = _two(world)
    two.stage(two.jobs[0], 2)
    two.stage(two.jobs[1], 2)
    plan = world.coordinator.plan_drop(DOMAIN, "job", "t")
    world.coordinator.drop(DOMAIN, plan, **WHY)
    assert committed(world)[1:] == [["b", "d"]]
    assert world.coordinator.restatements.publish(DOMAIN, DAY_1) == 1  # it moves the pointers of what is left


def test_all_jobs_of_a_group_are_dropped_together(world: World) -> None:
    Chain.of(world).run(1)
    plan = world.coordinator.plan_drop(DOMAIN, "job", "b", cascade=True)
    assert plan.obstacles == ()
    world.coordinator.drop(DOMAIN, plan, **WHY, cascade=True)
    Chain.of(world).run(1)
    assert world.rows("t") == {"t": [(1, 12)]}


def test_a_staged_epoch_is_one_that_is_begun(world: World) -> None:
    """R7, R40: it has no lock, and no job would publish it."""
    group = Group("flights", jobs=["b", "c"])
    base, apart = world.job("b", group=group), world.job("c", group=group)
    chain = Chain(world, (base, apart, apart))
    chain.stage(apart, values=[1])
    later = world.job("c", group=group, origin=barrier(1))
    with pytest.raises(TopologyError, match="is being computed"):
        world.coordinator.register(later)
    world.coordinator.restatements.abandon(DOMAIN, DAY_1, **WHY)
    assert world.coordinator.register(later)
    chain.stage(base)
    assert committed(world) == [["b"]]
    assert world.staged() == []
