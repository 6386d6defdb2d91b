"""Read a state from the manifest list that its publish recorded; columns are matched by id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestFile

from airflow_provider.domain.cut import State
from airflow_provider.domain.interval import from_micros, micros
from airflow_provider.tables import checks, parquet_files
from airflow_provider.tables.added_values import OWN, Added
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.filters import Filters
from airflow_provider.tables.iceberg import column_names, manifest_files, manifests, pruning, schemas, spans
from airflow_provider.tables.locations import is_own
from airflow_provider.tables.statistics import Clip, SizedFiles


class File(NamedTuple):
    """A data file of one slice, or of the slices of a unit.

    :param span: their epochs. :param partition: its partition values.
    :param columns: ids of the columns that these are values of; None for values of another kind, such as a day.
    """

    span: spans.Span
    uri: str
    rows: int
    size_bytes: int
    partition: tuple[Any, ...]
    columns: tuple[int | None, ...]


class StateReader:
    """Finds and reads the files of states. Caches manifests, which never change."""

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._files_in: Callable[[ManifestFile], tuple[File, ...]] = lru_cache(maxsize=1024)(
            self._read_manifest
        )
        self._listed: Callable[[str], tuple[ManifestFile, ...]] = lru_cache(maxsize=64)(self._read_list)

    def files(self, state: State) -> list[str]:
        """Return the URIs of the data files of *state*.

        :raises Unavailable: a manifest or the list is missing.
        """
        return [file.uri for file in self._files_of(state)]

    def sized(self, state: State, filters: Filters | None = None) -> SizedFiles:
        """Return :meth:`files` with the sums of their rows and bytes, without those that have no row for *filters*.

        :raises Unavailable: likewise.
        """
        files = self._files_for(state, filters)
        return SizedFiles(
            files=[file.uri for file in files],
            rows=sum(file.rows for file in files),
            size_bytes=sum(file.size_bytes for file in files),
            added=self._added(state, files),
            clip=self._clip(state, files),
        )

    def _added(self, state: State, files: Sequence[File]) -> list[Added]:
        """Return for each of *files* what it does not say of its rows; nothing if none is of another program."""
        directory, table_uuid = _table_of(state)
        own = [is_own(file.uri, directory) for file in files]
        if all(own):
            return []
        names = column_names.read_names(self._io, directory.rstrip("/"), table_uuid)
        named = None if names is None else schemas.to_arrow(names)
        return [
            OWN
            if is_ours
            else Added(
                constants={
                    number: value
                    for number, value in zip(file.columns, file.partition, strict=True)
                    if number is not None
                },
                named=named,
                size_bytes=file.size_bytes,
            )
            for file, is_ours in zip(files, own, strict=True)
        ]

    def _files_of(self, state: State) -> Iterator[File]:
        replaced = {micros(output.interval.end) for output in state.staged}
        committed = (
            file for file in self._committed(state) if len({*file.span}) > 1 or file.span[0] not in replaced
        )
        staged = (
            file
            for output in state.staged
            for part in output.committable.parts
            for file in self._files_in(manifests.staged(part, 0))
        )
        return (file for files in (committed, staged) for file in files if spans.overlaps(state, file.span))

    def _clip(self, state: State, files: Sequence[File]) -> Clip | None:
        """Return which of *files* have rows beside those of *state*, and which rows are its own; None if none has."""
        replaced = {micros(output.interval.end) for output in state.staged}
        held = frozenset(
            file.uri
            for file in files
            if file.span[0] < file.span[1]
            and not (
                spans.is_inside(state, file.span)
                and not any(file.span[0] <= barrier <= file.span[1] for barrier in replaced)
            )
        )
        if not held:
            return None
        return Clip(
            files=held,
            low=state.low,
            high=state.barrier,
            without=tuple(from_micros(barrier) for barrier in sorted(replaced)),
        )

    def all_files(self, location: str) -> list[str]:
        """Return the URIs of the files of all slices in the list at *location*."""
        return [file.uri for manifest in self._listed(location) for file in self._files_in(manifest)]

    def lists_all(self, location: str, state: State) -> bool:
        """Return whether the list at *location* has every committed file of *state*, in the same epoch."""
        if state.ref is not None and state.ref.location == location:
            return True
        listed = {file[:2] for manifest in self._listed(location) for file in self._files_in(manifest)}
        return all(file[:2] in listed for file in self._committed(state) if spans.overlaps(state, file.span))

    def read(self, state: State, target: pa.Schema, epoch: pa.Field) -> pa.Table:
        """Return the rows of *state*. :param epoch: the epoch column, which *target* may lack.

        :raises Unavailable: a file is missing.
        """
        tables = list(self.scan(state, target, epoch))
        return pa.concat_tables(tables) if tables else target.empty_table()

    def scan(
        self, state: State, target: pa.Schema, epoch: pa.Field, filters: Filters | None = None
    ) -> Iterator[pa.Table]:
        """Yield the rows file by file; of a unit file those of the state's epochs alone.

        :param filters: files that have no row for them are left out.
        """
        files = self._files_for(state, filters)
        added, clip = self._added(state, files), self._clip(state, files)
        each = added or [OWN] * len(files)
        pieces = (
            parquet_files.read_clipped(file.uri, target, epoch, clip)
            if clip is not None and file.uri in clip.files
            else parquet_files.read(file.uri, target, others)
            for file, others in zip(files, each, strict=True)
        )
        return (_of_one_epoch(rows, state) if state.kind.shares_files else rows for rows in pieces)

    def described(self, state: State, epoch: pa.Field) -> list[DataFile]:
        """Return the manifests' descriptions of the files of *state*, with counts and bounds; not cached.

        Of a unit file that has rows of other epochs, too, rows are counted, and what is known of nulls is left out.
        """
        held = list(self._files_of(state))
        wanted, clip = {file.uri for file in held}, self._clip(state, held)
        # Slices of a full table may share a file: only the entry of this state's slice has its epoch's bounds.
        files = {
            file.file_path: file
            for file in self._entries(state)
            if file.file_path in wanted and spans.overlaps(state, spans.span_of(file))
        }
        if clip is not None:
            for uri in clip.files:
                own = parquet_files.read_clipped(uri, pa.schema([epoch]), epoch, clip)
                manifest_files.recount(files[uri], own.num_rows)
        return list(files.values())

    def _files_for(self, state: State, filters: Filters | None) -> list[File]:
        """Return the files of *state* that may have a row for *filters*."""
        files = list(self._files_of(state))
        if filters is None:
            return files
        may_have = pruning.test_of(filters)
        without = {file.file_path for file in self._entries(state) if not may_have(file)}
        return [file for file in files if file.uri not in without]

    def _entries(self, state: State) -> Iterator[DataFile]:
        """Yield what the manifests say of the files of *state*, and of some others; not cached."""
        staged = (manifests.staged(part, 0) for output in state.staged for part in output.committable.parts)
        for manifest in (*self._manifests(state), *staged):
            for entry in manifest_files.entries(self._io, manifest):
                yield entry.data_file

    def _committed(self, state: State) -> Iterator[File]:
        for manifest in self._manifests(state):
            yield from self._files_in(manifest)

    def _manifests(self, state: State) -> Iterator[ManifestFile]:
        """Yield the manifests that may have committed files of *state*."""
        if state.ref is None:
            return
        for manifest in self._listed(state.ref.location):
            bounds = manifests.epochs_of(manifest)
            if bounds is None or spans.may_have(state, bounds):
                yield manifest

    def _read_list(self, uri: str) -> tuple[ManifestFile, ...]:
        try:
            return tuple(manifests.live(manifest_files.read_list(self._io, uri)))
        except FileNotFoundError as error:
            raise checks.missing_file(uri) from error

    def _read_manifest(self, manifest: ManifestFile) -> tuple[File, ...]:
        try:
            content = manifest_files.content(self._io, manifest.manifest_path)
        except FileNotFoundError as error:
            raise checks.missing_file(manifest.manifest_path) from error
        columns = manifest_files.partition_columns(content, manifest.manifest_path)
        return tuple(
            File(
                span=spans.span_of(entry.data_file),
                uri=entry.data_file.file_path,
                rows=entry.data_file.record_count,
                size_bytes=entry.data_file.file_size_in_bytes,
                partition=tuple(entry.data_file.partition[index] for index in range(len(columns))),
                columns=columns,
            )
            for entry in manifest_files.entries_in(content, manifest)
        )


def _table_of(state: State) -> tuple[str, str]:
    """Return the URI of the metadata folder of the table of *state*, with a slash at its end, and its identity."""
    if state.ref is not None:
        return f"{state.ref.location.rpartition('/')[0]}/", state.ref.table_uuid
    if not state.staged:
        return "", ""
    output = state.staged[0].committable
    table, _data, _job, _attempt = output.place.rstrip("/").rsplit("/", 3)
    return f"{table}/metadata/", output.table_uuid


def _of_one_epoch(rows: pa.Table, state: State) -> pa.Table:
    """Set the epoch column of a full table's state to its barrier, also in files that an earlier epoch wrote."""
    index = rows.schema.get_field_index(EPOCH_COLUMN)
    if index < 0:
        return rows
    field = rows.schema.field(index)
    barrier = pa.repeat(pa.scalar(state.barrier, field.type), rows.num_rows)
    return rows.set_column(index, field, barrier)
