"""Keys of the records in a metadata store, each typed by its record, whose class is in the module of its subject."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from airflow_provider.domain.compaction import CompactionRecord
from airflow_provider.domain.epoch import AttemptEvent, EpochRecord, LockRecord
from airflow_provider.domain.epoch_id import EpochId, RevisionId
from airflow_provider.domain.expired import ExpiredPage
from airflow_provider.domain.identifiers import DomainName, JobName, LeaseId, RestatementId, TableName
from airflow_provider.domain.interval import time_key
from airflow_provider.domain.keys import Key as Key  # noqa: PLC0414  (every key function returns one)
from airflow_provider.domain.keys import Kind as Kind  # noqa: PLC0414
from airflow_provider.domain.keys import Stamped as Stamped  # noqa: PLC0414
from airflow_provider.domain.lease import LeaseRecord
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.reservation import ReservationRecord
from airflow_provider.domain.restatement import RestatementRecord
from airflow_provider.domain.retention import RetentionRecord, VersionsRecord
from airflow_provider.domain.source_bounds import SourceRecord
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.domain.version import CommitRecord, RewriteLog, SchemaRecord, SliceRecord, TableRecord

RECORDS: Mapping[Kind, type[Any]] = {
    Kind.TOPOLOGY: TopologyRecord,
    Kind.JOB: JobRecord,
    Kind.TABLE: TableRecord,
    Kind.REWRITE_LOG: RewriteLog,
    Kind.SCHEMA: SchemaRecord,
    Kind.EPOCH: EpochRecord,
    Kind.LOCK: LockRecord,
    Kind.EVENT: AttemptEvent,
    Kind.SOURCE: SourceRecord,
    Kind.SLICE: SliceRecord,
    Kind.COMMIT: CommitRecord,
    Kind.LEASE: LeaseRecord,
    Kind.RETENTION: RetentionRecord,
    Kind.VERSIONS: VersionsRecord,
    Kind.RESERVATION: ReservationRecord,
    Kind.EXPIRED: ExpiredPage,
    Kind.RESTATEMENT: RestatementRecord,
    Kind.COMPACTION: CompactionRecord,
}
"""The one dataclass of each kind of record."""

KINDS: Mapping[type[Any], Kind] = {record: kind for kind, record in RECORDS.items()}
"""The kind of each dataclass of :data:`RECORDS`."""

SOURCE_CHAINS = "roots"
"""Partition of the records that chain the bounds of a source; rewrite logs of tables have none."""


def topology_key(domain: DomainName) -> Key[TopologyRecord]:
    return Key(domain, Kind.TOPOLOGY, "", "topology")


def job_key(domain: DomainName, job: JobName) -> Key[JobRecord]:
    return Key(domain, Kind.JOB, "", job)


@lru_cache(maxsize=16_384)
def table_key(domain: DomainName, table: TableName) -> Key[TableRecord]:
    """Return the key of a table's record. Cached: every cut reads the records of its tables."""
    return Key(domain, Kind.TABLE, "", table)


def rewrite_log_key(domain: DomainName, table: TableName) -> Key[RewriteLog]:
    return Key(domain, Kind.REWRITE_LOG, "", table)


def chain_key(domain: DomainName, source: str) -> Key[RewriteLog]:
    """Return the key of a source's chain.

    Every transaction that records bounds writes it. Those whose bounds depend on other barriers, or on a name that the
    job has left, require its version: of two that decide at the same time one decides again.
    """
    return Key(domain, Kind.REWRITE_LOG, SOURCE_CHAINS, source)


def schema_key(domain: DomainName, table: TableName, table_uuid: str, schema_id: int) -> Key[SchemaRecord]:
    return Key(domain, Kind.SCHEMA, table, f"{table_uuid}:{schema_id:010d}")


def epoch_key(domain: DomainName, job: JobName, start: datetime) -> Key[EpochRecord]:
    return Key(domain, Kind.EPOCH, job, time_key(start))


def lock_key(domain: DomainName, job: JobName, start: datetime) -> Key[LockRecord]:
    return Key(domain, Kind.LOCK, job, time_key(start))


