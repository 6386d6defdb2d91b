"""Delete the files that only expired versions of a table contain (R24). See docs/decisions/retention.md."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.metadata import TableMetadata

from airflow_provider.domain.errors import Unavailable
from airflow_provider.tables import checks, storage
from airflow_provider.tables.iceberg import cut_files, manifest_files, manifests, showing
from airflow_provider.tables.locations import is_own

log = logging.getLogger(__name__)


def pinned(io: FileIO, metadata: TableMetadata) -> list[str]:
    """Return the manifest lists of the current version, with all its slices, and of branches and tags."""
    referenced = {ref.snapshot_id for ref in metadata.refs.values()}
    lists = [snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.snapshot_id in referenced]
    head = metadata.current_snapshot()
    every = "" if head is None else showing.states_list(head.manifest_list)
    return [*lists, every] if every and io.new_input(every).exists() else lists


def vacuum(io: FileIO, expired: Sequence[str], kept: Collection[str], *, shared_by_epochs: bool) -> list[str]:
    """Delete data files, manifests and lists that only the manifest lists *expired* name; return their URIs.

    Cut files of these lists go, too. Data is deleted first and lists last: after an interruption, the lists still lead
    to the remaining files.

    :param shared_by_epochs: whether slices of several epochs may share a file, as with drafts.
    :raises Unavailable: a list or manifest of *kept* is missing or damaged; nothing was deleted.
    """
    staying = {manifest.manifest_path: manifest for uri in sorted(kept) for manifest in _listed(io, uri)}
    lists = [uri for uri in dict.fromkeys(expired) if uri not in kept]
    shown = [uri for uri in map(showing.shown_list, lists) if uri not in (*lists, *kept)]
    leaving = {
        manifest.manifest_path: manifest
        for uri in (*lists, *shown)
        for manifest in _listed_if_there(io, uri)
        if manifest.manifest_path not in staying
    }
    # A missing expired manifest was deleted by an earlier call, and a damaged one keeps no vacuum from the others; a
    # missing kept one might name files to keep.
    holding = manifests.live(leaving.values())
    data = {path for manifest in holding for path in _paths(io, manifest, missing_is_fine=True)}
    # Files of other programs, which were added as they are, stay their owners'.
    data = {path for path in data if is_own(path, lists[0])}
    near = (
        manifest
        for manifest in manifests.live(staying.values())
        if shared_by_epochs or _may_share(manifest, holding)
    )
    data -= {path for manifest in near for path in _paths(io, manifest, missing_is_fine=False)}
    deleted = _removed((*sorted(data), *sorted(leaving)))
    deleted += cut_files.vacuum(lists, kept)
    return deleted + _removed((*shown, *lists))


def _removed(uris: Iterable[str]) -> list[str]:
    """Delete files; return those that were there."""
    return [uri for uri in uris if storage.remove(*storage.filesystem(uri))]


def _listed(io: FileIO, uri: str) -> list[ManifestFile]:
    try:
        return manifest_files.read_list(io, uri)
    except FileNotFoundError as error:
        raise checks.missing_file(uri) from error


def _listed_if_there(io: FileIO, uri: str) -> list[ManifestFile]:
    try:
        return manifest_files.read_list(io, uri)
    except (FileNotFoundError, Unavailable) as error:
        _tell(uri, error)
        return []


def _tell(uri: str, error: Exception) -> None:
    if isinstance(error, Unavailable):
        log.warning("%s is damaged: it is deleted, and the files that it names stay", uri)


def _paths(io: FileIO, manifest: ManifestFile, *, missing_is_fine: bool) -> list[str]:
    try:
        return [entry.data_file.file_path for entry in manifest_files.entries(io, manifest)]
    except (FileNotFoundError, Unavailable) as error:
        if missing_is_fine:
            _tell(manifest.manifest_path, error)
            return []
        if isinstance(error, Unavailable):
            raise
        raise checks.missing_file(manifest.manifest_path) from error


def _may_share(manifest: ManifestFile, others: Iterable[ManifestFile]) -> bool:
    """Return whether *manifest* may name a file of *others*: they have an epoch in common, or do not say."""
    own = manifests.epochs_of(manifest)
    for other in others:
        bounds = manifests.epochs_of(other)
        if own is None or bounds is None or (own[0] <= bounds[1] and bounds[0] <= own[1]):
            return True
    return False
