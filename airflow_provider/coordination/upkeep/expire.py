"""Expire a state of a table: no cut is made of it any more (R24)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from shlex import quote
from typing import TypeVar

from airflow_provider.coordination.attempts.reserve import await_unreserved
from airflow_provider.coordination.commits.catch_up import behind_of
from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.dependents import reading_jobs
from airflow_provider.coordination.commits.expired_states import (
    SINCE_FORMAT,
    expired_pages,
    expired_states,
    hull_of,
    retention_of,
)
from airflow_provider.coordination.commits.inactive_jobs import inactive_jobs
from airflow_provider.coordination.commits.places import refuse_elsewhere
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.commits.table_commits import (
    expiry,
    prepared_or_moved,
    told_hull,
    written_out,
)
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.upkeep.restated_states import not_expired, refuse_restated
from airflow_provider.domain.cut import newest_version, reached
from airflow_provider.domain.errors import Conflict
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import (
    Stamped,
    job_key,
    retention_key,
    table_key,
    topology_key,
)
from airflow_provider.domain.retention import full_states_read, still_needed
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import TableRecord, shown
from airflow_provider.stores.base import MetadataReader, Put, Reading, unchanged
from airflow_provider.tables.base import Prepared, Publication

Answer = TypeVar("Answer")


def expire(context: Context, domain: DomainName, name: TableName, barrier: datetime) -> None:
    """Expire the state of a table at *barrier*; see :meth:`~.retention.Retention.expire`."""
    while retried(context, lambda: page_ranges(context, domain)):
        pass
    retried(context, lambda: _expire(context, domain, name, barrier))


def _expire(context: Context, domain: DomainName, name: TableName, barrier: datetime) -> None:
    # A publisher that lost races reserves the head: do not overtake it (docs/decisions/publish-queue.md).
    await_unreserved(context.store, domain, context.clock, context.random)
    table, retention, topology = table_key(domain, name), retention_key(domain), topology_key(domain)
    reading = context.store.read(domain, [table, retention, topology])
    refuse_sealed(domain, reading.get(topology))
    refuse_elsewhere(domain, reading.get(topology), context.formats)
    stamped = reading.get(table)
    if stamped is None or not reached(stamped.record, newest_version(stamped), barrier):
        raise not_expired(name, barrier, "a barrier that the table has reached")
    if expired_states(context.store, domain, reading).range_at(name, barrier) is not None:
        return
    _refuse_needed(context, domain, name, stamped, barrier)
    _refuse_behind(reading, context.store, stamped, barrier)
    refuse_restated(context.store, stamped, barrier)
    epoch = stamped.record.cadence.ending_at(barrier)
    commit = CommitBuilder(domain, reading, context.defaults)
    commit.require(*(unchanged(reading, key) for key in (table, retention, topology)))
    hull = _record(context, commit, stamped, epoch)
    if not stamped.record.kind.loses_expired:
        context.store.transact(told_hull(commit, stamped, hull))
        return
    publication, prepared = _without_slice(context, commit, stamped, epoch)
    after = replace(written_out(stamped), expired=hull or stamped.record.expired)
    commit.show(stamped, after, epoch, publication, prepared)
    context.store.transact(commit.transaction(publication.change_set, by="retention"))
    context.formats[publication.table.format].published(publication, prepared)


def _record(
    context: Context, commit: CommitBuilder, stamped: Stamped[TableRecord], epoch: Interval
) -> Interval | None:
    """Add to *commit* that *epoch* is expired; return the table's hull if it has to grow."""
    domain, name = stamped.key.domain, TableName(stamped.key.item)
    record = retention_of(domain, commit.reading)
    if context.store.format < SINCE_FORMAT:
        commit.update(Put(retention_key(domain), record.expiring(name, epoch)))
        return None
    requires, updates = expired_pages(context.store, domain, name, [epoch], context.defaults)
    commit.require(*requires)
    # The retention record is written unchanged: claims in flight require its version, and are decided anew.
    commit.update(Put(retention_key(domain), record), *updates)
    return hull_of(stamped, epoch)


