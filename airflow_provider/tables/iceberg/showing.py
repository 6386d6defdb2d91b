"""Manifest lists for engines without cuts: a version shows them a part of its slices.

A version has two manifest lists if the catalog must not show some slices (older states of a full table, epochs
beyond a gap): ``states-…`` names the manifests of all slices, and cuts read it; ``snap-…`` names those of the shown
slices, and the snapshot refers to it. Otherwise there is ``snap-…`` alone, which has the manifests of deleted entries
in either case. Each name is derived from the other.
See docs/decisions/shown.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pyiceberg.manifest import ManifestEntry, ManifestFile

from airflow_provider.domain.interval import from_micros, micros
from airflow_provider.domain.version import Shown
from airflow_provider.tables.iceberg import manifest_files, manifests, spans

_ALL, _SHOWN = "states-", "snap-"


def new_lists(directory: str, name: str) -> tuple[str, str]:
    """Return the URI of the list of all slices, and that of the list of the shown ones."""
    return f"{directory}/{_ALL}{name}.avro", f"{directory}/{_SHOWN}{name}.avro"


def shown_list(location: str) -> str:
    """Return the URI of the shown slices' list, given that of all slices; the same if all slices are shown."""
    return _renamed(location, _ALL, _SHOWN)


def states_list(manifest_list: str) -> str:
    """Return the URI that the list of all slices has if the snapshot names *manifest_list* and hides some."""
    return _renamed(manifest_list, _SHOWN, _ALL)


def _renamed(uri: str, old: str, new: str) -> str:
    directory, _, name = uri.rpartition("/")
    return f"{directory}/{new}{name.removeprefix(old)}" if name.startswith(old) else uri


@dataclass(frozen=True, kw_only=True, slots=True)
class Parted:
    """Manifests of a version: those that the catalog shows, and the others.

    :param removed: manifests of deleted entries: what the version before showed and this one does not.
    """

    shown: list[ManifestFile]
    hidden: list[ManifestFile]
    removed: list[ManifestFile] = field(default_factory=list)


def parted(
    layout: manifests.Layout, listed: Iterable[ManifestFile], shows: Shown, snapshot_id: int
) -> Parted:
    """Separate shown from hidden manifests; a manifest with both shown and hidden epochs is rewritten as two.

    :raises Unavailable: a unit file has both shown and hidden epochs.
    """
    separated = Parted(shown=[], hidden=[])
    after, until = micros(shows.after), micros(shows.until)
    for manifest in listed:
        bounds = manifests.epochs_of(manifest)
        if bounds is not None and after < bounds[0] and bounds[1] <= until:
            separated.shown.append(manifest)
        elif bounds is not None and (bounds[1] <= after or until < bounds[0]):
            separated.hidden.append(manifest)
        else:
            for is_shown, part in _parts(layout, manifest, shows, snapshot_id):
                (separated.shown if is_shown else separated.hidden).append(part)
    return separated


def _parts(
    layout: manifests.Layout, manifest: ManifestFile, shows: Shown, snapshot_id: int
) -> Iterator[tuple[bool, ManifestFile]]:
    sides: dict[bool, list[ManifestEntry]] = {True: [], False: []}
    for entry in manifest_files.entries(layout.io, manifest):
        has = {shows.has(from_micros(barrier)) for barrier in spans.span_of(entry.data_file)}
        if len(has) > 1:
            raise spans.in_unit(entry.data_file)
        sides[has.pop()].append(entry)
    for is_shown in sides:
        if not sides[not is_shown]:
            yield is_shown, manifest
            return
    for is_shown, entries in sides.items():
        yield is_shown, manifests.rewritten(layout, manifest.partition_spec_id, entries, snapshot_id)
