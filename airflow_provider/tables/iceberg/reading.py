"""Reading a state: from the manifest list that its publish recorded, columns matched by id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestFile

from airflow_provider.domain.cut import State
from airflow_provider.domain.interval import from_micros, micros
from airflow_provider.domain.topology import TableKind
from airflow_provider.tables import checks, parquet_files
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.iceberg import manifest_files, manifests

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

    def all_files(self, location: str) -> list[str]:
        """The files of all slices that the list at *location* leads to."""
        return [uri for manifest in self._listed(location) for _, uri in self._files_in(manifest)]

    def lists_all(self, location: str, state: State) -> bool:
        """Whether the list at *location* leads to every file of *state*, too, as one of the same epoch."""
        if state.ref is not None and state.ref.location == location:
            return True
        listed = {file for manifest in self._listed(location) for file in self._files_in(manifest)}
        return all(file in listed for file in self._committed(state) if _contains(state, file[0]))

    def read(self, state: State, target: pa.Schema) -> pa.Table:
        """:raises Unavailable: a file is missing."""
        tables = list(self.scan(state, target))
        return pa.concat_tables(tables) if tables else target.empty_table()

    def scan(self, state: State, target: pa.Schema) -> Iterator[pa.Table]:
        """The rows file by file."""
        tables = (parquet_files.read(uri, target) for uri in self.files(state))
        return (_of_one_epoch(one, state) if state.kind is TableKind.FULL else one for one in tables)

    def described(self, state: State) -> list[DataFile]:
        """What the manifests say about the files of *state*: counts and bounds, which are not remembered."""
        wanted = set(self.files(state))
        staged = (manifests.staged(part, 0) for one in state.staged for part in one.committable.parts)
        entries = (
            entry
            for one in (*self._manifests(state), *staged)
            for entry in manifest_files.entries(self._io, one)
        )
        # Slices of a full table may share a file: each says of it what holds for its own rows.
        found = {
            entry.data_file.file_path: entry.data_file
            for entry in entries
            if entry.data_file.file_path in wanted and _contains(state, manifests.barrier_of(entry))
        }
        return list(found.values())

    def _committed(self, state: State) -> Iterator[File]:
        for manifest in self._manifests(state):
            yield from self._files_in(manifest)

    def _manifests(self, state: State) -> Iterator[ManifestFile]:
        """Those that may hold committed files of *state*."""
        if state.ref is None:
            return
        high = micros(state.barrier)
        low = None if state.low is None or state.kind is TableKind.FULL else micros(state.low)
        for manifest in self._listed(state.ref.location):
            bounds = manifests.epochs_of(manifest)
            if bounds is None or (bounds[0] <= high and (low is None or bounds[1] > low)):
                yield manifest

    def _read_list(self, uri: str) -> tuple[ManifestFile, ...]:
        try:
            return tuple(manifest_files.read_list(self._io, uri))
        except FileNotFoundError as error:
            raise checks.missing_file(uri) from error

    def _read_manifest(self, manifest: ManifestFile) -> tuple[File, ...]:
        try:
            found = manifest_files.entries(self._io, manifest)
        except FileNotFoundError as error:
            raise checks.missing_file(manifest.manifest_path) from error
        return tuple((manifests.barrier_of(entry), entry.data_file.file_path) for entry in found)


def _contains(state: State, barrier: int) -> bool:
    return checks.in_state(state, from_micros(barrier))


def _of_one_epoch(rows: pa.Table, state: State) -> pa.Table:
    """All rows of a full table's state are its barrier's, whenever the file was written that they lie in."""
    index = rows.schema.get_field_index(EPOCH_COLUMN)
    if index < 0:
        return rows
    field = rows.schema.field(index)
    barrier = pa.repeat(pa.scalar(state.barrier, field.type), rows.num_rows)
    return rows.set_column(index, field, barrier)
