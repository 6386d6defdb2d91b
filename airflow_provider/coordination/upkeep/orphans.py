"""What attempts left that nobody will begin again, and what zombies wrote after they were fenced (R16).

Each table's staging places are listed, and each is judged by what the store knows of the attempt that it belongs to.
A place goes only when that attempt has ended, long enough ago, and nothing of it was published. What the store cannot
tell (an epoch that it does not know, a token that it has not given out) stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from airflow_provider.coordination.attempts.end import fence_silent
from airflow_provider.coordination.commits.pointers import as_recorded, compare_pointer, declared_tables
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.errors import EpochError, RetryableError
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.orphans import ended_since, overtaken_since
from airflow_provider.domain.records import Kind, Stamped, epoch_key, event_partition
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import Table
from airflow_provider.stores.base import MetadataReader, MetadataStore, pages
from airflow_provider.tables.base import StagingFolder, StagingLocation
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.pointer_status import PointerStatus

_LONGEST_EPOCH = timedelta(days=367)
_DESCENDING = frozenset({PointerStatus.CURRENT, PointerStatus.BEHIND, PointerStatus.COMPACTED})


@dataclass(frozen=True, kw_only=True, slots=True)
class Orphan:
    """A place at which an attempt that has ended left something. :param since: when it ended."""

    place: StagingLocation
    since: datetime


def orphans(
    reader: MetadataReader, formats: TableFormats, domain: DomainName, defaults: Defaults
) -> Iterator[Orphan]:
    """What may be deleted now: nobody has published it, and nobody can."""
    now = reader.read(domain, []).now
    jobs: list[JobRecord] = [one.record for one in pages(reader, domain, Kind.JOB, "")]
    known = declared_tables(reader, domain)
    for stamped in list(pages(reader, domain, Kind.TABLE, "")):
        table = known.get(TableName(stamped.key.item))
        if table is None and stamped.record.ref is not None:
            table = as_recorded(stamped, stamped.record.ref)
        if table is None or not _is_settled(reader, formats, table):
            continue
        for job in jobs:
            if table.name in job.all_outputs or job.name == stamped.record.job:
                found = _ended(reader, formats, table, job.name)
                yield from (one for one in found if one.since + defaults.orphan_grace <= now)


def fence_forgotten(store: MetadataStore, domain: DomainName, defaults: Defaults) -> list[str]:
    """End the attempts that were silent for so long that nobody will come back to them; return which."""
    ended = []
    now = store.read(domain, []).now
    for job in list(pages(store, domain, Kind.JOB, "")):
        for lock in list(pages(store, domain, Kind.LOCK, job.key.item)):
            if lock.at + lock.record.ttl + defaults.orphan_grace <= now:
                fence_silent(store, lock, "silent, and nobody has begun the epoch again")
                ended.append(f"{lock.key.partition} {lock.key.item} of {lock.record.owner}")
    return ended


def _is_settled(reader: MetadataReader, formats: TableFormats, table: Table) -> bool:
    """Whether store and catalog agree on what was published: what is ahead of the store may be in any place."""
    try:
        return compare_pointer(reader, formats, table).status in _DESCENDING
    except RetryableError:
        raise
    except EpochError:
        return False


def _ended(reader: MetadataReader, formats: TableFormats, table: Table, job: JobName) -> Iterator[Orphan]:
    """The places of *job* in *table* of which nothing was published, nor can be any more."""
    staged = formats[table.format].staged(table, job)
    # Slices are read after the listing: what is published meanwhile is among them.
    slices = [one.record for one in pages(reader, table.domain, Kind.SLICE, table.name)] if staged else []
    published = {(one.interval.end, one.revision, one.token): one.interval for one in slices}
    for remains in staged:
        committed = published.get((remains.barrier, remains.revision, remains.token))
        if (
            committed is not None
            and remains.start in (None, committed.start)
            and not remains.participant_attempt
        ):
            continue
        epochs = _epochs(reader, table.domain, job, remains)
        since = [_over(reader, job, epoch, remains, committed, table=table.name) for epoch in epochs]
        ended = [moment for moment in since if moment is not None]
        if ended and len(ended) == len(since):
            place = formats[table.format].place(
                table,
                job=job,
                interval=_named(remains, epochs[0]),
                revision=remains.revision,
                token=remains.token,
                participant=remains.participant,
                participant_attempt=remains.participant_attempt,
                by_end=remains.start is None,
            )
            yield Orphan(place=place, since=max(ended))


def _over(
    reader: MetadataReader,
    job: JobName,
    epoch: Stamped[EpochRecord],
    remains: StagingFolder,
    committed: Interval | None,
    *,
    table: TableName,
) -> datetime | None:
    """Since when *remains* cannot be published for *epoch*; None while they may be, or were.

    :param committed: the epoch with the same end that was published under this revision and token.
    """
    interval = _named(remains, epoch)
    log = list(pages(reader, epoch.key.domain, Kind.EVENT, event_partition(job, interval.start)))
    if committed == interval:
        return overtaken_since(log, remains.token, remains.participant, remains.participant_attempt)
    return ended_since(epoch.record, log, remains.token, table)


def _named(remains: StagingFolder, epoch: Stamped[EpochRecord]) -> Interval:
    """The epoch that a place is named by; of a name without a start, *epoch*, which ends there."""
    return epoch.record.interval if remains.start is None else Interval(remains.start, remains.barrier)


def _epochs(
    reader: MetadataReader, domain: DomainName, job: JobName, remains: StagingFolder
) -> list[Stamped[EpochRecord]]:
    """The epochs of *job* whose attempts may have staged *remains*, none when nobody has begun one.

    Attempts at a start share its record, whatever end the calendar gives it (R7). Of a name without a start it may be
    any epoch that ends there: one a calendar.
    """
    if remains.start is not None:
        key = epoch_key(domain, job, remains.start)
        found = reader.read(domain, [key]).get(key)
        return [] if found is None else [found]
    earliest = time_key(remains.barrier - _LONGEST_EPOCH)
    newest = pages(reader, domain, Kind.EPOCH, job, start=earliest)
    return [
        one
        for one in takewhile(lambda one: one.record.interval.start < remains.barrier, newest)
        if one.record.interval.end == remains.barrier
    ]
