"""Iceberg's schemas, partition specs and sort orders from Arrow columns, and back."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform

from airflow_provider.domain.errors import SchemaMismatch
from airflow_provider.domain.topology import Table
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.columns import plain_schema


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
    """Return the spec of the epoch column, then the declared columns; all by identity transforms."""
    columns = (EPOCH_COLUMN, *table.partition_by)
    return PartitionSpec(
        *(
            PartitionField(
                source_id=schema.find_field(column).field_id,
                field_id=PARTITION_FIELD_ID_START + index,
                transform=IdentityTransform(),
                name=column,
            )
            for index, column in enumerate(columns)
        )
    )


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


def partition_columns(spec: PartitionSpec, schema: Schema) -> list[str] | None:
    """Return the names of the columns that *spec* partitions by; None if it has other transforms than identity."""
    if not all(isinstance(field.transform, IdentityTransform) for field in spec.fields):
        return None
    return [schema.find_column_name(field.source_id) or "" for field in spec.fields]


def own_spec(table: Table, specs: dict[int, PartitionSpec], schema: Schema) -> PartitionSpec:
    """Return the spec of the declared layout, by which *table*'s files are written.

    :raises SchemaMismatch: the table was created with another layout.
    """
    wanted = [EPOCH_COLUMN, *table.partition_by]
    found = [partition_columns(specs[number], schema) for number in sorted(specs, reverse=True)]
    for number, columns in zip(sorted(specs, reverse=True), found, strict=True):
        if columns == wanted:
            return specs[number]
    raise SchemaMismatch(
        f"table {table.name!r} is partitioned by {found[0]}, and its declaration says {wanted}.",
        next_step="set partition_by to the columns that the table was made with, or evolve its partition spec.",
        table=table.name,
        column=next((name for name in wanted if name not in (found[0] or ())), ""),
        expected=str(found[0]),
        found=str(wanted),
    )
