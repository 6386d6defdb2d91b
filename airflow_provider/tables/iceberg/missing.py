"""Missing files of versions and of staged output (I6). Reads metadata, no rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile

from airflow_provider.domain.interval import from_micros
from airflow_provider.domain.version import Committable
from airflow_provider.tables import storage
from airflow_provider.tables.base import MissingFile
from airflow_provider.tables.iceberg import manifest_files, manifests, spans

_AT_ONCE = 1_000
"""Number of files to look up in one call of the file system."""


def missing(io: FileIO, lists: Sequence[str], staged: Sequence[Committable]) -> list[MissingFile]:
    """Return the missing lists, manifests and data files of the versions *lists* and of *staged* output."""
    gone: dict[str, MissingFile] = {}
    named: dict[str, tuple[spans.Span, int]] = {}
    seen: set[str] = set()
    for manifest in _manifests(io, lists, staged, gone):
        if manifest.manifest_path in seen:
            continue
        seen.add(manifest.manifest_path)
        try:
            entries = manifest_files.entries(io, manifest)
        except FileNotFoundError:
            gone[manifest.manifest_path] = MissingFile(uri=manifest.manifest_path)
            continue
        for entry in entries:
            file = entry.data_file
            named[file.file_path] = spans.span_of(file), file.file_size_in_bytes
    uris = list(named)
    for start in range(0, len(uris), _AT_ONCE):
        some = uris[start : start + _AT_ONCE]
        found = storage.sizes(some)
        for uri in some:
            span, size_bytes = named[uri]
            if found.get(uri) != size_bytes:  # written anew: only files of other programs can be
                low, high = map(from_micros, span)
                gone[uri] = MissingFile(uri=uri, barrier=high, since=None if low == high else low)
    return list(gone.values())


def _manifests(
    io: FileIO, lists: Sequence[str], staged: Sequence[Committable], gone: dict[str, MissingFile]
) -> Iterator[ManifestFile]:
    """Yield the manifests of *lists* and *staged*; add missing lists to *gone*."""
    for uri in dict.fromkeys(lists):
        try:
            yield from manifests.live(manifest_files.read_list(io, uri))
        except FileNotFoundError:
            gone[uri] = MissingFile(uri=uri)
    for output in staged:
        yield from (manifests.staged(part, 0) for part in output.parts)
