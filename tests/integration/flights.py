"""A job of one table, and its days: what the tests of commands run before they type."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.testing.arrow_attempts import write_rows

ORIGIN = datetime(2013, 2, 6, tzinfo=UTC)
JOB = Job("clean", outputs=[Table("flights")], cadence="@daily", origin=ORIGIN)


def begun(service: EpochService, day: int) -> Attempt:
    """Begin the epoch of a day, counted from :data:`ORIGIN`."""
    start = ORIGIN + timedelta(days=day)
    owner = Owner(dag_id="flights", run_id=f"run {day}")
    attempt = service.begin(JOB, Interval(start, start + timedelta(days=1)), owner)
    assert isinstance(attempt, Attempt)
    return attempt


def published(service: EpochService, day: int) -> None:
    """Compute one day: two rows."""
    attempt = begun(service, day)
    write_rows(service, attempt, "flights", pa.table({"x": [1, 2]}))
    service.publish(attempt)
