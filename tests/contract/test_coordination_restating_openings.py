"""Several restatements, and what is opened where (R15, R28)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import EpochBusy, InvalidInput, NotReady, TopologyError, UnknownName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import increment
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner
from tests.contract.interruptions import interrupted
from tests.contract.restating import (
    NAME,
    cascade,
    computed,
    finished,
    opened,
    operations,
    planned,
    published,
    read,
    restated,
    run_all,
    second,
    sound,
    three_days,
    within,
)


def test_two_restatements_share_no_epoch(world: World) -> None:
    """R28: the second is refused while the first is open, by whichever epoch they share; one beside it is not."""
    jobs = planned(world)
    with pytest.raises(TopologyError, match=f"restatement '{NAME}' computes"):
        second(world)
    with pytest.raises(TopologyError, match=f"restatement '{NAME}' computes"):
        second(world, ["b"], 1)
    finished(world, jobs)
    published(world)
    second(world, ["b"], 1)
    assert operations(world).status(DOMAIN, "second").record.size == 5


def test_of_two_that_are_opened_at_once_one_is_refused(world: World) -> None:
    """R28: each plans before the other is there."""
    jobs = cascade(world)
    run_all(world, jobs, [1, 2, 3])
    slow = interrupted(world, lambda: opened(world, "b", 2))
    with pytest.raises(TopologyError, match=f"restatement '{NAME}' computes"):
        second(slow)
    with pytest.raises(UnknownName):
        operations(world).status(DOMAIN, "second")


def test_two_beside_each_other_are_extended_by_one_epoch(world: World) -> None:
    """R28: an epoch in the middle that reads both joins the first that is published, then the other."""
    left, right = world.job("l"), world.job("r")
    both = world.job("x", inputs=[increment(world.table("l")), increment(world.table("r"))])
    for job in (left, right):
        computed(world, job, 1, [1])
    opened(world, "l", 1)
    second(world, ["r"], 1)
    restated(world, left, 1, [10])
    attempt = world.coordinator.begin_within("second", right, day(1), owner("restate"))
    assert isinstance(attempt, Attempt)
    world.write(attempt, [100])
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    computed(world, both, 1)
    with pytest.raises(NotReady):
        published(world)
    with pytest.raises(TopologyError, match=f"restatement '{NAME}' computes"):
        operations(world).publish(DOMAIN, "second")
    restated(world, both, 1)
    published(world)
    assert world.rows("x") == {"x": [(1, 12)]}
    with pytest.raises(NotReady):
        operations(world).publish(DOMAIN, "second")
    answer = world.coordinator.begin_within("second", both, day(1), owner("restate"))
    assert isinstance(answer, Attempt)
    assert sorted(read(world, answer)) == [10, 100]
    world.write(answer, [111])
    world.coordinator.complete(answer)
    world.coordinator.stage(answer)
    operations(world).publish(DOMAIN, "second")
    assert world.rows("l", "r", "x") == {"l": [(1, 10)], "r": [(1, 100)], "x": [(1, 111)]}
    assert sound(world)


def test_a_begin_within_another_restatement(world: World) -> None:
    """R28: an epoch that is no member, and one that is a member of another, begin in neither."""
    base, daily, total = planned(world)
    other = world.job("o")
    computed(world, other, 1)
    second(world, ["o"], 1)
    with pytest.raises(TopologyError, match="no epoch of restatement"):
        world.coordinator.begin_within("second", base, day(2), owner())
    with pytest.raises(TopologyError, match="no epoch of restatement"):
        within(world, base, 1)
    with pytest.raises(TopologyError, match="no epoch of restatement"):
        within(world, base, 4)
    with pytest.raises(UnknownName):
        world.coordinator.begin_within("third", base, day(2), owner())
    restated(world, base, 2, [1000])
    with pytest.raises((TopologyError, EpochBusy)):
        world.coordinator.begin_within("second", base, day(2), owner())
    del daily, total


@pytest.mark.parametrize("again", ["same", "other reason", "other days", "after its end"])
def test_opening_with_the_same_name(world: World, again: str) -> None:
    """R15: a repetition answers as the first call did; another request is refused."""
    jobs = planned(world)
    record = operations(world).status(DOMAIN, NAME).record
    if again == "same":
        opened(world, "b", 2)
        assert operations(world).status(DOMAIN, NAME).record == record
        return
    if again == "after its end":
        finished(world, jobs)
        published(world)
    with pytest.raises(InvalidInput, match="exists"):
        opened(
            world,
            "b",
            1 if again == "other days" else 2,
            reason="x" if again == "other reason" else "the source was wrong",
        )


def test_opening_again_after_another_epoch_of_the_range_was_committed(world: World) -> None:
    """R15: the repeated request is the same, whatever normal runs have committed since."""
    base, daily, total = cascade(world)
    run_all(world, (base, daily, total), [1, 2, 3])
    opened(world, "b", 2, 5)
    computed(world, base, 4, [40])
    opened(world, "b", 2, 5)


def test_interval_of_no_committed_epoch(world: World) -> None:
    """R28: nothing is opened where nothing is committed."""
    three_days(world)
    with pytest.raises(InvalidInput, match="committed epochs"):
        operations(world).open(
            DOMAIN, ["b"], Interval(barrier(7), barrier(9)), name=NAME, reason="wrong", by="me"
        )
    with pytest.raises(UnknownName):
        operations(world).open(DOMAIN, ["nothing"], day(1), name=NAME, reason="wrong", by="me")


def test_a_mistyped_name_gets_the_similar_one(world: World) -> None:
    report = world.job("weekly_report")
    computed(world, report, 1, [1])
    with pytest.raises(UnknownName, match=r"no job and no table 'weekly_reprot'; is 'weekly_report' meant\?"):
        opened(world, "weekly_reprot", 1)


def test_a_plan_does_not_count_the_wait_for_a_publish_as_time_of_the_epochs(world: World) -> None:
    """R28: an epoch that a restatement has published waited for its other members, and for who looks at them."""
    base = world.job("b")

    def written(attempt: Attempt) -> Attempt:
        world.clock.advance(timedelta(seconds=10))
        world.write(attempt, [1])
        world.coordinator.complete(attempt)
        return attempt

    def expected() -> timedelta:
        return operations(world).plan(DOMAIN, ["b"], day(1)).expected

    world.coordinator.publish(written(world.begin(base, day(1), owner("first"))))
    assert expected() == timedelta(seconds=10)
    opened(world, "b", 1)
    world.coordinator.stage(written(within(world, base, 1)))
    world.clock.advance(timedelta(days=3))
    published(world)
    assert expected() == timedelta(seconds=10)
