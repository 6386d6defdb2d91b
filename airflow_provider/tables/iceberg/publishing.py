"""Write the next version of a table: manifest lists and a metadata file that no pointer names yet.

See docs/decisions/manifests-at-written.md, docs/decisions/shown.md and docs/decisions/small-metadata.md.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Collection
from typing import Any, cast

from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import MetadataLogEntry, Operation, Snapshot, SnapshotLogEntry, Summary

from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.interval import from_micros
from airflow_provider.domain.version import TableRef
from airflow_provider.stores.base import CatalogSwap
from airflow_provider.tables import checks, projection
from airflow_provider.tables.base import Prepared, Publication
from airflow_provider.tables.iceberg import (
    added_parts,
    changes,
    column_names,
    evolution,
    foreign,
    layouts,
    manifest_files,
    manifests,
    schemas,
    showing,
    spans,
    units,
)
from airflow_provider.tables.iceberg.catalog import PROTECTED
from airflow_provider.tables.iceberg.descriptions import metadata_files
from airflow_provider.tables.iceberg.file_io import write_together
from airflow_provider.tables.iceberg.remembering import Remembered

Lists = Remembered[list[ManifestFile]]
"""Content of manifest lists, by the list's URI."""

KEPT_SNAPSHOTS = 20
"""Number of snapshots that metadata keeps for programs without this package; cuts do not need them."""


def new_snapshot_id() -> int:
    return secrets.randbits(62) + 1


