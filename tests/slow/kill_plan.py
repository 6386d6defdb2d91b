"""The job that is killed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Job, Table, previous

START = datetime(2013, 2, 1, tzinfo=UTC)
JOB = Job("killed", outputs=[Table("hourly"), Table("totals")], cadence="@hourly", origin=START)

TOTALS = Table("totals", kind="full")
DRAFTED = Job(
    "drafted",
    inputs=[previous(TOTALS)],
    outputs=[Table("hourly"), TOTALS],
    cadence="@hourly",
    origin=START,
)
"""The same tables by statements of SQL; each epoch's totals are those before it, and its own."""


def span(epochs: int) -> Interval:
    """The first *epochs* of the job."""
    return Interval(START, START + timedelta(hours=epochs))
