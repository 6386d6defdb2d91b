"""Lag of the tables of a domain, and the epochs that hold them back: what ``airflow epochs lag`` shows.

Read-only. Tables are read in pages, so that two of them may be of different moments: an answer for people, on which no
decision rests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_provider.coordination.commits.catch_up import behind_of
from airflow_provider.coordination.commits.similar_names import meant
from airflow_provider.coordination.reading.resolve import names_of
from airflow_provider.coordination.retrying_reader import retrying_reader
from airflow_provider.domain.epoch import EpochRecord, LockRecord
from airflow_provider.domain.errors import UnknownName
from airflow_provider.domain.identifiers import DomainName, JobName, TableName, domain_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.lag import Begun, Lags, TableLag
from airflow_provider.domain.records import Stamped, epoch_key, lock_key, topology_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader, pages

_PAGE = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class DomainLag:
    """Lag of tables of one domain.

    :param csn: the domain's head. :param at: the store's time.
    :param limit: the last moment up to which cuts of the whole domain read; None if nothing limits them.
    :param tables: the slowest first.
    """

    domain: DomainName
    csn: int
    at: datetime
    limit: datetime | None
    tables: tuple[TableLag, ...]


def lag(reader: MetadataReader, domain: str, tables: Iterable[str | Table] = ()) -> DomainLag:
    """Return how far *tables* are behind, and what holds them back; by default all tables of *domain*.

    It reads all jobs and tables, and of each table that lacks due epochs the record of the first one: no epochs
    otherwise, and no source.

    :raises UnknownName: a table that no job has registered, or a domain without tables.
    :raises StoreUnavailable: the store did not answer for longer than readers wait (``read_timeout``).
    """
    reader, name = retrying_reader(reader), domain_name(domain)
    wanted = names_of(tables) if tables else []
    reading = reader.read(name, [topology_key(name)])
    jobs = {stamped.record.name: stamped for stamped in pages(reader, name, JobRecord)}
    known = {TableName(stamped.key.item): stamped for stamped in pages(reader, name, TableRecord)}
    if not known:
        raise UnknownName.of_empty(domain, what="table")
    for table in wanted:
        if table not in known:
            raise UnknownName.of_table(table, domain, meant=meant(reader, name, table))
    lags = Lags(now=reading.now, jobs=jobs, tables=known, behind=behind_of(reading, name))
    first = lags.first_lacking()
    begun = _begun(reader, name, first, known)
    return DomainLag(
        domain=name,
        csn=reading.head.csn,
        at=reading.now,
        limit=lags.limit,
        tables=tuple(lags.all(first, begun, wanted or known)),
    )


def _begun(
    reader: MetadataReader,
    domain: DomainName,
    first: Mapping[TableName, Interval],
    tables: Mapping[TableName, Stamped[TableRecord]],
) -> Begun:
    """Return those epochs of *first* that have a record, with their locks."""
    places = list(dict.fromkeys((tables[name].record.job, epoch.start) for name, epoch in first.items()))
    found: dict[tuple[JobName, datetime], tuple[Stamped[EpochRecord], Stamped[LockRecord] | None]] = {}
    for page in _parts(places):
        keys = {place: (epoch_key(domain, *place), lock_key(domain, *place)) for place in page}
        reading = reader.read(domain, [key for pair in keys.values() for key in pair])
        for place, (epoch, lock) in keys.items():
            stamped = reading.get(epoch)
            if stamped is not None and (stamped.record.attempt or stamped.record.committed):
                found[place] = stamped, reading.get(lock)
    return found


def _parts(places: Sequence[tuple[JobName, datetime]]) -> Iterable[Sequence[tuple[JobName, datetime]]]:
    return (places[start : start + _PAGE] for start in range(0, len(places), _PAGE))
