"""Delay of a table's epochs: time from the end of each to its first publish. Read-only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.records import Stamped, slices_of_epoch
from airflow_provider.domain.version import SliceRecord
from airflow_provider.stores.base import MetadataReader, scan

_REVISIONS = 2
"""Records that are read for each epoch that is wanted: most have one revision."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Delay:
    """One committed epoch. :param end: its barrier. :param at: the store's time of its first publish."""

    end: datetime
    at: datetime

    @property
    def delay(self) -> timedelta:
        """Time from the barrier to the publish; below zero if it was published before it ended."""
        return self.at - self.end


@dataclass(frozen=True, kw_only=True, slots=True)
class Delays:
    """The latest epochs of one table, in the order of time."""

    table: TableName
    epochs: tuple[Delay, ...]


def delays(
    reader: MetadataReader, domain: DomainName, table: TableName, *, end: datetime | None, limit: int
) -> Delays:
    """Return the delay of the latest *limit* committed epochs of *table* that begin before *end*.

    Epochs that a rollback has taken back count by what is committed since.
    """
    first = dict[Interval, datetime]()
    stop = None if end is None else time_key(end)
    found: list[Stamped[SliceRecord]] = scan(
        reader, domain, SliceRecord, table, end=stop, limit=limit * _REVISIONS, reverse=True
    )
    if found:  # earlier revisions of the earliest epoch may be beyond the limit
        start, stop = slices_of_epoch(found[-1].record.interval.start)
        found += scan(reader, domain, SliceRecord, table, start=start, end=stop)
    for stamped in found:
        record = stamped.record
        if not record.taken_back:
            first[record.interval] = min(stamped.at, first.get(record.interval, stamped.at))
    latest = sorted(first.items(), key=lambda item: item[0].end)[-limit:]
    return Delays(table=table, epochs=tuple(Delay(end=epoch.end, at=at) for epoch, at in latest))
