"""Look at files of other programs that are to become a slice: their footers, and the names of their folders."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import Table
from airflow_provider.tables import checks, storage
from airflow_provider.tables.added_files import FileScan, FilesToAdd
from airflow_provider.tables.columns import (
    field_id,
    known_ids,
    plain_type,
)
from airflow_provider.tables.iceberg import task_writer
from airflow_provider.tables.iceberg.scanned_files import whole_files
from airflow_provider.tables.locations import lies_in

_AT_ONCE = 16
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_IN_FOLDER = re.compile(r"(?P<column>[^=/]+)=(?P<value>[^/]*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Footer:
    """What the end of a Parquet file says. :param columns: with ids, if the file has them."""

    columns: pa.Schema
    metadata: Any
    size_bytes: int


# --- looking at files ------------------------------------------------------------------------------------------


def look_at(
    table: Table, files: Sequence[str] | FileScan, in_paths: Mapping[str, pa.DataType], folder: str
) -> FilesToAdd:
    """See :meth:`~airflow_provider.tables.added_files.FileAddingFormat.look_at`.

    :param folder: URI of the table's own folder, with a trailing slash.
    """
    uris, columns = (files, None) if isinstance(files, Sequence) else whole_files(files, table)
    named = [f"file://{uri}" if uri.startswith("/") else storage.as_uri(uri) for uri in uris]
    times = Counter(named)
    for uri in named:
        if times[uri] > 1 or lies_in(uri, folder.rstrip("/")) or not storage.serves(uri, folder):
            raise _refused_file(table, uri, folder)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        footers = dict(zip(named, pool.map(_footer, named), strict=True))
    for uri, footer in footers.items():
        for field in footer.columns:
            _refuse_type(uri, field.name, field.type)
    found = columns if columns is not None else _together(table, footers)
    clash = sorted(set(in_paths) & set(found.names))
    if clash:
        raise InvalidInput(
            field="in_paths",
            value=clash[0],
            expected="a column that the files lack: readers would take the files' own values",
            next_step="leave it out; the files have the column.",
            table=table.name,
        )
    more = [pa.field(name, plain_type(kind, name)) for name, kind in in_paths.items()]
    for uri in named:
        for field in more:
            in_path(table, uri, field)
    if more and any(field_id(field) is not None for field in found):
        raise InvalidInput(
            field="in_paths",
            value=sorted(in_paths),
            expected="none, for files with column ids: the table that they are of has all columns",
            table=table.name,
        )
    return FilesToAdd(
        uris=tuple(named), columns=pa.schema([*found, *more]), in_paths=tuple(in_paths), footers=footers
    )


def _refused_file(table: Table, uri: str, folder: str) -> InvalidInput:
    return InvalidInput(
        field="files",
        value=uri,
        expected=f"files of other programs, each once, outside of {folder}, where this package reads: on a disk, S3 or "
        "the store of the table",
        table=table.name,
    )


def _footer(uri: str) -> Footer:
    """:raises Unavailable: the file is missing or damaged."""
    filesystem, path = storage.filesystem(uri)
    try:
        with filesystem.open_input_file(path) as source, pq.ParquetFile(source) as file:
            return Footer(columns=file.schema_arrow, metadata=file.metadata, size_bytes=source.size())
    except FileNotFoundError as error:
        raise checks.missing_file(uri) from error
    except pa.ArrowInvalid as error:
        raise checks.damaged_file(uri, error) from error


def _refuse_type(uri: str, column: str, kind: pa.DataType) -> None:
    """Refuse types that this package's readers and Iceberg's do not all read alike.

    :raises InvalidInput: names the file and the column.
    """
    plain_type(kind, column) if not pa.types.is_timestamp(kind) else None
    for part in _scalars(kind):
        unsigned = pa.types.is_unsigned_integer(part)
        timed = (pa.types.is_timestamp(part) or pa.types.is_time(part)) and part.unit != "us"
        if unsigned or timed:
            raise InvalidInput(
                field=f"column {column}",
                value=f"{part} in {uri}",
                expected="a type that all readers of Iceberg tables read alike: no unsigned number, and times in "
                "microseconds (Spark writes them with spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS)",
                next_step="copy the rows by a job instead: epoch.write casts them.",
            )


def _scalars(kind: pa.DataType) -> Iterator[pa.DataType]:
    if not pa.types.is_nested(kind):
        yield kind.value_type if pa.types.is_dictionary(kind) else kind
        return
    for index in range(kind.num_fields):
        yield from _scalars(kind.field(index).type)


def _together(table: Table, footers: Mapping[str, Footer]) -> pa.Schema:
    """Return the columns that the files have together; one that a file lacks is null there.

    :raises InvalidInput: no file, some with ids and some without, or a column with two types; names the file.
    """
    found: dict[object, pa.Field] = {}
    numbered = {uri: any(True for _ in known_ids(footer.columns)) for uri, footer in footers.items()}
    if len(set(numbered.values())) != 1:
        raise InvalidInput(
            field="files",
            value=sorted(footers)[:1] or [],
            expected="at least one file, and all with column ids or all without",
            next_step="add those of one kind in one epoch; an epoch without files writes an empty DataFrame.",
            table=table.name,
        )
    for uri, footer in footers.items():
        for field in footer.columns:
            number = field_id(field)
            plain = pa.field(field.name, plain_type(field.type, field.name), metadata=field.metadata)
            known = found.setdefault(number if number is not None else field.name, plain)
            if known.type != plain.type:
                raise InvalidInput(
                    field=f"column {field.name}",
                    value=f"{plain.type} in {uri}",
                    expected=f"{known.type}, as the other files have it",
                    next_step="copy the rows by a job instead: epoch.write casts them.",
                    table=table.name,
                )
    return pa.schema(list(found.values()))


# --- values in folders' names ------------------------------------------------------------------------------------


def in_path(table: Table, uri: str, field: pa.Field) -> Any:
    """Return the value that the folders of *uri* give a column, as in Iceberg's partition tuples; None for null.

    :raises InvalidInput: no folder is named after the column, or its value is not of the column's type.
    """
    found = [match for match in map(_IN_FOLDER.fullmatch, uri.split("/")) if match]
    texts = [match["value"] for match in found if unquote(match["column"]) == field.name]
    if not texts:
        raise InvalidInput(
            field="in_paths",
            value=uri,
            expected=f"a folder {field.name}=…",
            next_step=f"leave out {field.name!r}, or add files below such folders.",
            table=table.name,
        )
    text = unquote(texts[-1])
    if text == _NO_VALUE:
        return None
    try:
        return task_writer.plain(pc.cast(pa.scalar(text), field.type))
    except pa.ArrowException as error:
        raise InvalidInput(
            field="in_paths",
            value=f"{field.name}={text}",
            expected=f"a value of the type {field.type} ({error})",
            table=table.name,
        ) from error
