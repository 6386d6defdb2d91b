"""What a Spark task writes: file boundaries, statistics, checksums, and nothing after a failure."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import math
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.types import DoubleType

from airflow_provider.domain.errors import SchemaMismatch
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.topology import Table
from airflow_provider.tables.base import EPOCH_COLUMN, WrittenFile
from airflow_provider.tables.columns import field_id, table_schema
from airflow_provider.tables.iceberg import schemas
from airflow_provider.tables.iceberg.task_writer import IcebergTaskWriter, _shortened
from tests.hostile import undecodable

BARRIER = 1_360_368_000_000_000  # 2013-02-09T00:00Z


def writer(
    folder: Path, columns: pa.Schema, *, partition_by: tuple[str, ...] = (), **sizes: int
) -> IcebergTaskWriter:
    table = Table(TableName("t"), partition_by=partition_by)
    return IcebergTaskWriter(
        table="t",
        place=f"file://{folder}/place/",
        schema=table_schema(table, columns),
        barrier=BARRIER,
        partition_by=partition_by,
        **sizes,
    )


def write(folder: Path, rows: dict[str, Any], **options: Any) -> list[WrittenFile]:
    batch = pa.record_batch(rows)
    return list(writer(folder, batch.schema, **options)([batch]))


def description(file: WrittenFile) -> dict[str, Any]:
    """Return what is said of *file*, with a list of its statistics by column id in place of one of each kind."""
    said = dict(json.loads(file.description))
    kinds = [said.pop(kind) for kind in ("sizes", "values", "nulls", "lower", "upper")]
    return said | {
        "columns": {str(number): [*of_one] for number, *of_one in zip(said["ids"], *kinds, strict=True)}
    }


def path(file: WrittenFile) -> Path:
    return Path(file.uri.removeprefix("file://"))


def test_the_checksum_is_that_of_the_bytes(tmp_path: Path) -> None:
    (file,) = write(tmp_path, {"id": [1, 2, 3]})
    content = path(file).read_bytes()
    assert file.checksum == hashlib.blake2b(content, digest_size=16).hexdigest()
    assert (file.size_bytes, file.rows) == (len(content), 3)


def test_readers_can_skip_pages(tmp_path: Path) -> None:
    """Each column has the index by which Spark and others find the pages that a filter needs."""
    (file,) = write(tmp_path, {"id": [1, 2, 3], "pair": [{"a": "x"}, None, {"a": "y"}]})
    group = pq.read_metadata(path(file)).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    assert [column.path_in_schema for column in columns] == ["id", "pair.a", EPOCH_COLUMN]
    assert all(column.has_offset_index and column.has_column_index for column in columns)


def test_columns_carry_their_ids_and_times_are_microseconds(tmp_path: Path) -> None:
    at = dt.datetime(2013, 2, 8, 12, tzinfo=dt.UTC)
    (file,) = write(tmp_path, {"at": pa.array([at], pa.timestamp("ms", "Europe/Berlin")), "pair": [{"a": 1}]})
    with pq.ParquetFile(path(file)) as parquet:
        found = parquet.schema_arrow
        assert [field_id(field) for field in found] == [1, 2, 3]
        assert field_id(found.field("pair").type.field("a")) == 4
        assert found.field("at").type == pa.timestamp("us", "UTC")
        assert parquet.read().to_pylist()[0]["at"] == at
        assert parquet.metadata.row_group(0).column(0).compression == "ZSTD"
        assert parquet.read()[EPOCH_COLUMN].null_count == 0


def test_files_are_separated_by_partition_values(tmp_path: Path) -> None:
    day = dt.date(2013, 2, 8)
    rows = {
        "origin": pa.array(["EWR", "EWR", None, "JFK", "JFK"]),
        "day": pa.array([day, day, day, day, None]),
        "id": [1, 2, 3, 4, 5],
    }
    files = write(tmp_path, rows, partition_by=("origin", "day"))
    assert [file.rows for file in files] == [2, 1, 1, 1]
    days = (day - dt.date(1970, 1, 1)).days
    assert [description(file)["partition"] for file in files] == [
        [BARRIER, "EWR", days],
        [BARRIER, None, days],
        [BARRIER, "JFK", days],
        [BARRIER, "JFK", None],
    ]


def test_a_value_that_goes_on_in_the_next_batch_stays_in_its_file(tmp_path: Path) -> None:
    batches = [
        pa.record_batch({"p": ["a", "b"]}),
        pa.record_batch({"p": ["b", "b"]}),
        pa.record_batch({"p": ["c"]}),
    ]
    files = list(writer(tmp_path, batches[0].schema, partition_by=("p",))(batches))
    assert [(description(file)["partition"][1], file.rows) for file in files] == [
        ("a", 1),
        ("b", 3),
        ("c", 1),
    ]


def test_files_are_closed_at_their_target_size(tmp_path: Path) -> None:
    batches = [
        pa.record_batch({"text": [_noise(number) for number in range(k, k + 1000)]}) for k in range(10)
    ]
    writing = writer(tmp_path, batches[0].schema, target_bytes=60_000, row_group_bytes=20_000)
    files = list(writing(batches))
    assert 2 <= len(files) < 10
    assert sum(file.rows for file in files) == 10_000
    assert len({file.uri for file in files}) == len(files)


def _noise(number: int) -> str:
    return hashlib.blake2b(str(number).encode(), digest_size=16).hexdigest()


def test_small_batches_share_a_row_group(tmp_path: Path) -> None:
    batches = [pa.record_batch({"id": [number]}) for number in range(100)]
    (file,) = writer(tmp_path, batches[0].schema)(batches)
    with pq.ParquetFile(path(file)) as parquet:
        assert parquet.metadata.num_row_groups == 1
        assert description(file)["offsets"] == [4]


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64())])
    assert list(writer(tmp_path, columns)([])) == []
    assert list(writer(tmp_path, columns)([pa.record_batch([[]], schema=columns)])) == []
    assert not (tmp_path / "place").exists()


def test_a_failing_task_leaves_no_open_file_behind(tmp_path: Path) -> None:
    def batches() -> Iterable[pa.RecordBatch]:
        yield pa.record_batch({"id": [1]})
        raise OSError("the input broke")

    with pytest.raises(OSError, match="the input broke"):
        list(writer(tmp_path, pa.schema([("id", pa.int64())]))(batches()))
    assert list((tmp_path / "place").iterdir()) == []


def test_a_task_that_is_given_up_leaves_no_open_file_behind(tmp_path: Path) -> None:
    batches = [pa.record_batch({"p": ["a"]}), pa.record_batch({"p": ["b"]})]
    files = writer(tmp_path, batches[0].schema, partition_by=("p",))(batches)
    first = next(iter(files))
    assert path(first).exists()
    files.close()  # type: ignore[attr-defined]
    assert list((tmp_path / "place").iterdir()) == [path(first)]


def test_rows_that_do_not_fit_name_the_column(tmp_path: Path) -> None:
    columns = pa.schema([("pair", pa.struct([("a", pa.int64())]))])
    with pytest.raises(SchemaMismatch, match="pair"):
        list(writer(tmp_path, columns)([pa.record_batch({"pair": [{"b": 1}]})]))


VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int32(), [5, -7, None]),
    (pa.int64(), [2**60, -1]),
    (pa.float32(), [0.5, -2.0, None]),
    (pa.float64(), [1e300, -1e-300]),
    (pa.bool_(), [True, False]),
    (pa.string(), ["b", "ä", None]),
    (pa.binary(), [b"\x00", b"\xff\x01"]),
    (pa.date32(), [dt.date(1969, 1, 1), dt.date(2013, 2, 8)]),
    (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1960, 1, 1, tzinfo=dt.UTC), dt.datetime(2013, 1, 1, tzinfo=dt.UTC)],
    ),
    (pa.decimal128(9, 2), [Decimal("-200.00"), Decimal("1.23")]),
    (
        pa.decimal128(38, 18),
        [
            Decimal("12345678901.123456789012345678"),
            Decimal("-99999999999999999999.999999999999999999"),
            None,
        ],
    ),
    (pa.decimal128(30, 0), [Decimal(10**28), Decimal(-(10**28))]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_written_bounds_are_readable_by_iceberg(tmp_path: Path, kind: pa.DataType, values: list[Any]) -> None:
    columns = pa.schema([("x", kind)])
    groups = [pa.record_batch([pa.array([value], kind)], schema=columns) for value in values]
    (file,) = writer(tmp_path, columns, row_group_bytes=1)(groups)
    _, counted, nulls, lower, upper = description(file)["columns"]["1"]
    known = [value for value in values if value is not None]
    assert (counted, nulls) == (len(values), values.count(None))
    iceberg = schemas.to_iceberg(table_schema(Table(TableName("t")), columns)).find_type("x")
    found = [from_bytes(iceberg, base64.b64decode(bound)) for bound in (lower, upper)]
    wanted = pa.array([min(known), max(known)], kind)
    if pa.types.is_temporal(kind):
        wanted = wanted.cast(pa.int32() if pa.types.is_date(kind) else pa.int64())
    assert found == wanted.to_pylist()


def test_nan_bounds_nothing(tmp_path: Path) -> None:
    columns = pa.schema([("x", pa.float64()), ("y", pa.float64())])
    groups = [pa.record_batch([[1.0, math.nan], [math.nan] * 2], schema=columns)]
    (file,) = writer(tmp_path, columns)(groups)
    found = description(file)["columns"]
    assert [from_bytes(DoubleType(), base64.b64decode(bound)) for bound in found["1"][3:]] == [1.0, 1.0]
    assert found["2"][3:] == [None, None]


INVALID: dict[str, tuple[list[bytes], list[bytes | None]]] = {
    "greatest": ([b"a", b"\xff"], [b"a", None]),
    "least": ([b"\x80", b"\xc3\xa9"], [None, b"\xc3\xa9"]),
    "between": ([b"a", b"b\xff", b"c"], [b"a", b"c"]),
    "a long one": ([b"a" * 21 + b"\xff"], [None, None]),
    "in another row group": ([b"\xff", b"a"], [b"a", None]),
}
"""Texts of which some are no UTF-8, and the bounds that remain."""


@pytest.mark.parametrize(("values", "bounds"), INVALID.values(), ids=INVALID)
def test_text_that_is_no_utf8_is_kept_and_bounds_nothing(
    tmp_path: Path, values: list[bytes], bounds: list[bytes | None]
) -> None:
    batches = [
        pa.record_batch({"text": undecodable([value]), "id": [number]}) for number, value in enumerate(values)
    ]
    (file,) = writer(tmp_path, batches[0].schema, row_group_bytes=1)(batches)
    found = description(file)["columns"]
    assert [None if bound is None else base64.b64decode(bound) for bound in found["1"][3:]] == bounds
    assert found["1"][1:3] == [len(values), 0]
    assert None not in found["2"], "the other columns keep theirs"
    assert pq.read_table(path(file)).column("text").cast(pa.binary()).to_pylist() == values


def test_a_partition_value_that_is_no_utf8_names_its_column(tmp_path: Path) -> None:
    batch = pa.record_batch({"place": undecodable([b"caf\xe9"]), "id": [1]})
    with pytest.raises(SchemaMismatch, match=r"'place': the table has text in UTF-8 .* b'caf\\xe9'"):
        list(writer(tmp_path, batch.schema, partition_by=("place",))([batch]))


@pytest.mark.parametrize("values", [["b", "a" * 10_000], ["a" * 10_000, "b"], ["b", None, "a" * 10_000]])
def test_a_row_group_without_bounds_leaves_the_file_without(tmp_path: Path, values: list[str | None]) -> None:
    """Parquet keeps none of a text that is too long: those of the other row groups would leave its rows out."""
    columns = pa.schema([("x", pa.string())])
    groups = [pa.record_batch([pa.array([value], pa.string())], schema=columns) for value in values]
    (file,) = writer(tmp_path, columns, row_group_bytes=1)(groups)
    assert description(file)["columns"]["1"][3:] == [None, None]


def test_unknown_bounds_are_left_out(tmp_path: Path) -> None:
    columns = pa.schema([("x", pa.int64()), ("list", pa.list_(pa.int64()))])
    (file,) = writer(tmp_path, columns)([pa.record_batch([[None, None], [[1], None]], schema=columns)])
    found = description(file)["columns"]
    assert found["1"][1:] == [2, 2, None, None]
    assert set(found) == {"1", "3"}, "parts of lists have no statistics"


@given(st.text(max_size=40))
def test_shortened_text_still_bounds(text: str) -> None:
    value = text.encode("utf-8", "surrogatepass")
    if any(0xD800 <= ord(letter) < 0xE000 for letter in text):
        return
    lower, upper = _shortened(value, text=True, upper=False), _shortened(value, text=True, upper=True)
    assert lower is not None
    assert lower <= value
    assert len(lower.decode()) <= 16
    assert upper is None or (upper >= value and len(upper.decode()) <= 16)


@given(st.binary(max_size=40))
def test_shortened_bytes_still_bound(value: bytes) -> None:
    lower, upper = _shortened(value, text=False, upper=False), _shortened(value, text=False, upper=True)
    assert lower is not None
    assert lower <= value
    assert upper is None or (upper >= value and len(upper) <= 16)
