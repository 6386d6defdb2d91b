"""Parquet files, read by column id through :mod:`~airflow_provider.tables.storage`.

:func:`batches` also runs in Spark's workers, where it is sent by value: it needs pyarrow and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider.tables import checks
from airflow_provider.tables.added_values import OWN, Added
from airflow_provider.tables.columns import field_id, known_ids, with_ids_of
from airflow_provider.tables.statistics import Clip
from airflow_provider.tables.storage import filesystem, open_root, split

_FOOTERS_AT_ONCE = 16
_REMEMBERED = 50_000
"""Number of files with column ids that a process remembers, by URI."""

_opened = lru_cache(maxsize=16)(open_root)


class Changed(pa.ArrowInvalid):  # type: ignore[misc]
    """File of another program that has another size than when it was added."""


class NoColumnIds(pa.ArrowInvalid):  # type: ignore[misc]
    """File whose columns have no ids, so that they cannot be matched; each would be read as nulls."""


@contextmanager
def _told(uri: str) -> Iterator[None]:
    """Translate errors of reading the file at *uri*.

    :raises Unavailable: it is missing or damaged, or its columns have no ids. :raises OSError: it cannot be read now.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise checks.missing_file(uri) from error
    except NoColumnIds as error:
        raise checks.unnumbered_file(uri) from error
    except pa.ArrowInvalid as error:
        raise checks.damaged_file(uri, error) from error
    except OSError as error:  # Arrow says so of content that it cannot decompress, too
        if not _is_damaged(uri):
            raise
        raise checks.damaged_file(uri, error) from error


def _is_damaged(uri: str) -> bool:
    """Return whether a file cannot be decoded although all of its bytes can be read: no disk or network is at fault."""
    root, path = split(uri)
    try:
        with _opened(root).open_input_stream(path) as source:
            content = source.readall()
    except OSError:
        return False
    try:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            for _ in file.iter_batches(use_threads=False):
                pass
    except (OSError, pa.ArrowInvalid):
        return True
    return False


def read(uri: str, target: pa.Schema, added: Added = OWN) -> pa.Table:
    """Return the columns *target* of the file at *uri*.

    :raises Unavailable: the file is missing or damaged, or its columns have no ids and no known names.
    """
    root, path = split(uri)
    with _told(uri), _opened(root).open_input_file(path) as source, pq.ParquetFile(source) as file:
        _refuse_changed(source, added, uri)
        found = _numbered(file.schema_arrow, added, uri)
        rows = file.read(columns=_names(found, target), use_threads=False)
    return _projected(rows, found, target, added)


def read_clipped(uri: str, target: pa.Schema, epoch: pa.Field, clip: Clip) -> pa.Table:
    """Return the columns *target* of those rows of the file at *uri* that *clip* leaves.

    :param epoch: the epoch column, which *target* may lack.
    :raises Unavailable: the file is missing or damaged, or its columns have no ids.
    """
    wanted = target if epoch.name in target.names else target.append(epoch)
    root, path = split(uri)
    with _told(uri), _opened(root).open_input_file(path) as source, pq.ParquetFile(source) as file:
        found = _numbered(file.schema_arrow, OWN, uri)
        groups = _groups_within(file, found, epoch, clip)
        rows = file.read_row_groups(groups, columns=_names(found, wanted), use_threads=False)
    every = _projected(rows, found, wanted, OWN)
    return every.filter(_within(every.column(epoch.name), clip)).select(target.names)


def _within(epochs: pa.ChunkedArray, clip: Clip) -> pa.ChunkedArray:
    """Return for each of *epochs* whether *clip* leaves it."""
    inside = pc.less_equal(epochs, pa.scalar(clip.high, epochs.type))
    if clip.low is not None:
        inside = pc.and_(inside, pc.greater(epochs, pa.scalar(clip.low, epochs.type)))
    if clip.without:
        inside = pc.and_(inside, pc.invert(pc.is_in(epochs, value_set=pa.array(clip.without, epochs.type))))
    return inside


