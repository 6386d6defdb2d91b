"""Footers of Parquet files of other programs, and what in them readers of Iceberg tables read differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import Table
from airflow_provider.tables.columns import known_ids, plain_type
from airflow_provider.tables.iceberg import task_writer

_HIGHEST_ID = 2_147_483_446
"""Iceberg's own columns have the ids above."""
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


@dataclass(frozen=True, kw_only=True, slots=True)
class Footer:
    """Content of the end of a Parquet file. :param columns: with ids, if the file has them."""

    columns: pa.Schema
    metadata: Any
    size_bytes: int


def refuse_unlike(table: Table, uri: str, footer: Footer) -> None:
    """Refuse a file whose rows this package's readers and Iceberg's do not all read alike.

    :raises InvalidInput: names the file, and the column.
    """
    names = footer.columns.names
    twice = [name for name, times in Counter(names).items() if times > 1]
    ids = list(known_ids(footer.columns))
    fields = sum(1 for _ in _fields(footer.columns))
    if not names or twice:
        raise _refused(table, uri, twice[0] if twice else "", "columns, each name once", "")
    if ids and (len(ids) != fields or len({*ids}) != fields or min(ids) < 1 or max(ids) > _HIGHEST_ID):
        raise _refused(
            table, uri, "", "a column id for each column and each part of it, or none", f"ids {ids[:20]}"
        )
    said = footer.metadata.metadata or {}
    if any(name in said for name in _OLD_CALENDAR):
        raise _refused(table, uri, "", "dates by the present calendar", "dates by Spark's legacy calendar")
    for field in footer.columns:
        plain_type(field.type, field.name) if not _has_times(field.type) else None
        for part in _kinds(field.type):
            if why := _unlike(part):
                raise _refused(table, uri, field.name, why, str(part))
    for index in range(len(footer.metadata.schema)):
        path = footer.metadata.schema.column(index).path
        _refuse_depth(table, uri, footer, path)


def _refused(table: Table, uri: str, column: str, expected: str, found: str) -> InvalidInput:
    return InvalidInput(
        field=f"column {column}" if column else "files",
        value=f"{found} in {uri}" if found else uri,
        expected=expected,
        next_step="copy the rows by a job instead: epoch.write casts them.",
        table=table.name,
    )


def _unlike(kind: pa.DataType) -> str:
    """Return what is expected instead of *kind*; empty if all readers read it alike."""
    if pa.types.is_unsigned_integer(kind):
        return "no unsigned number"
    if "view" in str(kind).partition("<")[0]:
        return "no views of Arrow's in the file's own description of its types"
    if (pa.types.is_timestamp(kind) or pa.types.is_time(kind)) and kind.unit != "us":
        return (
            "times in microseconds, not INT96 (Spark writes them with "
            "spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS)"
        )
    if pa.types.is_timestamp(kind) and kind.tz not in {None, "UTC", "+00:00"}:
        return "times in UTC, or without a zone"
    return ""


def _has_times(kind: pa.DataType) -> bool:
    return any(pa.types.is_timestamp(part) for part in _kinds(kind))


def _kinds(kind: pa.DataType) -> Iterator[pa.DataType]:
    """Yield *kind* and the types of its parts."""
    yield kind.value_type if pa.types.is_dictionary(kind) else kind
    for index in range(kind.num_fields if pa.types.is_nested(kind) else 0):
        yield from _kinds(kind.field(index).type)


def _fields(fields: Any) -> Iterator[pa.Field]:
    """Yield each column and each part of it that may have an id."""
    for field in fields:
        yield field
        kind = field.type
        if pa.types.is_map(kind):
            yield from _fields([kind.key_field, kind.item_field])
        elif pa.types.is_nested(kind):
            yield from _fields([kind.field(index) for index in range(kind.num_fields)])


def _refuse_depth(table: Table, uri: str, footer: Footer, path: str) -> None:
    """Refuse lists of other shapes than Parquet's of three levels, which readers guess differently.

    :param path: of one leaf in the file's own schema.
    """
    for field in footer.columns:
        if path == field.name or path.startswith(f"{field.name}."):
            depths = {*_depths(field.type)}
            if path.removeprefix(field.name).count(".") in depths:
                return
    raise _refused(
        table, uri, path, "lists and maps of three levels, as Parquet's specification has them", ""
    )


def _depths(kind: pa.DataType) -> Iterator[int]:
    """Yield the number of levels below a column of *kind*, for each leaf; a dot in a name counts as one more."""
    if pa.types.is_map(kind):
        for part in (kind.key_field, kind.item_field):
            yield from (2 + depth for depth in _depths(part.type))
    elif pa.types.is_struct(kind):
        for part in kind:
            yield from (1 + part.name.count(".") + depth for depth in _depths(part.type))
    elif pa.types.is_nested(kind):
        yield from (2 + depth for depth in _depths(kind.field(0).type))
    else:
        yield 0


def only_value(table: Table, uri: str, footer: Footer, field: pa.Field | None) -> Any:
    """Return the value that all rows of a file have in *field*, which partitions the table; None for null.

    :param field: as the file has it; None if the file lacks it.
    :raises InvalidInput: the file has several values, or does not say.
    """
    if field is None:
        return None
    metadata = footer.metadata
    index = next(
        number for number in range(len(metadata.schema)) if metadata.schema.column(number).path == field.name
    )
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    known = [(group.num_rows, group.column(index).statistics) for group in groups if group.num_rows]
    if all(said is not None and said.has_null_count and said.null_count == rows for rows, said in known):
        return None
    try:
        bounds = {
            (said.min, said.max) if said is not None and said.has_min_max and said.null_count == 0 else None
            for _, said in known
        }
    except (UnicodeDecodeError, OverflowError) as error:
        raise _refused(table, uri, field.name, f"values of {field.type} ({error})", "") from error
    only = bounds.pop() if len(bounds) == 1 else None
    if only is None or only[0] != only[1]:
        raise InvalidInput(
            field="files",
            value=uri,
            expected=f"files with one value of {field.name!r}, which partitions the table",
            next_step="leave the column out of partition_by, or copy the rows by a job: epoch.write.",
            table=table.name,
        )
    try:
        return task_writer.plain(pa.scalar(only[0], field.type))
    except (pa.ArrowException, UnicodeDecodeError, OverflowError) as error:
        raise _refused(table, uri, field.name, f"a value of {field.type} ({error})", "") from error
