"""Drafts: private Iceberg tables that Spark's own Iceberg runtime writes, one for each table and attempt.

A draft is found by its directory alone, as Iceberg's Hadoop catalog finds tables: no row of a database names it, so
that no credentials are needed to write it, and a late statement meets nothing that anybody else looks at. It lies in
the attempt's place. What the last statement left is what the slice gets: files that statements wrote, which have no
epoch column (readers take it from the partition), and files of the base that no statement touched.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.fs as pafs
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat, ManifestContent
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import micros
from airflow_provider.domain.topology import TableKind
from airflow_provider.domain.version import Committable, Part
from airflow_provider.tables import storage
from airflow_provider.tables.base import EPOCH_COLUMN, TableRecreated
from airflow_provider.tables.columns import refuse_difference
from airflow_provider.tables.drafts import Draft
from airflow_provider.tables.iceberg import manifests, schemas
from airflow_provider.tables.iceberg.publishing import new_snapshot_id

HINT = "version-hint.text"
_PROPERTIES = {
    "write.parquet.compression-codec": "zstd",
    # Counts and bounds of all columns; without this, of the first hundred.
    "write.metadata.metrics.default": "truncate(16)",
    # Values of partitions stay out of paths, which not everybody decodes alike.
    "write.object-storage.enabled": "true",
    "write.object-storage.partitioned-paths": "false",
    # The base's files belong to others: no statement may expire or purge them.
    "gc.enabled": "false",
}
_METADATA_FILE = re.compile(r"v(\d+)(\.gz)?\.metadata\.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """What a draft and its table have in common.

    :param schema: the table's. :param spec: the one by which its files are written.
    """

    schema: Schema
    spec: PartitionSpec

    @property
    def drafted(self) -> Schema:
        """The columns without the epoch's; ids stay."""
        return Schema(*(field for field in self.schema.fields if field.name != EPOCH_COLUMN), schema_id=0)

    @property
    def epoch(self) -> int:
        """Id of the epoch column."""
        return self.schema.find_field(EPOCH_COLUMN).field_id

    @property
    def counted(self) -> set[int]:
        """Ids of the columns of which statistics are taken (:meth:`TableFormat.statistics`)."""
        return {one.field_id for one in self.schema.fields if isinstance(one.field_type, PrimitiveType)}

    @property
    def drafted_spec(self) -> PartitionSpec:
        """The partition fields behind the epoch's."""
        return PartitionSpec(*self.spec.fields[1:], spec_id=0)


def columns_of(draft: Draft, table: Table) -> Columns:
    """:raises SchemaMismatch: the table was made with another layout than is declared."""
    schema = schemas.from_json(draft.info.schema)
    return Columns(
        schema=schema,
        spec=schemas.own_spec(draft.place.table, table.metadata.specs(), table.metadata.schema()),
    )


# --- making ----------------------------------------------------------------------------------------------------


def make(io: FileIO, draft: Draft, table: Table) -> None:
    """Write the draft's first metadata: the rows of its base, and nothing else.

    :raises InvalidInput: files of the base are separated by other columns than the table's are now.
    """
    columns = columns_of(draft, table)
    metadata: TableMetadata = _empty(draft, columns)
    files = [] if draft.base is None else list(_base_files(io, draft, columns, table))
    if files:
        metadata = _beginning_with(io, metadata, draft, columns, files)
    ToOutputFile.table_metadata(metadata, io.new_output(f"{draft.uri}/metadata/v1.metadata.json"))
    with storage.create(*storage.filesystem(f"{draft.uri}/metadata/{HINT}")) as hint:
        hint.write(b"1")


def _empty(draft: Draft, columns: Columns) -> TableMetadataV2:
    order = schemas.sort_order(draft.place.table, columns.drafted)
    return TableMetadataV2.model_validate(
        {
            "location": draft.uri,
            "table-uuid": draft.table_uuid,
            "last-updated-ms": int(time.time() * 1000),
            "schemas": [columns.drafted],
            "current-schema-id": 0,
            "last-column-id": columns.schema.highest_field_id,
            "partition-specs": [columns.drafted_spec],
            "default-spec-id": 0,
            "last-partition-id": columns.spec.last_assigned_field_id,
            "sort-orders": [order],
            "default-sort-order-id": order.order_id,
            "properties": dict(_PROPERTIES),
        }
    )


