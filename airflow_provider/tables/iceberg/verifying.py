"""Check that staged output is complete before it is published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow.fs as pafs
from pyiceberg.io import FileIO

from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import Committable, Part
from airflow_provider.tables import checks, storage
from airflow_provider.tables.iceberg import manifest_files, manifests

_LISTED_TOGETHER = 16
"""Number of staging directories to list concurrently: each takes a request to an object store."""


def verify(io: FileIO, table: Table, output: Sequence[Committable]) -> None:
    """Refuse incomplete *output*; see :meth:`TableFormat.verify`.

    :raises Unavailable: names the first file that is missing or has another size.
    """
    filled = [committable for committable in output if committable.parts]
    if len(filled) < 2:
        lost = [_lost(io, committable) for committable in filled]
    else:
        with ThreadPoolExecutor(_LISTED_TOGETHER) as threads:
            lost = list(threads.map(lambda committable: _lost(io, committable), filled))
    for uri in lost:
        if uri is not None:
            raise checks.lost_output(table, uri)


def _lost(io: FileIO, committable: Committable) -> str | None:
    """Return the URI of a file of *committable* that is missing or has another size; None if all are there."""
    sizes = _listed(committable.place)
    for part in committable.parts:
        if sizes.get(storage.split(part.uri)[1]) != part.size_bytes:
            return part.uri
    for part in committable.parts:
        if manifests.added_columns(part) is not None and (uri := _changed(io, part)):
            return uri
    own = [
        part
        for part in committable.parts
        if manifests.carried_barrier(part) is None and manifests.added_columns(part) is None
    ]
    if not own:
        return None
    listed = manifests.names_digest((path, size) for path, size in sizes.items() if path.endswith(".parquet"))
    if {manifests.names(part) for part in own} == {listed}:
        return None
    # The directory also has files of failed tasks: only the manifest names those of the output.
    named = _named(io, own)
    return next((uri for uri, size in named if sizes.get(storage.split(uri)[1]) != size), None)


def _listed(place: str) -> Mapping[str, int]:
    """Return the size in bytes of every file at *place*, by path."""
    filesystem, path = storage.filesystem(place.rstrip("/"))
    selector = pafs.FileSelector(path, recursive=True, allow_not_found=True)
    return {info.path: info.size for info in filesystem.get_file_info(selector) if info.is_file}


def _changed(io: FileIO, part: Part) -> str | None:
    """Return the URI of a file of another program that is missing or has another size; None if all are there."""
    named = dict(_named(io, [part]))
    sizes = storage.sizes(named)
    return next((uri for uri, size in named.items() if sizes.get(uri) != size), None)


def _named(io: FileIO, parts: Sequence[Part]) -> Iterator[tuple[str, int]]:
    """Yield URI and size in bytes of every file that *parts* name."""
    for part in parts:
        for entry in manifest_files.entries(io, manifests.staged(part, 0)):
            yield entry.data_file.file_path, entry.data_file.file_size_in_bytes
