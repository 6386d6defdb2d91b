"""Write the rows of a table's files to other files: of many epochs each, or of one (docs/decisions/unit-files.md)."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import DataFile

from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.interval import from_micros
from airflow_provider.tables import parquet_files
from airflow_provider.tables.base import EPOCH_COLUMN, WrittenFile
from airflow_provider.tables.compacting import Group
from airflow_provider.tables.iceberg import spans
from airflow_provider.tables.iceberg.task_writer import IcebergTaskWriter, OpenFile, runs
from airflow_provider.tables.storage import filesystem

TARGET_BYTES = 512 * 1024 * 1024
"""Size at which a unit file is closed and the next one of its unit opened."""
ROW_GROUP_BYTES = 16 * 1024 * 1024
"""Size of a row group in memory: a reader of some epochs skips the row groups of others."""
_AT_ONCE = 16
"""Number of small files to read concurrently: each takes a request to an object store."""
_SMALL_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Regrouping:
    """Writer of the rows of *files* to new files in *place*.

    :param groups: spans of the new files, in the order of time. :param schema: the table's present columns.
    """

    table: str
    place: str
    schema: pa.Schema
    files: Sequence[DataFile]
    groups: Sequence[spans.Span]
    indices: Counter[spans.Span] = field(default_factory=Counter, init=False)

    def written(self) -> Iterator[tuple[Group, WrittenFile]]:
        """Write the files, and yield each with its group.

        :raises Unavailable: a file is missing, or has rows that it should not have, or lacks some.
        """
        by_partition: defaultdict[str, list[DataFile]] = defaultdict(list)
        for file in self.files:
            by_partition[repr(plain_partition(file)[1:])].append(file)
        for _, files in sorted(by_partition.items()):
            files.sort(key=lambda file: (spans.span_of(file), file.file_path))
            yield from self._of_partition(files)

    def _of_partition(self, files: Sequence[DataFile]) -> Iterator[tuple[Group, WrittenFile]]:
        partition = plain_partition(files[0])[1:]
        writer = IcebergTaskWriter(
            table=self.table,
            place=self.place,
            schema=self.schema,
            barrier=0,
            target_bytes=TARGET_BYTES,
            row_group_bytes=ROW_GROUP_BYTES,
        )
        target = filesystem(self.place)
        current: OpenFile | None = None
        of: spans.Span | None = None
        try:
            for span, rows in self._pieces(files):
                if current is not None and of is not None and (span != of or current.size >= TARGET_BYTES):
                    done, current = current, None
                    yield _group(of), done.close()
                if current is None:
                    current, of = OpenFile(writer, target, self._name(span), _tuple(span, partition)), span
                current.write(rows)
            if current is not None and of is not None:
                done, current = current, None
                yield _group(of), done.close()
        finally:
            if current is not None:
                current.abandon()

    def _name(self, span: spans.Span) -> str:
        index = self.indices[span]
        self.indices[span] += 1
        return spans.data_name(span, index)

    def _pieces(self, files: Sequence[DataFile]) -> Iterator[tuple[spans.Span, pa.RecordBatch]]:
        """Yield the rows of *files*, each piece with the span of the new file that it belongs to."""
        for file, batches in self._read(files):
            rows = 0
            for batch in batches:
                rows += batch.num_rows
                whole = _with_epoch(batch, file)
                start = 0
                for span, end in self._ends(file, whole.column(EPOCH_COLUMN)):
                    yield span, whole.slice(start, end - start)
                    start = end
            if rows != file.record_count:
                raise _damaged(file, f"it has {rows} rows, and {file.record_count} were recorded")

    def _read(self, files: Sequence[DataFile]) -> Iterator[tuple[DataFile, Iterator[pa.RecordBatch]]]:
        """Yield the rows of each file, in order; small files are read ahead."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for start in range(0, len(files), _AT_ONCE):
                some = files[start : start + _AT_ONCE]
                small = {
                    file.file_path: pool.submit(parquet_files.read, file.file_path, self.schema)
                    for file in some
                    if file.file_size_in_bytes <= _SMALL_BYTES
                }
                for file in some:
                    ahead = small.pop(file.file_path, None)
                    if ahead is not None:
                        yield file, iter(ahead.result().combine_chunks().to_batches())
                    else:
                        yield file, parquet_files.streamed(file.file_path, self.schema)

    def _ends(self, file: DataFile, epochs: pa.Array) -> Iterator[tuple[spans.Span, int]]:
        """Yield for each run of rows that go to one new file its span, and where the run ends."""
        values, low_high = epochs.cast(pa.int64()), spans.span_of(file)
        before: tuple[spans.Span, int] | None = None
        for start, end in runs(len(values), [values]):
            barrier = values[start].as_py()
            at = bisect_right(self.groups, (barrier, barrier)) - 1
            found = [
                span
                for span in self.groups[max(0, at) : at + 2]
                if span[0] <= barrier <= span[1] and low_high[0] <= barrier <= low_high[1]
            ]
            if not found:
                raise _damaged(file, f"it has rows of {from_micros(barrier).isoformat()}")
            if before is not None and before[0] != found[0]:
                yield before
            before = (found[0], end)
        if before is not None:
            yield before


def _with_epoch(batch: pa.RecordBatch, file: DataFile) -> pa.RecordBatch:
    """Return *batch* with the epoch that the partition of *file* says, where the file itself says none."""
    low, high = spans.span_of(file)
    index = batch.schema.get_field_index(EPOCH_COLUMN)
    epochs = batch.column(index)
    if not epochs.null_count:
        return batch
    if low != high or epochs.null_count < len(epochs):
        raise _damaged(file, "some of its rows lack their epoch")
    constant = pa.repeat(pa.scalar(low, pa.int64()), len(epochs)).cast(epochs.type)
    return batch.set_column(index, batch.schema.field(index), constant)


def _tuple(span: spans.Span, partition: Sequence[Any]) -> tuple[Any, ...]:
    return (span[0] if span[0] == span[1] else None, *partition)


def plain_partition(file: DataFile) -> list[Any]:
    """Return the partition values of *file* as the task writer describes them, for JSON."""
    values = (file.partition[index] for index in range(len(file.partition)))
    return [str(value) if isinstance(value, Decimal) else value for value in values]


def _group(span: spans.Span) -> Group:
    return from_micros(span[0]), from_micros(span[1])


def _damaged(file: DataFile, why: str) -> Unavailable:
    return Unavailable(
        f"{file.file_path} is not as the table says: {why}.",
        next_step="`airflow epochs doctor` looks the domain over; compute the epoch again.",
        uri=file.file_path,
    )
