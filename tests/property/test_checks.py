"""Whatever rows and checks: the verdict is that of a plain loop over the rows, with and without statistics (R14)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.domain.checks import (
    Check,
    CheckKind,
    accepted,
    in_range,
    judge_count,
    not_null,
    row_count,
    unique,
)
from airflow_provider.domain.cut import Staged, State
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Table
from airflow_provider.tables.expectations import proven, violated
from airflow_provider.tables.iceberg.format import IcebergFormat
from tests.contract.coordination_world import ORIGIN, barrier
from tests.property.examples import examples

TABLE = Table("t")
DAY = Interval(ORIGIN, barrier(1))
COLUMNS = pa.schema(
    [
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("d", pa.decimal128(9, 2)),
        ("b", pa.bool_()),
    ]
)
NUMBERS = st.integers(-3, 3)
TEXTS = st.sampled_from(["", "a", "b", "ä" * 20, "ä" * 20 + "b"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": NUMBERS,
    "x": st.one_of(NUMBERS.map(float), st.just(float("nan")), st.just(0.5)),
    "s": TEXTS,
    "d": st.integers(-300, 300).map(lambda cents: Decimal(cents) / 100),
    "b": st.booleans(),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.one_of(st.none(), values) for name, values in VALUES.items()}), max_size=6
)
NAMES = st.sampled_from(sorted(VALUES))


def ranges(draw: Callable[..., Any], column: str) -> Check:
    values = VALUES[column].filter(lambda value: value == value)  # noqa: PLR0124 - NaN is no bound
    low, high = sorted((draw(values), draw(values)))
    chosen = draw(st.sampled_from([{"at_least": low}, {"at_most": high}, {"at_least": low, "at_most": high}]))
    return in_range(TABLE, column, **chosen)


@st.composite
def checks(draw: Callable[..., Any]) -> Check:
    kind, column = draw(st.sampled_from(list(CheckKind)[:5])), draw(NAMES)
    if kind is CheckKind.NOT_NULL:
        return not_null(TABLE, column, draw(NAMES))
    if kind is CheckKind.UNIQUE:
        return unique(TABLE, column, draw(NAMES))
    if kind is CheckKind.ROW_COUNT:
        return row_count(TABLE, at_least=draw(st.integers(0, 4)))
    if kind is CheckKind.IN_RANGE or column == "x":
        return ranges(draw, column)
    return accepted(TABLE, column, draw(st.lists(VALUES[column], min_size=1)))


def holds(check: Check, rows: list[dict[str, Any]]) -> bool:
    """What a person would say."""
    if check.kind is CheckKind.ROW_COUNT:
        return len(rows) >= int(check.at_least or 0)
    if check.kind is CheckKind.NOT_NULL:
        return all(row[name] is not None for row in rows for name in check.columns)
    if check.kind is CheckKind.UNIQUE:
        keys = Counter(
            tuple(str(row[name]) if name == "x" else row[name] for name in check.columns) for row in rows
        )
        return all(count == 1 for count in keys.values())
    (column,) = check.columns
    given_values = [row[column] for row in rows if row[column] is not None]
    read = {"n": int, "x": float, "s": str, "d": Decimal, "b": lambda text: text == "true"}[column]
    if check.kind is CheckKind.ACCEPTED:
        return all(value in [read(text) for text in check.values] for value in given_values)  # type: ignore[operator]
    low = None if check.at_least is None else read(check.at_least)  # type: ignore[operator]
    high = None if check.at_most is None else read(check.at_most)  # type: ignore[operator]
    return all((low is None or value >= low) and (high is None or value <= high) for value in given_values)


def verdict(check: Check, pieces: list[pa.Table]) -> bool:
    if check.kind is CheckKind.ROW_COUNT:
        return judge_count(check, sum(piece.num_rows for piece in pieces)) is None
    return violated(check, pieces, COLUMNS) is None


@given(rows=st.lists(ROWS, max_size=6), check=checks())
def test_the_rows_decide(rows: list[list[dict[str, Any]]], check: Check) -> None:
    """R14: in how many pieces they come does not matter."""
    pieces = [pa.Table.from_pylist(piece, schema=COLUMNS) for piece in rows]
    assert verdict(check, pieces) == holds(check, [row for piece in rows for row in piece])


@settings(max_examples=examples(25))
@given(rows=st.lists(ROWS, max_size=2), asked=st.lists(checks(), min_size=3, max_size=8))
def test_statistics_prove_only_true_checks(rows: list[list[dict[str, Any]]], asked: list[Check]) -> None:
    """R14: of files as they are really written."""
    with TemporaryDirectory() as folder:
        table_format = IcebergFormat(
            f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse", swaps=False
        )
        info = table_format.create(TABLE, COLUMNS)
        place = table_format.place(TABLE, job="j", interval=DAY, revision=1, token=1)  # type: ignore[arg-type]
        write = table_format.task_writer(place, info)
        files = [
            file for piece in rows for file in write(pa.Table.from_pylist(piece, schema=COLUMNS).to_batches())
        ]
        staged = Staged(interval=DAY, committable=table_format.describe_output(place, info, files))
        state = State(
            table=TABLE.name,
            kind=TABLE.kind,
            barrier=DAY.end,
            low=DAY.start,
            csn=0,
            ref=None,
            staged=(staged,),
        )
        statistics = table_format.statistics(state, info.schema)
        everything = [row for piece in rows for row in piece]
        assert statistics.rows == len(everything)
        for check in asked:
            if check.kind is CheckKind.ROW_COUNT:
                continue
            schema = table_format.arrow_schema(info.schema)
            wanted = holds(check, everything)
            assert (
                violated(check, table_format.scan(state, info.schema, check.columns), schema) is None
                or not wanted
            )
            assert not proven(check, statistics, schema) or wanted
        table_format.close()
