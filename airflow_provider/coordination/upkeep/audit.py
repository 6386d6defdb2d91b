"""Audit of two invariants on a live store: no input has changed since it was read (I4), no file is missing (I6).

Everything is read in pages, one table's history at a time; rows are not read, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_provider.coordination.commits.catch_up import behind_of
from airflow_provider.coordination.commits.claims import claimed_versions
from airflow_provider.coordination.commits.expired_states import retention_of
from airflow_provider.coordination.commits.pointers import as_recorded, declared_tables
from airflow_provider.coordination.commits.slices import committed_slices
from airflow_provider.coordination.commits.table_commits import ADOPTED_BY
from airflow_provider.domain.attempt_events import newest_tries
from airflow_provider.domain.auditing import Change, StaleInput, TableHistory, stale_inputs
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.epoch import AttemptEvent, EpochRecord, EpochState, LockRecord
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped, event_partition, retention_key, source_key, topology_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.restatement import RestatementRecord, RestatementState
from airflow_provider.domain.topology import OnUpstreamRevision, Table
from airflow_provider.domain.version import Committable, TableRecord, TableRef
from airflow_provider.stores.base import MetadataReader, pages, scan
from airflow_provider.tables.base import MissingFile
from airflow_provider.tables.factory import TableFormats


@dataclass(frozen=True, kw_only=True, slots=True)
class StaleRead:
    """A committed epoch whose input has changed since it was read (I4).

    :param subject: the table, or the source, that it read.
    :param changed: the time whose rows have changed. :param changed_csn: the commit that changed them; None for a
        source.
    """

    job: JobName
    interval: Interval
    revision: int
    subject: str
    changed: Interval
    changed_csn: int | None
    reason: str

    def __str__(self) -> str:
        commit = "" if self.changed_csn is None else f" (CSN {self.changed_csn})"
        epoch = f"{self.job} {self.interval} revision {self.revision}"
        return f"{epoch}: {self.subject} {self.changed}{commit}: {self.reason}"


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingFiles:
    """Missing files that a reader may open (I6).

    :param used_by: the table's readers, or an attempt that is about to publish the files.
    """

    table: TableName
    used_by: str
    files: tuple[MissingFile, ...]

    @property
    def barriers(self) -> tuple[datetime, ...]:
        """Barriers of the epochs whose rows are in the missing files, as far as descriptions name them; sorted."""
        return tuple(sorted({file.barrier for file in self.files if file.barrier is not None}))


# --- I4 ----------------------------------------------------------------------------------------------------------


def stale_reads(reader: MetadataReader, domain: DomainName) -> Iterator[StaleRead]:
    """Yield the committed epochs whose inputs have changed since they were read.

    Not where the edge says ``ignore``, nor where it says ``hold`` and the epoch was released from what changed them.
    """
    jobs = [stamped.record for stamped in pages(reader, domain, JobRecord)]
    adopted, releases = _adopted(reader, domain), _releases(reader, domain, jobs)
    for stamped in list(pages(reader, domain, TableRecord)):
        yield from _stale_reads_of(reader, domain, stamped, jobs, adopted, releases=releases)
    for name in sorted({source for job in jobs for source in job.all_sources}):
        yield from _older_revisions(reader, domain, name, jobs)


def _stale_reads_of(
    reader: MetadataReader,
    domain: DomainName,
    stamped: Stamped[TableRecord],
    jobs: Sequence[JobRecord],
    adopted: Mapping[TableName, Sequence[Change]],
    *,
    releases: Mapping[int, RestatementRecord],
) -> Iterator[StaleRead]:
    name = TableName(stamped.key.item)
    # A skip of a full table reads what the table had before, without an edge.
    skips = stamped.record.kind.copies_when_skipped
    readers = [
        job
        for job in jobs
        if any(edge.table == name for edge in job.all_edges) or (skips and name in job.all_outputs)
    ]
    if not readers:
        return
    # Slices before readers: an epoch that commits meanwhile has read these slices or later ones, so it is never stale.
    slices = (
        Change(interval=piece.record.interval, csn=piece.csn or 0, rows=piece.record.rows)
        for piece in committed_slices(reader, domain, name)
    )
    histories = {name: TableHistory(slices, adopted.get(name, ()))}
    origins = {name: stamped.record.progress.origin}
    for job in readers:
        for epoch in pages(reader, domain, EpochRecord, job.name):
            record = epoch.record
            if record.committed is not None:
                released = [csn for csn, by in releases.items() if by.is_released(job.name, record.interval)]
                for found in stale_inputs(record.committed, histories, origins, released):
                    yield _stale_read(job.name, record, found)


def _releases(
    reader: MetadataReader, domain: DomainName, jobs: Sequence[JobRecord]
) -> dict[int, RestatementRecord]:
    """Return the published restatements from which epochs were released, by their CSN."""
    edges = [edge for job in jobs for edge in job.all_edges]
    if not any(edge.on_upstream_revision is OnUpstreamRevision.HOLD for edge in edges):
        return {}
    return {
        stamped.csn or 0: stamped.record
        for stamped in pages(reader, domain, RestatementRecord)
        if stamped.record.state is RestatementState.PUBLISHED and stamped.record.released_jobs
    }


def _stale_read(job: JobName, epoch: EpochRecord, found: StaleInput) -> StaleRead:
    return StaleRead(
        job=job,
        interval=epoch.interval,
        revision=epoch.committed.revision if epoch.committed else 0,
        subject=found.read.table,
        changed=found.changed.interval,
        changed_csn=found.changed.csn,
        reason=found.reason,
    )


def _adopted(reader: MetadataReader, domain: DomainName) -> Mapping[TableName, Sequence[Change]]:
    """Return the changes by adoption of another program's rows, which no slice records."""
    found: dict[TableName, list[Change]] = {}
    after = 0
    while page := reader.changes(domain, after, limit=500):
        for commit in page:
            after = commit.csn or after
            if commit.record.by == ADOPTED_BY:
                for delta in commit.record.tables:
                    change = Change(interval=delta.interval, csn=after, rows=delta.rows)
                    found.setdefault(delta.table, []).append(change)
    return found


