"""Changes by other programs to a table since the version that the store recorded (R17).

Iceberg records a snapshot's operation: ``replace`` promises the same rows in other files (a compaction). This module
verifies the promise: each epoch must have as many rows as before. See docs/decisions/foreign-commits.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyiceberg.io import FileIO
from pyiceberg.manifest import FileFormat, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.foreign import Foreign
from airflow_provider.domain.interval import from_micros
from airflow_provider.domain.topology import OnForeignCommit, Table
from airflow_provider.domain.version import TableRef
from airflow_provider.tables import checks, parquet_files, projection, storage
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.iceberg import layouts, manifest_files, showing, spans
from airflow_provider.tables.iceberg.catalog import GC_ENABLED, PROTECTED
from airflow_provider.tables.iceberg.descriptions import description, marks_in
from airflow_provider.tables.pointer_status import Compared, PointerStatus

_File = tuple[int | None, str]
"""Barrier (microseconds; None without an epoch) and URI: with drafts, slices of several epochs may share a file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    """Files and epochs that one snapshot changed.

    :param obstacle: why cuts cannot read it; empty if they can.
    :param gone: files that it removed. :param come: files that it added.
    :param touched: barriers of the epochs whose rows it changed.
    """

    obstacle: str = ""
    gone: frozenset[_File] = frozenset()
    come: frozenset[_File] = frozenset()
    touched: frozenset[int | None] = frozenset()


def compared(
    table: Table, pointed: IcebergTable, recorded: TableRef | None, described: projection.Description | None
) -> Compared:
    """Compare *pointed*, the table in the catalog, with *recorded*, the store's last commit.

    :param described: description at *recorded*, where the pointer follows the store; None where the store's
        transaction moves it.
    :raises TableRecreated: the table has another identity.
    """
    found = _compared(table, pointed, recorded, described)
    if found.status in {PointerStatus.BEHIND, PointerStatus.AHEAD}:
        return found
    return replace(
        found,
        stops=layouts.stopping(pointed.metadata, lambda: _head(pointed)),
        undo=_undo(table, pointed.metadata, recorded) if found.status is PointerStatus.FOREIGN else "",
        unprotected=_unprotected(pointed.metadata),
    )


def _undo(table: Table, metadata: TableMetadata, recorded: TableRef | None) -> str:
    """Return Spark's statement that takes *table* back to *recorded*; empty if *metadata* lacks that version."""
    if recorded is None or metadata.snapshot_by_id(recorded.version) is None:
        return ""
    name = f"{table.domain}.{table.name}"
    return f"Spark's `CALL CATALOG.system.rollback_to_snapshot('{name}', {recorded.version})`"


def _unprotected(metadata: TableMetadata) -> str:
    """Return the setting by which Iceberg's procedures delete files that only cuts read; empty if they refuse to."""
    value = metadata.properties.get(GC_ENABLED, "true")
    return "" if value == PROTECTED[GC_ENABLED] else f"{GC_ENABLED}={value}"


def _head(table: IcebergTable) -> list[ManifestFile]:
    head = table.metadata.current_snapshot()
    return [] if head is None else manifest_files.read_list(table.io, head.manifest_list)


def _compared(
    table: Table, pointed: IcebergTable, recorded: TableRef | None, described: projection.Description | None
) -> Compared:
    here = description(pointed)
    if described is not None and projection.lags(here, described):
        return projection.compare_unrelated(here, described, follows=True)
    if recorded is not None and here.table_uuid != recorded.table_uuid:
        raise checks.recreated(table, recorded.table_uuid, here.table_uuid)
    way = _way(pointed.metadata, 0 if recorded is None else recorded.version)
    if way is None and described is not None and recorded is not None:
        return _overtaken(table, pointed, here, described)
    if way is None:
        wanted = described or _unknown(recorded, here.table_uuid)
        return projection.compare_unrelated(here, wanted, follows=False)
    steps = [
        projection.Step(
            version=snapshot.snapshot_id, operation=_operation(snapshot), marks=marks_in(snapshot)
        )
        for snapshot in way
    ]
    base = "" if recorded is None else showing.shown_list(recorded.location)
    return projection.compare_descendant(table, here, steps, lambda: _changed(table, pointed, base, way))


