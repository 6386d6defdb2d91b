"""Orphans: output of attempts that ended without a commit, and of zombies after they were fenced (R16).

Each table's staging places are listed, and each is compared with the store's records of its attempt. A place is an
orphan only if that attempt has ended, long enough ago, and nothing of it was published. A place of an epoch or a token
that the store does not know stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from airflow_provider.coordination.attempts.end import fence_silent
from airflow_provider.coordination.commits.pointers import as_recorded, compare_pointer, declared_tables
from airflow_provider.coordination.upkeep.dropped_files import highest_token
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import AttemptEvent, EpochRecord, LockRecord
from airflow_provider.domain.errors import EpochError, RetryableError
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.orphans import ended_since, overtaken_since
from airflow_provider.domain.records import Stamped, epoch_key, event_partition
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import SliceRecord, TableRecord
from airflow_provider.stores.base import MetadataReader, MetadataStore, pages
from airflow_provider.tables.base import StagingFolder, StagingLocation
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.pointer_status import PointerStatus

_LONGEST_EPOCH = timedelta(days=367)
_DESCENDING = frozenset({PointerStatus.CURRENT, PointerStatus.BEHIND, PointerStatus.COMPACTED})


@dataclass(frozen=True, kw_only=True, slots=True)
class Orphan:
    """A staging place of an attempt that has ended. :param since: time of that end."""

    place: StagingLocation
    since: datetime


def orphans(
    reader: MetadataReader, formats: TableFormats, domain: DomainName, defaults: Defaults
) -> Iterator[Orphan]:
    """Yield the orphans that may be deleted now: they were not published, and cannot be any more."""
    now = reader.read(domain, []).now
    jobs: list[JobRecord] = [stamped.record for stamped in pages(reader, domain, JobRecord)]
    known = declared_tables(reader, domain)
    for stamped in list(pages(reader, domain, TableRecord)):
        table = known.get(TableName(stamped.key.item))
        if table is None and stamped.record.ref is not None:
            table = as_recorded(stamped, stamped.record.ref)
        if table is None or not _is_settled(reader, formats, table):
            continue
        former = highest_token(reader, table)
        for job in jobs:
            if table.name in job.all_outputs or job.name == stamped.record.job:
                found = _ended(reader, formats, table, job.name, above=former)
                yield from (orphan for orphan in found if orphan.since + defaults.orphan_grace <= now)


def fence_forgotten(store: MetadataStore, domain: DomainName, defaults: Defaults) -> list[str]:
    """End the attempts that have been silent for ``orphan_grace``; return their names."""
    ended = []
    now = store.read(domain, []).now
    for job in list(pages(store, domain, JobRecord)):
        for lock in list(pages(store, domain, LockRecord, job.key.item)):
            if lock.at + lock.record.ttl + defaults.orphan_grace <= now:
                fence_silent(store, lock, "silent, and no attempt has begun the epoch again")
                ended.append(f"{lock.key.partition} {lock.key.item} of {lock.record.owner}")
    return ended


def _is_settled(reader: MetadataReader, formats: TableFormats, table: Table) -> bool:
    """Return whether the pointer is at or behind the store's record: a table ahead of the store may use any place."""
    try:
        return compare_pointer(reader, formats, table).status in _DESCENDING
    except RetryableError:
        raise
    except EpochError:
        return False


def _ended(
    reader: MetadataReader, formats: TableFormats, table: Table, job: JobName, *, above: int
) -> Iterator[Orphan]:
    """Yield the places of *job* in *table* of which nothing was published, nor can be any more.

    :param above: places up to this token are of a table that was dropped: they go with its versions.
    """
    staged = [remains for remains in formats[table.format].staged(table, job) if remains.token > above]
    # Slices after the listing: they include listed output that is published meanwhile.
    stored = pages(reader, table.domain, SliceRecord, table.name) if staged else ()
    slices = [stamped.record for stamped in stored]
    published = {(piece.interval.end, piece.revision, piece.token): piece.interval for piece in slices}
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
    """Return the time since which *remains* cannot be published for *epoch*; None while they may be, or were.

    :param committed: the epoch with the same end that was published under this revision and token.
    """
    interval = _named(remains, epoch)
    log = list(pages(reader, epoch.key.domain, AttemptEvent, event_partition(job, interval.start)))
    if committed == interval:
        return overtaken_since(log, remains.token, remains.participant, remains.participant_attempt)
    return ended_since(epoch.record, log, remains.token, table)


def _named(remains: StagingFolder, epoch: Stamped[EpochRecord]) -> Interval:
    """Return the interval in a place's name; for a name without a start, that of *epoch*, which ends there."""
    return epoch.record.interval if remains.start is None else Interval(remains.start, remains.barrier)


def _epochs(
    reader: MetadataReader, domain: DomainName, job: JobName, remains: StagingFolder
) -> list[Stamped[EpochRecord]]:
    """Return the epochs of *job* whose attempts may have staged *remains*; none if none has begun.

    Attempts at a start share its record, whatever end the calendar gives it (R7). For a name without a start these are
    all epochs that end there, one per calendar.
    """
    if remains.start is not None:
        key = epoch_key(domain, job, remains.start)
        found = reader.read(domain, [key]).get(key)
        return [] if found is None else [found]
    earliest = time_key(remains.barrier - _LONGEST_EPOCH)
    newest = pages(reader, domain, EpochRecord, job, start=earliest)
    return [
        epoch
        for epoch in takewhile(lambda epoch: epoch.record.interval.start < remains.barrier, newest)
        if epoch.record.interval.end == remains.barrier
    ]
