"""Filters of a reader: what is refused, and that bounds leave out no row that meets them."""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, NestedField

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.tables.filters import OPERATORS, filters_on
from airflow_provider.tables.iceberg import pruning

to_bytes = struct.Struct("<d").pack
COLUMNS = pa.schema(
    [
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("d", pa.decimal128(5, 2)),
        ("s", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("flag", pa.bool_()),
        ("raw", pa.binary()),
    ]
)
NOON = datetime.fromisoformat("2024-01-01T12:00:00")


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], "a list of tuples"),
        ("n = 1", "a list of tuples"),
        (["n = 1"], "a tuple"),
        ([("n", "=")], "a tuple"),
        ([("m", "=", 1)], "a column of the table: n, x"),
        ([("_epoch", "=", NOON)], "a column of the table"),
        ([("n", "==", 1)], "an operator: =, !="),
        ([("n", "not in", [1])], "an operator"),
        ([("n", "=", "1")], "a whole number for a column of the type int32"),
        ([("n", "=", 1.0)], "a whole number"),
        ([("n", "=", True)], "a whole number"),
        ([("n", "=", None)], "a whole number"),
        ([("n", "=", 2**40)], "that the type int32 can hold"),
        ([("x", "<", float("nan"))], "not NaN"),
        ([("d", "=", Decimal("1.234"))], "can hold"),
        ([("s", "=", b"x")], "a str"),
        ([("s", "in", "abc")], "a list of values"),
        ([("s", "in", [])], "a list of values"),
        ([("s", "in", ["a", 1])], "a str"),
        ([("day", "=", "2024-01-01")], "a date"),
        ([("day", "=", NOON)], "a date"),
        ([("at", ">", NOON)], "a datetime with a time zone"),
        ([("local", ">", NOON.replace(tzinfo=UTC))], "a datetime without a time zone"),
        ([("at", ">", NOON.date())], "a datetime with a time zone"),
        ([("flag", "=", 1)], "True or False"),
        ([("raw", "=", b"x")], "not the type binary"),
    ],
)
def test_a_filter_that_does_not_fit_is_refused(filters: Any, expected: str) -> None:
    with pytest.raises(InvalidInput, match=f"filters.*{expected}"):
        filters_on(filters, COLUMNS, "")


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-3, 3),
    "x": st.sampled_from([-1.5, -0.0, 0.0, 2.0, float("inf"), float("-inf"), float("nan")]),
    "d": st.sampled_from([Decimal("-1.00"), Decimal("0.50"), Decimal("2.00")]),
    "s": st.sampled_from(["", "a", "ab", "ä", "\U0001f600", "\uffff"]),
    "day": st.dates(date(2024, 1, 1), date(2024, 1, 4)),
    "at": st.datetimes(NOON, NOON.replace(second=2), timezones=st.just(UTC)),
    "flag": st.booleans(),
}


def is_number(value: Any) -> bool:
    return not (isinstance(value, float) and math.isnan(value))


@given(data=st.data(), column=st.sampled_from(sorted(VALUES)), operator=st.sampled_from(sorted(OPERATORS)))
def test_bounds_leave_out_no_row_that_meets_a_filter(data: st.DataObject, column: str, operator: str) -> None:
    """Arrow's answer on the rows; null meets no condition, and NaN none but ``!=``."""
    known = VALUES[column].filter(is_number)
    wanted = data.draw(st.lists(known, min_size=1, max_size=3) if operator == "in" else known)
    values = data.draw(st.lists(st.none() | VALUES[column], max_size=4))
    rows = pa.table({column: pa.array(values, COLUMNS.field(column).type)})
    filters = filters_on([(column, operator, wanted)], COLUMNS, "")
    kept = filters.kept(rows).column(0).to_pylist()
    assert None not in kept
    assert operator == "!=" or all(map(is_number, kept))
    bounded = [value for value in values if value is not None and is_number(value)]
    if kept and bounded:
        (condition,) = filters.conditions
        assert operator == "!=" or condition.may_hold(min(bounded), max(bounded))


@pytest.mark.parametrize(
    ("bounds", "opened"),
    [
        ({"lower_bounds": to_bytes(1.0), "upper_bounds": to_bytes(2.0)}, False),
        ({"lower_bounds": to_bytes(1.0), "upper_bounds": to_bytes(3.0)}, True),
        ({"lower_bounds": to_bytes(1.0), "upper_bounds": to_bytes(math.nan)}, True),
        ({"lower_bounds": to_bytes(math.nan), "upper_bounds": to_bytes(2.0)}, True),
        ({"lower_bounds": to_bytes(1.0)}, True),
        ({"value_counts": 2, "null_value_counts": 2}, False),
        ({"value_counts": 2, "null_value_counts": 1}, True),
        ({"null_value_counts": 2}, True),
    ],
)
def test_a_file_is_opened_unless_its_bounds_say_that_it_has_no_such_row(
    bounds: dict[str, Any], opened: bool
) -> None:
    file = DataFile.from_args(record_count=2, **{name: {1: value} for name, value in bounds.items()})
    text = Schema(NestedField(1, "x", DoubleType())).model_dump_json()
    assert (
        pruning.test_of(filters_on([("x", ">", 2.0)], pa.schema([("x", pa.float64())]), text))(file) == opened
    )