def _unknown(recorded: TableRef | None, table_uuid: str) -> projection.Description:
    """Return the part of a description that *recorded* alone gives."""
    version = 0 if recorded is None else recorded.version
    return projection.Description(
        uri="", table_uuid=table_uuid, version=version, marks=None, earlier=frozenset()
    )


def _way(metadata: TableMetadata, base: int) -> list[Snapshot] | None:
    """Return the snapshots after *base* up to the current one, oldest first; None if it does not descend from *base*.

    Every snapshot descends from the empty table (0); the result then has the snapshots that the metadata still has.
    """
    way: list[Snapshot] = []
    snapshot = metadata.current_snapshot()
    while snapshot is not None and snapshot.snapshot_id != base:
        way.insert(0, snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else metadata.snapshot_by_id(parent)
    return way if snapshot is not None or base == 0 else None


def _overtaken(
    table: Table, pointed: IcebergTable, here: projection.Description, recorded: projection.Description
) -> Compared:
    """Compare a pointer that may name a compaction of a version which a publish has replaced meanwhile."""
    way: list[Snapshot] = []
    snapshot = pointed.metadata.current_snapshot()
    while (
        snapshot is not None
        and marks_in(snapshot) is None
        and _operation(snapshot) == Operation.REPLACE.value
    ):
        way.insert(0, snapshot)
        snapshot = pointed.metadata.snapshot_by_id(snapshot.parent_snapshot_id or 0)
    compacted = snapshot if way else None
    under, base = (None, "") if compacted is None else (marks_in(compacted), compacted.manifest_list)
    return projection.overtaken(here, recorded, under, lambda: _changed(table, pointed, base, way))


def _operation(snapshot: Snapshot) -> str:
    return "unknown" if snapshot.summary is None else str(snapshot.summary.operation.value)


def _changed(table: Table, pointed: IcebergTable, base: str, way: Sequence[Snapshot]) -> Foreign:
    """Return the changes that the snapshots *way* made to the rows of the manifest list *base* (empty for none)."""
    operations = tuple(_operation(snapshot) for snapshot in way)
    stops = layouts.stopping(pointed.metadata, lambda: _head(pointed))
    if stops:
        return Foreign(operations=operations, obstacle=stops)
    strange = layouts.strange_specs(pointed.metadata)
    before = manifest_files.read_list(pointed.io, base) if base else []
    touched: set[int | None] = set()
    come: set[_File] = set()
    unproven: set[_File] = set()
    maps_names = TableProperties.DEFAULT_NAME_MAPPING in pointed.metadata.properties
    # Compactions of compactions promise the rows of the first base: what lay in between is gone.
    for snapshot in way[-1:] if set(operations) == {Operation.REPLACE.value} else way:
        after = manifest_files.read_list(pointed.io, snapshot.manifest_list)
        same = _operation(snapshot) == Operation.REPLACE.value
        step = _step(pointed.io, before, after, strange, same=same)
        if step.obstacle:
            return Foreign(operations=operations, obstacle=step.obstacle)
        touched |= step.touched
        come = come - step.gone | step.come
        # Iceberg's own programs rewrite files with ids; files that were made elsewhere come with a mapping of names.
        unproven = unproven - step.gone | (step.come if maps_names or not same else frozenset())
        before = after
    barriers = sorted(barrier for barrier in touched if barrier is not None)
    # Changed rows that the table does not adopt are refused, whatever files they are in.
    looks = not barriers or table.on_foreign_commit is OnForeignCommit.ADOPT
    obstacle = _unreadable(come, unproven if looks else set(), pointed.metadata_location)
    return Foreign(
        operations=operations, epochs=tuple(from_micros(barrier) for barrier in barriers), obstacle=obstacle
    )


def _unreadable(come: Iterable[_File], unproven: Iterable[_File], beside: str) -> str:
    """Return why cuts cannot read the files that have come and stayed; empty if they can.

    :param unproven: those whose footers are looked at. :param beside: URI of the table's metadata.
    """
    if any(barrier is None for barrier, _ in come):
        return f"it has rows without {EPOCH_COLUMN}, which belong to no epoch"
    elsewhere = sorted(uri for _, uri in come if not storage.serves(uri, beside))
    if elsewhere:
        return f"it has files that cannot be opened here: {elsewhere[0]}"
    try:
        without_ids = parquet_files.first_without_ids(sorted({uri for _, uri in unproven}))
    except Unavailable as error:
        return f"it has files that cannot be opened here: {error.uri}"
    except OSError as error:
        return f"it has files that cannot be opened here: {error}"
    return f"it has files without column ids, which cuts do not read: {without_ids}" if without_ids else ""


def _step(
    io: FileIO,
    before: Iterable[ManifestFile],
    after: Sequence[ManifestFile],
    strange: set[int],
    *,
    same: bool,
) -> _Step:
    """Return what a snapshot did to the files of the manifests *before*.

    :param strange: ids of partition specs that do not say the epoch.
    :param same: whether the snapshot promises the same rows: then only the number of rows per epoch is compared.
    """
    if any(manifest.content is not ManifestContent.DATA for manifest in after):
        return _Step(obstacle="it has delete files, which cuts do not read")
    # Manifests never change: those in both lists cannot differ, and need not be read.
    shared = {manifest.manifest_path for manifest in before} & {manifest.manifest_path for manifest in after}
    gone, _ = _files(io, before, shared, strange)
    come, formats = _files(io, after, shared, strange)
    others = formats - {FileFormat.PARQUET}
    if others:
        other = min(file_format.name for file_format in others)
        return _Step(obstacle=f"it has files of the format {other}, which cuts do not read")
    return _Step(
        gone=frozenset(gone.keys() - come.keys()),
        come=frozenset(come.keys() - gone.keys()),
        touched=_touched(gone, come, same=same),
    )


def _touched(gone: dict[_File, int], come: dict[_File, int], *, same: bool) -> frozenset[int | None]:
    different = gone.keys() ^ come.keys()
    if not same:
        return frozenset(barrier for barrier, _ in different)
    rows: Counter[int | None] = Counter()
    for barrier, uri in different:
        rows[barrier] += come.get((barrier, uri), 0) - gone.get((barrier, uri), 0)
    return frozenset(barrier for barrier, number in rows.items() if number)


def _files(
    io: FileIO, listed: Iterable[ManifestFile], known: set[str], strange: set[int]
) -> tuple[dict[_File, int], set[FileFormat]]:
    """Return the rows of each file in the manifests *listed* except those *known*, and the files' formats."""
    rows: dict[_File, int] = {}
    formats: set[FileFormat] = set()
    for manifest in listed:
        if manifest.manifest_path not in known:
            says_epoch = manifest.partition_spec_id not in strange
            for entry in manifest_files.entries(io, manifest):
                uri = entry.data_file.file_path
                for barrier, number in _epochs(entry, says_epoch=says_epoch).items():
                    rows[barrier, uri] = number
                formats.add(entry.data_file.file_format)
    return rows, formats


def _epochs(entry: ManifestEntry, *, says_epoch: bool) -> dict[int | None, int]:
    """Return the number of rows of each epoch (microseconds) in a file; None for rows whose epoch is not known.

    The rows of a unit file are counted, since nothing but its epoch column says how many each of its epochs has.
    """
    file = entry.data_file
    if says_epoch and spans.is_unit(file):
        return dict(parquet_files.rows_by_epoch(file.file_path))
    barrier = file.partition[0]
    return {int(barrier) if says_epoch and barrier is not None else None: file.record_count}
