"""Making the next version of a table: a manifest list and a metadata file that nothing points at yet."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Iterable

from pyiceberg.manifest import ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)

from airflow_provider.domain.errors import ForeignCommit, Unavailable
from airflow_provider.domain.interval import from_micros, micros
from airflow_provider.domain.version import TableRef
from airflow_provider.stores.base import CatalogSwap
from airflow_provider.tables import checks, projection
from airflow_provider.tables.base import EPOCH_COLUMN, Prepared, Publication
from airflow_provider.tables.iceberg import foreign, manifests, schemas
from airflow_provider.tables.iceberg.descriptions import metadata_files

KEPT_SNAPSHOTS = 20
"""So many snapshots stay in the metadata for programs without this package; cuts do not need them."""


def new_snapshot_id() -> int:
    return secrets.randbits(62) + 1


def prepare(publication: Publication, table: Table, format_name: str, *, swaps: bool) -> Prepared:
    """Write the version that replaces and adds slices on the head of *table*.

    :param swaps: whether the store's transaction moves the catalog's pointer.
    :raises TablesAhead: see :meth:`TableFormat.prepare`. :raises ForeignCommit: likewise.
    """
    metadata = table.metadata
    checks.refuse_other_table(publication, str(metadata.table_uuid))
    if metadata.current_snapshot_id != (publication.base.version if publication.base else None):
        found = foreign.compared(publication.table, table, publication.base, None)
        projection.refuse_head(publication, found)
    layout = layout_of(table)
    _refuse_foreign_specs(publication, layout.specs.values(), metadata)
    if not isinstance(metadata, TableMetadataV2):
        raise _foreign(publication, f"format version {metadata.format_version} instead of 2")
    head = metadata.current_snapshot()
    snapshot_id = _snapshot_id(publication, metadata)
    listed = _next_manifests(publication, layout, head, snapshot_id)
    snapshot = _snapshot(publication, layout, metadata, listed, snapshot_id)
    changed = _with_snapshot(metadata, snapshot, table.metadata_location)
    location = table.location_provider().new_table_metadata_file_location(
        _number_of(table.metadata_location) + 1
    )
    ToOutputFile.table_metadata(changed, table.io.new_output(location))
    return Prepared(
        ref=TableRef(
            format=format_name,
            table_uuid=str(metadata.table_uuid),
            version=snapshot_id,
            location=snapshot.manifest_list,
            schema_id=metadata.current_schema_id,
            metadata=location,
        ),
        swap=CatalogSwap(publication.table.domain, publication.table.name, table.metadata_location, location)
        if swaps
        else None,
        made_from=table.metadata_location,
        schema=schemas.to_json(metadata.schema()),
        obsolete=tuple(metadata_files(metadata) - metadata_files(changed)),
    )


def layout_of(table: Table) -> manifests.Layout:
    """What new manifests of *table* are written with."""
    return manifests.Layout(
        io=table.io,
        schema=table.metadata.schema(),
        specs=table.metadata.specs(),
        directory=table.location_provider().new_metadata_location("x").removesuffix("/x"),
    )


def _refuse_foreign_specs(
    publication: Publication, specs: Iterable[PartitionSpec], metadata: TableMetadata
) -> None:
    """:raises ForeignCommit: somebody gave the table a layout in which epochs cannot be told apart."""
    for spec in specs:
        columns = schemas.partition_columns(spec, metadata.schema())
        if not columns or columns[0] != EPOCH_COLUMN:
            raise _foreign(publication, f"a partition spec that does not begin with {EPOCH_COLUMN}: {spec}")


def _foreign(publication: Publication, found: str) -> ForeignCommit:
    return ForeignCommit(
        f"another program gave table {publication.table.name!r} of domain {publication.table.domain!r} {found}.",
        next_step="undo that change, or write to a new table.",
        table=publication.table.name,
        found=found,
    )


def _snapshot_id(publication: Publication, metadata: TableMetadata) -> int:
    """The number that was reserved at WRITTEN, unless it is taken: slices may come back in a later commit."""
    taken = {one.snapshot_id for one in metadata.snapshots}
    if publication.base is not None:
        taken.add(publication.base.version)
    if len(publication.adds) == 1:
        reserved = publication.adds[0][1].version
        if reserved > 0 and reserved not in taken:
            return reserved
    return new_snapshot_id()


def _next_manifests(
    publication: Publication, layout: manifests.Layout, head: Snapshot | None, snapshot_id: int
) -> list[ManifestFile]:
    kept = [] if head is None else manifests.read_list(layout.io, head.manifest_list)
    _refuse_lost_files(publication, layout, kept)
    removes = {micros(barrier) for barrier in publication.removes}
    if removes:
        kept = list(manifests.without(layout, kept, removes, snapshot_id))
    added = [manifests.staged(part, snapshot_id) for _, one in publication.adds for part in one.parts]
    return manifests.folded(layout, kept, snapshot_id) + added


def _refuse_lost_files(publication: Publication, layout: manifests.Layout, head: list[ManifestFile]) -> None:
    """Refuse a slice that shares files with another one unless they are in the head: nobody deletes those.

    :raises Unavailable: naming one that is not.
    """
    for part in (part for _, one in publication.adds for part in one.parts):
        barrier = manifests.carried_barrier(part)
        if barrier is None:
            continue
        own = {one.data_file.file_path for one in manifests.entries(layout.io, manifests.staged(part, 0))}
        lost = own - {file.file_path for _, file in manifests.slice_of(layout.io, head, barrier)}
        if lost:
            raise Unavailable(
                f"{min(lost)}, which this slice of table {publication.table.name!r} shares with that of "
                f"{from_micros(barrier).isoformat()}, left the table meanwhile.",
                next_step="begin again: a new attempt starts from the rows that are there.",
                table=publication.table.name,
                uri=min(lost),
            )


def _snapshot(
    publication: Publication,
    layout: manifests.Layout,
    metadata: TableMetadataV2,
    listed: list[ManifestFile],
    snapshot_id: int,
) -> Snapshot:
    sequence_number = metadata.last_sequence_number + 1
    uri = f"{layout.directory}/snap-{snapshot_id}-{uuid.uuid4().hex}.avro"
    manifests.write_list(
        layout.io,
        uri,
        listed,
        snapshot_id=snapshot_id,
        parent=metadata.current_snapshot_id,
        sequence_number=sequence_number,
    )
    return Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": metadata.current_snapshot_id,
            "sequence-number": sequence_number,
            "timestamp-ms": max(int(time.time() * 1000), metadata.last_updated_ms),
            "manifest-list": uri,
            "summary": _summary(publication, listed),
            "schema-id": metadata.current_schema_id,
        }
    )


def _summary(publication: Publication, listed: list[ManifestFile]) -> Summary:
    added = [one for _, one in publication.adds]
    said = {
        "added-data-files": sum(one.files for one in added),
        "added-records": sum(one.rows for one in added),
        "added-files-size": sum(one.size_bytes for one in added),
        "total-data-files": manifests.live_files(listed),
        "total-records": manifests.live_rows(listed),
        "total-delete-files": 0,
        "epochs.domain": publication.table.domain,
        "epochs.incarnation": publication.incarnation,
        "epochs.csn": publication.csn,
        "epochs.change-set": publication.change_set,
        "epochs.epochs": " ".join(
            list(dict.fromkeys(str(interval) for interval, _ in publication.adds))[:10]
        ),
        "epochs.revision": publication.revision,
        "epochs.token": publication.token,
    }
    operation = Operation.OVERWRITE if publication.removes else Operation.APPEND
    return Summary(operation, **{name: str(value) for name, value in said.items()})


def _with_snapshot(metadata: TableMetadata, snapshot: Snapshot, pointer: str) -> TableMetadata:
    updates: list[TableUpdate] = [
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate.model_validate(
            {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot.snapshot_id}
        ),
    ]
    referenced = {ref.snapshot_id for name, ref in metadata.refs.items() if name != MAIN_BRANCH}
    ordered = sorted(metadata.snapshots, key=lambda one: one.sequence_number or 0)
    old = [one.snapshot_id for one in ordered[: -(KEPT_SNAPSHOTS - 1)] if one.snapshot_id not in referenced]
    if old:
        updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": old}))
    return update_table_metadata(metadata, tuple(updates), metadata_location=pointer)


def _number_of(metadata_location: str) -> int:
    """The counter in front of a metadata file's name; 0 for a name of another kind."""
    head = metadata_location.rsplit("/", 1)[-1].split("-", 1)[0]
    return int(head) if head.isdigit() else 0
