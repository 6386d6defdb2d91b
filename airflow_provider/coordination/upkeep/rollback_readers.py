"""Readers of a domain's tables in other domains of its store: nothing computes their epochs again (R30, R34)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import SourceKind, SourceRecord
from airflow_provider.domain.version import TableRef
from airflow_provider.stores.base import MetadataReader, pages


def readers_elsewhere(
    reader: MetadataReader, domain: DomainName, versions: Collection[TableRef]
) -> Iterator[str]:
    """Yield sources of other domains that have read one of *versions* of tables, or up to it.

    They name snapshots of an Iceberg table. Domains of other stores are not seen.
    """
    known = {version.version for version in versions}
    for other in reader.domains():
        if other == domain:
            continue
        for stamped in list(pages(reader, other, JobRecord)):
            for source in stamped.record.sources:
                if source.kind is not SourceKind.ICEBERG:
                    continue
                for bounds in pages(reader, other, SourceRecord, source.name):
                    span = bounds.record.bounds.span
                    if span is not None and not known.isdisjoint({span.low, span.high}):
                        yield f"source {source.name} of domain {other} has read it for job {stamped.record.name}"
                        break
