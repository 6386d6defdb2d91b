"""Layouts that other programs give a table: which of them stop its epochs, and which are left alone (R17).

Only the layout of files that are there counts. A partition spec that no file has is a wish of another program, and one
whose first field is the epoch column as it is keeps each file in one epoch, whatever the further fields are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyiceberg.manifest import ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.transforms import IdentityTransform

from airflow_provider.domain.topology import Table
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.iceberg import schemas

FORMAT_VERSION = 2
"""Version of Iceberg's format that this package writes."""


def stopping(metadata: TableMetadata, listed: Callable[[], Iterable[ManifestFile]]) -> str:
    """Return why no epoch can be published to a table that *metadata* describes; empty if one can.

    :param listed: reads the manifests of its current version; called only if there are specs that could be strange.
    """
    if metadata.format_version != FORMAT_VERSION:
        return f"format version {metadata.format_version} instead of {FORMAT_VERSION}"
    strange = strange_specs(metadata)
    used = sorted(
        manifest.partition_spec_id
        for manifest in (listed() if strange else ())
        if manifest.partition_spec_id in strange
        and (manifest.has_added_files() or manifest.has_existing_files())
    )
    if not used:
        return ""
    spec = metadata.specs()[used[0]]
    return f"files in a partition spec that does not begin with {EPOCH_COLUMN}: {spec}"


def strange_specs(metadata: TableMetadata) -> set[int]:
    """Return the ids of the partition specs whose files cannot be assigned to epochs."""
    schema = metadata.schema()
    return {number for number, spec in metadata.specs().items() if not _is_by_epoch(spec, schema)}


def with_own_default(metadata: TableMetadata) -> TableMetadata:
    """Return *metadata* whose default spec is by epochs: other programs write, and compact, by the default one."""
    by_epoch = metadata.specs().keys() - strange_specs(metadata)
    if not by_epoch or metadata.default_spec_id in by_epoch:
        return metadata
    return metadata.model_copy(update={"default_spec_id": max(by_epoch)})


def with_declared_order(metadata: TableMetadata, table: Table) -> TableMetadata:
    """Return *metadata* whose default sort order is the one that *table* declares: other programs compact by it.

    It stays where the declaration names none, or a column that the table has no more: that is an earlier declaration.
    """
    schema = metadata.schema()
    if not table.sort_by or not set(table.sort_by) <= {field.name for field in schema.fields}:
        return metadata
    wanted = schemas.sort_order(table, schema).fields
    known = {order.order_id: order for order in metadata.sort_orders}
    number = next((number for number, order in known.items() if order.fields == wanted), max(known) + 1)
    orders = (
        metadata.sort_orders if number in known else [*known.values(), SortOrder(*wanted, order_id=number)]
    )
    return metadata.model_copy(update={"sort_orders": orders, "default_sort_order_id": number})


def _is_by_epoch(spec: PartitionSpec, schema: Schema) -> bool:
    if not spec.fields or EPOCH_COLUMN not in schema.column_names:
        return False
    first, epoch = spec.fields[0], schema.find_field(EPOCH_COLUMN)
    return first.source_id == epoch.field_id and isinstance(first.transform, IdentityTransform)
