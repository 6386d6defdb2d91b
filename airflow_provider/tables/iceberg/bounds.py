"""Column statistics of data files, taken from Iceberg's manifests without reading rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, PrimitiveType

from airflow_provider.tables.iceberg.schemas import to_arrow
from airflow_provider.tables.statistics import ColumnBounds, Statistics


def summed(files: Sequence[DataFile], schema: Schema) -> Statistics:
    """Return the statistics of all *files* together, for top-level columns of primitive types."""
    rows = sum(file.record_count for file in files)
    arrow = to_arrow(schema)
    columns = {
        field.name: _bounds(files, field, arrow.field(field.name).type)
        for field in schema.fields
        if isinstance(field.field_type, PrimitiveType)
    }
    return Statistics(rows=rows, columns=columns)


def _bounds(files: Sequence[DataFile], field: NestedField, kind: pa.DataType) -> ColumnBounds:
    number = field.field_id
    nulls = [nulls_in(file, number) for file in files]
    known = [count for count in nulls if count is not None]
    whole = len(known) == len(files)
    valued = [file for file, count in zip(files, nulls, strict=True) if count != file.record_count]
    lower = [bound_scalar((file.lower_bounds or {}).get(number), field, kind) for file in valued]
    upper = [bound_scalar((file.upper_bounds or {}).get(number), field, kind) for file in valued]
    return ColumnBounds(
        nulls=sum(known) if whole else None, lower=_extreme(lower, min), upper=_extreme(upper, max)
    )


def nulls_in(file: DataFile, number: int) -> int | None:
    """Return the number of nulls in a file, None if unknown.

    A column without counts is not always absent from the file: programs that rewrite files may keep no counts, or
    those of the first hundred columns only.
    """
    if number not in (file.value_counts or {}):
        return None
    nulls = (file.null_value_counts or {}).get(number)
    return None if nulls is None else int(nulls)


def bound_scalar(bound: bytes | None, field: NestedField, kind: pa.DataType) -> pa.Scalar | None:
    """Return a bound of *field* as a value of Arrow's type *kind*; None if there is none, or none that is known."""
    if bound is None or not isinstance(field.field_type, PrimitiveType):
        return None
    value: Any = from_bytes(field.field_type, bound)
    if pa.types.is_date32(kind):
        return pa.scalar(value, pa.int32()).cast(kind)
    if pa.types.is_temporal(kind):
        return pa.scalar(value, pa.int64()).cast(kind)
    return pa.scalar(value, kind)


def _extreme(bounds: list[pa.Scalar | None], of: Any) -> pa.Scalar | None:
    """Return the least or greatest bound; None if a file with values has no bound."""
    if not bounds or any(bound is None for bound in bounds):
        return None
    return of(bounds, key=lambda bound: bound.as_py())
