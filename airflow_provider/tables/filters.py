"""Conditions on rows, as readers give them: ``[("day", ">=", date(2024, 1, 1)), ("carrier", "in", ["AA", "UA"])]``.

All of them hold for a row that is returned. They mean the same in Arrow, in Spark and for the bounds of a file: null
meets none, and NaN none but ``!=``. See docs/decisions/filters.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from operator import and_
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.domain.errors import InvalidInput

FilterTuple = tuple[str, str, object]
"""Column, operator and value; for ``in`` a list of values."""
_PARTS = 3
OPERATORS: dict[str, Callable[[Any, Any], pc.Expression]] = {
    "=": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
    "in": lambda column, values: column.isin(values),
}
_KINDS: tuple[tuple[Callable[[pa.DataType], bool], tuple[type, ...], str], ...] = (
    (pa.types.is_boolean, (bool,), "a bool"),
    (pa.types.is_integer, (int,), "an int"),
    (pa.types.is_floating, (int, float), "an int, or a float that is not NaN,"),
    (pa.types.is_decimal, (int, Decimal), "an int or a Decimal"),
    (pa.types.is_string, (str,), "a str"),
    (pa.types.is_large_string, (str,), "a str"),
    (pa.types.is_date32, (date,), "a date"),
)
"""Types of columns, the classes of their values, and the words for them; timestamps are beside."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition. :param value: of the class that Arrow gives for *kind*; a tuple of them for ``in``."""

    column: str
    operator: str
    value: Any
    kind: pa.DataType

    def expression(self) -> pc.Expression:
        """Return the condition for Arrow: of numbers that are equal, as zero and minus zero, none differs."""
        column, kind = pc.field(self.column), _compared_as(self.kind)
        if kind != self.kind:
            column = column.cast(kind)
        if self.operator == "in":
            zeros = [0.0, -0.0] if pa.types.is_floating(kind) and 0.0 in self.value else []
            return OPERATORS["in"](column, pa.array([*self.value, *zeros], kind))
        return OPERATORS[self.operator](column, pa.scalar(self.value, kind))

    def may_hold(self, lower: Any, upper: Any) -> bool:
        """Return whether it may hold for a value between two bounds."""
        match self.operator:
            case "=":
                return bool(lower <= self.value <= upper)
            case "in":
                return any(lower <= value <= upper for value in self.value)
            case "<":
                return bool(lower < self.value)
            case "<=":
                return bool(lower <= self.value)
            case ">":
                return bool(upper > self.value)
            case ">=":
                return bool(upper >= self.value)
        return True


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions that all hold.

    :param schema: the table's columns in its format's own text.
    """

    schema: str
    conditions: tuple[Condition, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, each once."""
        return tuple(dict.fromkeys(condition.column for condition in self.conditions))

    def kept(self, rows: pa.Table) -> pa.Table:
        """Return those of *rows* that meet all conditions."""
        return rows.filter(reduce(and_, (condition.expression() for condition in self.conditions)))


def filters_on(filters: Sequence[FilterTuple], columns: pa.Schema, schema: str) -> Filters:
    """Return *filters* on a table with *columns*.

    :param columns: the table's own, without the epoch column. :param schema: all in the table format's own text.
    :raises InvalidInput: a filter is no such tuple, names no column, or has a value of another type than its column.
    """
    if isinstance(filters, str) or not isinstance(filters, Sequence) or not len(filters):
        _refuse(filters, "a list of tuples: (column, operator, value)")
    return Filters(schema=schema, conditions=tuple(_condition(each, columns) for each in filters))


def _compared_as(kind: pa.DataType) -> pa.DataType:
    """Return the type of values for a column of *kind*: 0.1 is no float of 32 bits, but lies between two of them."""
    return pa.float64() if pa.types.is_floating(kind) else kind


def _condition(given: FilterTuple, columns: pa.Schema) -> Condition:
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != _PARTS:
        _refuse(given, "a tuple: (column, operator, value)")
    column, operator, value = given
    if column not in columns.names:
        _refuse(given, f"a column of the table: {', '.join(columns.names)}")
    if not isinstance(operator, str) or operator not in OPERATORS:
        _refuse(given, f"an operator: {', '.join(OPERATORS)}")
    kind = columns.field(column).type
    if operator != "in":
        return Condition(column, operator, _value(given, value, kind), kind)
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable) or not (values := [*value]):
        _refuse(given, "a list of values after 'in', with one at least")
    return Condition(column, operator, tuple(_value(given, each, kind) for each in values), kind)


def _value(given: FilterTuple, value: object, kind: pa.DataType) -> Any:
    """Return *value* as Arrow gives values of *kind*. Arrow itself would read an instant without a zone as UTC."""
    classes, words = _classes(given, kind)
    fits = isinstance(value, classes) and (isinstance(value, bool) == (classes == (bool,)))
    if fits and isinstance(value, (float, datetime)) and value != value:  # noqa: PLR0124  (NaN, and pandas' NaT)
        fits = False
    if fits and isinstance(value, date):
        fits = isinstance(value, datetime) == pa.types.is_timestamp(kind)
    if fits and isinstance(value, datetime):
        fits = (value.utcoffset() is None) == (kind.tz is None)
    if not fits:
        _refuse(given, f"{words} for a column of the type {kind}")
    try:
        held = pa.scalar(value, _compared_as(kind)).as_py()
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        held = None
    if held is None or held != value:  # pandas' instants may have nanoseconds
        _refuse(given, f"{words} that the type {kind} can hold")
    return held


def _classes(given: FilterTuple, kind: pa.DataType) -> tuple[tuple[type, ...], str]:
    if pa.types.is_timestamp(kind):
        return (datetime,), f"a datetime {'without' if kind.tz is None else 'with'} a time zone"
    found = [(classes, words) for is_kind, classes, words in _KINDS if is_kind(kind)]
    if not found:
        _refuse(given, f"a column that filters know, not the type {kind}: filter the rows that are returned")
    return found[0]


def _refuse(given: object, expected: str) -> NoReturn:
    raise InvalidInput(field="filters", value=given, expected=expected)
