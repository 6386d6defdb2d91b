"""Bounds of a source that is an external Iceberg table: the snapshots between which an epoch reads it.

A snapshot never changes. Address and credentials of the catalog come from an Airflow connection or from pyiceberg's
configuration, those of its files from the process's environment (:mod:`airflow_provider.tables.storage`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, cast

from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, RESTError
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat, ManifestContent, ManifestEntryStatus
from pyiceberg.table import TableProperties
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.transforms import IdentityTransform
from sqlalchemy.exc import SQLAlchemyError

from airflow_provider.domain.errors import InvalidInput, NotReady, SourceUnavailable, Unavailable
from airflow_provider.domain.source_bounds import BoundsRequest, Source, SourceBounds, SourceReads, Span
from airflow_provider.sources.reader import IcebergRows, ParquetRows, SourceReader, span_of
from airflow_provider.stores.factory import catalog_engine, catalog_operation, catalog_properties
from airflow_provider.tables import parquet_files

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

_FILE_IO = "airflow_provider.tables.iceberg.file_io.DurableFileIO"
_SAME_ROWS = frozenset({Operation.APPEND, Operation.REPLACE})
"""Operations allowed within an increment: appending rows, and rewriting the same rows to other files."""


class IcebergReader(SourceReader):
    """Reader of a :class:`~airflow_provider.domain.source_bounds.IcebergSource`."""

    def bounds(self, asked: BoundsRequest) -> SourceBounds:
        """Return the span from the barrier before to the newest snapshot, or to the beginning of the barrier after.

        :raises NotReady: the table does not exist. :raises SourceUnavailable: the catalog does not answer.
        :raises Unavailable: rows of an increment were changed, or its snapshots have expired.
        """
        table = self._table()
        high = asked.high(table.metadata.current_snapshot_id)
        span = Span(low=asked.low, high=high, identity=str(table.metadata.table_uuid))
        if asked.before and asked.before[0].bounds.span:
            _refuse_other(self.source, asked.before[0].bounds.span, table)
        _snapshots(self.source, span, table)
        return SourceBounds(source=self.source.name, span=span)

    def check_unchanged(self, bounds: SourceBounds) -> None:
        """:raises Unavailable: a snapshot of the span has expired, or the table was dropped and created again."""
        span = span_of(bounds)
        _snapshots(self.source, span, self._table())

    def rows(self, bounds: SourceBounds) -> ParquetRows | IcebergRows:
        """Return the rows of *bounds* with the last snapshot's columns and their ids: files, if these tell all.

        :raises Unavailable: as in :meth:`check_unchanged`; or a file is missing or damaged.
        :raises InvalidInput: only Iceberg's runtime tells the rows, and it cannot read these.
        """
        source, span = self.source, span_of(bounds)
        table = self._table()
        snapshots = _snapshots(source, span, table)
        last = None if span.high is None else table.snapshot_by_id(span.high)
        schema = table.schema() if last is None else table.scan(snapshot_id=last.snapshot_id).projection()
        reads_all = _reads_all(source, span)
        if last is not None and reads_all and _deletes(last, table):
            return _by_runtime(source, table, schema, span, "rows deleted by delete files")
        if reads_all:
            scan = None if last is None else table.scan(snapshot_id=last.snapshot_id)
            data_files = [] if scan is None else [task.file for task in scan.plan_files()]
        else:
            data_files = [file for snapshot in snapshots for file in _appended(snapshot, table)]
        why = _beyond_files(source, table, schema, data_files) if data_files else ""
        if why:
            return _by_runtime(source, table, schema, span, why)
        return ParquetRows(
            files=[_as_uri(file.file_path) for file in data_files],
            columns=schema_to_pyarrow(schema),
            rows=sum(file.record_count for file in data_files),
            size_bytes=sum(file.file_size_in_bytes for file in data_files),
        )

    def _table(self) -> Table:
        name, *rest = self.source.table.split(".")
        url = self._url if self.source.connection else None
        with _translated(self.source):
            if url is None:
                with closing(load_catalog(name)) as catalog:
                    return catalog.load_table(tuple(rest))
            with catalog_operation(url), closing(_sql_catalog(name, url)) as catalog:
                return catalog.load_table(tuple(rest))


def _reads_all(source: Source, span: Span) -> bool:
    """Return whether the state at the end of *span* is read; the first increment is such a state, too."""
    return source.reads is SourceReads.STATE or span.low is None


def _snapshots(source: Source, span: Span, table: Table) -> list[Snapshot]:
    """Return the snapshots of *span*, newest first, without the one that it begins after.

    :raises Unavailable: a snapshot has expired; or a snapshot of an increment has changed rows.
    """
    _refuse_other(source, span, table)
    if span.high is None or (span.is_empty and source.reads is SourceReads.INCREMENT):
        return []
    snapshots = [_snapshot(source, table, span.high)]
    if _reads_all(source, span):
        return snapshots
    while snapshots[-1].parent_snapshot_id != span.low:
        if snapshots[-1].parent_snapshot_id is None:
            raise _gone(
                source,
                span.low,
                "is not behind its newest one: it, or one between, has expired or was rolled back",
            )
        snapshots.append(_snapshot(source, table, snapshots[-1].parent_snapshot_id))
    for snapshot in snapshots:
        operation = snapshot.summary.operation if snapshot.summary else None
        if operation not in _SAME_ROWS:
            raise _gone(
                source,
                snapshot.snapshot_id,
                f"has changed rows: operation {operation and operation.value!r}, no append",
            )
    return snapshots


def _snapshot(source: Source, table: Table, snapshot_id: int) -> Snapshot:
    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise _gone(source, snapshot_id, "has expired")
    return snapshot


def _gone(source: Source, snapshot_id: int | None, problem: str) -> Unavailable:
    return Unavailable(
        f"source {source.name!r}: snapshot {snapshot_id} of {source.table} {problem}.",
        next_step="let the owner of the table keep its snapshots and append only, read it with reads='state', "
        "or go on under another name of the source.",
        source=source.name,
        snapshot=snapshot_id,
    )


def _refuse_other(source: Source, span: Span, table: Table) -> None:
    if span.identity != str(table.metadata.table_uuid):
        raise Unavailable(
            f"source {source.name!r}: {source.table} was made anew: expected the table {span.identity}, found "
            f"{table.metadata.table_uuid}.",
            next_step="declare it as a source of another name: the recorded bounds belong to the former table.",
            source=source.name,
            expected=span.identity,
            found=str(table.metadata.table_uuid),
        )


def _appended(snapshot: Snapshot, table: Table) -> Iterator[DataFile]:
    if snapshot.summary is None or snapshot.summary.operation is not Operation.APPEND:
        return
    for manifest in snapshot.manifests(table.io):
        if manifest.content is ManifestContent.DATA and manifest.added_snapshot_id == snapshot.snapshot_id:
            for entry in manifest.fetch_manifest_entry(table.io):
                if entry.status is ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id:
                    yield entry.data_file


def _deletes(snapshot: Snapshot, table: Table) -> bool:
    """Return whether rows of *snapshot* are deleted where they lie (merge on read)."""
    return any(
        manifest.content is ManifestContent.DELETES
        and (manifest.has_added_files() or manifest.has_existing_files())
        for manifest in snapshot.manifests(table.io)
    )


def _beyond_files(source: Source, table: Table, schema: Schema, data_files: Sequence[DataFile]) -> str:
    """Return what the rows have that Spark cannot read from *data_files* alone; empty if it reads them right."""
    for field, path in _fields(schema):
        if field.initial_default is not None:
            return f"the default {field.initial_default!r} of column {path} for files that lack it"
    others = {file.file_format for file in data_files} - {FileFormat.PARQUET}
    if others:
        return f"files of the format {min(file_format.name for file_format in others)}"
    try:
        if TableProperties.DEFAULT_NAME_MAPPING in table.metadata.properties:
            uris = [_as_uri(file.file_path) for file in data_files]
            if parquet_files.first_without_ids(uris):
                return "files without column ids"
        lacking = parquet_files.first_lacking(_partition_columns(table, schema, data_files))
    except Unavailable as error:
        raise Unavailable(
            f"source {source.name!r}: {error.message}",
            next_step="let the owner of the table bring the file back, or take it out of the table; then try again.",
            source=source.name,
            uri=error.uri,
        ) from error
    except OSError as error:
        raise SourceUnavailable.of(source.name, f"a file of {source.table}", type(error).__name__) from error
    if lacking is None:
        return ""
    return f"files without the column {schema.find_column_name(lacking)} that separates them"


def _partition_columns(
    table: Table, schema: Schema, data_files: Sequence[DataFile]
) -> Iterator[tuple[str, int]]:
    """Yield file and id of each column whose value a file's partition tells, and its counts do not show in the file.

    Readers of Iceberg tables take such a value for a column that a file lacks.
    """
    specs = table.specs()
    for file in data_files:
        for index, field in enumerate(specs[file.spec_id].fields):
            is_column = isinstance(field.transform, IdentityTransform) and field.source_id in schema.field_ids
            if is_column and file.partition[index] is not None and not _sizes(file).get(field.source_id):
                yield _as_uri(file.file_path), field.source_id


def _sizes(file: DataFile) -> Mapping[int, int]:
    """Return the sizes of the columns of *file*, by their ids, as far as its writer has told them."""
    return file.column_sizes or {}


def _fields(schema: Schema) -> Iterator[tuple[NestedField, str]]:
    """Yield each field, also those within structs, lists and maps, with its full name."""
    for field_id in schema.field_ids:
        yield schema.find_field(field_id), str(schema.find_column_name(field_id))


def _by_runtime(source: Source, table: Table, schema: Schema, span: Span, why: str) -> IcebergRows:
    """Return the rows of *span*, which is not empty, as Iceberg's runtime reads them.

    It gives a snapshot's rows that snapshot's columns (*schema*), and those of an increment the table's present ones.

    :raises InvalidInput: a column is no longer in the table; or the metadata file has a name that the runtime does not
        open by itself.
    """
    low = None if _reads_all(source, span) else span.low
    current = schema if low is None else table.schema()
    names = [current.find_column_name(field.field_id) for field in schema.fields]
    dropped = [field.name for field, name in zip(schema.fields, names, strict=True) if name is None]
    if dropped:
        raise _unreadable(source, f"{why}, and column {dropped[0]!r} was dropped since")
    if "metadata.json" not in table.metadata_location:
        raise _unreadable(source, f"{why}, and its metadata file is no metadata.json")
    return IcebergRows(
        why=why,
        metadata=_as_uri(table.metadata_location),
        low=low,
        high=cast("int", span.high),
        names=[str(name) for name in names],
        columns=schema_to_pyarrow(schema),
    )


def _unreadable(source: Source, what: str) -> InvalidInput:
    return InvalidInput(
        field=f"source {source.name!r}",
        value=source.table,
        expected=f"a table whose Parquet files tell its rows, or that Iceberg's Spark runtime reads; it has {what}",
        next_step="let the owner of the table rewrite it (rewrite_data_files with rewrite-all), or read it with "
        "reads='state'.",
    )


def _as_uri(path: str) -> str:
    """Return *path* as a URI; other writers omit the authority or the scheme."""
    if path.startswith("/"):
        return f"file://{path}"
    return path.replace("file:/", "file:///", 1) if path.startswith("file:/") and "://" not in path else path


def _sql_catalog(name: str, url: str) -> SqlCatalog:
    catalog = SqlCatalog(name, **{**catalog_properties(url), "py-io-impl": _FILE_IO})
    catalog.engine = catalog_engine(url)
    return catalog


@contextmanager
def _translated(source: Source) -> Iterator[None]:
    try:
        yield
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise NotReady.of_absent(source.name, source.table) from error
    except (SQLAlchemyError, RESTError, OSError) as error:
        # The driver's text may contain addresses and users: the message names the error's class only.
        raise SourceUnavailable.of(
            source.name, f"the catalog or the metadata of {source.table}", type(error).__name__
        ) from error
    except ValueError as error:
        raise InvalidInput(
            field=f"table of source {source.name!r}",
            value=source.table,
            expected=f"a catalog that pyiceberg's configuration or a connection names: {error}",
            next_step="name the connection to its database (connection=…), or configure the catalog: "
            "PYICEBERG_CATALOG__NAME__URI.",
        ) from error
