"""Jobs that have fallen silent, and whom nobody waits for (R9). A pure decision."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from airflow_provider.domain.records import Stamped
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.version import TableRecord


def lapsed_since(
    job: Stamped[JobRecord], tables: Iterable[Stamped[TableRecord]], now: datetime
) -> datetime | None:
    """Since when *job* counts as lapsed; None while it does not, or never shall. A retired one has lapsed for good.

    It is heard of when it registers and whenever it moves one of its tables, by the store's clock. What counts is the
    barriers of its calendar that pass in silence, not how old the data is: a backfill of long ago is not silent.

    :param tables: those that the job owns.
    """
    if job.record.retired:
        return job.at
    silent_epochs = job.record.lapses_after
    if silent_epochs is None:
        return None
    moment = max([job.at, *(one.record.heard or one.at for one in tables)])
    for _ in range(silent_epochs):
        moment = job.record.cadence.next_after(moment)
        if moment > now:
            return None
    return moment
