"""A barrier of a commit group that does not go on says so, and what to do (R40)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.members_now import MemberState
from airflow_provider.domain.epoch import EpochState
from airflow_provider.domain.errors import Conflict
from airflow_provider.domain.topology import Group, Job, increment, previous
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, day, owner
from tests.contract.groups import Chain, committed, states
from tests.contract.restating import sound

DAY_2 = "flights 2024-01-03T00:00:00Z"
Happening = Callable[[Chain], Chain]


def _declared_anew(chain: Chain) -> Chain:
    """A new version of the DAG is deployed while the day is computed."""
    base, daily, total = chain.jobs
    anew = chain.world.job("b", group=base.group, inactive_after=9)
    chain.world.coordinator.register(anew)
    return Chain(chain.world, (anew, daily, total))


def _cleared_alone(chain: Chain) -> Chain:
    """The task of b is cleared, and not the one of d, which has read it."""
    chain.stage(chain.jobs[0], 2, owner(generation=1), values=[21])
    return chain


def test_explain_tells_an_attempt_within_a_group_like_any_other(world: World) -> None:
    """R40: who computes a first revision, and that it is silent; nothing is computed again."""
    chain = Chain.of(world)
    attempt = world.begin(chain.jobs[0], day(1))
    told = explain(world.store, DOMAIN, "b", day(1))
    assert (told.state, told.owner, told.next_step) == (
        EpochState.OPEN,
        attempt.owner,
        "wait for that attempt.",
    )
    assert told.summary.startswith(
        f"computed by {attempt.owner}; flights 2024-01-02T00:00:00Z of group flights: 0"
    )
    world.clock.advance(PAST_TTL)
    told = explain(world.store, DOMAIN, "b", day(1))
    assert "is silent since" in told.summary
    assert told.next_step == "run the task again: the next attempt takes over."


@pytest.mark.parametrize(("happens", "outdated"), [(_declared_anew, ["b", "d"]), (_cleared_alone, ["d"])])
def test_the_last_job_says_which_others_are_outdated(
    world: World, happens: Happening, outdated: list[str]
) -> None:
    """R40: no task comes for them by itself; once they are cleared, the last one publishes."""
    chain = Chain.of(world)
    chain.run(1)
    chain.stage(chain.jobs[0], 2)
    chain.stage(chain.jobs[1], 2)
    chain = happens(chain)
    with pytest.raises(Conflict, match="has to be computed again") as stalled:
        chain.stage(chain.jobs[2], 2)
    names = ", ".join(outdated)
    assert f"clear the tasks of {names} for" in stalled.value.next_step
    assert stalled.value.job == outdated[0]
    with pytest.raises(Conflict, match="has to be computed again"):
        world.coordinator.restatements.publish(DOMAIN, DAY_2)
    with pytest.raises(Conflict, match="has to be computed again"):
        chain.ask(chain.jobs[2], 2, owner(try_number=2))
    for name, state in states(world, DAY_2).items():
        assert (state is MemberState.OUTDATED) is (name in outdated)
        told = explain(world.store, DOMAIN, name, day(2))
        assert told.next_step == (
            f"clear the tasks of {names} for it, and of the jobs that read them: the last one publishes."
        )
        assert (told.state is EpochState.WRITTEN) is (name not in outdated)
        assert f"job {outdated[0]} has to be computed again" in told.summary
    for job in chain.jobs:
        assert committed(world) == [["b", "d", "t"]]
        chain.stage(job, 2, owner(generation=2))
    assert committed(world) == [["b", "d", "t"]] * 2
    assert sound(world)


def _parallel(world: World) -> tuple[Job, Job]:
    group = Group("flights", jobs=["b", "t"])
    return world.job("b", group=group), world.job("t", inputs=[previous(world.table("t"))], group=group)


def test_a_job_that_reads_nothing_says_that_another_is_outdated(world: World) -> None:
    """R40: what the staged one has read before was computed again meanwhile."""
    base, total = _parallel(world)
    chain = Chain(world, (base, total, total))
    chain.stage(base)
    chain.stage(total)
    chain.stage(total, 2)
    again = world.begin(total, day(1), owner(generation=1))
    world.write(again, [99])
    world.coordinator.publish(again)
    with pytest.raises(Conflict, match="t has to be computed again: t was computed again since"):
        chain.stage(base, 2)
    chain.stage(total, 2, owner(try_number=2))
    assert committed(world) == [["b", "t"], ["t"], ["b", "t"]]
    assert sound(world)


def test_a_cleared_job_does_not_fail_before_its_readers_are_cleared(world: World) -> None:
    """R40: a task and those behind it are cleared together; each of them makes the next ones outdated."""
    group = Group("flights", jobs=["b", "d", "t", "w"])
    base = world.job("b", group=group)
    daily = world.job("d", inputs=[increment(world.table("b"))], group=group)
    total = world.job("t", inputs=[increment(world.table("d"))], group=group)
    chain = Chain(world, (base, daily, total))
    for job in chain.jobs:
        chain.stage(job)
    wild = world.job("w", group=group)
    attempt = world.begin(wild, day(1))
    world.write(attempt)
    world.coordinator.complete(attempt)
    chain.stage(base, by=owner(generation=1), values=[100])
    with pytest.raises(Conflict, match="d has to be computed again"):
        world.coordinator.stage(attempt)
    chain.stage(base, by=owner(generation=2), values=[1000])
    chain.stage(daily, by=owner(generation=2))
    assert committed(world) == []
    chain.stage(total, by=owner(generation=2))
    assert committed(world) == [["b", "d", "t", "w"]]
    assert world.rows("t") == {"t": [(1, 1002)]}
    assert sound(world)
