"""Processes of a commit group die, or others come in between, at each of their calls (R2, R15, R16, R40)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.members_now import MemberState
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.records import topology_key
from airflow_provider.domain.topology import Job, increment
from tests.contract.coordination_world import DOMAIN, PAST_TTL, Backend, World, day, owner
from tests.contract.groups import DAY_1, WHY, Chain, committed, declared, parts_seen, states, work
from tests.contract.interruptions import Died, Interruption, worker
from tests.contract.restating import Prepared, read, sound

Jobs = tuple[Job, Job, Job]
LAST = {"b": [(1, 10)], "d": [(1, 11)], "t": [(1, 12)]}


def chain(world: World) -> Jobs:
    return Chain.of(world).jobs


def last_is_complete(world: World) -> tuple[Jobs, Attempt]:
    """All but the last job are staged, and its output is complete."""
    group = Chain.of(world)
    group.stage(group.jobs[0])
    group.stage(group.jobs[1])
    attempt = world.begin(group.jobs[2], day(1))
    world.write(attempt, [sum(read(world, attempt)) + 1])
    world.coordinator.complete(attempt)
    return group.jobs, attempt


def test_a_group_dies_at_each_of_its_calls(backend: Backend) -> None:
    """R40: no reader gets a part of it; once its tasks are tried again all of it is there, once."""
    counter = Interruption(-1, lambda: None)
    first = backend.world()
    jobs = chain(first)
    work(worker(first, counter), first, jobs, owner())
    assert first.rows("b", "d", "t") == LAST
    first.close()
    for number in range(len(counter.calls)):
        world = backend.world()

        def die() -> None:
            raise Died

        with suppress(Died):
            work(worker(world, Interruption(number, die)), world, jobs, owner())
        assert parts_seen(world) in (set(), {"b", "d", "t"}), number
        world.clock.advance(PAST_TTL)
        work(world.coordinator, world, jobs, owner(try_number=2))
        assert world.rows("b", "d", "t") == LAST, number
        assert committed(world) == [["b", "d", "t"]], number
        assert sound(world)
        world.clock.advance(PAST_TTL)
        world.close()


ACTS: dict[str, Callable[[World, Jobs], object]] = {
    "a member is cleared": lambda world, jobs: Chain(world, jobs).stage(
        jobs[0], by=owner(generation=1), values=[100]
    ),
    "a member begins": lambda world, jobs: world.begin(jobs[1], day(1), owner(generation=1)),
    "abandon": lambda world, _: world.coordinator.restatements.abandon(DOMAIN, DAY_1, **WHY),
    "publish": lambda world, _: world.coordinator.restatements.publish(DOMAIN, DAY_1),
    "a declaration": lambda world, jobs: world.coordinator.register(
        world.job("d", inputs=[increment(world.table("b"))], group=jobs[0].group, inactive_after=9)
    ),
    "a job leaves": lambda world, _: _alone(world, declared(world, None)[0]),
    "the next day": lambda world, jobs: Chain(world, jobs).stage(jobs[0], 2),
    "vacuum": lambda world, _: world.retention.vacuum(DOMAIN),
}


def _alone(world: World, job: Job) -> None:
    attempt = world.coordinator.begin(job, day(1), owner("left"))
    if isinstance(attempt, Attempt):
        world.write(attempt, [7])
        world.coordinator.complete(attempt)
        world.coordinator.publish(attempt)


@pytest.mark.parametrize("act", ACTS)
def test_others_come_between_the_calls_of_the_last_member(backend: Backend, act: str) -> None:
    """R40: what is visible then is one commit, of rows that were computed from each other."""

    def stage(own: EpochService, given: tuple[Jobs, Attempt]) -> None:
        with suppress(EpochError):
            own.stage(given[1])

    prepared = Prepared.of(backend, last_is_complete, stage)
    for number in range(prepared.calls()):
        world, given = prepared.again()

        def act_now(world: World = world, jobs: Jobs = given[0]) -> None:
            with suppress(EpochError):
                ACTS[act](world, jobs)

        stage(worker(world, Interruption(number, act_now)), given)
        leaves = {"b"} if act == "a job leaves" else set()
        assert parts_seen(world) in (set(), leaves, {"b", "d", "t"}), number
        if parts_seen(world) == {"b", "d", "t"}:
            found = world.rows("b", "d", "t")
            first = found["b"][0][1]
            assert (found["d"], found["t"]) == ([(1, first + 1)], [(1, first + 2)]), number
        assert sound(world), number
        world.close()
    prepared.world.close()


def test_a_barrier_that_is_opened_anew_outlives_a_slow_abandon_of_the_one_before(backend: Backend) -> None:
    """R40: another process ends all members, and a job begins again; the slow one leaves it alone."""

    def staged(world: World) -> Jobs:
        group = Chain.of(world)
        group.stage(group.jobs[0])
        return group.jobs

    def abandon(own: EpochService, _: Jobs) -> None:
        own.restatements.abandon(DOMAIN, DAY_1, **WHY)

    prepared = Prepared.of(backend, staged, abandon)
    calls, outlived = prepared.calls(), []
    for number in range(calls):
        world, jobs = prepared.again()
        again = Chain(world, jobs)

        def others(world: World = world, again: Chain = again) -> None:
            abandon(world.coordinator, again.jobs)
            again.stage(again.jobs[0], by=owner("anew"))

        abandon(worker(world, Interruption(number, others)), jobs)
        if states(world).get("b") is MemberState.STAGED:
            outlived.append(number)
            topology = world.store.read(DOMAIN, [key := topology_key(DOMAIN)]).of(key)
            assert topology.record.restating == (DAY_1,), number
            assert len(world.staged()) == 1, number
        else:
            assert world.staged() == [], number
        world.close()
    # An abandon that has not marked the barrier yet ends the new one: it is what it was asked for.
    assert outlived == [*range(outlived[0], calls)]
    assert outlived[0] < calls / 2
    prepared.world.close()
