"""Staleness of the tables in a cut, and its cause (R21). Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.missing import Missing, Staleness

if TYPE_CHECKING:
    from airflow_provider.domain.version import TableRecord, TableVersion

_NOTHING = timedelta(0)


def staleness(record: TableRecord, moved: TableVersion, barrier: datetime, now: datetime) -> Staleness:
    """Return the staleness of the table in a cut that reads it at *barrier*."""
    watermark = moved.watermark or barrier
    return Staleness(
        wall_clock=now - barrier,
        local=max(record.cadence.floor(now) - watermark, _NOTHING),
        global_=max(watermark - barrier, _NOTHING),
    )


def too_old(
    tables: Mapping[TableName, tuple[TableRecord, TableVersion]],
    barriers: Mapping[TableName, datetime],
    now: datetime,
    max_staleness: timedelta,
) -> tuple[Missing, ...]:
    """Return the tables that make a cut older than *max_staleness*, the slowest first; none if it is young enough.

    These are the tables whose own watermark is too old. If there is none, so that only calendars or alignment hold the
    cut back, these are all tables that are read at too old a barrier.
    """
    if all(now - barrier <= max_staleness for barrier in barriers.values()):
        return ()
    wanted = now - max_staleness
    old = {
        name: (record, moved)
        for name, (record, moved) in tables.items()
        if moved.watermark is None or moved.watermark < wanted
    }
    named = old or {name: table for name, table in tables.items() if barriers[name] < wanted}
    lags = []
    for name, (record, moved) in named.items():
        age = staleness(record, moved, barriers[name], now)
        lags.append(
            Missing(name=name, watermark=moved.watermark, wanted=wanted, reason=str(age), staleness=age)
        )
    return tuple(sorted(lags, key=lambda lag: (lag.watermark or wanted, lag.table)))


def checked_staleness(value: timedelta | None) -> timedelta | None:
    """Return *value*.

    :raises InvalidInput: neither None nor a duration above zero.
    """
    if value is not None and (not isinstance(value, timedelta) or value <= _NOTHING):
        raise InvalidInput(
            field="max_staleness", value=value, expected="a duration above zero, or nothing for any age"
        )
    return value
