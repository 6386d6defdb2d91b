"""Iceberg's schemas, partition specs and sort orders from Arrow columns, and back."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import pyarrow as pa
from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, VoidTransform, parse_transform

from airflow_provider.domain.errors import SchemaMismatch
from airflow_provider.domain.topology import Table
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.columns import plain_schema
from airflow_provider.tables.partitioning import PartitionField as DeclaredField
from airflow_provider.tables.partitioning import fields_of


def to_iceberg(schema: pa.Schema) -> Schema:
    """Convert Arrow columns; each must have its id."""
    return pyarrow_to_schema(schema)


def to_arrow(schema: Schema) -> pa.Schema:
    """Convert to plain Arrow types, with column ids in the fields' metadata."""
    return plain_schema(schema_to_pyarrow(schema))


@lru_cache(maxsize=64)
def from_json(text: str) -> Schema:
    return Schema.model_validate_json(text)


@lru_cache(maxsize=64)
def arrow_from_json(text: str) -> pa.Schema:
    return to_arrow(from_json(text))


def to_json(schema: Schema) -> str:
    return schema.model_dump_json()


def partition_spec(table: Table, schema: Schema) -> PartitionSpec:
    """Return the spec of the epoch column as it is, then the declared fields."""
    return PartitionSpec(
        *(
            PartitionField(
                source_id=schema.find_field(field.column).field_id,
                field_id=PARTITION_FIELD_ID_START + index,
                transform=parse_transform(field.spelling),
                name=field.name,
            )
            for index, field in enumerate(_declared(table, schema))
        )
    )


def _declared(table: Table, schema: Schema) -> tuple[DeclaredField, ...]:
    names = [field.name for field in schema.fields]
    return (DeclaredField(column=EPOCH_COLUMN), *fields_of(table.partition_by, names))


def field_names(specs: Iterable[PartitionSpec]) -> set[str]:
    """Return the names of partition fields that no column may have: readers refuse a table with both."""
    return {
        field.name
        for spec in specs
        for field in spec.fields
        if not isinstance(field.transform, IdentityTransform | VoidTransform)
    }


def sort_order(table: Table, schema: Schema) -> SortOrder:
    """Return the order of rows inside each file; unsorted if none is declared."""
    fields = [
        SortField(
            source_id=schema.find_field(column).field_id,
            transform=IdentityTransform(),
            direction=SortDirection.ASC,
            null_order=NullOrder.NULLS_FIRST,
        )
        for column in table.sort_by
    ]
    return SortOrder(*fields, order_id=1) if fields else SortOrder(order_id=0)


def layout_of(spec: PartitionSpec, schema: Schema) -> list[str]:
    """Return what *spec* separates files by: a column's name, or a transform and its column: ``bucket[16] of id``."""
    return [
        _layout_text(str(field.transform), schema.find_column_name(field.source_id) or "")
        for field in spec.fields
    ]


def _layout_text(transform: str, column: str) -> str:
    return column if transform == str(IdentityTransform()) else f"{transform} of {column}"


def is_void(field: PartitionField) -> bool:
    """Return whether a partition field says nothing, as the first one of unit files."""
    return isinstance(field.transform, VoidTransform)


def own_spec(table: Table, specs: dict[int, PartitionSpec], schema: Schema) -> PartitionSpec:
    """Return the spec of the declared layout, by which *table*'s files are written.

    :raises SchemaMismatch: the table was created with another layout.
    """
    fields = _declared(table, schema)
    wanted = [_layout_text(field.spelling, field.column) for field in fields]
    newest_first = sorted(
        (number for number, spec in specs.items() if not spec.fields or not is_void(spec.fields[0])),
        reverse=True,
    )
    found = [layout_of(specs[number], schema) for number in newest_first]
    for number, layout in zip(newest_first, found, strict=True):
        if layout == wanted:
            return specs[number]
    other = next((at for at, text in enumerate(wanted) if text not in found[0]), None)
    raise SchemaMismatch(
        f"table {table.name!r} is partitioned by {found[0]}, and its declaration says {wanted}.",
        next_step="set partition_by to the columns that the table was made with, or evolve its partition spec.",
        table=table.name,
        column="" if other is None else fields[other].column,
        expected=str(found[0]),
        found=str(wanted),
    )
