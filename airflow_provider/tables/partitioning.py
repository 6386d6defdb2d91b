"""Partition fields: what a table's files are separated by, a column as it is or a transform of one.

The transforms are Iceberg's, with its words: ``bucket(16, id)``, ``truncate(4, name)``, ``day(at)``, ``hour(at)``. This
code runs inside Spark's workers, too: it needs pyarrow only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

IDENTITY, BUCKET, TRUNCATE, DAY, HOUR = "identity", "bucket", "truncate", "day", "hour"
MOST_BUCKETS = 1000
"""Maximum number of buckets: each may become a file of every epoch."""
FORMS = "bucket(16, column), truncate(4, column), day(column), hour(column)"
"""The transforms as a declaration spells them, for messages."""

MICROS = {DAY: 86_400_000_000, HOUR: 3_600_000_000}
"""Microseconds of one day, and of one hour."""

_WITH_WIDTH = re.compile(rf"({BUCKET}|{TRUNCATE})\(([1-9][0-9]{{0,8}}), ?(.+)\)")
_WITHOUT = re.compile(rf"({DAY}|{HOUR})\((.+)\)")
_LOW = (1 << 32) - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionField:
    """A value that all rows of a file have in common.

    :param column: the column that it is computed from. :param transform: Iceberg's name of the transform.
    :param width: number of buckets, or of characters or whole numbers that are one value; 0 for other transforms.
    """

    column: str
    transform: str = IDENTITY
    width: int = 0

    @property
    def name(self) -> str:
        """Name of the field in Iceberg's metadata, as ``ALTER TABLE … ADD PARTITION FIELD`` would choose it."""
        if self.transform == IDENTITY:
            return self.column
        word = "trunc" if self.transform == TRUNCATE else self.transform
        return f"{self.column}_{word}_{self.width}" if self.width else f"{self.column}_{word}"

    @property
    def spelling(self) -> str:
        """The transform as Iceberg's metadata spells it: ``bucket[16]``."""
        return f"{self.transform}[{self.width}]" if self.width else self.transform

    def suits(self, kind: pa.DataType) -> bool:
        """Return whether a column of the type *kind* can be separated by this field."""
        if self.transform == IDENTITY:
            inexact = pa.types.is_floating(kind) or pa.types.is_binary(kind)
            return not (inexact or pa.types.is_fixed_size_binary(kind) or pa.types.is_nested(kind))
        is_time, is_date = bool(pa.types.is_timestamp(kind)), bool(pa.types.is_date32(kind))
        is_plain = kind in (pa.int32(), pa.int64(), pa.string())
        if self.transform == BUCKET:
            return self.width <= MOST_BUCKETS and (is_plain or is_time or is_date)
        return {HOUR: is_time, DAY: is_time or is_date, TRUNCATE: is_plain}[self.transform]

    def values(self, column: pa.Array) -> pa.Array:
        """Return the field's value for each value of *column*; null for null."""
        if self.transform == IDENTITY:
            return column
        if self.transform == BUCKET:
            return _buckets(column, self.width)
        if self.transform == TRUNCATE:
            if pa.types.is_integer(column.type):
                floors = pc.multiply(_floors(column.cast(pa.int64()), self.width), self.width)
                return floors.cast(column.type, safe=False)
            return pc.utf8_slice_codeunits(column, 0, self.width)
        if pa.types.is_date32(column.type):
            return column
        count = _floors(column.cast(pa.timestamp("us")).cast(pa.int64()), MICROS[self.transform])
        counted = count.cast(pa.int32(), safe=False)
        return counted.cast(pa.date32()) if self.transform == DAY else counted


def fields_of(partition_by: Iterable[str], columns: Sequence[str]) -> tuple[PartitionField, ...]:
    """Return the fields that *partition_by* of a table with *columns* declares. A column's own name goes first."""
    return tuple(
        PartitionField(column=text) if text in columns else _transformed(text) or PartitionField(column=text)
        for text in partition_by
    )


def columns_in(partition_by: Iterable[str]) -> set[str]:
    """Return all columns that *partition_by* may mean, whatever columns the table has."""
    found = [(text, _transformed(text)) for text in partition_by]
    return {text for text, _ in found} | {field.column for _, field in found if field is not None}


