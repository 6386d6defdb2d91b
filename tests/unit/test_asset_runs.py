"""Runs that assets' events have started: which epochs they compute, and which events their tasks send."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import Asset

from airflow_provider.coordination.reading.wait import JobInputs
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Job, Table, previous, state
from airflow_provider.hooks.task_run import asked_intervals, task_intervals
from airflow_provider.operators.assets import withhold
from airflow_provider.operators.spark_submit import EpochSparkSubmitOperator
from airflow_provider.sensors.epochs import EpochSensor
from tests.airflow_runs import published, task_context
from tests.airflow_versions import since

A, B, C, D = Table("a"), Table("b"), Table("c"), Table("d")


def hours(first: int, last: int) -> list[Interval]:
    """The hours of 7 February from *first* up to *last*."""
    midnight = datetime(2013, 2, 7, tzinfo=UTC)
    return [
        Interval(midnight + timedelta(hours=hour), midnight + timedelta(hours=hour + 1))
        for hour in range(first, last)
    ]


def days(first: int, last: int | None = None) -> Interval:
    """The days of February from *first* to *last*, inclusive."""
    return Interval(datetime(2013, 2, first, tzinfo=UTC), datetime(2013, 2, (last or first) + 1, tzinfo=UTC))


def told(table: str, *intervals: Interval, domain: str = "default") -> dict[str, Any]:
    return published(table, *((interval.start, interval.end) for interval in intervals), domain=domain)


DAILY = Job("daily", inputs=[A, B, state(D, as_of=timedelta(0)), previous(C)], outputs=[C], cadence="@daily")
HOURLY = Job("hourly", inputs=[A], outputs=[C], cadence="@hourly")


@pytest.mark.parametrize(
    ("job", "events", "computed"),
    [
        (DAILY, [told("a", days(7))], [days(7)]),
        (DAILY, [told("a", days(7)), told("b", days(7))], [days(7)]),
        (DAILY, [told("a", days(9), days(7))], [days(7), days(9)]),
        (DAILY, [told("a", days(7)), told("b", days(8))], [days(7, 8)]),
        (DAILY, [told("a", days(7)), {}, told("b", days(1), domain="other")], [days(7)]),
        (DAILY, [told("a", *hours(23, 24))], [days(7)]),
        (HOURLY, [told("a", days(7))], [days(7)]),
        (DAILY, [told("a", days(7)), told("d", days(11)), told("c", days(6))], [days(7)]),
    ],
    ids=[
        "one",
        "two of one day",
        "two days",
        "neighbours",
        "others' events",
        "last hour",
        "finer",
        "lagging",
    ],
)
def test_ast1_run_started_by_assets_computes_the_epochs_of_their_events(
    job: Job, events: list[dict[str, Any]], computed: list[Interval]
) -> None:
    """R37: the clock, which is weeks later, says nothing."""
    context = task_context(events=events)
    assert task_intervals(context, job) == computed


def test_ast1_run_with_events_that_complete_no_epoch_is_skipped() -> None:
    with pytest.raises(AirflowSkipException, match="2013-02-07T13.*0 0"):
        task_intervals(task_context(events=[told("a", *hours(12, 13))]), DAILY)


@pytest.mark.parametrize(
    "event",
    [
        {"from_rest_api": True},
        told("a", days(7), domain="other"),
        told("d", days(7)),
        told("a"),
        {**told("a"), "epochs": [{"start": "x"}]},
    ],
)
def test_ast1_run_with_events_that_name_no_epoch_is_refused(event: dict[str, Any]) -> None:
    """R37: it is never guessed from the clock."""
    with pytest.raises(InvalidInput, match="none says which epoch") as caught:
        task_intervals(task_context(events=[event]), DAILY)
    assert caught.value.details["field"] == "run"


def test_events_of_time_before_the_origin_cause_nothing() -> None:
    """R37: the job has no epochs there; a table that it reads may reach further back, or is filled later."""
    job = Job("daily", inputs=[A], outputs=[C], cadence="@daily", origin=days(7).start)
    assert task_intervals(task_context(events=[told("a", days(5), days(7))]), job) == [days(7)]
    assert task_intervals(task_context(events=[told("a", days(1, 8))]), job) == [days(7, 8)]
    with pytest.raises(AirflowSkipException, match="up to 2013-02-07.* at its origin, 2013-02-07"):
        task_intervals(task_context(events=[told("a", days(5, 6))]), job)


def test_ast1_an_interval_decides_over_events() -> None:
    events = [told("a", days(7))]
    assert task_intervals(task_context(events=events), DAILY, explicit="2013-02-03") == [days(3)]


@since(3, 2)
def test_ast1_a_key_decides_over_events() -> None:
    events = [told("a", days(7))]
    assert task_intervals(task_context(events=events, partition_key="2013-02-04"), DAILY) == [days(4)]


def test_ast1_the_event_of_a_restatement_asks_for_no_committed_epoch_again() -> None:
    """R37: with the event of a task beside it, the run asks for what that one names; an interval asks then, too."""
    restated = {**told("a", days(7, 9)), "restatement": "fix"}
    assert asked_intervals(task_context(), DAILY) is None
    for events, asked in (([restated], []), ([restated, told("b", days(8))], [days(8)])):
        context = task_context(events=events)
        assert task_intervals(context, DAILY) == [days(7, 9)]
        assert asked_intervals(context, DAILY) == asked
        assert asked_intervals(context, DAILY, explicit="2013-02-03") == (None if asked else [])


def test_a_task_that_has_published_nothing_sends_no_event() -> None:
    """R35: what it stages is not there yet; outlets of the author's own stay."""
    mine = Asset("mine")
    operator = EpochSparkSubmitOperator(task_id="compute", application="job.py", job=DAILY, outlets=[mine])
    withhold(operator, DAILY)
    assert operator.outlets == [mine]


def test_ast1_sensor_waits_for_the_epochs_of_the_events() -> None:
    context = task_context(events=[told("a", days(9), days(7))])
    assert EpochSensor(task_id="wait", tables=[A])._request(context) == datetime(2013, 2, 10, tzinfo=UTC)
    inputs = EpochSensor(task_id="wait", job=DAILY)._request(context)
    assert isinstance(inputs, JobInputs)
    assert inputs.interval == days(7, 9)
