"""Drafts: private Iceberg tables that Spark's own Iceberg runtime writes, one for each table and attempt.

A draft is found by its directory alone, as in Iceberg's Hadoop catalog: no row of a database names it, so that
writing it needs no credentials, and a late statement cannot touch a table that others read. It lies in the attempt's
staging directory. The slice gets the files of the draft's last version: those that statements wrote, which lack the
epoch column (readers take it from the partition), and those of the base that no statement touched.
See docs/decisions/drafts.md.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
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
from pyiceberg.types import DoubleType, FloatType, PrimitiveType

from airflow_provider.domain.cut import State
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import micros
from airflow_provider.tables import storage
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.drafts import Draft
from airflow_provider.tables.iceberg import manifest_files, manifests, schemas
from airflow_provider.tables.iceberg.publishing import new_snapshot_id

HINT = "version-hint.text"
_PROPERTIES = {
    "write.parquet.compression-codec": "zstd",
    # Counts and bounds of all columns; without this, of the first hundred.
    "write.metadata.metrics.default": "truncate(16)",
    # Partition values stay out of paths, since programs decode paths differently.
    "write.object-storage.enabled": "true",
    "write.object-storage.partitioned-paths": "false",
    # The base's files belong to published versions: no statement may expire or purge them.
    "gc.enabled": "false",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """Columns and layout that a draft derives from its table.

    :param schema: the table's schema. :param spec: the partition spec that the table's files are written with.
    """

    schema: Schema
    spec: PartitionSpec

    @property
    def drafted(self) -> Schema:
        """Columns of the draft: the table's without the epoch's; ids stay."""
        return Schema(*(field for field in self.schema.fields if field.name != EPOCH_COLUMN), schema_id=0)

    @property
    def epoch(self) -> int:
        """Id of the epoch column."""
        return self.schema.find_field(EPOCH_COLUMN).field_id

    @property
    def counted(self) -> set[int]:
        """Ids of the columns with statistics (:meth:`TableFormat.statistics`)."""
        return {field.field_id for field in self.schema.fields if isinstance(field.field_type, PrimitiveType)}

    @property
    def floating(self) -> dict[int, str]:
        """Names of the floating point numbers by id, also of those within structs."""
        columns, kinds = self.drafted, (FloatType, DoubleType)
        return {
            number: str(columns.find_column_name(number))
            for number in columns.field_ids
            if isinstance(columns.find_type(number), kinds)
        }

    @property
    def drafted_spec(self) -> PartitionSpec:
        """Partition spec of the draft: the table's without the epoch's field."""
        return PartitionSpec(*self.spec.fields[1:], spec_id=0)


def columns_of(draft: Draft, table: Table) -> Columns:
    """:raises SchemaMismatch: the table was created with another layout than the declared one."""
    schema = schemas.from_json(draft.info.schema)
    return Columns(
        schema=schema,
        spec=schemas.own_spec(draft.place.table, table.metadata.specs(), table.metadata.schema()),
    )


# --- sharing ---------------------------------------------------------------------------------------------------


def shares(io: FileIO, schema: Schema, base: State) -> bool:
    """Return whether no file of *base* has an epoch column: some engines read it instead of the partition's value.

    Files of drafts say that it has no bytes (:func:`moved`). A file that does not say it may have the column: other
    programs rewrite files without statistics.
    """
    epoch = schema.find_field(EPOCH_COLUMN).field_id
    return all((file.column_sizes or {}).get(epoch) == 0 for _, file in _files_of(io, base))


def _files_of(io: FileIO, base: State) -> Iterator[tuple[int, DataFile]]:
    """Yield the files of a full table's state, each with the id of its partition spec."""
    listed = [] if base.ref is None else manifest_files.read_list(io, base.ref.location)
    return manifests.slice_of(io, listed, micros(base.barrier))


# --- making ----------------------------------------------------------------------------------------------------


def make(io: FileIO, draft: Draft, table: Table) -> None:
    """Write the draft's first metadata, with the files of its base.

    :raises InvalidInput: files of the base have an epoch column, or another layout than the table's present one.
    """
    columns = columns_of(draft, table)
    if draft.base is not None and not shares(io, columns.schema, draft.base):
        raise InvalidInput(
            field="base",
            value=draft.base.barrier.isoformat(),
            expected="a slice that was a draft: its files do not say their epoch",
            next_step="begin with no rows, and write those of the base.",
            table=draft.place.table.name,
        )
    metadata: TableMetadata = _empty(draft, columns)
    files = list(base_files(io, draft, columns, table))
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
            "properties": _PROPERTIES
            # Without bounds, Spark alone says which rows a statement is about: to Iceberg NaN is no great number, and
            # -0.0 is less than 0.0.
            | {f"write.metadata.metrics.column.{name}": "counts" for name in columns.floating.values()},
        }
    )


def base_files(io: FileIO, draft: Draft, columns: Columns, table: Table) -> Iterator[DataFile]:
    """Yield the files of the base for the draft: without a partition value for the epoch."""
    if draft.base is None:
        return
    wanted = schemas.layout_of(columns.spec, columns.schema)
    for spec_id, file in _files_of(io, draft.base):
        spec = table.metadata.specs()[spec_id]
        if schemas.layout_of(spec, columns.schema) != wanted:
            raise InvalidInput(
                field="partition_by",
                value=wanted,
                expected=f"the layout of the rows that the draft begins with: {spec}",
                next_step="write this epoch with epoch.write; later ones can be drafts.",
                table=draft.place.table.name,
            )
        own = columns.drafted_spec.spec_id
        yield moved(file, values(file)[1:], own, columns.epoch, unbounded=columns.floating)


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
    manifest_files.write_list(io, listed, [manifest], snapshot_id=snapshot_id, parent=None, sequence_number=1)
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


def values(file: DataFile) -> list[Any]:
    return [file.partition[position] for position in range(len(file.partition))]


def moved(
    file: DataFile,
    partition: Iterable[Any],
    spec_id: int,
    epoch: int,
    barrier: int | None = None,
    *,
    unbounded: Collection[int] = (),
) -> DataFile:
    """Return *file* in another partition.

    :param epoch: id of the epoch column, of which the file may have statistics of an earlier epoch.
    :param barrier: value (microseconds) for the statistics of that column; None to drop them.
    :param unbounded: ids of the columns whose bounds are dropped.
    """

    def said(statistics: dict[int, Any] | None, value: Any) -> dict[int, Any]:
        kept = {number: figure for number, figure in (statistics or {}).items() if number != epoch}
        return kept if barrier is None else kept | {epoch: value}

    def bounds(of: dict[int, bytes] | None, value: Any) -> dict[int, Any]:
        return {number: bound for number, bound in said(of, value).items() if number not in unbounded}

    bound = None if barrier is None else manifests.encoded(barrier)
    return DataFile.from_args(
        content=file.content,
        file_path=file.file_path,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        column_sizes=said(file.column_sizes, 0),
        value_counts=said(file.value_counts, file.record_count),
        null_value_counts=said(file.null_value_counts, 0),
        nan_value_counts=file.nan_value_counts,
        lower_bounds=bounds(file.lower_bounds, bound),
        upper_bounds=bounds(file.upper_bounds, bound),
        split_offsets=file.split_offsets,
        spec_id=spec_id,
    )
