"""What would follow if epochs were computed again, as ``airflow epochs impact`` tells it."""

from __future__ import annotations

import pytest

from airflow_provider.coordination.restating.impact import impact
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import increment, state
from tests.contract.coordination_world import DOMAIN, World, day

DAYS = (1, 2, 3)


def test_impact_tells_followers_held_and_labelled_epochs(world: World) -> None:
    """R28: by the policy of the edges that have read what changes, directly or through members."""
    seed, raw = world.job("seed"), world.table("raw")
    jobs = [
        seed,
        world.job("raw", inputs=[increment(world.table("seed"))]),
        world.job("follows", inputs=[increment(raw)]),
        world.job("holds", inputs=[state(raw, on_upstream_revision="hold")]),
        world.job("ignores", inputs=[state(raw, on_upstream_revision="ignore")]),
        world.job("both", inputs=[increment(raw), state(world.table("seed"), on_upstream_revision="ignore")]),
        world.job("beyond", inputs=[increment(world.table("ignores"))]),
    ]
    for number in DAYS:
        for job in jobs:
            world.run(job, day(number))
    before = world.content()
    found = impact(world.store, DOMAIN, ["seed"], day(2))
    told = {epochs.job: epochs.intervals for epochs in found.followers}
    assert told == {"raw": (day(2),), "follows": (day(2),), "both": (day(2),)}
    assert [(epochs.job, epochs.tables, epochs.intervals) for epochs in found.plan.held] == [
        ("holds", ("raw",), (day(2), day(3)))
    ]
    assert [(epochs.job, epochs.tables, epochs.intervals) for epochs in found.ignored] == [
        ("both", ("seed",), (day(3),)),
        ("ignores", ("raw",), (day(2), day(3))),
    ]
    assert world.content() == before


def test_impact_of_nothing_is_refused(world: World) -> None:
    """R28: an interval without a committed epoch has none."""
    world.run(world.job("raw"), day(1))
    with pytest.raises(InvalidInput):
        impact(world.store, DOMAIN, ["raw"], day(2))
