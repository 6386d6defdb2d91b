"""Readers of a domain's tables in other domains of its store: nothing computes their epochs again (R30, R34)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import SourceKind, SourceRecord
from airflow_provider.domain.version import TableRef
from airflow_provider.stores.base import MetadataReader, pages


def readers_elsewhere(
    reader: MetadataReader, domain: DomainName, versions: Collection[tuple[TableRef, datetime]]
) -> Iterator[str]:
    """Yield sources of other domains that have read one of *versions* of tables, or up to it.

    They name snapshots of an Iceberg table. A compaction by another program makes snapshots that no commit names: what
    was recorded of such a table since its first of *versions* counts, too. Sources that a job has left count as those
    that it declares. Domains of other stores are not seen.

    :param versions: each with the time of its commit.
    """
    known = {version.version for version, _ in versions}
    since: dict[str, datetime] = {}
    for version, at in versions:
        since[version.table_uuid] = min(at, since.get(version.table_uuid, at))

    def has_read(bounds: Stamped[SourceRecord]) -> bool:
        span = bounds.record.bounds.span
        if span is None:
            return False
        first = since.get(span.identity)
        return not known.isdisjoint({span.low, span.high}) or (first is not None and bounds.at >= first)

    for other in reader.domains():
        if other == domain:
            continue
        for stamped in list(pages(reader, other, JobRecord)):
            job = stamped.record
            for source in (*job.sources, *job.left_sources):
                if source.kind is SourceKind.ICEBERG and any(
                    has_read(bounds) for bounds in pages(reader, other, SourceRecord, source.name)
                ):
                    yield f"source {source.name} of domain {other} has read it for job {job.name}"
