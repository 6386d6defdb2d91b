"""At which barriers the tables of one cut are read (protocol section 6). Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from airflow_provider.domain.cut import Level, resolve
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.topology import TableKind
from airflow_provider.domain.version import Moved, TableRecord

_LONGEST_SEARCH = 1_000
_MOMENT = timedelta(microseconds=1)

Stood = Mapping[TableName, tuple[TableRecord, Moved]]


class Align(StrEnum):
    """How tables of different pace meet in one cut."""

    EXACT = "exact"
    """All at one barrier, which all have reached."""
    FLOOR = "floor"
    """Full tables may stay behind: each at its last barrier, labelled, at most a declared time earlier."""


class Consistency(StrEnum):
    """Whose progress a cut waits for."""

    ROLLING = "rolling"
    """That of the tables in it."""
    ALTOGETHER = "altogether"
    """That of the whole domain: only barriers that all its tables have published."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadDefaults:
    """What a read gets that does not say it."""

    level: Level = Level.READ_COMMITTED
    consistency: Consistency = Consistency.ROLLING


READ_DEFAULTS = ReadDefaults()


@dataclass(frozen=True, kw_only=True, slots=True)
class Aligned:
    """The barrier of a cut, and that of each table in it, which is earlier for a full table that stays behind."""

    barrier: datetime
    tables: Mapping[TableName, datetime]


def aligned(tables: Stood, at: datetime | None, align: Align, max_lag: timedelta | None) -> Aligned | None:
    """The greatest barrier at or before *at* that *tables* allow; None when there is none.

    :param max_lag: how much earlier a full table may be, with :attr:`Align.FLOOR`.
    """
    if align is Align.EXACT or max_lag is None:
        barrier = resolve(tables, at)
        return None if barrier is None else Aligned(barrier=barrier, tables=dict.fromkeys(tables, barrier))
    limit = at
    for _ in range(_LONGEST_SEARCH):
        barrier = _leading(tables, limit)
        if barrier is None:
            return None
        found = {name: _own(record, moved, barrier) for name, (record, moved) in tables.items()}
        own = {name: one for name, one in found.items() if one is not None}
        if len(own) < len(found):
            return None
        slowest = min(own.values())
        if barrier - slowest <= max_lag:
            return Aligned(barrier=barrier, tables=own)
        limit = slowest + max_lag
    return None


def _leading(tables: Stood, limit: datetime | None) -> datetime | None:
    """The barrier of the tables that stay exact: the incremental ones; without any, of the fastest."""
    exact = {name: stood for name, stood in tables.items() if stood[0].kind is TableKind.INCREMENTAL}
    if exact:
        return resolve(exact, limit)
    alone = (resolve({name: stood}, limit) for name, stood in tables.items())
    return max((one for one in alone if one is not None), default=None)


def _own(record: TableRecord, moved: Moved, barrier: datetime) -> datetime | None:
    """The barrier at which a table is read in a cut at *barrier*."""
    if record.kind is TableKind.INCREMENTAL:
        return barrier
    return resolve({TableName(""): (record, moved)}, barrier)


def published_by_all(records: Iterable[tuple[TableRecord, Moved]]) -> datetime | None:
    """The last moment up to which every table has published all of its barriers; None when nothing limits it.

    A table without any commit limits nothing: a new job blocks no cut of older tables (R7). One that came later
    limits what comes after all that was published before it came.

    :param records: of all tables but those of lapsed jobs (R9).
    """
    limits = []
    for record, moved in records:
        reached = moved.watermark or (moved.origin if record.progress.islands else None)
        if reached is not None:
            limit = record.cadence.next_after(reached) - _MOMENT
            limits.append(limit if record.joins is None else max(limit, record.joins))
    return min(limits, default=None)


def checked_lag(align: Align, max_lag: timedelta | None) -> timedelta | None:
    """:raises InvalidInput: a lag without ``floor``, or ``floor`` without one."""
    if align is Align.EXACT and max_lag is None:
        return None
    if align is Align.FLOOR and isinstance(max_lag, timedelta) and max_lag >= timedelta(0):
        return max_lag
    raise InvalidInput(
        field="max_lag",
        value=max_lag,
        expected="a duration of zero or more with align='floor', and none with align='exact'",
        next_step="say how much older than the cut a slower full table may be.",
    )