def _base_files(io: FileIO, draft: Draft, columns: Columns, table: Table) -> Iterator[DataFile]:
    """The files of the base as the draft has them: without a partition value for the epoch."""
    base = draft.base
    if base is None or base.ref is None:
        return
    wanted = schemas.partition_columns(columns.spec, columns.schema)
    listed = manifests.read_list(io, base.ref.location)
    for spec_id, file in manifests.slice_of(io, listed, micros(base.barrier)):
        spec = table.metadata.specs()[spec_id]
        if schemas.partition_columns(spec, columns.schema) != wanted:
            raise InvalidInput(
                field="partition_by",
                value=wanted,
                expected=f"the layout of the rows that the draft begins with: {spec}",
                next_step="write this epoch with epoch.write; later ones can be drafts.",
                table=draft.place.table.name,
            )
        yield _moved(file, _values(file)[1:], columns.drafted_spec.spec_id, columns.epoch)


def _beginning_with(
    io: FileIO, metadata: TableMetadata, draft: Draft, columns: Columns, files: list[DataFile]
) -> TableMetadata:
    snapshot_id = new_snapshot_id()
    manifest = manifests.write_added(
        io,
        columns.drafted_spec,
        columns.drafted,
        f"{draft.uri}/metadata/base.avro",
        files,
        snapshot_id=snapshot_id,
    )
    listed = f"{draft.uri}/metadata/snap-{snapshot_id}.avro"
    manifests.write_list(io, listed, [manifest], snapshot_id=snapshot_id, parent=None, sequence_number=1)
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "sequence-number": 1,
            "timestamp-ms": int(time.time() * 1000),
            "manifest-list": listed,
            "summary": Summary(Operation.APPEND, **{"total-data-files": str(len(files))}),
            "schema-id": 0,
        }
    )
    main = {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot_id}
    updates: tuple[TableUpdate, ...] = (
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate.model_validate(main),
    )
    return update_table_metadata(metadata, updates)


def _values(file: DataFile) -> list[Any]:
    return [file.partition[position] for position in range(len(file.partition))]


def _moved(
    file: DataFile, partition: Iterable[Any], spec_id: int, epoch: int, barrier: int | None = None
) -> DataFile:
    """*file* in another partition.

    :param epoch: id of the epoch column, which the file may have with an earlier value, or not at all.
    :param barrier: what it is to say of that column (microseconds); None for nothing.
    """

    def said(statistics: dict[int, Any] | None, value: Any) -> dict[int, Any]:
        kept = {number: one for number, one in (statistics or {}).items() if number != epoch}
        return kept if barrier is None else kept | {epoch: value}

    bound = None if barrier is None else manifests.encoded(barrier)
    return DataFile.from_args(
        content=file.content,
        file_path=_as_uri(file.file_path),
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        column_sizes=said(file.column_sizes, 0),
        value_counts=said(file.value_counts, file.record_count),
        null_value_counts=said(file.null_value_counts, 0),
        nan_value_counts=file.nan_value_counts,
        lower_bounds=said(file.lower_bounds, bound),
        upper_bounds=said(file.upper_bounds, bound),
        split_offsets=file.split_offsets,
        spec_id=spec_id,
    )


# --- describing ------------------------------------------------------------------------------------------------


