"""Choose the barriers at which the tables of one cut are read (protocol section 6). Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider.domain.cut import resolve
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.read_options import Align
from airflow_provider.domain.version import TableRecord, TableVersion

_LONGEST_SEARCH = 1_000
_MOMENT = timedelta(microseconds=1)

VersionedTables = Mapping[TableName, tuple[TableRecord, TableVersion]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Aligned:
    """The barrier of a cut, and the barrier of each table in it: earlier where a full table lags."""

    barrier: datetime
    tables: Mapping[TableName, datetime]


def aligned(
    tables: VersionedTables, at: datetime | None, align: Align, max_lag: timedelta | None
) -> Aligned | None:
    """Return the greatest barrier at or before *at* that *tables* allow; None when there is none.

    :param max_lag: how far a full table may lag behind the cut's barrier, with :attr:`Align.FLOOR`.
    """
    if align is Align.EXACT or max_lag is None:
        barrier = resolve(tables, at)
        return None if barrier is None else Aligned(barrier=barrier, tables=dict.fromkeys(tables, barrier))
    limit = at
    for _ in range(_LONGEST_SEARCH):
        barrier = _leading(tables, limit)
        if barrier is None:
            return None
        resolved = {name: _own(record, moved, barrier) for name, (record, moved) in tables.items()}
        own = {name: reached for name, reached in resolved.items() if reached is not None}
        if len(own) < len(resolved):
            return None
        slowest = min(own.values())
        if barrier - slowest <= max_lag:
            return Aligned(barrier=barrier, tables=own)
        # Every later barrier would be more than max_lag ahead of the slowest table: the search goes on below.
        limit = slowest + max_lag
    return None


def _leading(tables: VersionedTables, limit: datetime | None) -> datetime | None:
    """Return the barrier of the tables that may not lag: the incremental ones, or the fastest where all are full."""
    exact = {name: table for name, table in tables.items() if not table[0].kind.may_lag}
    if exact:
        return resolve(exact, limit)
    alone = (resolve({name: table}, limit) for name, table in tables.items())
    return max((barrier for barrier in alone if barrier is not None), default=None)


def _own(record: TableRecord, moved: TableVersion, barrier: datetime) -> datetime | None:
    """Return the barrier at which a table is read in a cut at *barrier*."""
    if not record.kind.may_lag:
        return barrier
    return resolve({TableName(""): (record, moved)}, barrier)


def published_by_all(records: Iterable[tuple[TableRecord, TableVersion]]) -> datetime | None:
    """Return the last moment up to which every table has published all of its barriers; None when nothing limits it.

    A table without any commit limits nothing: a new job blocks no cut of older tables (R7). A table that joined the
    domain later (:attr:`TableRecord.joins`) limits only moments after that barrier.

    :param records: of all tables of the domain except those of inactive jobs (R9).
    """
    limits = []
    for record, moved in records:
        reached = moved.watermark or (moved.origin if record.progress.islands else None)
        if reached is not None:
            # The table has published all of its barriers until just before the next one.
            limit = record.cadence.next_after(reached) - _MOMENT
            limits.append(limit if record.joins is None else max(limit, record.joins))
    return min(limits, default=None)