def _older_revisions(
    reader: MetadataReader, domain: DomainName, name: str, jobs: Sequence[JobRecord]
) -> Iterator[StaleRead]:
    """Yield epochs that have read other bounds of *name* than the newest revision committed at the same barrier.

    Epochs known to be behind are left out: their readers wait, and doctor names them by themselves.
    """
    newest: dict[datetime, int] = {}
    readers = [job for job in jobs if name in job.all_sources]
    for _, epoch, revision in _revisions(reader, domain, name, readers):
        if revision > max(1, newest.get(epoch.interval.end, 1)):
            newest[epoch.interval.end] = revision
    for job, epoch, revision in _revisions(reader, domain, name, readers) if newest else ():
        later = newest.get(epoch.interval.end, 1)
        if revision >= later or epoch.committed is None:
            continue
        behind = behind_of(reader.read(domain, [topology_key(domain)]), domain)
        known = any(entry.source == name and entry.is_of(job.name, epoch.interval) for entry in behind)
        if not known and not _same_bounds(reader, domain, name, epoch.interval, (revision, later)):
            yield StaleRead(
                job=job.name,
                interval=epoch.interval,
                revision=epoch.committed.revision,
                subject=f"source {name}",
                changed=epoch.interval,
                changed_csn=None,
                reason=f"it read revision {revision}, and another committed epoch revision {later}",
            )


def _same_bounds(
    reader: MetadataReader, domain: DomainName, name: str, epoch: Interval, revisions: tuple[int, int]
) -> bool:
    """Return whether two revisions of *name* have the same bounds for an epoch: a source may be bound back."""
    keys = [source_key(domain, name, epoch.end, revision) for revision in revisions]
    found = reader.read(domain, keys).records
    return len(found) == len(keys) and found[keys[0]].record.whole.same_as(found[keys[1]].record.whole)


def _revisions(
    reader: MetadataReader, domain: DomainName, name: str, jobs: Sequence[JobRecord]
) -> Iterator[tuple[JobRecord, EpochRecord, int]]:
    """Yield the committed epochs that have read *name*, each with the revision that it read."""
    for job in jobs:
        declared = any(source.name == name for source in job.sources)
        for epoch in pages(reader, domain, EpochRecord, job.name):
            committed = epoch.record.committed
            if committed is None or committed.skipped:
                continue
            revision = committed.revision_of(name) if declared or committed.names_sources else 0
            if revision:
                yield job, epoch.record, revision


# --- I6 ----------------------------------------------------------------------------------------------------------