def prepare(
    publication: Publication, table: Table, lists: Lists, format_name: str, *, swaps: bool
) -> tuple[Prepared, TableMetadata]:
    """Write the version that replaces and adds slices on the head of *table*; return it with its metadata.

    :param lists: content of manifest lists.
    :param swaps: whether the store's transaction moves the catalog's pointer.
    :raises TablesAhead: see :meth:`TableFormat.prepare`. :raises ForeignCommit: likewise.
    """
    metadata = table.metadata
    checks.refuse_other_table(publication, str(metadata.table_uuid))
    if metadata.current_snapshot_id != (publication.base.version if publication.base else None):
        found = foreign.compared(publication.table, table, publication.base, None)
        projection.refuse_head(publication, found)
    _refuse_stopped(publication, metadata, lists)
    evolved = evolution.evolved_metadata(publication, metadata)
    if publication.regroups is not None:
        evolved, _ = layouts.with_unit_spec(evolved, publication.regroups.spec_id)
    ordered = layouts.with_declared_order(evolved, publication.table)
    metadata = cast("TableMetadataV2", layouts.with_own_default(ordered))
    layout = layout_of(table, metadata)
    snapshot_id = _snapshot_id(publication, metadata)
    head = metadata.current_snapshot()
    pointed = [] if head is None else manifests.live(lists(head.manifest_list))
    every = manifests.live(slices(publication.base, metadata, pointed, lists))
    _refuse_lost_files(publication, layout, [*every, *_left(publication.base, metadata, lists)])
    added_parts.refuse_wrong(publication, layout, every, str(metadata.table_uuid))
    after, changed_rows = _next_manifests(publication, layout, every, pointed, snapshot_id)
    files, listed = _lists(metadata, layout.directory, after, snapshot_id)
    shown = list(listed)[-1]
    summary = _summary(publication, metadata, changed_rows, listed[shown])
    snapshot = _snapshot(metadata, summary, shown, snapshot_id)
    changed = _with_names(publication, table, with_snapshot(metadata, snapshot, table.metadata_location))
    changed = _protected(changed)
    location = (
        f"{directory_of(table)}/{_number_of(table.metadata_location) + 1:05d}-{uuid.uuid4()}.metadata.json"
    )
    # All files are durable before the transaction: once it names them, a crash must not lose them.
    write_together(table.io, {**files, location: _encoded(changed)})
    for uri, entries in listed.items():
        lists.keep(uri, entries)
    prepared = Prepared(
        ref=TableRef(
            format=format_name,
            table_uuid=str(metadata.table_uuid),
            version=snapshot_id,
            location=next(iter(listed)),
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
    return prepared, changed


def _with_names(publication: Publication, table: Table, metadata: TableMetadataV2) -> TableMetadataV2:
    """Return *metadata* by which engines know the columns of files without ids, if the publication adds such files."""
    if not added_parts.of(publication):
        return metadata
    names = column_names.read_names(table.io, directory_of(table), str(metadata.table_uuid))
    if names is None:
        return metadata
    mapping = {TableProperties.DEFAULT_NAME_MAPPING: column_names.mapping(names)}
    return metadata.model_copy(update={"properties": metadata.properties | mapping})


def _protected(metadata: TableMetadataV2) -> TableMetadataV2:
    """Return *metadata* with the property that keeps other programs from expiring files, if one of them changed it."""
    return metadata.model_copy(update={"properties": metadata.properties | PROTECTED})


def _encoded(metadata: TableMetadata) -> bytes:
    return metadata.model_dump_json(exclude_none=True).encode()


def layout_of(table: Table, metadata: TableMetadata) -> manifests.Layout:
    """Return the layout of new manifests of *table*, with the columns and partition specs of *metadata*."""
    return manifests.Layout(
        io=table.io,
        schema=metadata.schema(),
        specs=metadata.specs(),
        directory=directory_of(table),
    )


def directory_of(table: Table) -> str:
    """Return the URI of the metadata folder of *table*, without a trailing slash.

    Wherever other programs were told to write theirs (``write.metadata.path``): cuts start from the place of the lists.
    """
    return f"{table.location().rstrip('/')}/metadata"


def _refuse_stopped(publication: Publication, metadata: TableMetadata, lists: Lists) -> None:
    """:raises ForeignCommit: another program changed the layout so that files do not belong to one epoch each."""
    head = metadata.current_snapshot()
    stops = layouts.stopping(metadata, lambda: () if head is None else lists(head.manifest_list))
    if stops:
        raise projection.stopped(publication.table, publication.base, stops)


def _snapshot_id(publication: Publication, metadata: TableMetadata) -> int:
    """Return the id reserved at WRITTEN, unless it is taken: a later commit may publish the same slice again."""
    taken = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    if publication.base is not None:
        taken.add(publication.base.version)
    if len(publication.adds) == 1:
        reserved = publication.adds[0][1].version
        if reserved > 0 and reserved not in taken:
            return reserved
    return new_snapshot_id()


def slices(
    base: TableRef | None, metadata: TableMetadata, pointed: list[ManifestFile], lists: Lists
) -> list[ManifestFile]:
    """Return the manifests of all slices of the head.

    Another program that rewrote the head saw only the shown slices of the base: the hidden ones come from the base.

    :param base: version by the store's record. :param pointed: manifests that the head shows.
    """
    if base is None or base.location == showing.shown_list(base.location):
        return pointed
    if metadata.current_snapshot_id == base.version:
        return lists(base.location)
    shown = {manifest.manifest_path for manifest in lists(showing.shown_list(base.location))}
    hidden = [manifest for manifest in lists(base.location) if manifest.manifest_path not in shown]
    return [*hidden, *pointed]


def _left(base: TableRef | None, metadata: TableMetadata, lists: Lists) -> list[ManifestFile]:
    """Return the manifests of the base if another program has compacted it since, and the head lacks its files.

    No retention deletes these before the next version is published, which holds those that it names.
    """
    if base is None or base.version == metadata.current_snapshot_id:
        return []
    return manifests.live(lists(base.location))


def _next_manifests(
    publication: Publication,
    layout: manifests.Layout,
    every: list[ManifestFile],
    pointed: list[ManifestFile],
    snapshot_id: int,
) -> tuple[showing.Parted, changes.Changes]:
    """Return the manifests of the next version, and what it changes in the slices that the head shows.

    Shown and hidden manifests are folded separately, so that a slice is shown or hidden without being rewritten.
    """
    removed = spans.Removed.of(publication.removes)
    kept = list(manifests.without(layout, every, removed, snapshot_id)) if publication.removes else every
    units.refuse_within(publication, layout, kept)
    if publication.regroups is not None:
        kept = list(units.without_files(layout, kept, publication.regroups, snapshot_id))
    before = showing.parted(layout, kept, publication.shows, snapshot_id)
    parts = [manifests.staged(part, snapshot_id) for _, output in publication.adds for part in output.parts]
    if publication.regroups is not None:
        parts += units.added(layout, publication.regroups, snapshot_id)
    added = showing.parted(layout, parts, publication.shows, snapshot_id)
    found = changes.between(layout, pointed, before.shown, snapshot_id)
    after = showing.Parted(
        shown=manifests.folded(layout, found.stays, snapshot_id) + found.comes + added.shown,
        hidden=manifests.folded(layout, before.hidden, snapshot_id) + added.hidden,
        removed=found.leaves,
    )
    return after, found


def _lists(
    metadata: TableMetadataV2, directory: str, after: showing.Parted, snapshot_id: int
) -> tuple[dict[str, bytes], dict[str, list[ManifestFile]]]:
    """Return a version's lists by URI, as file content and as manifests; all slices first, the shown ones last.

    Deleted entries are in the snapshot's list only: they are no slice.
    """
    every, shown = showing.new_lists(directory, f"{snapshot_id}-{uuid.uuid4().hex}")
    slices = {every: [*after.hidden, *after.shown]} if after.hidden else {}
    wanted = {**slices, shown: [*after.shown, *after.removed]}
    files: dict[str, bytes] = {}
    listed: dict[str, list[ManifestFile]] = {}
    for uri, entries in wanted.items():
        files[uri], listed[uri] = manifest_files.encoded_list(
            entries,
            snapshot_id=snapshot_id,
            parent=metadata.current_snapshot_id,
            sequence_number=metadata.last_sequence_number + 1,
        )
    return files, listed


def _refuse_lost_files(publication: Publication, layout: manifests.Layout, held: list[ManifestFile]) -> None:
    """Refuse a slice whose shared files have left the table: retention may delete files that no version holds.

    :param held: manifests of the head and of the base. :raises Unavailable: names one of those files.
    """
    for part in (part for _, output in publication.adds for part in output.parts):
        barrier = manifests.carried_barrier(part)
        if barrier is None:
            continue
        entries = manifest_files.entries(layout.io, manifests.staged(part, 0))
        own = {entry.data_file.file_path for entry in entries}
        lost = own - {file.file_path for _, file in manifests.slice_of(layout.io, held, barrier)}
        if lost:
            raise Unavailable(
                f"{min(lost)}, which this slice of table {publication.table.name!r} shares with that of "
                f"{from_micros(barrier).isoformat()}, left the table meanwhile.",
                next_step="begin again: a new attempt starts from the rows that are there.",
                tables=(publication.table.name,),
                uri=min(lost),
            )


def _snapshot(metadata: TableMetadataV2, summary: Summary, manifest_list: str, snapshot_id: int) -> Snapshot:
    return Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": metadata.current_snapshot_id,
            "sequence-number": metadata.last_sequence_number + 1,
            "timestamp-ms": max(int(time.time() * 1000), metadata.last_updated_ms),
            "manifest-list": manifest_list,
            "summary": summary,
            "schema-id": metadata.current_schema_id,
        }
    )


