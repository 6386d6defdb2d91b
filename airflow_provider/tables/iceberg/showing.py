"""What engines without cuts see of a table's version: a list of manifests of its own, beside that of all slices.

A version has two lists of manifests where it has slices that the catalog is not to show (older states of a full table,
epochs beyond a gap): ``states-…`` names all slices, and is where cuts start; ``snap-…`` is what the snapshot names, and
has those of its manifests that are shown. Otherwise there is ``snap-…`` alone. One name follows from the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyiceberg.manifest import ManifestEntry, ManifestFile

from airflow_provider.domain.interval import from_micros, micros
from airflow_provider.domain.version import Shown
from airflow_provider.tables.iceberg import manifest_files, manifests

_ALL, _SHOWN = "states-", "snap-"


def new_lists(directory: str, name: str) -> tuple[str, str]:
    """URIs of the list of all slices, and of the list of those that are shown."""
    return f"{directory}/{_ALL}{name}.avro", f"{directory}/{_SHOWN}{name}.avro"


def shown_list(location: str) -> str:
    """The list that a snapshot names whose slices are listed at *location*: the same if all of them are shown."""
    return _renamed(location, _ALL, _SHOWN)


def states_list(manifest_list: str) -> str:
    """Where all slices of a version are listed whose snapshot names *manifest_list*, if some are not shown."""
    return _renamed(manifest_list, _SHOWN, _ALL)


def _renamed(uri: str, old: str, new: str) -> str:
    directory, _, name = uri.rpartition("/")
    return f"{directory}/{new}{name.removeprefix(old)}" if name.startswith(old) else uri


@dataclass(frozen=True, kw_only=True, slots=True)
class Parted:
    """The manifests of a version."""

    shown: list[ManifestFile]
    hidden: list[ManifestFile]


def parted(
    layout: manifests.Layout, listed: Iterable[ManifestFile], shows: Shown, snapshot_id: int
) -> Parted:
    """Tell the manifests *listed* apart by what *shows* says; one that has epochs of both kinds becomes two."""
    found = Parted(shown=[], hidden=[])
    after, until = micros(shows.after), micros(shows.until)
    for manifest in listed:
        bounds = manifests.epochs_of(manifest)
        if bounds is not None and after < bounds[0] and bounds[1] <= until:
            found.shown.append(manifest)
        elif bounds is not None and (bounds[1] <= after or until < bounds[0]):
            found.hidden.append(manifest)
        else:
            for is_shown, part in _parts(layout, manifest, shows, snapshot_id):
                (found.shown if is_shown else found.hidden).append(part)
    return found


def _parts(
    layout: manifests.Layout, manifest: ManifestFile, shows: Shown, snapshot_id: int
) -> Iterator[tuple[bool, ManifestFile]]:
    sides: dict[bool, list[ManifestEntry]] = {True: [], False: []}
    for entry in manifest_files.entries(layout.io, manifest):
        sides[shows.has(from_micros(manifests.barrier_of(entry)))].append(entry)
    for is_shown in sides:
        if not sides[not is_shown]:
            yield is_shown, manifest
            return
    for is_shown, entries in sides.items():
        yield is_shown, manifests.rewritten(layout, manifest.partition_spec_id, entries, snapshot_id)