def describe(io: FileIO, draft: Draft, table: Table, format_name: str) -> Committable:
    """Write the manifests of what the draft's last version has; see :meth:`TableFormat.describe_draft`."""
    if draft.place.table.kind is not TableKind.FULL:
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
    base = set() if draft.base is None else {one.file_path for one in _base_files(io, draft, columns, table)}
    own: list[DataFile] = []
    carried: list[DataFile] = []
    barrier = micros(draft.place.interval.end)
    for file in _live_files(io, draft, metadata):
        moved = _moved(file, (barrier, *_values(file)), columns.spec.spec_id, columns.epoch, barrier)
        if moved.file_path in base:
            carried.append(moved)
        elif not moved.file_path.startswith(f"{draft.uri}/data/"):
            raise _refused(draft, f"a file that no statement of the draft wrote: {moved.file_path}")
        elif not columns.counted <= set(moved.value_counts):
            raise _refused(draft, f"a file without counts of its columns: {moved.file_path}")
        else:
            own.append(moved)
    for one in own:
        storage.sync(*storage.filesystem(one.file_path))
    carried_from = None if draft.base is None else micros(draft.base.barrier)
    parts = tuple(
        manifests.write_part(
            io,
            columns.spec,
            columns.schema,
            f"{draft.place.uri}manifest-{uuid.uuid4().hex}.avro",
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
        names = [one.base_name for one in filesystem.get_file_info(pafs.FileSelector(path))]
    except FileNotFoundError:
        names = []
    numbered = {int(found[1]): found[0] for found in map(_METADATA_FILE.fullmatch, names) if found}
    if not numbered:
        raise _refused(draft, "that it was dropped")
    return FromInputFile.table_metadata(io.new_input(f"{draft.uri}/metadata/{numbered[max(numbered)]}"))


def _refuse_changed(draft: Draft, columns: Columns, metadata: TableMetadata) -> None:
    """Refuse what statements may do to a table of their own and not to a slice.

    :raises TableRecreated: it was dropped and made again. :raises SchemaMismatch: it has other columns.
    :raises InvalidInput: rows were written beside its main branch, where nothing would find them.
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
        one for one in metadata.snapshots if one.summary and "wap.id" in one.summary.additional_properties
    ]
    if held:
        raise _refused(draft, "rows held back under spark.wap.id")


def _live_files(io: FileIO, draft: Draft, metadata: TableMetadata) -> Iterator[DataFile]:
    snapshot = metadata.current_snapshot()
    for manifest in [] if snapshot is None else manifests.read_list(io, snapshot.manifest_list):
        if manifest.content is not ManifestContent.DATA:
            raise _refused(
                draft, "deletes beside files; the modes of delete, update and merge are copy-on-write"
            )
        if manifest.partition_spec_id != 0:
            raise _refused(draft, "another partition spec")
        for entry in manifests.entries(io, manifest):
            if entry.data_file.file_format != FileFormat.PARQUET:
                raise _refused(draft, f"a file that is not Parquet: {entry.data_file.file_path}")
            yield entry.data_file


def _as_uri(path: str) -> str:
    """*path* as this package writes URIs; Hadoop writes those of local files with one slash."""
    scheme, _, rest = path.partition(":/")
    return path if rest.startswith("/") else f"{scheme}:///{rest}"


def _committable(
    format_name: str, draft: Draft, files: list[DataFile], parts: tuple[Part, ...]
) -> Committable:
    digest = hashlib.blake2b(digest_size=16)
    for line in sorted(f"{one.file_path} {one.file_size_in_bytes} {one.record_count}\n" for one in files):
        digest.update(line.encode())
    return Committable(
        format=format_name,
        table_uuid=draft.info.table_uuid,
        place=draft.place.uri,
        version=new_snapshot_id(),
        parts=parts,
        rows=sum(one.record_count for one in files),
        files=len(files),
        size_bytes=sum(one.file_size_in_bytes for one in files),
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
    """Delete all below the draft's directory that *kept* does not name."""
    filesystem, path = storage.filesystem(draft.uri)
    if kept is None:
        filesystem.delete_dir(path)
        return
    live = {
        storage.filesystem(entry.data_file.file_path)[1]
        for part in kept.parts
        for entry in manifests.entries(io, manifests.staged(part, 0))
    }
    filesystem.delete_dir(f"{path}/metadata")
    for one in filesystem.get_file_info(pafs.FileSelector(path, recursive=True)):
        if one.is_file and one.path not in live:
            storage.remove(filesystem, one.path)
