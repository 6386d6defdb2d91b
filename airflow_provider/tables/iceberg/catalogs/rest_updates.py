"""Commits to a REST catalog that make the server's description of a table say what a description of this package says.

The server writes a file of its own for each commit. So the commit notes the pointer, in the property :data:`NOTED`,
beside a digest of what it describes. Where the digest fits no longer, another program has committed.
"""

from __future__ import annotations

import hashlib
import json

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

NOTED = "epochs.pointer"
"""Property of a table in a REST catalog: the digest and the pointer of the package's last commit."""

_OTHERS = "write."
"""Beginning of the names of properties that stay as other programs have set them."""
_TOLERANCE_MS = 60_000
"""Iceberg's catalogs take a snapshot that is so much older than their last change, and no more."""


class Inexpressible(Exception):
    """No commit makes the one description of the other: the table must be registered anew."""


def pointer_of(metadata: TableMetadata, location: str) -> str:
    """Return the pointer that the package noted in *metadata*, or *location* if another program committed since.

    :param location: URI of the server's own file.
    """
    digest, _, pointer = metadata.properties.get(NOTED, "").partition(" ")
    return pointer if pointer and digest == _digest(metadata) else location


def requirements(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    """Return the requirements by which the server refuses a commit if the table is not as *metadata* describes it."""
    refs = {MAIN_BRANCH: None, **{name: ref.snapshot_id for name, ref in metadata.refs.items()}}
    return (
        AssertTableUUID(uuid=metadata.table_uuid),
        *(AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": refs[name]}) for name in refs),
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
        AssertDefaultSpecId.model_validate({"default-spec-id": metadata.default_spec_id}),
        AssertDefaultSortOrderId.model_validate({"default-sort-order-id": metadata.default_sort_order_id}),
    )


def updates(before: TableMetadata, after: TableMetadata, pointer: str) -> tuple[TableUpdate, ...]:
    """Return the updates that make *before*, the server's description, say what *after* at *pointer* says.

    :raises Inexpressible: no updates do.
    """
    if before.table_uuid != after.table_uuid or before.format_version != after.format_version:
        raise Inexpressible
    new = _new_snapshots(before, after)
    columns, numbers = _schemas(before, after, new)
    return (
        *([] if before.location == after.location else [SetLocationUpdate(location=after.location)]),
        *columns,
        *_layout(before, after),
        *(AddSnapshotUpdate(snapshot=_with_schema(snapshot, numbers)) for snapshot in new),
        *_refs(before, after),
        _properties(before, after, pointer),
    )


def _new_snapshots(before: TableMetadata, after: TableMetadata) -> list[Snapshot]:
    """Return the snapshots to add, oldest first.

    :raises Inexpressible: a server takes no such snapshot: it numbers snapshots upwards, and its clock goes on.
    """
    known = {snapshot.snapshot_id for snapshot in before.snapshots}
    new = [snapshot for snapshot in after.snapshots if snapshot.snapshot_id not in known]
    new.sort(key=lambda snapshot: snapshot.sequence_number or 0)
    last = 0 if isinstance(before, TableMetadataV1) else before.last_sequence_number
    if any((snapshot.sequence_number or 0) <= last for snapshot in new):
        raise Inexpressible
    if new and new[-1].timestamp_ms < before.last_updated_ms - _TOLERANCE_MS:
        raise Inexpressible
    if not {ref.snapshot_id for ref in after.refs.values()} <= known | {
        snapshot.snapshot_id for snapshot in new
    }:
        raise Inexpressible
    return new


def _schemas(
    before: TableMetadata, after: TableMetadata, new: list[Snapshot]
) -> tuple[list[TableUpdate], dict[int, int]]:
    """Return the updates of columns, and the server's number of each schema: it gives equal ones the same."""
    wanted = {after.current_schema_id, *(snapshot.schema_id for snapshot in new)}
    known = [*before.schemas]
    numbers: dict[int, int] = {}
    found: list[TableUpdate] = []
    for schema in sorted(after.schemas, key=lambda schema: schema.schema_id):
        if schema.schema_id in wanted:
            same = next((other for other in known if other == schema), None)
            if same is None:
                number = max(other.schema_id for other in known) + 1
                same = schema.model_copy(update={"schema_id": number})
                known.append(same)
                found.append(AddSchemaUpdate(schema=same))
            numbers[schema.schema_id] = same.schema_id
    current = numbers[after.current_schema_id]
    if current != before.current_schema_id:
        found.append(SetCurrentSchemaUpdate.model_validate({"schema-id": current}))
    return found, numbers


def _layout(before: TableMetadata, after: TableMetadata) -> list[TableUpdate]:
    """:raises Inexpressible: the server has another spec or order by a number that files go by."""
    found: list[TableUpdate] = []
    specs = before.specs()
    for number, spec in sorted(after.specs().items()):
        if number not in specs and number > max(specs):
            found.append(AddPartitionSpecUpdate(spec=spec))
        elif specs.get(number) != spec:
            raise Inexpressible
    if before.default_spec_id != after.default_spec_id:
        found.append(SetDefaultSpecUpdate.model_validate({"spec-id": after.default_spec_id}))
    orders = {order.order_id: order for order in before.sort_orders}
    order = after.sort_order_by_id(after.default_sort_order_id)
    if before.default_sort_order_id != after.default_sort_order_id and order is not None:
        if order.order_id not in orders:
            found.append(AddSortOrderUpdate.model_validate({"sort-order": order}))
        found.append(SetDefaultSortOrderUpdate.model_validate({"sort-order-id": order.order_id}))
    return found


def _refs(before: TableMetadata, after: TableMetadata) -> list[TableUpdate]:
    found: list[TableUpdate] = [
        SetSnapshotRefUpdate.model_validate(
            {"ref-name": name, "type": ref.snapshot_ref_type, "snapshot-id": ref.snapshot_id}
            | {"max-ref-age-ms": ref.max_ref_age_ms, "max-snapshot-age-ms": ref.max_snapshot_age_ms}
            | {"min-snapshots-to-keep": ref.min_snapshots_to_keep}
        )
        for name, ref in after.refs.items()
        if before.refs.get(name) != ref
    ]
    gone = [name for name in before.refs if name not in after.refs]
    found += [RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in gone]
    staying = {snapshot.snapshot_id for snapshot in after.snapshots}
    old = [snapshot.snapshot_id for snapshot in before.snapshots if snapshot.snapshot_id not in staying]
    return [*found, RemoveSnapshotsUpdate.model_validate({"snapshot-ids": old})] if old else found


def noting(metadata: TableMetadata, pointer: str) -> TableUpdate:
    """Return the update that notes *pointer* in a table that *metadata* describes."""
    return SetPropertiesUpdate(updates={NOTED: f"{_digest(metadata)} {pointer}"})


def _properties(before: TableMetadata, after: TableMetadata, pointer: str) -> SetPropertiesUpdate:
    wanted = {
        name: value
        for name, value in after.properties.items()
        if before.properties.get(name) != value
        and not (name in before.properties and name.startswith(_OTHERS))
    }
    return SetPropertiesUpdate(updates={**wanted, NOTED: f"{_digest(after)} {pointer}"})


def _with_schema(snapshot: Snapshot, numbers: dict[int, int]) -> Snapshot:
    if snapshot.schema_id is None:
        return snapshot
    return snapshot.model_copy(update={"schema_id": numbers.get(snapshot.schema_id, snapshot.schema_id)})


def _digest(metadata: TableMetadata) -> str:
    """Return a digest of what decides which rows and columns a table has; equal for the file of either side."""
    said = [
        str(metadata.table_uuid),
        metadata.format_version,
        _columns(metadata.schema()),
        metadata.default_spec_id,
        metadata.default_sort_order_id,
        sorted((name, ref.snapshot_ref_type.value, ref.snapshot_id) for name, ref in metadata.refs.items()),
    ]
    return hashlib.blake2b(json.dumps(said).encode(), digest_size=16).hexdigest()


def _columns(schema: Schema) -> str:
    """Return the columns of *schema* without its number, which a server may choose."""
    return schema.model_copy(update={"schema_id": 0}).model_dump_json()
