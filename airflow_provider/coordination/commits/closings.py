"""Restatements that are closing: no epoch begins that would read what they are about to replace (R28)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId, TableName
from airflow_provider.domain.records import restatement_key
from airflow_provider.domain.restatement import RestatementRecord, is_over, within
from airflow_provider.domain.topology import OnUpstreamRevision
from airflow_provider.stores.base import MetadataReader


@dataclass(frozen=True, kw_only=True, slots=True)
class RangeRead:
    """A range ``[low, high)`` of *table* that an epoch is to read. :param writer: the table's job."""

    table: TableName
    writer: JobName
    low: datetime | None
    high: datetime
    on_upstream_revision: OnUpstreamRevision


@dataclass(frozen=True, kw_only=True, slots=True)
class Closing:
    """A restatement that is about to replace what an epoch is to read.

    :param until: time until which it closes. :param tables: those that the epoch reads.
    """

    name: RestatementId
    until: datetime
    tables: tuple[TableName, ...]

    @property
    def words(self) -> str:
        return (
            f"restatement {self.name!r} is about to replace: until {self.until.isoformat()}, or its publish, no "
            "further epoch begins to read it"
        )


def closings(
    reader: MetadataReader,
    domain: DomainName,
    restating: Iterable[RestatementId],
    reads: Iterable[RangeRead],
    *,
    own: RestatementId | None,
) -> Iterator[Closing]:
    """Yield the restatements of *restating* that are closing, and are about to replace something of *reads*.

    :param own: the change set within which the epoch is computed; it waits for the others only.
    """
    keys = {name: restatement_key(domain, name) for name in restating if name != own}
    if not keys:
        return
    ranges, found = list(reads), reader.read(domain, list(keys.values()))
    for name, key in keys.items():
        stamped = found.get(key)
        if stamped is None or is_over(stamped.record, incarnation=found.head.incarnation, now=found.now):
            continue
        until, replaced = stamped.record.closing_until, _replaced(stamped.record, ranges)
        if until is not None and stamped.record.is_closing(found.now) and replaced:
            yield Closing(name=name, until=until, tables=replaced)


def _replaced(record: RestatementRecord, reads: Iterable[RangeRead]) -> tuple[TableName, ...]:
    """Return the tables of *reads* in whose ranges *record* has members."""
    return tuple(
        read.table
        for read in reads
        if read.on_upstream_revision is not OnUpstreamRevision.IGNORE
        and within(record.of(read.writer), read.low, read.high)
    )
