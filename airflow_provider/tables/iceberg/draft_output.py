"""Committable of a draft, as WRITTEN records it, and deletion of the draft."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import pyarrow.fs as pafs
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat, ManifestContent
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import micros
from airflow_provider.domain.version import Committable, Part
from airflow_provider.tables import storage
from airflow_provider.tables.columns import refuse_difference
from airflow_provider.tables.drafts import Draft
from airflow_provider.tables.errors import TableRecreated
from airflow_provider.tables.iceberg import manifest_files, manifests, schemas
from airflow_provider.tables.iceberg.drafts import Columns, base_files, columns_of, moved, values
from airflow_provider.tables.iceberg.publishing import new_snapshot_id

_METADATA_FILE = re.compile(r"v(\d+)(\.gz)?\.metadata\.json")


def describe(io: FileIO, draft: Draft, table: Table, format_name: str) -> Committable:
    """Write the manifests of the draft's last version; see :meth:`DraftingFormat.describe_draft`."""
    if not draft.place.table.kind.shares_files:
        raise InvalidInput(
            field="kind",
            value=draft.place.table.kind.value,
            expected="full: the files of an incremental table say their epoch",
            next_step="write the rows that the draft has.",
            table=draft.place.table.name,
        )
    columns = columns_of(draft, table)
    metadata = _last_metadata(io, draft)
    _refuse_changed(draft, columns, metadata)
    base = {file.file_path for file in base_files(io, draft, columns, table)}
    own: list[DataFile] = []
    carried: list[DataFile] = []
    barrier = micros(draft.place.interval.end)
    for file in _live_files(io, draft, metadata):
        added = moved(file, (barrier, *values(file)), columns.spec.spec_id, columns.epoch, barrier)
        if added.file_path in base:
            carried.append(added)
        elif not added.file_path.startswith(f"{draft.uri}/data/"):
            raise _refused(draft, f"a file that no statement of the draft wrote: {added.file_path}")
        elif not columns.counted <= set(added.value_counts or {}):
            raise _refused(draft, f"a file without counts of its columns: {added.file_path}")
        else:
            own.append(added)
    # Spark does not sync what it writes; published rows must survive a crash of the machine.
    for file in own:
        storage.sync(*storage.filesystem(file.file_path))
    carried_from = None if draft.base is None else micros(draft.base.barrier)
    parts = tuple(
        manifests.write_part(
            io,
            columns.spec,
            columns.schema,
            manifests.new_part(draft.place.uri),
            files,
            carried_from=source,
        )
        for files, source in ((own, None), (carried, carried_from))
        if files
    )
    return _committable(format_name, draft, [*own, *carried], parts)


def _last_metadata(io: FileIO, draft: Draft) -> TableMetadata:
    filesystem, path = storage.filesystem(f"{draft.uri}/metadata")
    try:
        names = [info.base_name for info in filesystem.get_file_info(pafs.FileSelector(path))]
    except FileNotFoundError:
        names = []
    numbered = {int(match[1]): match[0] for match in map(_METADATA_FILE.fullmatch, names) if match}
    if not numbered:
        raise _refused(draft, "that it was dropped")
    return FromInputFile.table_metadata(io.new_input(f"{draft.uri}/metadata/{numbered[max(numbered)]}"))


def _refuse_changed(draft: Draft, columns: Columns, metadata: TableMetadata) -> None:
    """Refuse a draft that cannot become a slice.

    :raises TableRecreated: it was dropped and created again. :raises SchemaMismatch: its columns have changed.
    :raises InvalidInput: rows were written outside of its main branch, where no reader would find them.
    """
    if str(metadata.table_uuid) != draft.table_uuid:
        raise TableRecreated(
            f"the draft of {draft.place.table.name!r} was dropped and made again by a statement.",
            next_step="keep the draft: delete its rows, then insert.",
            table=draft.place.table.name,
            expected=draft.table_uuid,
            found=str(metadata.table_uuid),
        )
    found, wanted = schemas.to_arrow(metadata.schema()), schemas.to_arrow(columns.drafted)
    refuse_difference(draft.place.table, wanted, found)
    if not found.equals(wanted, check_metadata=True):
        raise _refused(draft, f"columns that were dropped and added again: {metadata.schema()}")
    others = sorted(set(metadata.refs) - {MAIN_BRANCH})
    if others:
        raise _refused(draft, f"rows on branches or tags: {', '.join(others)}")
    held = [
        snapshot
        for snapshot in metadata.snapshots
        if snapshot.summary and "wap.id" in snapshot.summary.additional_properties
    ]
    if held:
        raise _refused(draft, "rows held back under spark.wap.id")


def _live_files(io: FileIO, draft: Draft, metadata: TableMetadata) -> Iterator[DataFile]:
    snapshot = metadata.current_snapshot()
    for manifest in [] if snapshot is None else manifest_files.read_list(io, snapshot.manifest_list):
        if manifest.content is not ManifestContent.DATA:
            raise _refused(
                draft, "deletes beside files; the modes of delete, update and merge are copy-on-write"
            )
        if manifest.partition_spec_id != 0:
            raise _refused(draft, "another partition spec")
        for entry in manifest_files.entries(io, manifest):
            if entry.data_file.file_format != FileFormat.PARQUET:
                raise _refused(draft, f"a file that is not Parquet: {entry.data_file.file_path}")
            yield entry.data_file


def _committable(
    format_name: str, draft: Draft, files: list[DataFile], parts: tuple[Part, ...]
) -> Committable:
    digest = hashlib.blake2b(digest_size=16)
    lines = (f"{file.file_path} {file.file_size_in_bytes} {file.record_count}\n" for file in files)
    for line in sorted(lines):
        digest.update(line.encode())
    return Committable(
        format=format_name,
        table_uuid=draft.info.table_uuid,
        place=draft.place.uri,
        version=new_snapshot_id(),
        parts=parts,
        rows=sum(file.record_count for file in files),
        files=len(files),
        size_bytes=sum(file.file_size_in_bytes for file in files),
        checksum=digest.hexdigest(),
        schema_id=draft.info.schema_id,
    )


def _refused(draft: Draft, found: str) -> InvalidInput:
    return InvalidInput(
        f"the draft of {draft.place.table.name!r} cannot become a slice; found {found}.",
        next_step="use INSERT, UPDATE, DELETE and MERGE; leave layout, properties and branches of the draft alone.",
        field="draft",
        value=found,
        expected="rows on its main branch, in files that its statements wrote",
        table=draft.place.table.name,
    )


# --- closing ---------------------------------------------------------------------------------------------------


def tidy(io: FileIO, draft: Draft, kept: Committable | None) -> None:
    """Delete the draft's files except those that *kept* names."""
    filesystem, path = storage.filesystem(draft.uri)
    if kept is None:
        storage.remove_folder(filesystem, path)
        return
    live = {
        storage.filesystem(entry.data_file.file_path)[1]
        for part in kept.parts
        for entry in manifest_files.entries(io, manifests.staged(part, 0))
    }
    storage.remove_folder(filesystem, f"{path}/metadata")
    for info in filesystem.get_file_info(pafs.FileSelector(path, recursive=True)):
        if info.is_file and info.path not in live:
            storage.remove(filesystem, info.path)
