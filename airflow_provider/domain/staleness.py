"""How old what is read is, and whose fault it is (R21). Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from airflow_provider.domain.cut import Lag, Staleness
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.version import Moved, TableRecord

_NOTHING = timedelta(0)


def staleness(record: TableRecord, moved: Moved, barrier: datetime, now: datetime) -> Staleness:
    """How old the table is in a cut that has it at *barrier*."""
    watermark = moved.watermark or barrier
    return Staleness(
        wall_clock=now - barrier,
        local=max(record.cadence.floor(now) - watermark, _NOTHING),
        global_=max(watermark - barrier, _NOTHING),
    )


def too_old(
    tables: Mapping[TableName, tuple[TableRecord, Moved]],
    barriers: Mapping[TableName, datetime],
    now: datetime,
    max_staleness: timedelta,
) -> tuple[Lag, ...]:
    """The tables that make a cut older than *max_staleness*, the slowest first; none when it is young enough.

    Those whose own watermark is too old are named; when all are young and only their calendars or alignment
    keep them apart, all that are read at too old a barrier.
    """
    if all(now - barrier <= max_staleness for barrier in barriers.values()):
        return ()
    wanted = now - max_staleness
    old = {name: one for name, one in tables.items() if one[1].watermark is None or one[1].watermark < wanted}
    named = old or {name: one for name, one in tables.items() if barriers[name] < wanted}
    lags = []
    for name, (record, moved) in named.items():
        age = staleness(record, moved, barriers[name], now)
        lags.append(Lag(table=name, watermark=moved.watermark, wanted=wanted, reason=str(age), staleness=age))
    return tuple(sorted(lags, key=lambda lag: (lag.watermark or wanted, lag.table)))


def checked_staleness(value: timedelta | None) -> timedelta | None:
    """:raises InvalidInput: no duration above zero."""
    if value is not None and (not isinstance(value, timedelta) or value <= _NOTHING):
        raise InvalidInput(
            field="max_staleness", value=value, expected="a duration above zero, or nothing for any age"
        )
    return value