def _groups_within(file: pq.ParquetFile, found: pa.Schema, epoch: pa.Field, clip: Clip) -> list[int]:
    """Return the row groups of *file* that may have rows that *clip* leaves."""
    name = next(column.name for column in found if field_id(column) == field_id(epoch))
    metadata = file.metadata
    index = next(at for at in range(len(metadata.schema)) if metadata.schema.column(at).path == name)
    kept = []
    for number in range(metadata.num_row_groups):
        said = metadata.row_group(number).column(index).statistics
        if said is not None and said.has_min_max:
            low, high = said.min, said.max
            if low > clip.high or (clip.low is not None and high <= clip.low):
                continue
        kept.append(number)
    return kept


def batches(uri: str, target: pa.Schema, added: Added = OWN) -> Iterator[pa.RecordBatch]:
    """Yield the columns *target* of the file at *uri* in batches.

    :raises OSError: the file is missing. :raises NoColumnIds: its columns have no ids and no known names.
    :raises pyarrow.ArrowInvalid: it is damaged, or (:class:`Changed`) has another size than when it was added.
    """
    system, path = filesystem(uri)
    with system.open_input_file(path) as source, pq.ParquetFile(source) as file:
        _refuse_changed(source, added, uri)
        found = _numbered(file.schema_arrow, added, uri)
        for rows in file.iter_batches(columns=_names(found, target), use_threads=False):
            yield from _projected(pa.Table.from_batches([rows]), found, target, added).to_batches()