def _summary(
    publication: Publication, metadata: TableMetadata, changed: changes.Changes, listed: list[ManifestFile]
) -> Summary:
    """Return the snapshot's summary; its figures count shown slices only, as engines take them for the table's."""
    shown = [output for interval, output in publication.adds if publication.shows.has(interval.end)]
    comes, leaves = changed.coming.plus(shown), changed.leaving
    if publication.regroups is not None:
        comes = comes.with_files([file for _, file in publication.regroups.files])
    said: dict[str, int | str] = {
        "added-data-files": comes.files,
        "added-records": comes.rows,
        "added-files-size": comes.size_bytes,
        "total-data-files": manifests.live_files(listed),
        "total-records": manifests.live_rows(listed),
        "total-delete-files": 0,
        "total-position-deletes": 0,
        "total-equality-deletes": 0,
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
    left_files = leaves.files + manifests.live_files(changed.lost)
    if left_files:
        said["deleted-data-files"] = left_files
        said["deleted-records"] = leaves.rows + manifests.live_rows(changed.lost)
    if not changed.lost:  # the size of files is in their manifest alone
        if leaves.files:
            said["removed-files-size"] = leaves.size_bytes
        before = leaves.size_bytes if not changed.stays else _total_size(metadata)
        if before is not None:
            said["total-files-size"] = before - leaves.size_bytes + comes.size_bytes
    operation = _operation(publication, comes=bool(comes.files), leaves=bool(left_files))
    if publication.regroups is not None and units.are_same_rows(publication.regroups, changed):
        operation = Operation.REPLACE
    return Summary(operation, **{name: str(value) for name, value in said.items()})


def _operation(publication: Publication, *, comes: bool, leaves: bool) -> Operation:
    """Return what engines are told of a version; they pass over a ``replace``: no row that they see has changed."""
    if leaves:
        return Operation.OVERWRITE if comes else Operation.DELETE
    return Operation.APPEND if comes or not publication.removes else Operation.REPLACE


def _total_size(metadata: TableMetadata) -> int | None:
    """Return the size of the files that the head shows; None if its summary does not tell."""
    head = metadata.current_snapshot()
    said = None if head is None or head.summary is None else head.summary.get("total-files-size")
    return int(said) if said and said.isdecimal() else None


def with_snapshot(metadata: TableMetadataV2, snapshot: Snapshot, pointer: str) -> TableMetadataV2:
    """Return *metadata* with *snapshot* as the current one, and without the oldest snapshots.

    Equals the result of pyiceberg's updates, but shares unchanged parts with *metadata* instead of copying them.

    :param pointer: URI of *metadata*.
    """
    gone = _too_old(metadata)
    kept = [earlier for earlier in metadata.snapshots if earlier.snapshot_id not in gone]
    at = {"snapshot-id": snapshot.snapshot_id, "timestamp-ms": snapshot.timestamp_ms}
    written = {"metadata-file": pointer, "timestamp-ms": metadata.last_updated_ms}
    log = [*metadata.metadata_log, MetadataLogEntry.model_validate(written)]
    main = {"snapshot-id": snapshot.snapshot_id, "type": SnapshotRefType.BRANCH}
    changed: dict[str, Any] = {
        "last_updated_ms": snapshot.timestamp_ms,
        "last_sequence_number": snapshot.sequence_number,
        "current_snapshot_id": snapshot.snapshot_id,
        "snapshots": [*(_without_parent(earlier, gone) for earlier in kept), snapshot],
        "snapshot_log": [
            *(entry for entry in metadata.snapshot_log if entry.snapshot_id not in gone),
            SnapshotLogEntry.model_validate(at),
        ],
        "metadata_log": log[-_kept_metadata_files(metadata) :],
        "refs": {**metadata.refs, MAIN_BRANCH: SnapshotRef.model_validate(main)},
        "statistics": [entry for entry in metadata.statistics if entry.snapshot_id not in gone],
    }
    return metadata.model_copy(update=changed)


def _too_old(metadata: TableMetadata) -> set[int]:
    """Return the ids of the snapshots to drop: all but the newest, except those that a branch or tag names."""
    held = {ref.snapshot_id for name, ref in metadata.refs.items() if name != MAIN_BRANCH}
    ordered = sorted(metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    return {snapshot.snapshot_id for snapshot in ordered[: -(KEPT_SNAPSHOTS - 1)]} - held


def _without_parent(snapshot: Snapshot, gone: Collection[int]) -> Snapshot:
    if snapshot.parent_snapshot_id not in gone:
        return snapshot
    return snapshot.model_copy(update={"parent_snapshot_id": None})


def _kept_metadata_files(metadata: TableMetadata) -> int:
    wanted = metadata.properties.get(TableProperties.METADATA_PREVIOUS_VERSIONS_MAX)
    return max(1, int(wanted) if wanted else TableProperties.METADATA_PREVIOUS_VERSIONS_MAX_DEFAULT)


def _number_of(metadata_location: str) -> int:
    """Return the counter at the beginning of a metadata file's name; 0 if it has none."""
    head = metadata_location.rsplit("/", 1)[-1].split("-", 1)[0]
    return int(head) if head.isdigit() else 0
