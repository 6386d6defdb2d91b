"""Slices of a table that readers may have seen and that no rollback has taken back (R30)."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.version import SliceRecord
from airflow_provider.stores.base import MetadataReader, pages


def committed_slices(
    reader: MetadataReader, domain: DomainName, table: TableName, *, start: str | None = None
) -> Iterator[Stamped[SliceRecord]]:
    """Yield the committed slices of *table*, by start and revision, without those that were taken back.

    :param start: of the first key.
    """
    found = pages(reader, domain, SliceRecord, table, start=start)
    return (stamped for stamped in found if not stamped.record.taken_back)
