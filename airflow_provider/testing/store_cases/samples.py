"""Sample records of each kind, built from the types of their fields, so that a store's suite covers every field."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import count
from typing import Any

from airflow_provider.domain.columns import ColumnChange, add, rename
from airflow_provider.domain.completeness import Condition, none_needed
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.records import RECORDS, Kind
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Group, Source, Table

HOSTILE_TEXT = 'o\'Hara; DROP TABLE "x" -- % _ \\ \u202e \U0001f40d \n\t\0'
"""Text that careless escaping would change."""

_START = datetime(2013, 2, 8, 23, 59, 59, 999_999, tzinfo=UTC)
_END = datetime(9999, 12, 31, tzinfo=UTC)
_SOUND: Mapping[Any, Any] = {
    Interval: Interval(_START, _END),
    Cadence: Cadence("@hourly", "America/New_York"),
    Table: Table(
        "flights",
        "d",
        kind=TableKind.FULL,
        partition_by=("origin",),
        sort_by=("hour", "dest"),
        format="memory",
        column_changes=[add("delay", "decimal(5,1)"), rename("dest", "destination")],
    ),
    ColumnChange: rename("dest", "destination"),
    Source: FileSource("landing", "file:///in/*.csv", late="ignore", complete=none_needed()),
    Condition: none_needed(),
    Group: Group("o'Hara %_ 名", jobs=["o'Hara", "%_ 名"]),
}
"""Values of types that validate themselves, so that they cannot be built field by field."""


def sample(kind: Kind) -> Any:
    """Return a record of *kind* with every optional field filled and every value distinct."""
    return _value(RECORDS[kind], count(2**53 + 1))


def bare(kind: Kind) -> Any:
    """Return a record of *kind* with empty optional fields."""
    return _value(RECORDS[kind], None)


def _value(wanted: Any, numbers: count[int] | None) -> Any:
    """Return a value of the type *wanted*; without *numbers* the emptiest value that the type allows."""
    origin = typing.get_origin(wanted)
    if wanted in _SOUND:
        return _SOUND[wanted]
    if origin is tuple:
        return _items(typing.get_args(wanted), numbers)
    if origin in (types.UnionType, typing.Union):
        choices = [choice for choice in typing.get_args(wanted) if choice is not types.NoneType]
        return None if numbers is None else _value(choices[0], numbers)
    if isinstance(wanted, typing.NewType):  # names, which only their constructors validate
        return f"o'Hara %_ 名 {0 if numbers is None else next(numbers)}"
    if isinstance(wanted, type) and is_dataclass(wanted):
        hints = typing.get_type_hints(wanted)
        return wanted(
            **{field.name: _value(hints[field.name], numbers) for field in fields(wanted) if field.init}
        )
    return _scalar(wanted, numbers)


def _items(wanted: tuple[Any, ...], numbers: count[int] | None) -> tuple[Any, ...]:
    if wanted[-1] is not Ellipsis:
        return tuple(_value(item, numbers) for item in wanted)
    return () if numbers is None else (_value(wanted[0], numbers), _value(wanted[0], numbers))


def _scalar(wanted: type[Any], numbers: count[int] | None) -> Any:
    number = 0 if numbers is None else next(numbers)
    if issubclass(wanted, Enum):
        return list(wanted)[-1]
    if issubclass(wanted, bool):
        return bool(number)
    scalars: Mapping[type[Any], Any] = {
        str: HOSTILE_TEXT + str(number) if number else "",
        bytes: b"" if number == 0 else number.to_bytes(8, "big"),
        int: -number,
        float: number / 7,
        datetime: _START + timedelta(microseconds=number % 1_000_003),
        timedelta: timedelta(microseconds=number),
    }
    return scalars[wanted]
