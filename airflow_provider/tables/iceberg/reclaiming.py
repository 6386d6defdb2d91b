"""Deleting what only withdrawn versions of a table consist of (R24)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.metadata import TableMetadata

from airflow_provider.tables import checks, storage
from airflow_provider.tables.iceberg import manifest_files, manifests, showing


def pinned(io: FileIO, metadata: TableMetadata) -> list[str]:
    """Manifest lists of the current version, with all of its slices, and of what branches and tags point at."""
    referenced = {one.snapshot_id for one in metadata.refs.values()}
    lists = [one.manifest_list for one in metadata.snapshots if one.snapshot_id in referenced]
    head = metadata.current_snapshot()
    every = "" if head is None else showing.states_list(head.manifest_list)
    return [*lists, every] if every and io.new_input(every).exists() else lists


def reclaim(
    io: FileIO, withdrawn: Sequence[str], kept: Collection[str], *, shared_by_epochs: bool
) -> list[str]:
    """Delete data files, manifests and lists that only the manifest lists *withdrawn* lead to.

    Data goes first and lists last: what is left of an interrupted deletion can still be found.

    :param shared_by_epochs: whether one file may be in the slices of several epochs, as drafts leave them.
    :raises Unavailable: a list or manifest of *kept* is missing; nothing was deleted.
    """
    staying = {one.manifest_path: one for uri in sorted(kept) for one in _listed(io, uri)}
    lists = [uri for uri in dict.fromkeys(withdrawn) if uri not in kept]
    leaving = {
        one.manifest_path: one
        for uri in lists
        for one in _listed_if_there(io, uri)
        if one.manifest_path not in staying
    }
    data = {path for one in leaving.values() for path in _paths(io, one, missing_is_fine=True)}
    near = (one for one in staying.values() if shared_by_epochs or _may_share(one, leaving.values()))
    data -= {path for one in near for path in _paths(io, one, missing_is_fine=False)}
    shown = [uri for uri in map(showing.shown_list, lists) if uri not in (*lists, *kept)]
    wanted = (*sorted(data), *sorted(leaving), *shown, *lists)
    return [uri for uri in wanted if storage.remove(*storage.filesystem(uri))]


def _listed(io: FileIO, uri: str) -> list[ManifestFile]:
    try:
        return manifest_files.read_list(io, uri)
    except FileNotFoundError as error:
        raise checks.missing_file(uri) from error


def _listed_if_there(io: FileIO, uri: str) -> list[ManifestFile]:
    try:
        return manifest_files.read_list(io, uri)
    except FileNotFoundError:
        return []


def _paths(io: FileIO, manifest: ManifestFile, *, missing_is_fine: bool) -> list[str]:
    try:
        return [entry.data_file.file_path for entry in manifest_files.entries(io, manifest)]
    except FileNotFoundError as error:
        if missing_is_fine:
            return []
        raise checks.missing_file(manifest.manifest_path) from error


def _may_share(manifest: ManifestFile, others: Iterable[ManifestFile]) -> bool:
    """Whether *manifest* and one of *others* have an epoch in common, where a file belongs to one epoch."""
    own = manifests.epochs_of(manifest)
    for one in others:
        bounds = manifests.epochs_of(one)
        if own is None or bounds is None or (own[0] <= bounds[1] and bounds[0] <= own[1]):
            return True
    return False