def streamed(uri: str, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield :func:`batches` of a file of this package.

    :raises Unavailable: the file is missing or damaged, or its columns have no ids.
    """
    with _told(uri):
        yield from batches(uri, target)


@lru_cache(maxsize=64)
def rows_by_epoch(uri: str, column: str = "_epoch") -> tuple[tuple[int, int], ...]:
    """Return each epoch (microseconds) in the file at *uri*, of this package, with the number of its rows.

    :raises Unavailable: the file is missing or damaged.
    """
    root, path = split(uri)
    with _told(uri), _opened(root).open_input_file(path) as source, pq.ParquetFile(source) as file:
        epochs = file.read(columns=[column], use_threads=False).column(0)
    counted = pc.value_counts(epochs.cast(pa.int64()).combine_chunks())
    return tuple((int(pair["values"]), int(pair["counts"])) for pair in counted.to_pylist())


def first_without_ids(uris: Iterable[str]) -> str | None:
    """Return the first of *uris* whose file has no column ids; reads footers only, those of files with ids once.

    :raises Unavailable: a file is missing or damaged.
    """
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        named = list(uris)
        for uri, unnumbered in zip(named, pool.map(_lacks_ids, named), strict=True):
            if unnumbered:
                pool.shutdown(wait=False, cancel_futures=True)
                return uri
    return None


def first_lacking(columns: Iterable[tuple[str, int]]) -> int | None:
    """Return the first of *columns*, each a URI and an id, that its file lacks; reads footers only, each of them once.

    :raises Unavailable: a file is missing or damaged.
    """
    asked = list(columns)
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        for (_, number), found in zip(asked, pool.map(_ids_in, [uri for uri, _ in asked]), strict=True):
            if number not in found:
                pool.shutdown(wait=False, cancel_futures=True)
                return number
    return None


@lru_cache(maxsize=_REMEMBERED)
def _ids_in(uri: str) -> frozenset[int]:
    """Return the ids of the columns of a file, and of their parts. :raises Unavailable: it is missing or damaged."""
    root, path = split(uri)
    with _told(uri), _opened(root).open_input_file(path) as source, pq.ParquetFile(source) as file:
        return frozenset(known_ids(file.schema_arrow))


def _lacks_ids(uri: str) -> bool:
    try:
        _check_ids(uri)
    except NoColumnIds:
        return True
    return False


@lru_cache(maxsize=_REMEMBERED)
def _check_ids(uri: str) -> None:
    """Refuse a file without column ids; files never change, so those that have ids are remembered.

    :raises NoColumnIds: no column has an id. :raises Unavailable: the file is missing or damaged.
    """
    root, path = split(uri)
    with _told(uri), _opened(root).open_input_file(path) as source, pq.ParquetFile(source) as file:
        found = file.schema_arrow
    _numbered(found, OWN, uri)


def _is_unnumbered(found: pa.Schema) -> bool:
    """Return whether a file has columns and none of them has an id: then a missing id does not mean a later column."""
    return len(found) > 0 and all(field_id(field) is None for field in found)


def _refuse_changed(source: Any, added: Added, uri: str) -> None:
    """:raises Changed: the file has another size than when it was added."""
    if added.size_bytes is not None and source.size() != added.size_bytes:
        raise Changed(f"{uri} has {source.size()} bytes; when it was added it had {added.size_bytes}")


def _numbered(found: pa.Schema, added: Added, uri: str) -> pa.Schema:
    """Return the file's columns with their ids.

    :raises NoColumnIds: no column of the file has an id, and their names are not known.
    """
    if not _is_unnumbered(found):
        return found
    if added.named is None:
        raise NoColumnIds(f"{uri} has no column ids: its columns cannot be told apart.")
    return with_ids_of(found, added.named)


def _names(found: pa.Schema, target: pa.Schema) -> list[str]:
    """Return the file's own names of those columns of *target* that it has."""
    names = {field_id(column): column.name for column in found}
    return [names[number] for number in map(field_id, target) if number in names]


def _projected(rows: pa.Table, found: pa.Schema, target: pa.Schema, added: Added) -> pa.Table:
    """Return *rows*, columns of a file whose columns are *found*, as columns of *target*."""
    by_id = {field_id(column): column for column in found if column.name in rows.schema.names}
    columns = []
    for wanted in target:
        number = field_id(wanted)
        given = by_id.get(number)
        if given is not None:
            chunks = [project(chunk, given.type, wanted.type) for chunk in rows.column(given.name).chunks]
            columns.append(pa.chunked_array(chunks, wanted.type))
        elif number is not None and number in added.constants:
            constant = partition_scalar(added.constants[number], wanted.type)
            columns.append(pa.repeat(constant, rows.num_rows))
        else:
            columns.append(pa.nulls(rows.num_rows, wanted.type))
    return pa.table(columns, schema=target)


def partition_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """Return *value*, of a partition tuple of Iceberg (days, microseconds), as a scalar of *kind*."""
    if value is not None and pa.types.is_temporal(kind):
        return pa.scalar(value, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)
    return pa.scalar(value, kind)


def project(array: pa.Array, given: pa.DataType, wanted: pa.DataType) -> pa.Array:
    """Return *array* as type *wanted*: fields of structs are matched by id, a missing field becomes null."""
    if not pa.types.is_nested(wanted):
        return array.cast(wanted)
    nulls = array.is_null()
    if pa.types.is_struct(wanted):
        parts = {field_id(part): index for index, part in enumerate(given)}
        children = [
            project(array.field(parts[number]), given.field(parts[number]).type, part.type)
            if (number := field_id(part)) in parts
            else pa.nulls(len(array), part.type)
            for part in wanted
        ]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=nulls)
    offsets = pa.array(array.offsets.to_numpy(zero_copy_only=False), array.offsets.type)
    if pa.types.is_map(wanted):
        keys = project(array.keys, given.key_type, wanted.key_type)
        items = project(array.items, given.item_type, wanted.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=wanted, mask=nulls)
    values = project(array.values, given.value_type, wanted.value_type)
    return pa.ListArray.from_arrays(offsets, values, type=wanted, mask=nulls)
