"""Parquet files that are read by their columns' ids: those of which nothing may be returned, and what says so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider.domain.errors import InvalidInput, Unavailable
from airflow_provider.domain.topology import Table
from airflow_provider.tables import parquet_files
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.iceberg.parquet_footers import Footer, only_value, refuse_unlike
from airflow_provider.tables.statistics import Clip
from tests.hostile import undecodable

BARRIER = datetime(2024, 1, 2, tzinfo=UTC)
TABLE = Table("t")
PLAIN = pa.schema([("n", pa.int64()), (EPOCH_COLUMN, pa.timestamp("us", "UTC"))])
NUMBERED = pa.schema(
    [field.with_metadata({b"PARQUET:field_id": str(at).encode()}) for at, field in enumerate(PLAIN, 1)]
)
CLIP = Clip(files=frozenset(), low=None, high=BARRIER)

READERS: dict[str, Callable[[str], object]] = {
    "whole": lambda uri: parquet_files.read(uri, NUMBERED),
    "clipped": lambda uri: parquet_files.read_clipped(uri, NUMBERED, NUMBERED.field(1), CLIP),
    "in batches": lambda uri: list(parquet_files.streamed(uri, NUMBERED)),
    "epochs": parquet_files.rows_by_epoch,
    "ids": lambda uri: parquet_files.first_without_ids([uri]),
    "some ids": lambda uri: parquet_files.first_lacking([(uri, 1)]),
}
"""Who reads files of a state, or looks at them."""


def written(folder: Path, schema: pa.Schema = NUMBERED) -> Path:
    path = folder / "1.parquet"
    pq.write_table(pa.table([[1, 2], [BARRIER, BARRIER]], schema=schema), path, store_schema=False)
    return path


@pytest.mark.parametrize("what", ["missing", "damaged"])
@pytest.mark.parametrize("reader", READERS)
def test_of_a_file_that_is_not_whole_nothing_is_returned(tmp_path: Path, reader: str, what: str) -> None:
    """I6, R22: the error is that of a state which cannot be read, and names the file."""
    path = written(tmp_path)
    if what == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(Unavailable, match=rf"1\.parquet is {what}") as refused:
        READERS[reader](f"file://{path}")
    assert refused.value.uri == f"file://{path}"


@pytest.mark.parametrize("reader", ["whole", "clipped", "in batches", "epochs"])
def test_content_that_cannot_be_decompressed_is_damage(tmp_path: Path, reader: str) -> None:
    """R22: Arrow says of it what it says of a disk; to try again would never help."""
    path = written(tmp_path)
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    with pytest.raises(Unavailable, match=r"1\.parquet is damaged"):
        READERS[reader](f"file://{path}")


@pytest.mark.parametrize("answers", [[], [1]])
@pytest.mark.parametrize("reader", READERS)
def test_a_store_that_does_not_answer_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str, answers: list[int]
) -> None:
    """R22: it is tried again, also where it answers the question whether the file is damaged."""
    calls, open_root = count(), parquet_files._opened

    def at_times(root: str) -> Any:
        if next(calls) not in answers:
            raise OSError(f"AWS Error NETWORK_CONNECTION at {root}")
        return open_root(root)

    monkeypatch.setattr(parquet_files, "_opened", at_times)
    monkeypatch.setattr(parquet_files, "filesystem", lambda uri: (at_times(uri), uri))
    with pytest.raises(OSError, match="NETWORK_CONNECTION"):
        READERS[reader](f"file://{written(tmp_path)}")


@pytest.mark.parametrize("reader", ["whole", "clipped", "in batches"])
def test_of_a_file_without_column_ids_nothing_is_returned(tmp_path: Path, reader: str) -> None:
    """I1: each of its columns would be null."""
    with pytest.raises(Unavailable, match=r"1\.parquet has no column ids"):
        READERS[reader](f"file://{written(tmp_path, PLAIN)}")


def footer(path: Path) -> Footer:
    with pq.ParquetFile(path) as file:
        return Footer(columns=file.schema_arrow, metadata=file.metadata, size_bytes=path.stat().st_size)


class Leaves(list[Any]):
    """The leaves of a footer's own schema."""

    def column(self, index: int) -> Any:
        return SimpleNamespace(path=self[index])


@pytest.mark.parametrize("path", ["n.array", "n.list.element.more", "m.list.element"])
def test_lists_of_another_shape_than_three_levels_are_refused(path: str) -> None:
    """R19: readers guess differently what their elements are. Arrow writes no such file, so its footer is made up."""
    metadata = SimpleNamespace(metadata=None, schema=Leaves([path]))
    made = Footer(columns=pa.schema([("n", pa.list_(pa.int64()))]), metadata=metadata, size_bytes=1)
    with pytest.raises(InvalidInput, match="lists and maps of three levels"):
        refuse_unlike(TABLE, "file:///1.parquet", made)
    metadata.schema[:] = ["n.list.element"]
    refuse_unlike(TABLE, "file:///1.parquet", made)


@pytest.mark.parametrize(
    "values",
    [undecodable([b"\xff"]), pa.array([3_000_000], pa.int32()).cast(pa.date32())],
    ids=["text", "date"],
)
def test_a_value_that_cannot_be_told_separates_no_files(tmp_path: Path, values: pa.Array) -> None:
    """R19: a text that is no UTF-8, or a day beyond the year 9999, is no value of a partition."""
    path = tmp_path / "1.parquet"
    pq.write_table(pa.table({"n": values}), path)
    found = footer(path)
    with pytest.raises(InvalidInput, match="column n"):
        only_value(TABLE, f"file://{path}", found, found.columns.field("n"))
