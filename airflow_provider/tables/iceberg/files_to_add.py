"""Look at files of other programs that are to become a slice: their addresses, their footers, their folders' names."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import Table
from airflow_provider.tables import storage
from airflow_provider.tables.added_files import FileScan, FilesToAdd
from airflow_provider.tables.columns import known_ids, plain_type
from airflow_provider.tables.iceberg import parquet_footers, task_writer
from airflow_provider.tables.iceberg.parquet_footers import Footer
from airflow_provider.tables.iceberg.scanned_files import whole_files
from airflow_provider.tables.locations import lies_in, plain_scheme
from airflow_provider.tables.partitioning import IDENTITY, fields_of

_AT_ONCE = 16
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_IN_FOLDER = re.compile(r"(?P<column>[^=/]+)=(?P<value>[^/]*)")
_DETOUR = re.compile(r"//|/\.{1,2}(/|$)")
_UNSAFE = frozenset("#?")
"""Characters that some readers take for the end of a path."""


# --- looking at files ------------------------------------------------------------------------------------------


def look_at(
    table: Table, files: Sequence[str] | FileScan, in_paths: Mapping[str, pa.DataType], folder: str
) -> FilesToAdd:
    """See :meth:`~airflow_provider.tables.added_files.FileAddingFormat.look_at`.

    :param folder: URI of the table's own folder, with a trailing slash.
    """
    if isinstance(files, Sequence):
        scanned, uris = None, files
    else:
        scanned = whole_files(files, table)
        uris = scanned.uris
    named = [f"file://{uri}" if uri.startswith("/") else storage.as_uri(uri) for uri in uris]
    _refuse_addresses(table, named, folder)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        footers = dict(zip(named, pool.map(partial(_footer, table), named), strict=True))
    for uri, footer in footers.items():
        parquet_footers.refuse_unlike(table, uri, footer)
    if scanned is not None:
        for uri, partition in zip(named, scanned.partitions, strict=True):
            _refuse_partition_only(table, uri, footers[uri], partition)
        found = scanned.columns
    else:
        found = _together(table, footers)
    more = _columns_in_paths(table, named, found, in_paths)
    _refuse_transforms(table, [*found.names, *in_paths])
    return FilesToAdd(
        uris=tuple(named),
        columns=pa.schema([*found, *more]),
        in_paths=tuple(in_paths),
        footers=footers,
        has_ids=scanned is not None,
    )


def _refuse_transforms(table: Table, columns: Sequence[str]) -> None:
    """:raises InvalidInput: files are separated by a transform, of which only the rows tell the value."""
    for text, field in zip(table.partition_by, fields_of(table.partition_by, columns), strict=True):
        if field.transform != IDENTITY:
            raise InvalidInput(
                field="partition_by",
                value=text,
                expected="columns as they are, for a table that takes files of other programs",
                next_step="leave it out of partition_by, or copy the rows by a job: epoch.write.",
                table=table.name,
            )


def _refuse_addresses(table: Table, named: Sequence[str], folder: str) -> None:
    """Refuse addresses before a file is read. None at all is a wrong filter more often than an empty epoch.

    :raises InvalidInput: no file; or a file is named twice, by an address that is not its only one, or is the table's
        own.
    """
    if not named:
        raise InvalidInput(
            field="files",
            value=[],
            expected="at least one file",
            next_step="correct the list, or the filter of the scan; let an epoch without files write an empty "
            "DataFrame.",
            table=table.name,
        )
    times = Counter(map(plain_scheme, named))
    for uri in named:
        root, path = storage.split(uri)
        is_local = root.startswith("file:")
        detour = os.path.realpath(path) != path if is_local else bool(_DETOUR.search(path))
        if (
            times[plain_scheme(uri)] > 1
            or lies_in(uri, folder.rstrip("/"))
            or not storage.serves(uri, folder)
            or detour
            or (root != "file:///" if is_local else not path or path.startswith("/"))
            or not _UNSAFE.isdisjoint(path)
        ):
            raise InvalidInput(
                field="files",
                value=uri,
                expected="files of other programs, each once and by its own path (no link, no .., no # or ?), outside "
                f"of {folder}, where this package reads: on a disk, S3 or the store of the table",
                table=table.name,
            )


def _footer(table: Table, uri: str) -> Footer:
    """:raises InvalidInput: there is no Parquet file."""
    filesystem, path = storage.filesystem(uri)
    kind = filesystem.get_file_info(path).type
    if kind is not pafs.FileType.File:
        what = "a folder" if kind is pafs.FileType.Directory else "nothing"
        raise _no_parquet(table, uri, f"there is {what}")
    try:
        with filesystem.open_input_file(path) as source, pq.ParquetFile(source) as file:
            return Footer(columns=file.schema_arrow, metadata=file.metadata, size_bytes=source.size())
    except pa.ArrowInvalid as error:
        raise _no_parquet(table, uri, str(error)) from error


def _no_parquet(table: Table, uri: str, found: str) -> InvalidInput:
    return InvalidInput(
        field="files",
        value=uri,
        expected=f"a Parquet file ({found})",
        next_step="correct the list of files, and try again.",
        table=table.name,
    )


def _refuse_partition_only(table: Table, uri: str, footer: Footer, partition: Mapping[int, str]) -> None:
    """Refuse a file of an Iceberg table that lacks ids, or a column that only its partition there tells.

    :param partition: names of the columns that partition the file there by their values, by id.
    """
    inside = {*known_ids(footer.columns)}
    missing = [name for number, name in partition.items() if number not in inside]
    if not inside or missing:
        raise InvalidInput(
            field="files",
            value=uri,
            expected="files with the ids of their table's columns"
            + (f", {missing[0]!r} among them, of which only the partition tells" if inside else ""),
            next_step="copy the rows by a job: epoch.read_source and epoch.write"
            + (
                "."
                if inside
                else "; or add the files by their URIs, if the names of their columns never changed."
            ),
            table=table.name,
        )


def _together(table: Table, footers: Mapping[str, Footer]) -> pa.Schema:
    """Return the columns that the files have together; one that a file lacks is null there.

    :raises InvalidInput: files with column ids, or a column with two types; names the file.
    """
    found: dict[str, pa.Field] = {}
    for uri, footer in footers.items():
        if any(True for _ in known_ids(footer.columns)):
            raise InvalidInput(
                field="files",
                value=uri,
                expected="files without column ids; those of an Iceberg table as a scan of it, which knows its columns",
                next_step="add table.scan(row_filter=…) of pyiceberg, or copy the rows by a job: epoch.write.",
                table=table.name,
            )
        for field in footer.columns:
            plain = pa.field(field.name, plain_type(field.type, field.name))
            known = found.setdefault(field.name, plain)
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


def _columns_in_paths(
    table: Table, uris: Sequence[str], found: pa.Schema, in_paths: Mapping[str, pa.DataType]
) -> list[pa.Field]:
    """Return the columns whose values are in the folders' names.

    :raises InvalidInput: the files have such a column, or a file has no value of it in its path.
    """
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
    for uri in uris:
        for field in more:
            in_path(table, uri, field)
    if more and any(True for _ in known_ids(found)):
        raise InvalidInput(
            field="in_paths",
            value=sorted(in_paths),
            expected="none for a scan: the table that the files are of has all columns",
            table=table.name,
        )
    return more


def refuse_unsaid(table: Table, uri: str, column: str) -> None:
    """Refuse a file that lacks a column which a folder's name has: its rows would have no value there.

    :raises InvalidInput: names the column.
    """
    folders = [match["column"] for match in map(_IN_FOLDER.fullmatch, uri.split("/")[:-1]) if match]
    if column in map(unquote, folders):
        raise InvalidInput(
            field="in_paths",
            value=uri,
            expected=f"the column {column!r} among in_paths: a folder has its value, and the file does not",
            next_step=f"in_paths='{column} …' with its type.",
            table=table.name,
        )


def in_path(table: Table, uri: str, field: pa.Field) -> Any:
    """Return the value that the folders of *uri* give a column, as in Iceberg's partition tuples; None for null.

    :raises InvalidInput: no folder is named after the column, or its value is not of the column's type.
    """
    found = [match for match in map(_IN_FOLDER.fullmatch, uri.split("/")[:-1]) if match]
    texts = [match["value"] for match in found if unquote(match["column"]) == field.name]
    if not texts:
        raise InvalidInput(
            field="in_paths",
            value=uri,
            expected=f"a folder {field.name}=…",
            next_step=f"leave out {field.name!r}, or add files below such folders.",
            table=table.name,
        )
    if texts[-1] == _NO_VALUE:
        return None
    try:
        text = unquote(texts[-1], errors="strict")
        return task_writer.plain(pc.cast(pa.scalar(text), field.type))
    except (pa.ArrowException, UnicodeDecodeError, OverflowError) as error:
        raise InvalidInput(
            field="in_paths",
            value=f"{field.name}={texts[-1]}",
            expected=f"a value of the type {field.type} ({error})",
            table=table.name,
        ) from error
