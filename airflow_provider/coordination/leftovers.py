"""What attempts left that nobody will begin again, and what zombies wrote after they were fenced (R16).

Each table's staging places are listed, and each is judged by what the store knows of the attempt that it belongs to.
A place goes only when that attempt has ended, long enough ago, and nothing of it was published. What the store cannot
tell (an epoch that it does not know, a token that it has not given out) stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from airflow_provider.coordination.ending import fence_silent
from airflow_provider.coordination.recovery import as_recorded, declared_tables, standing
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.errors import EpochError, RetryableError
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import time_key
from airflow_provider.domain.leftovers import ended_since
from airflow_provider.domain.records import Kind, barrier_partition
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import EpochTable
from airflow_provider.stores.base import MetadataReader, MetadataStore, pages
from airflow_provider.tables.base import Place
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.standing import Standing

_SETTLED = frozenset({Standing.CURRENT, Standing.BEHIND, Standing.COMPACTED})


@dataclass(frozen=True, kw_only=True, slots=True)
class Leftover:
    """A place at which an attempt that has ended left something. :param since: when it ended."""

    place: Place
    since: datetime


def leftovers(
    reader: MetadataReader, formats: TableFormats, domain: DomainName, defaults: Defaults
) -> Iterator[Leftover]:
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
                yield from (one for one in found if one.since + defaults.leftover_grace <= now)


def fence_forgotten(store: MetadataStore, domain: DomainName, defaults: Defaults) -> list[str]:
    """End the attempts that were silent for so long that nobody will come back to them; return which."""
    ended = []
    now = store.read(domain, []).now
    for job in list(pages(store, domain, Kind.JOB, "")):
        for lock in list(pages(store, domain, Kind.LOCK, job.key.item)):
            if lock.at + lock.record.ttl + defaults.leftover_grace <= now:
                fence_silent(store, lock, "silent, and nobody has begun the epoch again")
                ended.append(f"{lock.key.partition} {lock.key.item} of {lock.record.owner}")
    return ended


def _is_settled(reader: MetadataReader, formats: TableFormats, table: EpochTable) -> bool:
    """Whether store and catalog agree on what was published: what is ahead of the store may be in any place."""
    try:
        return standing(reader, formats, table).standing in _SETTLED
    except RetryableError:
        raise
    except EpochError:
        return False


def _ended(
    reader: MetadataReader, formats: TableFormats, table: EpochTable, job: JobName
) -> Iterator[Leftover]:
    """The places of *job* in *table* under whose token nothing was published, nor can be any more."""
    domain = table.domain
    staged = formats[table.format].staged(
        table, job
    )  # before the slices: what is published meanwhile is in them
    slices = (one.record for one in pages(reader, domain, Kind.SLICE, table.name)) if staged else ()
    published = {(one.interval.end, one.revision, one.token) for one in slices}
    for one in staged:
        epoch = _epoch(reader, domain, job, one.barrier)
        if epoch is None or (one.barrier, one.revision, one.token) in published:
            continue
        log = pages(reader, domain, Kind.BARRIER, barrier_partition(job, epoch.interval.start))
        since = ended_since(epoch, log, one.token)
        if since is not None:
            place = formats[table.format].place(
                table,
                job=job,
                interval=epoch.interval,
                revision=one.revision,
                token=one.token,
                participant=one.participant,
                subtoken=one.subtoken,
            )
            yield Leftover(place=place, since=since)


def _epoch(reader: MetadataReader, domain: DomainName, job: JobName, barrier: datetime) -> EpochRecord | None:
    """The epoch of *job* that ends at *barrier*, if somebody has begun it."""
    newest = reader.scan(domain, Kind.EPOCH, job, end=time_key(barrier), limit=1, reverse=True)
    return next((one.record for one in newest if one.record.interval.end == barrier), None)
