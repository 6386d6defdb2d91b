"""Rows that a version brings into the catalog's sight, and rows that it takes out of it.

Programs that follow changes read a snapshot's own entries: an added file's rows come, a deleted file's rows leave. So
a slice that comes into sight is added by the version that shows it, whichever commit wrote it, and a manifest of
deleted entries names what leaves, although a hidden slice keeps its files. See docs/decisions/shown.md.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyiceberg.manifest import ManifestEntry, ManifestFile

from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.version import Committable
from airflow_provider.tables.base import WrittenFile
from airflow_provider.tables.iceberg import manifest_files, manifests, spans

log = logging.getLogger(__name__)

_READ_AT_ONCE = 16
_File = tuple[int, str]
"""Least barrier (microseconds) and URI: with drafts, slices of several epochs may share a file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """Files, rows and bytes that come, or leave."""

    files: int = 0
    rows: int = 0
    size_bytes: int = 0

    def plus(self, outputs: Iterable[Committable]) -> Figures:
        """Return the figures with those of *outputs*."""
        found = list(outputs)
        return Figures(
            files=self.files + sum(output.files for output in found),
            rows=self.rows + sum(output.rows for output in found),
            size_bytes=self.size_bytes + sum(output.size_bytes for output in found),
        )

    def with_files(self, written: Sequence[WrittenFile]) -> Figures:
        """Return the figures with those of *written*."""
        return Figures(
            files=self.files + len(written),
            rows=self.rows + sum(file.rows for file in written),
            size_bytes=self.size_bytes + sum(file.size_bytes for file in written),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """Manifests of what the next version shows of the head's slices, and of what it shows no more.

    :param stays: the head shows their files, too. :param comes: the head hides their files.
    :param leaves: deleted entries, for the snapshot's list alone. :param lost: manifests of the head that are missing.
    """

    stays: list[ManifestFile]
    comes: list[ManifestFile]
    leaves: list[ManifestFile]
    coming: Figures
    leaving: Figures
    lost: list[ManifestFile]


def between(
    layout: manifests.Layout, pointed: Sequence[ManifestFile], shown: Sequence[ManifestFile], snapshot_id: int
) -> Changes:
    """Compare *pointed*, the live manifests that the head shows, with *shown*, those that the next version shows.

    Manifests on both sides are not read: a publish that only adds an epoch reads none.
    """
    kept = {manifest.manifest_path for manifest in shown}
    one_sided = [manifest for manifest in pointed if manifest.manifest_path not in kept]
    known = {manifest.manifest_path for manifest in pointed}
    left, lost = _left(layout, one_sided)
    stays: list[ManifestFile] = []
    came: list[ManifestEntry] = []
    for manifest in shown:
        if manifest.manifest_path in known:
            stays.append(manifest)
            continue
        same, new = _sorted_out(_entries(layout, manifest), left)
        came += new
        if same:
            stays.append(_only(layout, manifest, same, new, snapshot_id))
    return Changes(
        stays=stays,
        comes=list(_added(layout, came, snapshot_id)),
        leaves=list(_removed(layout, left.values(), snapshot_id)),
        coming=_figures(came),
        leaving=_figures(left.values()),
        lost=lost,
    )


def _left(
    layout: manifests.Layout, one_sided: Sequence[ManifestFile]
) -> tuple[dict[_File, ManifestEntry], list[ManifestFile]]:
    """Return the entries of manifests that only the head shows, and those manifests that are missing.

    The next version needs none of them: to compute an epoch again is the way out for one that is lost.
    """
    left: dict[_File, ManifestEntry] = {}
    lost = []
    with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
        reads = [pool.submit(_entries, layout, manifest) for manifest in one_sided]
        for manifest, read in zip(one_sided, reads, strict=True):
            try:
                left |= {_file(entry): manifest_files.bare(entry) for entry in read.result()}
            except (FileNotFoundError, Unavailable):
                log.warning(
                    "%s is lost or damaged: programs that follow changes are not told what left",
                    manifest.manifest_path,
                )
                lost.append(manifest)
    return left, lost


def _entries(layout: manifests.Layout, manifest: ManifestFile) -> list[ManifestEntry]:
    return manifest_files.entries(layout.io, manifest)


def _file(entry: ManifestEntry) -> _File:
    return spans.span_of(entry.data_file)[0], entry.data_file.file_path


def _sorted_out(
    entries: Iterable[ManifestEntry], left: dict[_File, ManifestEntry]
) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
    """Return those of *entries* that the head shows, taken out of *left*, and the others."""
    sides: dict[bool, list[ManifestEntry]] = {True: [], False: []}
    for entry in entries:
        sides[left.pop(_file(entry), None) is not None].append(entry)
    return sides[True], sides[False]


def _only(
    layout: manifests.Layout,
    manifest: ManifestFile,
    same: Sequence[ManifestEntry],
    new: Sequence[ManifestEntry],
    snapshot_id: int,
) -> ManifestFile:
    """Return *manifest* without the entries *new*."""
    if not new:
        return manifest
    return manifests.rewritten(layout, manifest.partition_spec_id, same, snapshot_id)


def _added(
    layout: manifests.Layout, entries: Iterable[ManifestEntry], snapshot_id: int
) -> Iterator[ManifestFile]:
    """Write manifests that add *entries*."""
    for spec_id, some in _pieces(entries):
        files = [entry.data_file for entry in some]
        spec, uri = layout.specs[spec_id], layout.new_uri(snapshot_id, files)
        yield manifests.write_added(layout.io, spec, layout.schema, uri, files, snapshot_id=snapshot_id)


def _removed(
    layout: manifests.Layout, entries: Iterable[ManifestEntry], snapshot_id: int
) -> Iterator[ManifestFile]:
    """Write manifests of deleted *entries*."""
    for spec_id, some in _pieces(entries):
        spec, uri = layout.specs[spec_id], layout.new_uri(snapshot_id)
        yield manifest_files.write_removed(layout.io, spec, layout.schema, uri, some, snapshot_id=snapshot_id)


def _pieces(entries: Iterable[ManifestEntry]) -> Iterator[tuple[int, list[ManifestEntry]]]:
    """Yield *entries* for each manifest, with their partition spec: near epochs, no more files than a fold copies."""
    by_spec: defaultdict[int, list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        by_spec[entry.data_file.spec_id].append(entry)
    most = manifests.MOST_COPIED_FILES
    for spec_id, of_spec in by_spec.items():
        ordered = sorted(of_spec, key=_file)
        yield from ((spec_id, ordered[start : start + most]) for start in range(0, len(ordered), most))


def _figures(entries: Iterable[ManifestEntry]) -> Figures:
    files = [entry.data_file for entry in entries]
    return Figures(
        files=len(files),
        rows=sum(file.record_count for file in files),
        size_bytes=sum(file.file_size_in_bytes for file in files),
    )
