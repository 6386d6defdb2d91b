"""Entries of manifests, made of the descriptions that tasks give of their files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import DecimalType, PrimitiveType

from airflow_provider.tables.base import WrittenFile

_Value = TypeVar("_Value", int, bytes)


def partition_types(spec: PartitionSpec, schema: Schema) -> list[PrimitiveType]:
    """Return the types of the partition values of files of *spec*."""
    return [_primitive(field.field_type) for field in spec.partition_type(schema).fields]


def _primitive(kind: object) -> PrimitiveType:
    if not isinstance(kind, PrimitiveType):
        raise TypeError(f"a partition field has the type {kind}")
    return kind


class _Placed(msgspec.Struct):
    """Partition values of a written file, out of the description by its task."""

    partition: list[Any]


class _Described(_Placed):
    """Description of a written file by its task; bounds are Base64 in JSON.

    :param columns: by id: bytes, values, nulls, lower and upper bound; None for what is not known.
    """

    columns: dict[int, tuple[int, int, int | None, bytes | None, bytes | None]]
    offsets: list[int]


def partition_of(file: WrittenFile, types: Sequence[PrimitiveType]) -> list[Any]:
    return _typed(msgspec.json.decode(file.description, type=_Placed), types)


def _typed(placed: _Placed, types: Sequence[PrimitiveType]) -> list[Any]:
    """Return the partition values of *placed* as values of *types*."""
    return [
        Decimal(value) if isinstance(kind, DecimalType) and value is not None else value
        for kind, value in zip(types, placed.partition, strict=True)
    ]


def data_file(file: WrittenFile, spec_id: int, types: Sequence[PrimitiveType]) -> DataFile:
    """Return the entry of *file* in a manifest. :param types: :func:`partition_types` of its spec."""
    description = msgspec.json.decode(file.description, type=_Described)
    ids = description.columns.keys()
    sizes, counts, nulls, lows, highs = [*zip(*description.columns.values(), strict=True)] or [()] * 5
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.uri,
        file_format=FileFormat.PARQUET,
        partition=Record(*_typed(description, types)),
        record_count=file.rows,
        file_size_in_bytes=file.size_bytes,
        column_sizes=_known(ids, sizes),
        value_counts=_known(ids, counts),
        null_value_counts=_known(ids, nulls),
        lower_bounds=_known(ids, lows),
        upper_bounds=_known(ids, highs),
        split_offsets=description.offsets,
        spec_id=spec_id,
    )


def _known(ids: Iterable[int], values: Sequence[_Value | None]) -> dict[int, _Value]:
    """Return *values* by id without those that are not known; a table of many columns has millions of them."""
    pairs = zip(ids, values, strict=True)
    return {number: value for number, value in pairs if value is not None} if None in values else dict(pairs)  # type: ignore[arg-type]


def place_in_order(file: DataFile) -> tuple[Any, ...]:
    """Return a key to sort files by their partition values, nulls first."""
    return in_order((file.partition[index] for index in range(len(file.partition))), file.file_path)


def in_order(partition: Iterable[Any], uri: str) -> tuple[Any, ...]:
    return (*((value is not None, value) for value in partition), uri)
