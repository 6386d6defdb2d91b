"""What a task of a commit group announces, while other tasks publish its group (R35, R40)."""

from __future__ import annotations

from functools import partial

from airflow_provider.operators.outcome import outcome_of, published_epochs
from tests.contract.coordination_world import World, day, owner
from tests.contract.groups import Chain, committed
from tests.contract.interruptions import Interruption, worker


def test_what_waits_for_its_group_is_told_apart_from_what_is_published(world: World) -> None:
    chain = Chain.of(world)
    base, daily, _ = chain.jobs
    chain.run(1)
    chain.stage(base, 2)
    published, staged = outcome_of(world.store, base, [day(1), day(2)], owner())
    assert [(epoch.interval, epoch.csn) for epoch in published] == [(day(1), 1)]
    assert staged == [day(2)]
    other, _ = outcome_of(world.store, base, [day(1)], owner("found it staged"))
    assert other == published
    assert published_epochs(world.store, base, [day(1)], owner("computes it again")) == []
    assert outcome_of(world.store, daily, [day(2)], owner()) == ([], [])


def test_an_epoch_that_is_published_between_two_reads_is_not_lost(world: World) -> None:
    """R35, R40: the last task of the group publishes while this one looks what it has to announce."""
    chain = Chain.of(world)
    base, daily, total = chain.jobs
    chain.run(1)
    count = Interruption(-1, lambda: None)
    outcome_of(worker(world, count).store, daily, [day(1)], owner())
    assert len(count.calls) > 2
    for read in range(len(count.calls)):
        number = read + 2
        chain.stage(base, number)
        chain.stage(daily, number)
        act = Interruption(read, partial(chain.stage, total, number))
        published, staged = outcome_of(worker(world, act).store, daily, [day(number)], owner())
        assert [epoch.interval for epoch in published] + staged == [day(number)]
    assert committed(world) == [["b", "d", "t"]] * number
