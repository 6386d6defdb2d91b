"""Rows of two Arrow tables, compared as multisets, whatever the types of their columns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.coordination.reading.compared_rows import compared_rows
from tests.property.examples import examples

_MOMENT = datetime(2026, 3, 29, 1, tzinfo=UTC)
VALUES: dict[pa.DataType, list[Any]] = {
    pa.null(): [None],
    pa.bool_(): [None, False, True],
    pa.int32(): [None, 0, -1],
    pa.float32(): [None, 0.0, -0.0, math.nan, math.inf],
    pa.float64(): [None, 0.0, -0.0, math.nan, -math.inf],
    pa.decimal128(9, 2): [None, Decimal("0.00"), Decimal("-1.50")],
    pa.string(): [None, "", "a", "\u00e9"],
    pa.large_string(): [None, "", "a"],
    pa.binary(): [None, b"", b"\xff"],
    pa.binary(2): [None, b"ab", b"\xff\x00"],
    pa.date32(): [None, date(2026, 3, 29), date(1969, 12, 31)],
    pa.time64("us"): [None, time(3)],
    pa.timestamp("us"): [None, datetime(2026, 3, 29)],  # noqa: DTZ001  (a column without a zone)
    pa.timestamp("us", "UTC"): [None, _MOMENT, _MOMENT + timedelta(hours=1)],
    pa.dictionary(pa.int32(), pa.string()): [None, "a", "b"],
    pa.list_(pa.float64()): [None, [], [1.0], [None, math.nan]],
    pa.struct([("x", pa.float64()), ("y", pa.string())]): [
        None,
        {"x": math.nan, "y": None},
        {"x": 0.0, "y": "a"},
    ],
    pa.map_(pa.string(), pa.int32()): [None, [], [("a", 1)]],
    pa.uuid(): [None, bytes(16), bytes(15) + b"\x01"],
}
"""Values of each type, of which no two are equal but for what :func:`_told` makes equal."""


@st.composite
def _sides(draw: st.DrawFn) -> tuple[pa.Table, pa.Table]:
    """Two tables of the same columns, with few different rows, in chunks of any size."""
    kinds = draw(st.lists(st.sampled_from([*VALUES]), min_size=1, max_size=3))
    row = st.tuples(*(st.sampled_from(VALUES[kind]) for kind in kinds))
    schema = pa.schema([(f"column_{number}", kind) for number, kind in enumerate(kinds)])

    def side() -> pa.Table:
        chunks = draw(st.lists(st.lists(row, max_size=5), max_size=3))
        return pa.concat_tables([schema.empty_table(), *(_table(schema, rows) for rows in chunks)])

    return side(), side()


def _table(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = [pa.array([row[number] for row in rows], field.type) for number, field in enumerate(schema)]
    return pa.table(columns, schema=schema)


def _rows(table: pa.Table) -> Counter[str]:
    columns = [column.to_pylist() for column in table.columns]
    return Counter(_told(row) for row in zip(*columns, strict=True))


def _told(row: Iterable[Any]) -> str:
    return repr(tuple(row))  # of all NaN the same text, of -0.0 another than of 0.0


@settings(max_examples=examples(300))
@given(_sides())
def test_each_side_has_its_surplus_in_its_order(sides: tuple[pa.Table, pa.Table]) -> None:
    old, new = sides
    added, removed = compared_rows(old, new)
    assert _rows(added) == _rows(new) - _rows(old)
    assert _rows(removed) == _rows(old) - _rows(new)
    assert (added.schema, removed.schema) == (new.schema, old.schema)


@settings(max_examples=examples(100))
@given(_sides())
def test_a_column_that_is_left_out_makes_no_difference(sides: tuple[pa.Table, pa.Table]) -> None:
    old, new = (
        side.append_column("epoch", pa.array([number] * side.num_rows, pa.int64()))
        for number, side in enumerate(sides)
    )
    added, removed = compared_rows(old, new, "epoch")
    assert _rows(added.drop_columns("epoch")) == _rows(sides[1]) - _rows(sides[0])
    assert _rows(removed.drop_columns("epoch")) == _rows(sides[0]) - _rows(sides[1])
    assert {*added["epoch"].to_pylist()} <= {1}
    assert {*removed["epoch"].to_pylist()} <= {0}


def test_surplus_rows_keep_the_order_of_their_table() -> None:
    old, new = pa.table({"x": [3, 1, 1, 2]}), pa.table({"x": [5, 1, 4, 5]})
    added, removed = compared_rows(old, new)
    assert added["x"].to_pylist() == [5, 4, 5]
    assert removed["x"].to_pylist() == [3, 1, 2]