def names_taken(partition_by: Iterable[str], columns: Sequence[str]) -> set[str]:
    """Return the names of fields that no column may have: readers refuse a table with both."""
    return {field.name for field in fields_of(partition_by, columns) if field.transform != IDENTITY}


def _transformed(text: str) -> PartitionField | None:
    if match := _WITH_WIDTH.fullmatch(text):
        return PartitionField(column=match[3], transform=match[1], width=int(match[2]))
    if match := _WITHOUT.fullmatch(text):
        return PartitionField(column=match[2], transform=match[1])
    return None


def _floors(numbers: pa.Array, width: int) -> pa.Array:
    """Return each of *numbers* divided by *width*, rounded down: Arrow rounds towards zero."""
    towards_zero = pc.divide(numbers, width)
    is_below = pc.less(pc.subtract(numbers, pc.multiply(towards_zero, width)), 0)
    return pc.subtract(towards_zero, is_below.cast(pa.int64()))


# --- buckets -------------------------------------------------------------------------------------------------
# Iceberg's specification, appendix B: Murmur3 (x86, 32 bits, seed 0) of 8 bytes, or of a text in UTF-8.


def _buckets(column: pa.Array, number: int) -> pa.Array:
    hashes = _hashed_texts(column) if _is_text(column.type) else _hashed_numbers(column)
    positive = pc.bit_wise_and(hashes, pa.scalar(0x7FFFFFFF, pa.uint64())).cast(pa.int64())
    return pc.subtract(positive, pc.multiply(pc.divide(positive, number), number)).cast(pa.int32())


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _hashed_numbers(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    words = column.cast(pa.int64()).cast(pa.uint64(), safe=False)
    hashes = _mixed(pc.bit_wise_and(words, _word(0)), pc.bit_wise_and(words, _word(_LOW)))
    return _finished(_mixed(hashes, pc.shift_right(words, _word(32))), 8)


def _word(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint64())


def _times(words: pa.Array, factor: int) -> pa.Array:
    return pc.bit_wise_and(pc.multiply(words, _word(factor)), _word(_LOW))


def _rotated(words: pa.Array, by: int) -> pa.Array:
    left = pc.bit_wise_and(pc.shift_left(words, _word(by)), _word(_LOW))
    return pc.bit_wise_or(left, pc.shift_right(words, _word(32 - by)))


def _mixed(hashes: pa.Array, words: pa.Array) -> pa.Array:
    scrambled = _times(_rotated(_times(words, 0xCC9E2D51), 15), 0x1B873593)
    rotated = _rotated(pc.bit_wise_xor(hashes, scrambled), 13)
    return pc.bit_wise_and(pc.add(pc.multiply(rotated, _word(5)), _word(0xE6546B64)), _word(_LOW))


def _finished(hashes: pa.Array, length: int) -> pa.Array:
    hashes = pc.bit_wise_xor(hashes, _word(length))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashes = _times(pc.bit_wise_xor(hashes, pc.shift_right(hashes, _word(shift))), factor)
    return pc.bit_wise_xor(hashes, pc.shift_right(hashes, _word(16)))


def _hashed_texts(column: pa.Array) -> pa.Array:
    """Return the hashes of texts; a text that occurs often is hashed once."""
    encoded = column.cast(pa.large_string()).cast(pa.large_binary()).dictionary_encode()
    hashes = pa.array([_hash(text) for text in encoded.dictionary.to_pylist()], pa.uint64())
    return hashes.take(encoded.indices)


def _hash(content: bytes) -> int:
    hashed, whole = 0, len(content) & ~3
    for start in range(0, whole, 4):
        hashed = _mixed_word(hashed, int.from_bytes(content[start : start + 4], "little"))
        hashed = ((((hashed << 13) | (hashed >> 19)) & _LOW) * 5 + 0xE6546B64) & _LOW
    if whole < len(content):
        hashed = _mixed_word(hashed, int.from_bytes(content[whole:], "little"))
    hashed ^= len(content)
    hashed = ((hashed ^ (hashed >> 16)) * 0x85EBCA6B) & _LOW
    hashed = ((hashed ^ (hashed >> 13)) * 0xC2B2AE35) & _LOW
    return hashed ^ (hashed >> 16)


def _mixed_word(hashed: int, word: int) -> int:
    word = (word * 0xCC9E2D51) & _LOW
    word = ((word << 15) | (word >> 17)) & _LOW
    return hashed ^ ((word * 0x1B873593) & _LOW)
