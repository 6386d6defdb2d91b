"""All records of a domain, as a move copies and compares them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from airflow_provider.domain.epoch import AttemptEvent, EpochRecord
from airflow_provider.domain.expired import ExpiredPage
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import (
    SOURCE_CHAINS,
    Key,
    Kind,
    Stamped,
    event_partition,
    topology_key,
)
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.restatement import RestatementRecord
from airflow_provider.domain.retention import RetentionRecord, VersionsRecord
from airflow_provider.domain.source_bounds import SourceRecord
from airflow_provider.domain.version import CommitRecord, RewriteLog, SchemaRecord, SliceRecord, TableRecord
from airflow_provider.stores.base import MetadataReader, pages
from airflow_provider.stores.codec import encode

_BATCH_BYTES = 300_000
_BATCH_RECORDS = 200
STAYS = frozenset({Kind.TOPOLOGY, Kind.LOCK, Kind.LEASE, Kind.COMMIT, Kind.RESERVATION, Kind.COMPACTION})
"""Kinds that are not copied: a sealed domain has none of them, or the move writes them itself."""


def records(reader: MetadataReader, domain: DomainName) -> Iterator[Stamped[Any]]:
    """Yield all records of a domain except the kinds of :data:`STAYS`."""
    jobs: list[JobRecord] = []
    tables: list[str] = []
    for known in pages(reader, domain, JobRecord):
        jobs.append(known.record)
        yield known
    for stamped in pages(reader, domain, TableRecord):
        tables.append(stamped.key.item)
        yield stamped
    topology = reader.read(domain, [key := topology_key(domain)]).get(key)
    dropped = () if topology is None else topology.record.dropped  # their files may be there for vacuums
    tables += sorted({entry.table for entry in dropped} - {*tables})
    for kind in (RewriteLog, RetentionRecord, VersionsRecord, RestatementRecord):
        yield from pages(reader, domain, kind)
    for job in jobs:
        for epoch in pages(reader, domain, EpochRecord, job.name):
            yield epoch
            log = event_partition(job.name, epoch.record.interval.start)
            yield from pages(reader, domain, AttemptEvent, log)
    yield from pages(reader, domain, RewriteLog, SOURCE_CHAINS)
    for source in sorted({name for job in jobs for name in job.all_sources}):
        yield from pages(reader, domain, SourceRecord, source)
    for table in tables:
        yield from pages(reader, domain, SchemaRecord, table)
        yield from pages(reader, domain, SliceRecord, table)
        yield from pages(reader, domain, VersionsRecord, table)
        yield from pages(reader, domain, ExpiredPage, table)


def contents(reader: MetadataReader, domain: DomainName) -> dict[Key[Any], tuple[Any, int | None]]:
    """Return all records of a domain and its commits, each with its CSN, by key."""
    every = (*records(reader, domain), *pages(reader, domain, CommitRecord))
    return {stamped.key: (stamped.record, stamped.csn) for stamped in every}


def batches(found: Iterable[Stamped[Any]]) -> Iterator[list[Stamped[Any]]]:
    """Yield batches that fit into one transaction of any store."""
    batch: list[Stamped[Any]] = []
    size = 0
    for stamped in found:
        length = len(encode(stamped.key, stamped.record))
        if batch and (size + length > _BATCH_BYTES or len(batch) == _BATCH_RECORDS):
            yield batch
            batch, size = [], 0
        batch.append(stamped)
        size += length
    if batch:
        yield batch
