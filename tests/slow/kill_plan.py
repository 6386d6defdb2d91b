"""The job that is killed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import EpochJob, EpochTable

START = datetime(2013, 2, 1, tzinfo=UTC)
JOB = EpochJob(
    "killed", outputs=[EpochTable("hourly"), EpochTable("totals")], cadence="@hourly", origin=START
)


def span(epochs: int) -> Interval:
    """The first *epochs* of the job."""
    return Interval(START, START + timedelta(hours=epochs))
