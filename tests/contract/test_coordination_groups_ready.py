"""What a task of a commit group waits for: readiness and begin say the same (R40)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider.coordination.reading.wait import JobInputs, Readiness, begin_readiness
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import EpochBusy, NotReady
from airflow_provider.domain.group import epoch_of_group
from airflow_provider.domain.topology import Group, Job, increment
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner
from tests.contract.groups import DAY_1, WHY, Chain, committed, declared
from tests.contract.interruptions import Interruption, worker

RUN = ("dag", "another run")


def readiness(world: World, job: Job, number: int = 1) -> Readiness:
    """Ask as the task of *job* does before it begins."""
    name = None if job.group is None else epoch_of_group(job.group, day(number))
    inputs = JobInputs.of(job, day(number))
    return begin_readiness(world.store, DOMAIN, job.name, inputs, RUN, restatement=name)


@pytest.mark.parametrize("group", [None, Group("days", jobs=["b", "d", "t"])])
def test_a_job_that_has_left_waits_for_no_group(world: World, group: Group | None) -> None:
    """R40: it takes its epoch along, as its begin says."""
    chain = Chain.of(world)
    chain.stage(chain.jobs[0])
    assert readiness(world, chain.jobs[0]).ready
    left = declared(world, group)[0]
    assert readiness(world, left).ready
    assert isinstance(world.coordinator.begin(left, day(1), owner("left")), Attempt)


def test_a_restatement_holds_the_epoch_of_a_job_without_a_group(world: World) -> None:
    """R28: only a group lets go of a job that has left it."""
    alone = world.job("x")
    world.run(alone, day(1), [1])
    world.coordinator.restatements.open(DOMAIN, ["x"], day(1), name="correct", reason="wrong", by="me")
    attempt = world.coordinator.begin_within("correct", alone, day(1), owner())
    assert isinstance(attempt, Attempt)
    world.write(attempt)
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    assert not readiness(world, alone).ready


def test_an_epoch_that_is_committed_by_itself_waits_for_commits(world: World) -> None:
    """R40: it was skipped, and is run after all: what others have staged is none of its inputs."""
    chain = Chain.of(world)
    base, daily, _ = chain.jobs
    chain.run(1)
    chain.stage(base, 2)
    world.coordinator.skip(DOMAIN, "d", day(2), "nothing came", by="me")
    assert [missing.table for missing in readiness(world, daily, 2).missing] == ["b"]
    with pytest.raises(NotReady):
        world.begin(daily, day(2), owner("after all"))


def test_a_barrier_whose_end_was_interrupted_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = Chain.of(world)
    chain.stage(chain.jobs[0])
    with monkeypatch.context() as patched:
        patched.setattr("airflow_provider.coordination.restating.restatements.end_members", lambda *_: None)
        world.coordinator.restatements.abandon(DOMAIN, DAY_1, **WHY)
    with pytest.raises(EpochBusy):
        chain.ask(chain.jobs[0])
    assert "have not all ended" in str(readiness(world, chain.jobs[0]))
    world.retention.vacuum(DOMAIN)
    assert readiness(world, chain.jobs[0]).ready


def test_a_table_that_its_job_has_left_is_not_staged(world: World) -> None:
    """R40: its reader waits as it does without a group, by a few reads."""
    group = Group("flights", jobs=["d", "t"])
    two = [world.table("one"), world.table("two")]
    reading = world.job("t", inputs=[increment(world.table("two"))], group=group)
    chain = Chain(world, (world.job("d", two, group=group), reading, reading))
    chain.stage(chain.jobs[0])
    chain.stage(reading)
    chain.stage(world.job("d", two[:1], group=group), 2, values=[1])
    count = Interruption(-1, lambda: None)
    with pytest.raises(NotReady, match="job d no longer declares two"):
        worker(world, count).begin(reading, day(2), owner())
    assert len(count.calls) < 10
    assert [missing.table for missing in readiness(world, reading, 2).missing] == ["two"]


def _begins_later(world: World, group: Group) -> None:
    world.coordinator.register(world.job("w", group=group, origin=barrier(1)))


def _retired(world: World, group: Group) -> None:
    world.coordinator.register(world.job("w", group=group))
    world.coordinator.retire(DOMAIN, "w", **WHY)


def _left(world: World, group: Group) -> None:
    world.coordinator.register(world.job("w", group=group))
    world.coordinator.register(world.job("w"))


@pytest.mark.parametrize("declare", [_begins_later, _retired, _left])
def test_an_epoch_that_the_group_does_not_get_is_read_as_committed(
    world: World, declare: Callable[[World, Group], None]
) -> None:
    """R40: a reader waits for it, or is told why it never comes, as a reader outside is."""
    group = Group("flights", jobs=["w", "r"])
    declare(world, group)
    inside, outside = (
        world.job("r", inputs=[increment(world.table("w"))], group=group),
        world.job("o", inputs=[increment(world.table("w"))]),
    )
    told = []
    for job in (inside, outside):
        with pytest.raises(NotReady) as caught:
            world.begin(job, day(1))
        told.append([(missing.table, missing.reason) for missing in caught.value.missing])
        assert [missing.table for missing in readiness(world, job).missing] == ["w"]
    assert told[0] == told[1]
    assert committed(world) == []


def test_a_wait_for_another_run_ends_by_time_alone(world: World) -> None:
    """I9: no commit tells that the lock of a dead run has ended; so it is without a group."""
    job = world.job("r")
    world.begin(job, day(1), owner("other"))
    answer = readiness(world, job)
    assert (answer.ready, answer.ends_by_clock) == (False, True)
