"""Inactive jobs: silent for so long that no cut of the whole domain waits for their tables (R9). A pure decision."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from airflow_provider.domain.records import Stamped
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.version import TableRecord


def inactive_since(
    job: Stamped[JobRecord], tables: Iterable[Stamped[TableRecord]], now: datetime
) -> datetime | None:
    """Return the time since which *job* is inactive; None if it is not. A retired job is inactive for good.

    A job is heard of when it registers and when it moves one of its tables, by the store's clock. The barriers of its
    calendar that pass in silence count, not the age of its data: a backfill of an old year is not silent.

    :param tables: the tables that the job owns.
    """
    if job.record.retired:
        return job.at
    silent_epochs = job.record.inactive_after
    if silent_epochs is None:
        return None
    moment = max([job.at, *(table.record.heard or table.at for table in tables)])
    for _ in range(silent_epochs):
        moment = job.record.cadence.next_after(moment)
        if moment > now:
            return None
    return moment
