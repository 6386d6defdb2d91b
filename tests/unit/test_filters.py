"""Filters of a reader: what is refused, and that bounds leave out no row that meets them."""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
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
        ("f", pa.float32()),
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
        ([("m", "=", 1)], "a column of the table: n, f"),
        ([("_epoch", "=", NOON)], "a column of the table"),
        ([("n", "==", 1)], "an operator: =, !="),
        ([("n", "not in", [1])], "an operator"),
        ([("n", "=", "1")], "an int for a column of the type int32"),
        ([("n", "=", 1.0)], "an int"),
        ([("n", "=", True)], "an int"),
        ([("n", "=", None)], "an int"),
        ([("n", "=", 2**40)], "that the type int32 can hold"),
        ([("x", "<", float("nan"))], "not NaN"),
        ([("d", "=", Decimal("1.234"))], "can hold"),
        ([("s", "=", b"x")], "a str"),
        ([("s", "in", "abc")], "a list of values"),
        ([("s", "in", [])], "a list of values"),
        ([("s", "in", ["a", 1])], "a str"),
        ([("day", "=", "2024-01-01")], "a date"),
        ([("day", "=", NOON)], "a date"),
        ([("at", ">", NOON)], "a datetime with a time zone for a column"),
        ([("local", ">", NOON.replace(tzinfo=UTC))], "a datetime without a time zone for a column"),
        ([("at", ">", NOON.date())], "a datetime with a time zone"),
        ([("flag", "=", 1)], "a bool"),
        ([("raw", "=", b"x")], "not the type binary"),
        (
            [("local", "<", pd.Timestamp("2024-01-01T00:00:00.123456789"))],
            "that the type timestamp.us. can hold",
        ),
        ([("local", "=", pd.NaT)], "a datetime"),
        ([("n", ["="], 1)], "an operator"),
        ([("n", "in", b"ab")], "a list of values"),
        (5, "a list of tuples"),
        (iter([]), "a list of tuples"),
        (pd.Series([1, 2]).to_numpy(), "a list of tuples"),
    ],
)
def test_a_filter_that_does_not_fit_is_refused(filters: Any, expected: str) -> None:
    with pytest.raises(InvalidInput, match=f"filters.*{expected}"):
        filters_on(filters, COLUMNS, "")


VALUES: dict[str, list[Any]] = {
    "n": [-3, 0, 1, 2**31 - 1],
    "f": [0.0, -0.0, 0.10000000149011612, 16777216.0, math.inf, math.nan],
    "x": [-1.5, -0.0, 0.0, 2.0, math.inf, -math.inf, math.nan],
    "d": [Decimal("-1.00"), Decimal("0.00"), Decimal("0.50")],
    "s": ["", "a", "ab", "ä", "\U0001f600", "\uffff"],
    "day": [date(1, 1, 1), date(1969, 12, 31), date(2024, 1, 1)],
    "at": [NOON.replace(tzinfo=UTC, microsecond=number) for number in (0, 1, 999999)],
    "local": [NOON.replace(microsecond=number) for number in (0, 1, 999999)],
    "flag": [False, True],
}
"""Values of columns, which filters ask for, too."""
ASKED: dict[str, list[Any]] = {"f": [0.1, 1e300, 16777217.0, 1], "d": [1]}
"""Values that only filters have."""


def is_number(value: Any) -> bool:
    return not (isinstance(value, float) and math.isnan(value))


def meets(value: Any, operator: str, wanted: Any) -> bool:
    if value is None or not is_number(value):
        return operator == "!=" and value is not None
    compare = {
        "=": eq,
        "!=": ne,
        "<": lt,
        "<=": le,
        ">": gt,
        ">=": ge,
        "in": lambda member, many: member in many,
    }
    return bool(compare[operator](value, wanted))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("column", VALUES)
def test_rows_that_meet_a_filter_are_kept_and_lie_within_bounds(column: str, operator: str) -> None:
    """As Python compares them; null meets no condition, and NaN none but ``!=``."""
    rows = pa.table({column: pa.array([*VALUES[column], None], COLUMNS.field(column).type)})
    values = rows.column(0).to_pylist()
    known = list(filter(is_number, VALUES[column]))
    for each in [*known, *ASKED.get(column, [])]:
        wanted = [each, known[0]] if operator == "in" else each
        filters = filters_on([(column, operator, wanted)], COLUMNS, "")
        met = [value for value in values if meets(value, operator, wanted)]
        assert list(map(repr, filters.kept(rows).column(0).to_pylist())) == list(map(repr, met)), wanted
        (condition,) = filters.conditions
        for value, low, high in product(filter(is_number, met), known, known):
            if low <= value <= high:
                assert condition.may_hold(low, high), (wanted, value, low, high)


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