def missing_files(
    reader: MetadataReader, formats: TableFormats, domain: DomainName, *, defaults: Defaults = DEFAULTS
) -> Iterator[MissingFiles]:
    """Yield the missing files of versions that may be read, or that are about to be published.

    These are the newest version of each table, the versions that cuts without a lease may still read, those that
    leases, inputs of open attempts and baselines name, and the output that live attempts have WRITTEN.
    """
    tables = declared_tables(reader, domain)
    for stamped in pages(reader, domain, TableRecord):
        if stamped.record.ref is not None:
            tables.setdefault(TableName(stamped.key.item), as_recorded(stamped, stamped.record.ref))
    readable, again = _readable(reader, domain, defaults), None
    for name, table in tables.items():
        missing = formats[table.format].missing(table, readable.get(name, []))
        if missing:  # a vacuum may have deleted meanwhile what no reader may open any more
            again = again or _readable(reader, domain, defaults)
            missing = formats[table.format].missing(table, again.get(name, []))
        if missing:
            yield MissingFiles(table=name, used_by="readers", files=tuple(missing))
    for job in list(pages(reader, domain, JobRecord)):
        for lock in list(pages(reader, domain, LockRecord, job.key.item)):
            yield from _missing_output(reader, formats, domain, job.record, lock.key.item)


def _readable(
    reader: MetadataReader, domain: DomainName, defaults: Defaults
) -> dict[TableName, list[TableRef]]:
    """Return the versions of each table that may be read."""
    found: dict[TableName, list[TableRef]] = {}
    reading, newest = reader.read(domain, [retention_key(domain)]), dict[TableName, TableRef]()
    now, horizon = reading.now, retention_of(domain, reading).horizon
    born = {TableName(known.key.item): known.record.born for known in pages(reader, domain, TableRecord)}
    for csn, table, ref, at in _versions(reader, domain):
        if csn < born.get(table, 0):
            continue  # of a table that was dropped: who has no claim on it opens none of its files
        # A move has stamped all commits anew, also those whose vacuum took what they superseded.
        if csn > horizon and at + defaults.read_grace > now and table in newest:
            found.setdefault(table, []).append(newest[table])  # a cut may have been made of it just before
        newest[table] = ref
    claimed = claimed_versions(reader, domain)
    return {
        table: list(dict.fromkeys((ref, *found.get(table, ()), *claimed.get(table, ()))))
        for table, ref in newest.items()
    }


def _versions(
    reader: MetadataReader, domain: DomainName
) -> Iterator[tuple[int, TableName, TableRef, datetime]]:
    """Yield the versions of all tables in the order of their commits, each with number and time of its commit."""
    after = 0
    while page := reader.changes(domain, after, limit=500):
        for commit in page:
            after = commit.csn or after
            for delta in commit.record.tables:
                if delta.ref is not None:
                    yield after, delta.table, delta.ref.lasting(), commit.at


def _missing_output(
    reader: MetadataReader, formats: TableFormats, domain: DomainName, job: JobRecord, start: str
) -> Iterator[MissingFiles]:
    """Yield missing files of output that a live attempt has WRITTEN, unless the attempt ends meanwhile."""
    missing: list[MissingFiles] = []
    for _ in range(2):  # an attempt that ends meanwhile is not live the second time
        missing = [
            MissingFiles(table=table.name, used_by=attempt, files=tuple(gone))
            for attempt, table, output in list(_written(reader, domain, job, start))
            if (gone := formats[table.format].missing(table, [], [output]))
        ]
        if not missing:
            return
    yield from missing


def _written(
    reader: MetadataReader, domain: DomainName, job: JobRecord, start: str
) -> Iterator[tuple[str, Table, Committable]]:
    """Yield the output that the newest tries of an open attempt have WRITTEN, with the attempt's name."""
    found = scan(reader, domain, EpochRecord, job.name, start=start, limit=1)
    epoch = found[0].record if found and found[0].key.item == start else None
    if epoch is None or epoch.attempt is None or epoch.attempt.aborted is not None:
        return
    token = epoch.attempt.output_token
    partition = event_partition(job.name, epoch.interval.start)
    log = [event.record for event in pages(reader, domain, AttemptEvent, partition)]
    newest, tables = newest_tries(log, token), {table.name: table for table in job.outputs}
    for entry in log:
        same_try = entry.token == token and entry.participant_attempt == newest.get(entry.participant, 0)
        table = tables.get(TableName(entry.sink))
        if same_try and table and entry.state is EpochState.WRITTEN and entry.committable is not None:
            yield (
                f"{job.name} {epoch.interval}, an attempt of {epoch.attempt.owner}",
                table,
                entry.committable,
            )