def page_ranges(context: Context, domain: DomainName) -> bool:
    """Move some ranges of the domain's retention record into pages; return whether it has more."""
    retention, topology = retention_key(domain), topology_key(domain)
    reading = context.store.read(domain, [retention, topology])
    refuse_sealed(domain, reading.get(topology))
    record = retention_of(domain, reading)
    if not record.expired or context.store.format < SINCE_FORMAT:
        return False
    await_unreserved(context.store, domain, context.clock, context.random)
    first, most = record.expired[0], context.defaults.ranges_in_page
    table = table_key(domain, first.table)
    tables = context.store.read(domain, [table])
    stamped = tables.get(table)
    known = first.ranges[:most]
    requires, updates = expired_pages(context.store, domain, first.table, known, context.defaults)
    left = replace(first, ranges=first.ranges[most:])
    after = replace(record, expired=(*([left] if left.ranges else []), *record.expired[1:]))
    hull = hull_of(stamped, Interval(known[0].start, known[-1].end)) if stamped and known else None
    commit = CommitBuilder(domain, reading, context.defaults)
    commit.require(unchanged(tables, table), *(unchanged(reading, key) for key in (retention, topology)))
    commit.require(*requires)
    commit.update(Put(retention, after), *updates)
    context.store.transact(told_hull(commit, stamped, hull))
    return bool(after.expired)


def _refuse_needed(
    context: Context, domain: DomainName, name: TableName, stamped: Stamped[TableRecord], barrier: datetime
) -> None:
    if stamped.record.progress.watermark == barrier:
        raise not_expired(name, barrier, "a barrier before the table's newest one")
    inactive = inactive_jobs(context.store, domain)
    for job in reading_jobs(context.store, domain, [name]):
        if job.name in inactive:
            continue
        keys = [table_key(domain, output) for output in job.all_outputs]
        tables = (found.record for found in context.store.read(domain, keys).records.values())
        outputs = [table for table in tables if table.job == job.name and not table.ended]
        if still_needed(job, outputs, name, stamped.record, barrier):
            raise not_expired(
                name,
                barrier,
                f"a barrier that job {job.name!r} has no epoch left to read at",
                next_step=f"let job {job.name!r} compute them first; where nothing more comes of it, such as of "
                f"a trial, `airflow epochs retire {quote(job.name)} --reason …`.",
            )


def _refuse_behind(
    reading: Reading, reader: MetadataReader, stamped: Stamped[TableRecord], barrier: datetime
) -> None:
    """Refuse to expire what an epoch behind its source reads: it is committed, and must be computed again (R18)."""
    domain, name = stamped.key.domain, TableName(stamped.key.item)
    behind = [entry for entry in behind_of(reading, domain) if not entry.until]
    if not behind:
        return
    jobs = reader.read(domain, [job_key(domain, job) for job in dict.fromkeys(entry.job for entry in behind)])
    for entry in behind:
        job = jobs.of(job_key(domain, entry.job)).record
        if not job.retired and (name, barrier) in full_states_read(
            job, entry.interval, {name: stamped.record}
        ):
            raise not_expired(
                name,
                barrier,
                f"a barrier that no epoch behind its source has to read again; {entry.why}",
                next_step=f"clear the task of job {entry.job} for {entry.interval}, which computes it again; then "
                "expire the barrier.",
            )


def _without_slice(
    context: Context, commit: CommitBuilder, stamped: Stamped[TableRecord], epoch: Interval
) -> tuple[Publication, Prepared]:
    """Prepare the table's next version, which has no rows of *epoch*."""
    record, name = stamped.record, TableName(stamped.key.item)
    if record.ref is None:
        raise not_expired(name, epoch.end, "a barrier of a table with a commit")
    table = undeclared(stamped.key.domain, name, record, record.ref.format)
    shows = shown(record, record.progress, context.store.format)
    version = commit.next_version(table, record.ref, shows, expiry(name, epoch))
    publication = replace(version, removes=(epoch,))
    return publication, prepared_or_moved(context.store, context.formats, publication, stamped)


def retried(context: Context, request: Callable[[], Answer]) -> Answer:
    """Run *request* until no other change comes between its reading and its transaction."""
    lost = Conflict("others kept changing the tables, or what is expired.", next_step="try again.")
    return context.retry(request, lost)


def undeclared(domain: DomainName, name: TableName, record: TableRecord, table_format: str) -> Table:
    """Return the table as its format needs to know it, without the declarations for writers."""
    return Table(name, domain=domain, kind=record.kind, format=table_format)
