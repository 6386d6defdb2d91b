"""Partition fields: their values are Iceberg's, and their texts are told from columns' names."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    DateType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from airflow_provider.tables.iceberg.task_writer import plain
from airflow_provider.tables.partitioning import PartitionField, columns_in, fields_of, names_taken

UTC_DAY = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))  # noqa: DTZ001  (wall clocks)
KINDS: dict[str, tuple[pa.DataType, IcebergType, st.SearchStrategy[Any]]] = {
    "int": (pa.int32(), IntegerType(), st.integers(-(2**31) + 100_000, 2**31 - 1)),
    "long": (pa.int64(), LongType(), st.integers(-(2**63) + 100_000, 2**63 - 1)),
    "date": (pa.date32(), DateType(), st.dates()),
    "instant": (
        pa.timestamp("us", "UTC"),
        TimestamptzType(),
        UTC_DAY.map(lambda at: at.replace(tzinfo=dt.UTC)),
    ),
    "wall clock": (pa.timestamp("us"), TimestampType(), UTC_DAY),
    "text": (pa.string(), StringType(), st.text(max_size=20)),
}
FIELDS = {
    "bucket(16, c)": ("int", "long", "date", "instant", "wall clock", "text"),
    "bucket(1000, c)": ("long", "text"),
    "bucket(1, c)": ("int",),
    "truncate(4, c)": ("text", "int", "long"),
    "truncate(99999, c)": ("int", "long", "text"),
    "day(c)": ("date", "instant", "wall clock"),
    "hour(c)": ("instant", "wall clock"),
}
CASES = [(text, kind) for text, kinds in FIELDS.items() for kind in kinds]


@pytest.mark.parametrize(("text", "kind"), CASES)
@given(data=st.data())
def test_values_are_those_that_icebergs_own_transforms_give(
    text: str, kind: str, data: st.DataObject
) -> None:
    arrow, iceberg, drawn = KINDS[kind]
    column = pa.array(data.draw(st.lists(st.none() | drawn, max_size=8)), arrow)
    (field,) = fields_of([text], ["c"])
    assert field.suits(arrow)
    transform = parse_transform(field.spelling).transform(iceberg)
    wanted = [transform(None if not value.is_valid else plain(value)) for value in column]
    assert [plain(value) for value in field.values(column)] == wanted


def test_the_least_numbers_are_truncated_as_in_java() -> None:
    """Java's integers wrap around; whichever value it is, one partition has the number alone."""
    (field,) = fields_of(["truncate(10, c)"], ["c"])
    for kind in (pa.int32(), pa.int64()):
        least = -(2 ** (kind.bit_width - 1))
        (value,) = field.values(pa.array([least], kind)).to_pylist()
        assert value == least - least % 10 + 2**kind.bit_width


@pytest.mark.parametrize(
    ("text", "columns", "wanted"),
    [
        ("c", ["c"], PartitionField(column="c")),
        ("bucket(16, c)", ["c"], PartitionField(column="c", transform="bucket", width=16)),
        ("bucket(16,c)", ["c"], PartitionField(column="c", transform="bucket", width=16)),
        ("bucket(2, a, b) )", ["a, b) "], PartitionField(column="a, b) ", transform="bucket", width=2)),
        ("day(day(at))", ["day(at)", "at"], PartitionField(column="day(at)", transform="day")),
        ("day(at)", ["day(at)", "at"], PartitionField(column="day(at)")),
        ("bucket(0, c)", ["c"], PartitionField(column="bucket(0, c)")),
        ("days(c)", ["c"], PartitionField(column="days(c)")),
        ("Day(c)", ["c"], PartitionField(column="Day(c)")),
    ],
)
def test_a_text_is_a_column_or_a_transform(text: str, columns: list[str], wanted: PartitionField) -> None:
    assert fields_of([text], columns) == (wanted,)


def test_columns_and_names_of_fields() -> None:
    texts = ["region", "day(at)", "bucket(8, id)", "truncate(3, name)", "hour(at)"]
    assert columns_in(texts) == {*texts, "at", "id", "name"}
    assert names_taken(texts, ["region", "at", "id", "name"]) == {
        "at_day",
        "id_bucket_8",
        "name_trunc_3",
        "at_hour",
    }


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("hour(c)", pa.date32()),
        ("day(c)", pa.string()),
        ("truncate(4, c)", pa.float64()),
        ("truncate(4, c)", pa.date32()),
        ("bucket(4, c)", pa.decimal128(9, 2)),
        ("bucket(4, c)", pa.float64()),
        ("bucket(1001, c)", pa.int64()),
        ("c", pa.float32()),
        ("c", pa.list_(pa.int64())),
    ],
)
def test_types_that_a_field_cannot_be_computed_from(text: str, kind: pa.DataType) -> None:
    (field,) = fields_of([text], ["c"])
    assert not field.suits(kind)
