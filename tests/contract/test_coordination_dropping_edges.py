"""Drops that are refused, jobs of a commit group, and tables that were never published (R39, R40)."""

from __future__ import annotations

import pytest

from airflow_provider.coordination.upkeep.rollback import plan_rollback
from airflow_provider.domain.errors import (
    EpochBusy,
    ForeignCommit,
    StoreIncompatible,
    TopologyError,
    UnknownName,
)
from airflow_provider.domain.topology import Group, Job
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, day
from tests.contract.interruptions import Died, interrupted
from tests.contract.test_coordination_dropping import PAST_GRACE, WHY, Between, dropped, without
from tests.contract.test_coordination_foreign import commit


@pytest.mark.parametrize("ended", [False, True])
def test_a_job_of_a_commit_group_is_not_dropped_alone(world: World, ended: bool) -> None:
    """R39, R40: its group would wait for it in silence, also one that goes on without it since it is retired."""
    group = Group("flights", jobs=["a", "d"])
    mate, job = world.job("a", group=group), world.job("d", group=group)
    staged(world, mate, 1)
    staged(world, job, 1)
    if ended:
        world.coordinator.retire(DOMAIN, "d", **WHY)
        staged(world, mate, 2)
    with pytest.raises(TopologyError, match="commit group of job a would wait for it") as refused:
        dropped(world.coordinator)
    assert refused.value.found == "job a"
    assert world.coordinator.plan_drop(DOMAIN, "job", "d", cascade=True).jobs == ("a", "d")
    staged(world, world.job("a"), 3)
    dropped(world.coordinator)
    staged(world, world.job("a"), 4)
    assert {number for number, _ in world.rows("a")["a"]} == ({1, 2, 3, 4} if ended else {1})


def test_the_jobs_of_a_commit_group_are_dropped_together(world: World) -> None:
    """R39, R40: and are published together again, at the same barriers; a job that is retired is no obstacle."""
    group = Group("flights", jobs=["a", "d"])
    jobs = [world.job("a", group=group), world.job("d", group=group)]
    for _ in range(2):
        for job in jobs:
            staged(world, job, 1)
        assert world.rows("a", "d") == {"a": [(1, 1)], "d": [(1, 1)]}
        assert dropped(world.coordinator, cascade=True).jobs == ("a", "d")
    for job in jobs:
        staged(world, job, 1)
    world.coordinator.retire(DOMAIN, "a", **WHY)
    assert dropped(world.coordinator).jobs == ("d",)
    assert world.rows("a") == {"a": [(1, 1)]}


def staged(world: World, job: Job, number: int) -> None:
    """Compute a day, as a task does: its group publishes it, or its run."""
    attempt = world.begin(job, day(number))
    world.write(attempt, [number])
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt) if attempt.restatement else world.coordinator.publish(attempt)


def test_nothing_is_left_of_a_table_that_its_job_has_left_before_its_first_commit(table_world: World) -> None:
    """R24, R39: neither its entry in the catalog nor what was staged for it."""
    world = table_world
    attempt = world.begin(world.job("d", [world.table("d"), world.table("left")]), day(1))
    world.write(attempt, [1])
    world.coordinator.register(world.job("d"))
    world.clock.advance(PAST_TTL)
    dropped(world.coordinator)
    assert world.pointers.tables(DOMAIN) == []
    world.clock.advance(PAST_GRACE)
    world.retention.vacuum(DOMAIN)
    assert world.data() == set()


def test_rows_of_another_program_do_not_go_with_a_table(table_world: World) -> None:
    """R17, R39: their end was not asked for; the table stays as it is."""
    world = table_world
    world.run(world.job("d"), day(1))
    commit(world, "d", "append", {1: [7]})
    with pytest.raises(ForeignCommit, match="another program has written to d, and its rows would be lost"):
        dropped(world.coordinator)
    assert world.engine_rows("d") == [(1, 1), (1, 7)]
    assert not without(world, "d")


def test_nothing_else_begins_before_a_drop_has_ended(world: World) -> None:
    """R30, R39: another drop would forget what this one has left to delete, and a rollback would bring it back."""
    for name in "ed":
        world.run(world.job(name), day(1))

    def die() -> None:
        raise Died

    with pytest.raises(Died):
        dropped(interrupted(world, die, "table.forget"))
    for late in (
        lambda: world.coordinator.plan_drop(DOMAIN, "job", "e"),
        lambda: plan_rollback(world.coordinator.context, DOMAIN, 1),
    ):
        with pytest.raises(EpochBusy, match="are being dropped"):
            late()
    world.coordinator.finish_drop(DOMAIN)
    dropped(world.coordinator, name="e")


@pytest.mark.parametrize(("subject", "name"), [("job", "x"), ("table", "x"), ("domain", "cascade")])
def test_a_name_that_is_not_registered_is_not_dropped(world: World, subject: str, name: str) -> None:
    """R39."""
    if subject != "domain":
        world.run(world.job("d"), day(1))
    with pytest.raises(UnknownName, match=name):
        world.coordinator.plan_drop(DOMAIN, subject, name)


def test_a_job_that_is_registered_while_one_looks_is_shown(world: World) -> None:
    """R39: jobs and tables are listed one after the other, and a plan never has the tables of a job without it."""
    world.run(world.job("d"), day(1))
    store = Between(world, lambda: world.coordinator.register(world.job("new")), 2)
    plan = world.worker(store).plan_drop(DOMAIN, "domain", DOMAIN)
    assert (plan.jobs, [table.name for table in plan.tables]) == (("d", "new"), ["d", "new"])


def test_a_store_whose_programs_know_no_drops_has_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """R36, R39: they would publish into what is being deleted."""
    world.run(world.job("d"), day(1))
    plan = world.coordinator.plan_drop(DOMAIN, "job", "d")
    monkeypatch.setattr(type(world.store), "format", 1)
    with pytest.raises(StoreIncompatible, match="which knows no drops"):
        dropped(world.coordinator, plan=plan)
