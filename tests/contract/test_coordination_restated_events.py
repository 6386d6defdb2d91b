"""Epochs that a run computes whose events tell of a restatement, and what its retry announces (R35, R37)."""

from __future__ import annotations

import logging

from airflow_provider.domain.identifiers import restatement_id
from airflow_provider.operators.restating import run_epochs
from tests.contract.coordination_world import World, day, owner
from tests.contract.restating import NAME, opened

LOG = logging.getLogger(__name__)


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
