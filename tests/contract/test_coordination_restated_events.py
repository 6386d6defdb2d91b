"""Epochs that a run computes whose events tell of a restatement, and what its retry announces (R35, R37)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from airflow_provider.domain.identifiers import restatement_id
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Job, increment
from airflow_provider.operators.restating import RunEpochs, run_epochs
from tests.contract.coordination_world import World, barrier, day, owner
from tests.contract.restating import NAME, opened

LOG = logging.getLogger(__name__)


def computes(world: World, job: Job, numbers: Sequence[int], asked: Sequence[Interval] = ()) -> RunEpochs:
    """What a run computes of the days *numbers*, which the event of a restatement names."""
    days = [day(number) for number in numbers]
    return run_epochs(
        LOG, world.coordinator, job, days, owner("event"), named=None, cause="a run", asked=asked
    )


@pytest.mark.parametrize("origin", [None, 5], ids=["begun", "declared"])
def test_no_epoch_before_the_table_begins_by_the_event_of_a_restatement(
    world: World, origin: int | None
) -> None:
    """R37: no run asks for it. It would be refused, or a table would begin there, and lack all until its first one."""
    maker = world.job("a")
    start = None if origin is None else barrier(origin)
    follower = world.job("d", inputs=[increment(world.table("a"))], origin=start)
    for number in range(1, 9):
        world.run(maker, day(number), [number])
    assert computes(world, follower, [1, 2, 3]).alone == ()
    world.run(follower, day(6), [6])
    assert computes(world, follower, [2, 3, 6, 7]).alone == (day(7),)
    assert computes(world, follower, [2, 3, 7], asked=[day(3)]).alone == (day(3), day(7))


def test_a_retry_announces_what_its_run_has_published_beside_a_restatement(world: World) -> None:
    """R35: an epoch that is no member, and that an earlier try of the run has committed, is the run's own."""
    maker = world.job("a")
    for number in (1, 2):
        world.run(maker, day(number), [number])
    opened(world, "a", 1)
    days, name = [day(1), day(3)], restatement_id(NAME)
    run = owner("restate")
    found = run_epochs(LOG, world.coordinator, maker, days, run, named=name)
    assert (found.within, found.alone) == ({NAME: [day(1)]}, (day(3),))
    world.run(maker, day(3), [3], by=run)
    retried = run_epochs(LOG, world.coordinator, maker, days, run, named=name)
    assert (retried.within, retried.alone) == ({NAME: [day(1)]}, (day(3),))
    cleared = owner("restate", generation=1)
    assert run_epochs(LOG, world.coordinator, maker, days, cleared, named=name).alone == ()
