"""Slices of a table that readers may have seen and that no rollback has taken back (R30)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.records import Stamped, slices_of_epoch
from airflow_provider.domain.version import SliceRecord
from airflow_provider.stores.base import MetadataReader, pages, scan


def committed_slices(
    reader: MetadataReader, domain: DomainName, table: TableName
) -> Iterator[Stamped[SliceRecord]]:
    """Yield the committed slices of *table*, by start and revision, without those that were taken back."""
    found = pages(reader, domain, SliceRecord, table)
    return (stamped for stamped in found if not stamped.record.taken_back)


def committed_slices_of(
    reader: MetadataReader, domain: DomainName, table: TableName, start: datetime
) -> list[Stamped[SliceRecord]]:
    """Return those of the epoch that begins at *start*, in the order of their keys."""
    first, end = slices_of_epoch(start)
    found = scan(reader, domain, SliceRecord, table, start=first, end=end)
    return [stamped for stamped in found if not stamped.record.taken_back]


def newest_slice(
    reader: MetadataReader, domain: DomainName, table: TableName, start: datetime
) -> Stamped[SliceRecord] | None:
    """Return the slice of *table* that was committed last for the epoch that begins at *start*; None without any.

    The last key need not be the last commit: each job counts its own revisions.
    """
    found = committed_slices_of(reader, domain, table, start)
    return max(found, key=lambda stamped: stamped.csn or 0, default=None)
