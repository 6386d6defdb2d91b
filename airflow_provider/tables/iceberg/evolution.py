"""Apply column changes to a table's metadata (R32)."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, update_table_metadata

from airflow_provider.tables.base import Publication
from airflow_provider.tables.evolving import evolved
from airflow_provider.tables.iceberg import schemas
from airflow_provider.tables.partitioning import columns_in


def evolved_metadata(publication: Publication, metadata: TableMetadata) -> TableMetadata:
    """Return *metadata* with the column changes of *publication*; ids of dropped columns are not used again.

    :raises SchemaMismatch: a change is impossible for these columns; names the column.
    """
    if not publication.changes:
        return metadata
    schema, declared = metadata.schema(), publication.table
    separating = [field.source_id for spec in metadata.specs().values() for field in spec.fields]
    sorting = [field.source_id for order in metadata.sort_orders for field in order.fields]
    after = evolved(
        declared,
        schemas.to_arrow(schema),
        publication.changes,
        last_id=metadata.last_column_id,
        separating={*_named(schema, separating), *columns_in(declared.partition_by)},
        sorting={*_named(schema, sorting), *declared.sort_by},
        taken=schemas.field_names(metadata.specs().values()),
    )
    number = max(known.schema_id for known in metadata.schemas) + 1
    added = schemas.to_iceberg(after).model_copy(update={"schema_id": number})
    updates = (AddSchemaUpdate(schema=added), SetCurrentSchemaUpdate.model_validate({"schema-id": number}))
    return update_table_metadata(metadata, updates)


def altered(metadata: TableMetadata) -> str:
    """Return a sentence if another program has changed the columns since the table's newest version, else nothing."""
    newest = metadata.current_snapshot()
    if newest is None or newest.schema_id in (None, metadata.current_schema_id):
        return ""
    return "Another program has changed the table's columns since its newest version."


def _named(schema: Schema, numbers: Iterable[int]) -> list[str]:
    """Return the names of the columns with the ids *numbers*, as far as *schema* has them."""
    wanted = set(numbers)
    return [field.name for field in schema.fields if field.field_id in wanted]
