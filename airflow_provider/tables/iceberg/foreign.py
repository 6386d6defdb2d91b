"""What other programs did to a table since the version that the store recorded (R17).

Iceberg says what made a snapshot: ``replace`` promises the same rows in other files (a compaction). That is not
taken on trust: each epoch has to have as many rows as before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pyiceberg.io import FileIO
from pyiceberg.manifest import FileFormat, ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from airflow_provider.domain.interval import from_micros
from airflow_provider.domain.topology import EpochTable
from airflow_provider.domain.version import TableRef
from airflow_provider.tables import checks, projection
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.iceberg import manifest_files, manifests, schemas, showing
from airflow_provider.tables.iceberg.descriptions import description, marks_in
from airflow_provider.tables.standing import Compared, Foreign

_File = tuple[int, str]
"""Barrier (microseconds) and URI: drafts may leave one file in the slices of several epochs."""


def compared(
    table: EpochTable, pointed: Table, recorded: TableRef | None, described: projection.Description | None
) -> Compared:
    """Where *pointed* stands, seen from *recorded*.

    :param described: the table as the metadata file of *recorded* has it, where the pointer follows; None where the
        store's transaction moves it.
    :raises TableRecreated: it is another table.
    """
    here = description(pointed)
    if described is not None and projection.lags(here, described):
        return projection.strayed(here, described, follows=True)
    if recorded is not None and here.table_uuid != recorded.table_uuid:
        raise checks.recreated(table, recorded.table_uuid, here.table_uuid)
    way = _way(pointed.metadata, 0 if recorded is None else recorded.version)
    if way is None and described is not None and recorded is not None:
        return _overtaken(pointed, here, described)
    if way is None:
        wanted = described or _unknown(recorded, here.table_uuid)
        return projection.strayed(here, wanted, follows=False)
    steps = [
        projection.Step(version=one.snapshot_id, operation=_operation(one), marks=marks_in(one))
        for one in way
    ]
    base = "" if recorded is None else showing.shown_list(recorded.location)
    return projection.judged(table, here, steps, lambda: _changed(pointed, base, way))


def _unknown(recorded: TableRef | None, table_uuid: str) -> projection.Description:
    """As much of a version as its reference says."""
    version = 0 if recorded is None else recorded.version
    return projection.Description(
        uri="", table_uuid=table_uuid, version=version, marks=None, earlier=frozenset()
    )


def _way(metadata: TableMetadata, base: int) -> list[Snapshot] | None:
    """The snapshots after *base* up to the current one, oldest first; None when it does not come from there.

    From the empty table (0) there always is a way, of which as much is told as the metadata keeps.
    """
    found: list[Snapshot] = []
    one = metadata.current_snapshot()
    while one is not None and one.snapshot_id != base:
        found.insert(0, one)
        parent = one.parent_snapshot_id
        one = None if parent is None else metadata.snapshot_by_id(parent)
    return found if one is not None or base == 0 else None


def _overtaken(pointed: Table, here: projection.Description, recorded: projection.Description) -> Compared:
    way: list[Snapshot] = []
    one = pointed.metadata.current_snapshot()
    while one is not None and marks_in(one) is None and _operation(one) == Operation.REPLACE.value:
        way.insert(0, one)
        one = pointed.metadata.snapshot_by_id(one.parent_snapshot_id or 0)
    under, base = (None, "") if one is None or not way else (marks_in(one), one.manifest_list)
    return projection.overtaken(here, recorded, under, lambda: _changed(pointed, base, way))


def _operation(snapshot: Snapshot) -> str:
    return "unknown" if snapshot.summary is None else str(snapshot.summary.operation.value)


def _changed(table: Table, base: str, way: Sequence[Snapshot]) -> Foreign:
    """What *way* did to the rows of the manifest list *base*, empty text for none."""
    operations = tuple(_operation(one) for one in way)
    strange = _strange_spec(table)
    if strange:
        return Foreign(operations=operations, obstacle=strange)
    before = manifest_files.read_list(table.io, base) if base else []
    touched: set[int] = set()
    for one in way:
        after = manifest_files.read_list(table.io, one.manifest_list)
        obstacle, epochs = _step(table.io, before, after, same=_operation(one) == Operation.REPLACE.value)
        if obstacle:
            return Foreign(operations=operations, obstacle=obstacle)
        touched |= epochs
        before = after
    return Foreign(operations=operations, epochs=tuple(from_micros(one) for one in sorted(touched)))


def _strange_spec(table: Table) -> str:
    """Why epochs cannot be told apart in its files; empty when they can."""
    for spec in table.metadata.specs().values():
        columns = schemas.partition_columns(spec, table.metadata.schema())
        if not columns or columns[0] != EPOCH_COLUMN:
            return f"a partition spec does not begin with {EPOCH_COLUMN}: {spec}"
    return ""


def _step(
    io: FileIO, before: Iterable[ManifestFile], after: Sequence[ManifestFile], *, same: bool
) -> tuple[str, set[int]]:
    """What keeps a snapshot from being read by its list of files, and the epochs whose rows it changed.

    :param same: it promises the same rows: what counts is how many each epoch has.
    """
    if any(one.content is not ManifestContent.DATA for one in after):
        return "it has delete files, which cuts do not read", set()
    shared = {one.manifest_path for one in before} & {one.manifest_path for one in after}
    gone, _ = _files(io, before, shared)
    come, formats = _files(io, after, shared)
    others = formats - {FileFormat.PARQUET}
    if others:
        return f"it has files of the format {min(one.name for one in others)}, which cuts do not read", set()
    different = gone.keys() ^ come.keys()
    if not same:
        return "", {barrier for barrier, _ in different}
    rows: Counter[int] = Counter()
    for barrier, uri in different:
        rows[barrier] += come.get((barrier, uri), 0) - gone.get((barrier, uri), 0)
    return "", {barrier for barrier, number in rows.items() if number}


def _files(
    io: FileIO, listed: Iterable[ManifestFile], known: set[str]
) -> tuple[dict[_File, int], set[FileFormat]]:
    """Rows of each file in the manifests *listed* but for those *known*, and the formats that files have."""
    rows: dict[_File, int] = {}
    formats: set[FileFormat] = set()
    for manifest in listed:
        if manifest.manifest_path not in known:
            for entry in manifest_files.entries(io, manifest):
                rows[manifests.barrier_of(entry), entry.data_file.file_path] = entry.data_file.record_count
                formats.add(entry.data_file.file_format)
    return rows, formats
