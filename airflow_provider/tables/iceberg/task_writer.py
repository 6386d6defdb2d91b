"""Writer that runs inside each Spark task: batches in, Parquet files and their descriptions out.

Spark pickles it by value (``airflow_provider.tables`` and ``airflow_provider.domain``), so that workers need
pyarrow only. A file's statistics come from the footer that the writer holds, its checksum from the bytes as they
are written: no file is read again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider.tables.base import WrittenFile
from airflow_provider.tables.columns import mismatch
from airflow_provider.tables.partitioning import PartitionField, fields_of
from airflow_provider.tables.rows import fitted
from airflow_provider.tables.storage import create, filesystem, remove

_TRUNCATED_TO = 16


@dataclass(frozen=True, kw_only=True)
class IcebergTaskWriter:
    """Writes the batches of one task; each call is one try and uses unique file names.

    :param table: name of the table, for messages.
    :param place: URI of the staging directory, with a trailing slash.
    :param schema: the table's columns with their ids, the epoch column last.
    :param barrier: value of the epoch column, microseconds since 1970.
    :param partition_by: columns or transforms that partition the files; rows of equal values should come together.
    :param target_bytes: size at which a file is closed and the next one opened.
    :param row_group_bytes: size up to which rows are buffered in memory and written as one row group.
    """

    table: str
    place: str
    schema: pa.Schema
    barrier: int
    partition_by: tuple[str, ...] = ()
    target_bytes: int = 128 * 1024 * 1024
    row_group_bytes: int = 64 * 1024 * 1024

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[WrittenFile]:
        attempt = uuid.uuid4().hex
        names = (f"{index:05d}-{attempt}.parquet" for index in count())
        epoch = pa.scalar(self.barrier, pa.int64()).cast(pa.timestamp("us", "UTC"))
        target = filesystem(self.place)
        fields = fields_of(self.partition_by, self.schema.names)
        current: OpenFile | None = None
        values: tuple[Any, ...] = ()
        try:
            for batch in batches:
                rows = fitted(batch, self.schema, epoch, self.table)
                keys = [field.values(rows.column(field.column)) for field in fields]
                for start, end in runs(rows.num_rows, keys):
                    pairs = zip(fields, keys, strict=True)
                    found = tuple(self._partition_value(field, key[start]) for field, key in pairs)
                    if current is not None and (found != values or current.size >= self.target_bytes):
                        # Forget the file before it is yielded: a caller that stops here must not delete it.
                        done, current = current, None
                        yield done.close()
                    if current is None:
                        current, values = OpenFile(self, target, next(names), (self.barrier, *found)), found
                    current.write(rows.slice(start, end - start))
            if current is not None:
                done, current = current, None
                yield done.close()
        finally:
            if current is not None:
                current.abandon()

    def _partition_value(self, field: PartitionField, value: pa.Scalar) -> Any:
        """:raises SchemaMismatch: text that is not UTF-8, which partition values of a manifest have to be."""
        try:
            return plain(value)
        except UnicodeDecodeError as error:
            raise mismatch(
                self.table,
                field.column,
                expected="text in UTF-8 in each row",
                found=f"the bytes {error.object!r}",
                next_step=f"decode {field.column!r} before it is written, or take another column for partition_by.",
            ) from error


class OpenFile:
    """Parquet file being written."""

    def __init__(
        self, writer: IcebergTaskWriter, target: tuple[Any, str], name: str, partition: tuple[Any, ...]
    ) -> None:
        self._uri = writer.place + name
        self._filesystem, self._path = target[0], target[1] + name
        self._schema = writer.schema
        self._row_group_bytes = writer.row_group_bytes
        self._partition = partition
        self._sink = _HashingSink(create(self._filesystem, self._path))
        self._footers: list[Any] = []
        self._parquet = pq.ParquetWriter(
            self._sink,
            writer.schema,
            compression="zstd",
            coerce_timestamps="us",
            version="2.6",
            store_schema=False,
            write_page_index=True,
            metadata_collector=self._footers,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0

    @property
    def size(self) -> int:
        """Number of bytes written so far, and buffered for the next row group."""
        return self._sink.size + self._waiting_bytes

    def write(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= self._row_group_bytes:
            self._flush()

    def close(self) -> WrittenFile:
        self._flush()
        self._parquet.close()
        self._sink.close()
        footer = self._footers[0]
        return WrittenFile(
            uri=self._uri,
            size_bytes=self._sink.size,
            rows=footer.num_rows,
            checksum=self._sink.hexdigest(),
            description=description(footer, self._schema, self._partition),
        )

    def abandon(self) -> None:
        """Delete the file, best effort: it is never described, so that an orphan does no harm."""
        self._waiting.clear()
        try:
            self._parquet.close()
            self._sink.close()
            remove(self._filesystem, self._path)
        except (OSError, pa.ArrowException):
            return

    def _flush(self) -> None:
        if self._waiting:
            rows = pa.Table.from_batches(self._waiting, self._schema)
            self._parquet.write_table(rows, row_group_size=rows.num_rows)
            self._waiting, self._waiting_bytes = [], 0


class _HashingSink:
    """Output stream that hashes the bytes that pass through it."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self._hash = hashlib.blake2b(digest_size=16)
        self.size = 0

    def write(self, data: Any) -> int:
        self._hash.update(data)
        self._target.write(data)
        count = memoryview(data).nbytes
        self.size += count
        return count

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._target.flush()

    @property
    def closed(self) -> bool:
        return bool(self._target.closed)

    def close(self) -> None:
        self._target.close()

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def runs(number: int, keys: Sequence[pa.Array]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of *number* rows in which none of *keys* changes."""
    if not number:
        return
    ends = {number}
    for key in keys:
        ends.update(pc.run_end_encode(key).run_ends.to_pylist())
    start = 0
    for end in sorted(ends):
        yield start, end
        start = end


def plain(value: pa.Scalar) -> Any:
    """Return a partition value as in Iceberg's partition tuple, for JSON: days, microseconds, decimals as text."""
    if not value.is_valid:
        return None
    if pa.types.is_temporal(value.type):
        return value.value
    return str(value.as_py()) if pa.types.is_decimal(value.type) else value.as_py()


def description(footer: Any, schema: pa.Schema, partition: tuple[Any, ...]) -> str:
    """Return the data of a manifest entry as JSON: partition, row group offsets, and of each column id, size in bytes,
    number of values and of nulls, lower and upper bound, each as a list of all columns.

    :param footer: the file's metadata as pyarrow reads it. :param schema: its columns by their names in the file, with
        the ids and types that the table has for them.
    """
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    columns = {}
    paths = {footer.schema.column(index).path: index for index in range(len(footer.schema))}
    for path, number, kind in _leaves(schema):
        if path in paths:
            chunks = [group.column(paths[path]) for group in groups]
            columns[number] = _column(chunks, kind)
    statistics = zip(*columns.values(), strict=True) if columns else iter([()] * 5)
    said = {
        "partition": partition,
        "offsets": [_offset(group.column(0)) for group in groups],
        "ids": list(columns),
        **dict(zip(("sizes", "values", "nulls", "lower", "upper"), statistics, strict=True)),
    }
    return json.dumps(said, separators=(",", ":"))


def _leaves(fields: Iterable[pa.Field], prefix: str = "") -> Iterator[tuple[str, int, pa.DataType]]:
    """Yield path, id and type of each column with one value per row: no parts of lists and maps."""
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from _leaves(field.type, f"{prefix}{field.name}.")
        elif not pa.types.is_nested(field.type):
            yield f"{prefix}{field.name}", int(field.metadata[b"PARQUET:field_id"]), field.type


def _offset(chunk: Any) -> int:
    return int(chunk.dictionary_page_offset or chunk.data_page_offset)


def _column(chunks: list[Any], kind: pa.DataType) -> list[Any]:
    values = sum(chunk.num_values for chunk in chunks)
    known = [chunk.statistics for chunk in chunks if chunk.is_stats_set]
    counted = len(known) == len(chunks) and all(statistics.has_null_count for statistics in known)
    nulls = sum(statistics.null_count for statistics in known) if counted else None
    bounded = [statistics for statistics in known if statistics.has_min_max]
    # A chunk with values and without bounds makes the file's bounds unknown: a narrower bound would lose rows.
    whole = counted and all(statistics.has_min_max or statistics.num_values == 0 for statistics in known)
    lower = upper = None
    if whole and bounded:
        ends = [(_comparable(said, "min", kind), _comparable(said, "max", kind)) for said in bounded]
        if not any(
            _is_nan(end) for pair in ends for end in pair
        ):  # early writers put NaN there: it bounds nothing
            lower = _bound(min(least for least, _ in ends), kind, upper=False)
            upper = _bound(max(greatest for _, greatest in ends), kind, upper=True)
    return [sum(chunk.total_compressed_size for chunk in chunks), values, nulls, lower, upper]


def _comparable(statistics: Any, side: str, kind: pa.DataType) -> Any:
    """Return a value to compare: text and bytes by their bytes, dates, times and short decimals by the stored number.

    Spark's strings may be no UTF-8, so that only the bytes of a text are always there; Python has not all dates. Other
    writers keep decimals of up to 18 digits as integers, unscaled.
    """
    raw = getattr(statistics, f"{side}_raw")
    is_stored = isinstance(raw, int) or pa.types.is_string(kind) or pa.types.is_binary(kind)
    return raw if is_stored else getattr(statistics, side)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value  # noqa: PLR0124  (NaN is unequal to itself)


def _bound(value: Any, kind: pa.DataType, *, upper: bool) -> str | None:
    """Encode a bound by Iceberg's single-value serialisation, in base64; None if it has no encoding."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        shortened = _shortened(value, text=pa.types.is_string(kind), upper=upper)
        return None if shortened is None else base64.b64encode(shortened).decode()
    packed = _packed(value, kind)
    return None if packed is None else base64.b64encode(packed).decode()


def _packed(value: Any, kind: pa.DataType) -> bytes | None:
    if pa.types.is_boolean(kind):
        return b"\x01" if value else b"\x00"
    if pa.types.is_float32(kind):
        return struct.pack("<f", value)
    if pa.types.is_float64(kind):
        return struct.pack("<d", value)
    if pa.types.is_int32(kind) or pa.types.is_date32(kind):
        return struct.pack("<i", value)
    if pa.types.is_int64(kind) or pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return struct.pack("<q", value)
    if pa.types.is_decimal(kind):
        unscaled = value if isinstance(value, int) else _unscaled(value, kind.scale)
        bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length() + 1
        return unscaled.to_bytes((bits + 7) // 8, "big", signed=True)
    return None


def _unscaled(value: Decimal, scale: int) -> int:
    """Return *value* in units of its last digit; Decimal's own arithmetic would round it to 28 digits."""
    sign, digits, exponent = value.as_tuple()
    number: int = int("".join(map(str, digits))) * 10 ** (int(exponent) + scale)
    return -number if sign else number


def _shortened(value: bytes, *, text: bool, upper: bool) -> bytes | None:
    """Truncate a long bound; an upper bound's last character is raised so that it stays a bound; None if impossible.

    Readers decode bounds of text, so that bytes which are no UTF-8 are none.
    """
    if not text:
        return _shortened_bytes(value, upper=upper)
    try:
        characters = value.decode("utf-8", "strict")
    except UnicodeDecodeError:
        return None
    if len(characters) <= _TRUNCATED_TO:
        return value
    kept = characters[:_TRUNCATED_TO]
    if not upper:
        return kept.encode()
    while kept:
        following = ord(kept[-1]) + 1
        if following == 0xD800:
            following = 0xE000
        if following <= 0x10FFFF:
            return (kept[:-1] + chr(following)).encode()
        kept = kept[:-1]
    return None


def _shortened_bytes(value: bytes, *, upper: bool) -> bytes | None:
    if len(value) <= _TRUNCATED_TO:
        return value
    kept = value[:_TRUNCATED_TO]
    if not upper:
        return kept
    kept = kept.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
