"""Missing files of versions and of staged output (I6), damaged ones among them. Reads metadata, no rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile

from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.interval import from_micros
from airflow_provider.domain.version import Committable
from airflow_provider.tables import storage
from airflow_provider.tables.base import MissingFile
from airflow_provider.tables.iceberg import manifest_files, manifests, spans

_AT_ONCE = 1_000
"""Number of files to look up in one call of the file system."""


def missing(io: FileIO, lists: Sequence[str], staged: Sequence[Committable]) -> list[MissingFile]:
    """Return the lists, manifests and data files of the versions *lists* and of *staged* output that are not whole."""
    gone: dict[str, MissingFile] = {}
    named: dict[str, tuple[spans.Span, int]] = {}
    seen: set[str] = set()
    for manifest, epochs in _manifests(io, lists, staged, gone):
        if manifest.manifest_path in seen:
            continue
        seen.add(manifest.manifest_path)
        try:
            entries = manifest_files.entries(io, manifest)
        except (FileNotFoundError, Unavailable):
            gone[manifest.manifest_path] = _missing(manifest.manifest_path, epochs)
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
                gone[uri] = _missing(uri, span)
    return list(gone.values())


def _missing(uri: str, span: spans.Span | None) -> MissingFile:
    """Return the missing file at *uri*. :param span: the epochs whose rows it has, or names; None if not known."""
    if span is None:
        return MissingFile(uri=uri)
    low, high = map(from_micros, span)
    return MissingFile(uri=uri, barrier=high, since=None if low == high else low)


def _manifests(
    io: FileIO, lists: Sequence[str], staged: Sequence[Committable], gone: dict[str, MissingFile]
) -> Iterator[tuple[ManifestFile, spans.Span | None]]:
    """Yield the manifests of *lists* with their epochs, and those of *staged*; add missing lists to *gone*."""
    for uri in dict.fromkeys(lists):
        try:
            listed = manifest_files.read_list(io, uri)
        except (FileNotFoundError, Unavailable):
            gone[uri] = MissingFile(uri=uri)
            continue
        yield from ((manifest, manifests.epochs_of(manifest)) for manifest in manifests.live(listed))
    for output in staged:
        yield from ((manifests.staged(part, 0), None) for part in output.parts)
