"""Runs that assets' events have started: the epoch that they compute is the event's, on each store (AST1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from airflow_provider.domain.epoch import AlreadyCommitted, Published
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import Job, increment
from airflow_provider.hooks.task_run import task_intervals, task_owner
from airflow_provider.operators.assets import announce, asset_of
from airflow_provider.testing.arrow_attempts import read_rows
from tests.airflow_runs import task_context
from tests.contract.coordination_world import World, barrier, day, values_of


def told(job: Job, published: Iterable[Published]) -> Mapping[str, Any]:
    """The extra of the event that a task of *job* sends."""
    context = task_context()
    announce(context, job, published)
    extra: Mapping[str, Any] = context["outlet_events"][asset_of(job.outputs[0])].extra
    return extra


def run_on(number: int, *events: Mapping[str, Any]) -> Any:
    """The context of a run that *events* have started on the day with *number*."""
    context = task_context(events=events, run_id=f"asset_triggered__{number}")
    context["dag_run"].run_after = barrier(number)
    return context


def test_ast1_the_epoch_of_the_event(world: World) -> None:
    """R37: an event of day 7 starts a run on day 20; it computes day 7, from the rows that day 7 has."""
    maker, follower = world.job("a"), world.job("d", inputs=[increment(world.table("a"))], origin=barrier(6))
    published = {number: world.run(maker, day(number), [number]) for number in range(1, 21)}
    context = run_on(20, told(maker, [published[7]]))
    assert task_intervals(context, follower) == [day(7)]
    attempt = world.begin(follower, day(7), task_owner(context))
    read = read_rows(world.coordinator, attempt, "a")
    assert read is not None
    world.write(attempt, [value for _, value in values_of(read)])
    world.coordinator.publish(attempt)
    assert world.rows("d") == {"d": [(7, 7)]}
    assert isinstance(world.coordinator.begin(follower, day(7), task_owner(context)), AlreadyCommitted)


def test_ast1_an_event_without_an_epoch(world: World) -> None:
    """R37: the run is refused, and nothing is begun: the clock is not asked."""
    follower = world.job("d")
    before = world.exactly()
    with pytest.raises(InvalidInput, match="none says which epoch"):
        task_intervals(run_on(20, {"from_rest_api": True}), follower)
    assert world.exactly() == before
