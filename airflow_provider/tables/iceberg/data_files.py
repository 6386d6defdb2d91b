"""Entries of manifests, made of the descriptions that tasks give of their files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import DecimalType, PrimitiveType

from airflow_provider.tables.base import WrittenFile
from airflow_provider.tables.iceberg.avro import Statistics


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

    A list for each kind of statistics, None for what is not known: one of each column would be millions of objects.

    :param ids: of the columns, to which the lists belong.
    """

    offsets: list[int]
    ids: tuple[int, ...]
    sizes: list[int | None]
    values: list[int | None]
    nulls: list[int | None]
    lower: list[bytes | None]
    upper: list[bytes | None]


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
    ids = description.ids
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.uri,
        file_format=FileFormat.PARQUET,
        partition=Record(*_typed(description, types)),
        record_count=file.rows,
        file_size_in_bytes=file.size_bytes,
        column_sizes=_known(ids, description.sizes),
        value_counts=_known(ids, description.values),
        null_value_counts=_known(ids, description.nulls),
        lower_bounds=_known(ids, description.lower),
        upper_bounds=_known(ids, description.upper),
        split_offsets=description.offsets,
        spec_id=spec_id,
    )


def _known(ids: tuple[int, ...], values: list[Any]) -> Mapping[int, Any]:
    """Return *values* by id without those that are not known."""
    if None in values:
        return {number: value for number, value in zip(ids, values, strict=True) if value is not None}
    return Statistics(ids, values)


def place_in_order(file: DataFile) -> tuple[Any, ...]:
    """Return a key to sort files by their partition values, nulls first."""
    return in_order((file.partition[index] for index in range(len(file.partition))), file.file_path)


def in_order(partition: Iterable[Any], uri: str) -> tuple[Any, ...]:
    return (*((value is not None, value) for value in partition), uri)
