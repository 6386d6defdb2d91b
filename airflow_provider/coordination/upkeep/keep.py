"""Expire the states of full tables that a policy does not keep (R25), state by state (R24)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime

from airflow_provider.coordination.commits.expired_states import expired_states
from airflow_provider.coordination.commits.similar_names import meant
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.upkeep.expire import expire
from airflow_provider.domain.cut import newest_version
from airflow_provider.domain.errors import InvalidInput, UnknownName
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.keep import Keep
from airflow_provider.domain.records import Stamped, retention_key, table_key
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader, pages


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """A state of a full table. :param why: reason for which it cannot be expired; empty if it can."""

    table: TableName
    barrier: datetime
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thinned:
    """Result of applying a policy.

    :param expired: states that it has expired, or would expire. :param needed: states that it would, and that are
        needed. :param kept: number of states that stay. :param more: number of states that the next call expires.
    """

    expired: tuple[State, ...]
    needed: tuple[State, ...]
    kept: int
    more: int


def thin(
    context: Context, domain: DomainName, keep: Keep, tables: Collection[TableName], most: int
) -> Thinned:
    """Expire the states that *keep* does not name, oldest first; see :meth:`~.retention.Retention.keep`."""
    found = surplus(context.store, domain, keep, tables)
    expired, needed = list[State](), list[State]()
    doomed = iter(found.expired)
    for state in doomed:
        if len(expired) == most:
            return Thinned(
                expired=tuple(expired), needed=tuple(needed), kept=found.kept, more=1 + sum(1 for _ in doomed)
            )
        try:
            expire(context, domain, state.table, state.barrier)
            expired.append(state)
        except InvalidInput as error:
            if error.field != "barrier":
                raise
            needed.append(State(table=state.table, barrier=state.barrier, why=error.message))
    return Thinned(expired=tuple(expired), needed=tuple(needed), kept=found.kept, more=0)


def surplus(
    reader: MetadataReader, domain: DomainName, keep: Keep, tables: Collection[TableName] = ()
) -> Thinned:
    """Return the states that *keep* would expire, oldest first; changes nothing.

    :raises UnknownName: a table that no job has registered.
    """
    known = {TableName(stamped.key.item): stamped for stamped in pages(reader, domain, TableRecord)}
    for table in tables:
        if table not in known:
            raise UnknownName.of_table(table, domain, meant=meant(reader, domain, table))
    marks = (newest_version(stamped).watermark for stamped in known.values())
    reached = [mark for mark in marks if mark is not None]
    # A cut that names no barrier is made at the last one that all of its tables have: where the slowest of them stands.
    cadences = {stamped.record.cadence for stamped in known.values()}
    newest = {cadence.floor(mark) for cadence in cadences for mark in set(reached)}
    moments = sorted({*keep.moments(max(reached)), *newest}) if reached else []
    doomed, kept = list[State](), 0
    for table, stamped in sorted(known.items()):
        if not stamped.record.kind.loses_expired or (tables and table not in tables):
            continue
        barriers = list(_states(reader, domain, table, stamped))
        stay = keep.kept(barriers, moments)
        kept += len(stay)
        doomed += [State(table=table, barrier=barrier) for barrier in barriers if barrier not in stay]
    doomed.sort(key=lambda state: (state.barrier, state.table))
    return Thinned(expired=tuple(doomed), needed=(), kept=kept, more=0)


def _states(
    reader: MetadataReader, domain: DomainName, table: TableName, stamped: Stamped[TableRecord]
) -> Iterator[datetime]:
    """Yield the barriers at which a table can be read, earliest first."""
    version = newest_version(stamped)
    if version.origin is None or version.watermark is None:
        return
    barriers, cadence = list[datetime](), stamped.record.cadence
    barrier = cadence.next_after(version.origin)
    while barrier <= version.watermark:
        barriers.append(barrier)
        barrier = cadence.next_after(barrier)
    reading = reader.read(domain, [table_key(domain, table), retention_key(domain)])
    expired = expired_states(reader, domain, reading)
    expired.load((table, barrier) for barrier in barriers)
    yield from (barrier for barrier in barriers if expired.range_at(table, barrier) is None)
