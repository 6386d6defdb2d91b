"""Reading a state: from the manifest list that its publish recorded, columns matched by id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile

from airflow_provider.domain.cut import State
from airflow_provider.domain.interval import from_micros, micros
from airflow_provider.domain.topology import TableKind
from airflow_provider.tables import checks, storage
from airflow_provider.tables.columns import field_id
from airflow_provider.tables.iceberg import manifests

File = tuple[int, str]
"""Barrier (microseconds) and URI of a data file."""


class StateReader:
    """Finds and reads the files of states. What it has read of manifests it keeps: they never change."""

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._files_in: Callable[[ManifestFile], tuple[File, ...]] = lru_cache(maxsize=1024)(
            self._read_manifest
        )
        self._listed: Callable[[str], tuple[ManifestFile, ...]] = lru_cache(maxsize=64)(self._read_list)

    def files(self, state: State) -> list[str]:
        """:raises Unavailable: a manifest or the list is missing."""
        replaced = {micros(one.interval.end) for one in state.staged}
        committed = (one for one in self._committed(state) if one[0] not in replaced)
        staged = (
            file
            for one in state.staged
            for part in one.committable.parts
            for file in self._files_in(manifests.staged(part, 0))
        )
        return [uri for found in (committed, staged) for barrier, uri in found if _contains(state, barrier)]

    def read(self, state: State, target: pa.Schema) -> pa.Table:
        """:raises Unavailable: a file is missing."""
        tables = [_read_file(uri, target) for uri in self.files(state)]
        return pa.concat_tables(tables) if tables else target.empty_table()

    def _committed(self, state: State) -> Iterator[File]:
        if state.ref is None:
            return
        high = micros(state.barrier)
        low = None if state.low is None or state.kind is TableKind.FULL else micros(state.low)
        for manifest in self._listed(state.ref.location):
            bounds = manifests.epochs_of(manifest)
            if bounds is None or (bounds[0] <= high and (low is None or bounds[1] > low)):
                yield from self._files_in(manifest)

    def _read_list(self, uri: str) -> tuple[ManifestFile, ...]:
        try:
            return tuple(manifests.read_list(self._io, uri))
        except FileNotFoundError as error:
            raise checks.missing_file(uri) from error

    def _read_manifest(self, manifest: ManifestFile) -> tuple[File, ...]:
        try:
            found = manifests.entries(self._io, manifest)
        except FileNotFoundError as error:
            raise checks.missing_file(manifest.manifest_path) from error
        return tuple((manifests.barrier_of(entry), entry.data_file.file_path) for entry in found)


def _contains(state: State, barrier: int) -> bool:
    return checks.in_state(state, from_micros(barrier))


def _read_file(uri: str, target: pa.Schema) -> pa.Table:
    root, path = storage.split(uri)
    try:
        with _opened(root).open_input_file(path) as source, pq.ParquetFile(source) as file:
            found = {field_id(field): field for field in file.schema_arrow}
            wanted = [found[number].name for number in map(field_id, target) if number in found]
            rows = file.read(columns=wanted, use_threads=False)
    except FileNotFoundError as error:
        raise checks.missing_file(uri) from error
    except pa.ArrowInvalid as error:
        raise checks.damaged_file(uri, error) from error
    return _projected(rows, target)


_opened = lru_cache(maxsize=16)(storage.open_root)


def _projected(rows: pa.Table, target: pa.Schema) -> pa.Table:
    by_id = {field_id(field): index for index, field in enumerate(rows.schema)}
    columns = []
    for field in target:
        index = by_id.get(field_id(field))
        if index is None:
            columns.append(pa.nulls(rows.num_rows, field.type))
        else:
            given = rows.schema.field(index).type
            chunks = [project(chunk, given, field.type) for chunk in rows.column(index).chunks]
            columns.append(pa.chunked_array(chunks, field.type))
    return pa.table(columns, schema=target)


def project(array: pa.Array, given: pa.DataType, wanted: pa.DataType) -> pa.Array:
    """Return *array* as *wanted*: parts of structs matched by id, null where there are none."""
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
