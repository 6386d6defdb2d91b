"""Layouts that other programs give a table: which of them stop its epochs, and which are left alone (R17).

Only the layout of files that are there counts. A partition spec that no file has is a wish of another program, and one
whose first field is the epoch column as it is keeps each file in one epoch, whatever the further fields are. Unit files
of this package have a spec of their own, which says nothing of the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyiceberg.manifest import ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.transforms import IdentityTransform, Transform, VoidTransform

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
    return strange_files(metadata.specs()[used[0]])


def strange_files(spec: PartitionSpec) -> str:
    """Return what is wrong with files in *spec*, which does not begin with the epoch, on one line."""
    fields = ", ".join(f"{field.name} ({field.transform})" for field in spec.fields)
    return f"files in a partition spec that does not begin with {EPOCH_COLUMN}: {fields or 'none'}"


def strange_specs(metadata: TableMetadata) -> set[int]:
    """Return the ids of the partition specs whose files cannot be assigned to epochs."""
    schema = metadata.schema()
    return {
        number
        for number, spec in metadata.specs().items()
        if not (_is_by_epoch(spec, schema) or is_of_units(spec, schema))
    }


def is_of_units(spec: PartitionSpec, schema: Schema) -> bool:
    """Return whether *spec* is that of unit files: their names say their epochs, and their partitions do not."""
    return _begins_with_epoch(spec, schema) and isinstance(spec.fields[0].transform, VoidTransform)


def with_unit_spec(metadata: TableMetadata, spec_id: int) -> tuple[TableMetadata, PartitionSpec]:
    """Return *metadata* with the spec of unit files beside the spec *spec_id*, and the former.

    The epoch's field stays, with its id, as Iceberg keeps a field that is dropped: so partitions of both have one type.
    """
    specs = metadata.specs()
    found = _beside(specs, specs[spec_id], VoidTransform())
    if found is not None:
        return metadata, found
    first, *others = specs[spec_id].fields
    fields = (first.model_copy(update={"transform": VoidTransform()}), *others)
    added = PartitionSpec(*fields, spec_id=max(specs) + 1)
    return metadata.model_copy(update={"partition_specs": [*metadata.partition_specs, added]}), added


def unit_spec(specs: Mapping[int, PartitionSpec], single: PartitionSpec) -> PartitionSpec:
    """Return the spec of unit files beside *single*, which *specs* have by :func:`with_unit_spec`."""
    found = _beside(specs, single, VoidTransform())
    if found is None:
        raise AssertionError  # the version's metadata was made with it
    return found


def spec_of_single_epochs(metadata: TableMetadata, spec_id: int) -> int | None:
    """Return the id of the spec of files of one epoch beside *spec_id*, that of unit files; None if there is none."""
    specs = metadata.specs()
    found = _beside(specs, specs[spec_id], IdentityTransform())
    return None if found is None else found.spec_id


def _beside(
    specs: Mapping[int, PartitionSpec], spec: PartitionSpec, first: Transform[Any, Any]
) -> PartitionSpec | None:
    """Return the newest of *specs* that differs from *spec* at most in its first transform, which is *first*."""
    wanted = [str(first), *(str(field.transform) for field in spec.fields[1:])]
    ids = [(field.source_id, field.field_id) for field in spec.fields]
    for number in sorted(specs, reverse=True):
        fields = specs[number].fields
        if [(field.source_id, field.field_id) for field in fields] == ids and [
            str(field.transform) for field in fields
        ] == wanted:
            return specs[number]
    return None


def with_own_default(metadata: TableMetadata) -> TableMetadata:
    """Return *metadata* whose default spec is by epochs: other programs write, and compact, by the default one."""
    schema = metadata.schema()
    by_epoch = {number for number, spec in metadata.specs().items() if _is_by_epoch(spec, schema)}
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
    return _begins_with_epoch(spec, schema) and isinstance(spec.fields[0].transform, IdentityTransform)


def _begins_with_epoch(spec: PartitionSpec, schema: Schema) -> bool:
    if not spec.fields or EPOCH_COLUMN not in schema.column_names:
        return False
    return spec.fields[0].source_id == schema.find_field(EPOCH_COLUMN).field_id
