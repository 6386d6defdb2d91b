"""Files of other programs as the output of an attempt (docs/decisions/added-files.md).

Such a file lies outside of the table's folder, lacks the epoch column and often column ids. Its entry in the manifest
says the epoch, and the values that only folders' names tell, as partition values, which all readers take for columns
that a file lacks. Columns without ids are known by their names (:mod:`.column_names`), which are the table's default
name mapping, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.metadata import TableMetadata

from airflow_provider.domain.errors import SchemaMismatch
from airflow_provider.domain.interval import micros
from airflow_provider.domain.topology import Table
from airflow_provider.tables.added_files import FilesToAdd
from airflow_provider.tables.base import EPOCH_COLUMN, StagingLocation, TableInfo, WrittenFile
from airflow_provider.tables.columns import (
    field_id,
    known_ids,
    mismatch,
    plain_type,
    table_schema,
    with_ids_of,
)
from airflow_provider.tables.iceberg import column_names, schemas, task_writer
from airflow_provider.tables.iceberg.files_to_add import in_path, refuse_unsaid
from airflow_provider.tables.iceberg.parquet_footers import Footer, only_value


def columns_for(table: Table, files: FilesToAdd) -> pa.Schema:
    """Return the columns of a new table for *files*. Its own columns get ids beyond those of the files.

    :raises InvalidInput: a column's name or type is not supported, or a declared column is missing.
    """
    missing = [name for name in table.partition_by if name not in files.columns.names]
    for name, uri in product(missing, files.uris):
        refuse_unsaid(table, uri, name)
    last = max(_ids_in(files), default=0) if files.has_ids else 0
    return table_schema(table, files.columns, kept_ids=last)


def fits(table: IcebergTable, files: FilesToAdd) -> bool:
    """Return True if *table* has the columns of *files*, in whichever order; or rows, so that it stays."""
    found = {field.name: field for field in schemas.to_arrow(table.schema())}
    return bool(table.metadata.current_snapshot_id) or all(
        (known := found.get(field.name)) is not None
        and (known.equals(field, check_metadata=True) if files.has_ids else known.type == field.type)
        for field in files.columns
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Adding:
    """Files of other programs become the output of an attempt.

    :param info: the table, with the columns that the files are to have.
    """

    io: FileIO
    place: StagingLocation
    info: TableInfo

    @property
    def table(self) -> Table:
        return self.place.table

    @property
    def barrier(self) -> int:
        """End of the epoch, in microseconds."""
        return micros(self.place.interval.end)

    def described(
        self, files: FilesToAdd, metadata: TableMetadata
    ) -> tuple[list[WrittenFile], dict[str, int]]:
        """Return *files* as a task that wrote them would describe them, and the ids of columns known by their names.

        :param metadata: of the table as it is now.
        :raises SchemaMismatch: a column is no column of the table, or has another type.
        :raises InvalidInput: a file has several values of a column that partitions the table.
        """
        schemas.own_spec(self.table, metadata.specs(), metadata.schema())
        columns = schemas.arrow_from_json(self.info.schema)
        if not columns.field(EPOCH_COLUMN).nullable:
            raise _required_epoch(self.table)
        named = None
        if files.has_ids:
            _refuse_other_ids(self.table, files, columns, metadata.last_column_id)
        else:
            directory = f"{metadata.location.rstrip('/')}/metadata"
            named = column_names.names_for(self.io, self.table, directory, self.info)
            _refuse_renamed(self.table, named, columns)
        by_id = {field_id(field): field for field in columns}
        found = [self._file(uri, files, by_id, named) for uri in files.uris]
        if named is None:
            return found, {}
        known = column_names.ids_by_name(named)
        return found, {name: known[name] for name in files.columns.names if name not in files.in_paths}

    def _file(
        self, uri: str, files: FilesToAdd, by_id: Mapping[int | None, pa.Field], named: pa.Schema | None
    ) -> WrittenFile:
        footer: Footer = files.footers[uri]
        if named is None:  # a column that their table has dropped is in earlier files only
            known = {field_id(field) for field in files.columns}
            own = pa.schema([field for field in footer.columns if field_id(field) in known])
        else:
            own = with_ids_of(footer.columns, named)
        for field in own:
            _refuse_other(self.table, field, by_id)
        wanted = [by_id[field_id(field)].with_name(field.name) for field in own]
        target = pa.schema([_renamed(field, own.field(field.name)) for field in wanted])
        columns = (
            field for name in self.table.partition_by for field in by_id.values() if field.name == name
        )
        partition = [self.barrier, *(self._partition_value(uri, files, own, column) for column in columns)]
        said = f"{uri} {footer.size_bytes} {footer.metadata.num_rows}"
        return WrittenFile(
            uri=uri,
            size_bytes=footer.size_bytes,
            rows=footer.metadata.num_rows,
            checksum=hashlib.blake2b(said.encode(), digest_size=16).hexdigest(),
            description=task_writer.description(footer.metadata, target, tuple(partition)),
        )

    def _partition_value(self, uri: str, files: FilesToAdd, own: pa.Schema, column: pa.Field) -> object:
        """Return the value of a column that partitions the table: from the path, or from the file, *own* in short.

        :raises InvalidInput: a folder has the value, and the caller has not said that it is one.
        """
        if column.name in files.in_paths:
            return in_path(self.table, uri, column)
        inside = next((field for field in own if field_id(field) == field_id(column)), None)
        if inside is None:
            refuse_unsaid(self.table, uri, column.name)
        return only_value(self.table, uri, files.footers[uri], inside)


def _required_epoch(table: Table) -> SchemaMismatch:
    return SchemaMismatch(
        f"table {table.name!r} was made by an earlier version of this package, which required {EPOCH_COLUMN} in each "
        "file; files of other programs lack it.",
        next_step="add the files to a table of another name, or copy the rows by a job: epoch.write.",
        table=table.name,
        column=EPOCH_COLUMN,
        expected="a column that files may lack",
        found="a required column",
    )


def _refuse_other_ids(table: Table, files: FilesToAdd, columns: pa.Schema, last: int) -> None:
    """Refuse files whose column ids are those of other columns, or may become them.

    :param columns: those of the table. :param last: the highest id that one of them has or had.
    :raises SchemaMismatch: names the first column.
    """
    known = dict(_names_by_id(columns))
    for number, name in _names_by_id(files.columns):
        if known.get(number) != name:
            raise SchemaMismatch(
                f"table {table.name!r}: the files' column {name!r} has the id {number}, which the table has for "
                f"{known.get(number, 'no column')!r}.",
                next_step="add the first files of their table before any other row is written, with column_changes as "
                "there; or copy the rows by a job: epoch.write.",
                table=table.name,
                column=name,
                expected=known.get(number, ""),
                found=name,
            )
    wanted = {number for number, _ in _names_by_id(files.columns)}
    for footer in files.footers.values():
        for number in known_ids(footer.columns):
            if number not in wanted and number in known:
                raise SchemaMismatch(
                    f"table {table.name!r}: the files have a column with the id {number}, which their table has "
                    f"dropped; this one has it for {known[number]!r}.",
                    next_step="copy the rows by a job: epoch.write.",
                    table=table.name,
                    column=known[number],
                    expected="no such column",
                    found=str(number),
                )
    highest = max(_ids_in(files))
    if highest > last:
        raise SchemaMismatch(
            f"table {table.name!r}: the files have a column with the id {highest}, which a later column of the table "
            "would get.",
            next_step="copy the rows by a job: epoch.write.",
            table=table.name,
            column=str(highest),
            expected=f"ids up to {last}",
            found=str(highest),
        )


def _refuse_renamed(table: Table, named: pa.Schema, columns: pa.Schema) -> None:
    """Refuse names that were one column's when files were added, and are another's now.

    :param named: the names in files. :param columns: those of the table.
    :raises SchemaMismatch: names the column.
    """
    then, now = column_names.ids_by_name(named), column_names.ids_by_name(columns)
    for name in sorted(then.keys() & now.keys()):
        if then[name] != now[name]:
            raise column_names.taken(table, name)


def _names_by_id(fields: Iterable[pa.Field]) -> Iterator[tuple[int | None, str]]:
    """Yield id and name of each column, and of each of its parts."""
    for field in fields:
        yield field_id(field), field.name
        yield from _names_by_id(
            field.type.field(index)
            for index in range(field.type.num_fields if pa.types.is_nested(field.type) else 0)
        )


def _ids_in(files: FilesToAdd) -> Iterator[int]:
    """Yield the ids of all columns that a file has, also of those that their table has dropped."""
    yield from known_ids(files.columns)
    for footer in files.footers.values():
        yield from known_ids(footer.columns)


def _refuse_other(table: Table, field: pa.Field, by_id: Mapping[int | None, pa.Field]) -> None:
    """:raises SchemaMismatch: *field*, of a file, is no column of the table, or has a type that it does not take."""
    column = by_id.get(field_id(field))
    if field_id(field) is None or column is None or column.name == EPOCH_COLUMN:
        renamed = any(known.name == field.name for known in by_id.values())
        raise SchemaMismatch(
            f"table {table.name!r}: the files have a column {field.name!r}, which "
            + ("had another name when files were added before." if renamed else "the table has not."),
            next_step=("" if renamed else "declare it in column_changes of the table; or ")
            + "copy the rows by a job: epoch.write.",
            table=table.name,
            column=field.name,
            expected=", ".join(known.name for known in by_id.values() if known.name != EPOCH_COLUMN),
            found=field.name,
        )
    given = plain_type(field.type, field.name)
    if not _is_read_as(given, column.type):
        raise mismatch(table.name, column.name, expected=column.type, found=given)


def _is_read_as(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether Iceberg's readers take a file's column of *given* for one of *wanted*: equal, or promoted."""
    if pa.types.is_struct(wanted):
        known = {field_id(field): field.type for field in wanted}
        return pa.types.is_struct(given) and all(
            field_id(field) in known and _is_read_as(field.type, known[field_id(field)]) for field in given
        )
    if pa.types.is_map(wanted):
        return (
            pa.types.is_map(given)
            and _is_read_as(given.key_type, wanted.key_type)
            and _is_read_as(given.item_type, wanted.item_type)
        )
    if pa.types.is_list(wanted):
        return pa.types.is_list(given) and _is_read_as(given.value_type, wanted.value_type)
    if pa.types.is_decimal(wanted) and pa.types.is_decimal(given):
        return bool(given.scale == wanted.scale and given.precision <= wanted.precision)
    promoted = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}
    return given == wanted or (given, wanted) in promoted


def _renamed(wanted: pa.Field, own: pa.Field) -> pa.Field:
    """Return *wanted* with the names that the file has for its parts: statistics are found by them."""
    if not pa.types.is_struct(wanted.type):
        return wanted
    known = {field_id(part): part for part in wanted.type}
    parts = [_renamed(known[field_id(part)].with_name(part.name), part) for part in own.type]
    return wanted.with_type(pa.struct(parts))