def fence_of(epoch: EpochId) -> Key[EpochRecord]:
    """Return the key of the record whose version fences the attempts of *epoch* (R10)."""
    return epoch_key(epoch.domain, epoch.job, epoch.interval.start)


def lock_of(epoch: EpochId) -> Key[LockRecord]:
    return lock_key(epoch.domain, epoch.job, epoch.interval.start)


def reservation_key(domain: DomainName) -> Key[ReservationRecord]:
    """Return the key of the reservation of a domain's head: one publisher holds it while the others wait."""
    return Key(domain, Kind.RESERVATION, "", "head")


def source_key(domain: DomainName, source: str, barrier: datetime, revision: int) -> Key[SourceRecord]:
    return Key(domain, Kind.SOURCE, source, f"{time_key(barrier)}:{revision:06d}")


def slice_key(name: RevisionId, table: TableName) -> Key[SliceRecord]:
    """Return the key of a slice; it names the job: jobs count their own revisions, and a table may change jobs."""
    item = f"{time_key(name.interval.start)}:{name.revision:06d}:{name.job}"
    return Key(name.domain, Kind.SLICE, table, item)


def slices_of_epoch(start: datetime) -> tuple[str, str]:
    """Return the range of items that the slices of the epoch that begins at *start* have in their table."""
    return f"{time_key(start)}:", f"{time_key(start)};"  # the character that follows the colon


def slice_writer(key: Key[SliceRecord]) -> JobName:
    """Return the job that a slice's *key* names."""
    return JobName(key.item.split(":", 2)[2])


def event_partition(job: JobName, start: datetime) -> str:
    """Return the partition with the state log of one epoch."""
    return f"{job}/{time_key(start)}"


def event_key(
    epoch: EpochId,
    token: int,
    state: str,
    *,
    sink: str = "",
    participant: int = 0,
    participant_attempt: int = 0,
) -> Key[AttemptEvent]:
    """Return the key of an entry of the state log, which is written once and never changed.

    :param sink: name of a table; empty for the whole epoch (begin, publish, abort).
    :param participant_attempt: number of the participant's try; 0 for the only writer of an attempt.
    """
    writer = f"{participant:06d}.{participant_attempt:06d}" if participant_attempt else f"{participant:06d}"
    partition = event_partition(epoch.job, epoch.interval.start)
    return Key(epoch.domain, Kind.EVENT, partition, f"{token:010d}:{writer}:{state}:{sink}")


def entry_key(epoch: EpochId, entry: AttemptEvent) -> Key[AttemptEvent]:
    """Return the key of *entry* of the state log."""
    return event_key(
        epoch,
        entry.token,
        entry.state,
        sink=entry.sink,
        participant=entry.participant,
        participant_attempt=entry.participant_attempt,
    )


def lease_key(domain: DomainName, lease: LeaseId) -> Key[LeaseRecord]:
    return Key(domain, Kind.LEASE, "", lease)


def restatement_key(domain: DomainName, restatement: RestatementId) -> Key[RestatementRecord]:
    return Key(domain, Kind.RESTATEMENT, "", restatement)


def compaction_key(domain: DomainName, table: TableName, number: str) -> Key[CompactionRecord]:
    """Return the key of a compaction of *table* that has not committed."""
    return Key(domain, Kind.COMPACTION, table, number)


def retention_key(domain: DomainName) -> Key[RetentionRecord]:
    return Key(domain, Kind.RETENTION, "", "retention")


def expired_key(domain: DomainName, table: TableName, item: str) -> Key[ExpiredPage]:
    """Return the key of a page of a table's expired barriers."""
    return Key(domain, Kind.EXPIRED, table, item)


def versions_key(domain: DomainName, table: TableName, first_csn: int) -> Key[VersionsRecord]:
    """Return the key of a page of a table's versions; pages sort by the commit of their first version."""
    return Key(domain, Kind.VERSIONS, table, commit_item(first_csn))


def whole_versions_key(domain: DomainName, table: TableName) -> Key[VersionsRecord]:
    """Return the key of all versions of a table in a store of before there were pages."""
    return Key(domain, Kind.VERSIONS, "", table)


def commit_item(csn: int) -> str:
    """Return the item of the commit record that took *csn*."""
    return f"{csn:020d}"
