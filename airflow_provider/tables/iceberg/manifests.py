"""Manifests: write those of an attempt, remove slices, and keep their number small.

A manifest of staged files names no snapshot: its entries inherit snapshot and sequence number from the manifest
list that adds it (Iceberg specification, "Sequence Number Inheritance"). So it is written with the output, in
parallel and long before the publish, which does not read it. See docs/decisions/manifests-at-written.md.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    UNASSIGNED_SEQ,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import TimestamptzType

from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.version import Part
from airflow_provider.tables import storage
from airflow_provider.tables.base import WrittenFile
from airflow_provider.tables.iceberg import data_files, manifest_files, spans

log = logging.getLogger(__name__)

FOLD_AT = 12
"""Number of manifests of one size class that are folded into one of the next."""
FULL_AT_FILES = 256
"""Number of files from which on a manifest is not folded any more."""
MOST_COPIED_FILES = 1024
"""Maximum number of entries that a fold copies: it leaves further large manifests to the next publishes."""
MOST_STAGED_FILES = 2000
"""Maximum number of files in a manifest of staged output: readers plan manifests in parallel, and skip some whole."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Schema, partition specs and directory for a table's new manifests."""

    io: FileIO
    schema: Schema
    specs: dict[int, PartitionSpec]
    directory: str
    """URI of the table's metadata directory, without a trailing slash."""

    def new_uri(self, snapshot_id: int, files: Iterable[DataFile] = ()) -> str:
        """Return the URI of a new manifest of *files*; of unit files its name says their epochs."""
        return f"{self.directory}/{spans.manifest_name(snapshot_id, files)}"


# --- staging -------------------------------------------------------------------------------------------------


def write_staged(
    io: FileIO,
    spec: PartitionSpec,
    schema: Schema,
    place: str,
    files: Sequence[WrittenFile],
    *,
    added: Mapping[str, int] | None = None,
) -> tuple[Part, ...]:
    """Write the manifests of an attempt's *files*, before any snapshot exists; near partition values in each.

    :param place: URI of the attempt's staging directory, with a trailing slash.
    :param added: for files of another program the ids of the columns that are known by their names; None for others.
    """
    types = data_files.partition_types(spec, schema)
    whole = names_digest((storage.split(file.uri)[1], file.size_bytes) for file in files)
    # Piece by piece: 10,000 files of 200 columns take 0.35 GB of memory so, 0.86 GB all at once.
    pieces = [files]
    if len(files) > MOST_STAGED_FILES:
        ordered = sorted(
            files, key=lambda file: data_files.in_order(data_files.partition_of(file, types), file.uri)
        )
        pieces = [
            ordered[start : start + MOST_STAGED_FILES] for start in range(0, len(ordered), MOST_STAGED_FILES)
        ]
    return tuple(
        write_part(
            io,
            spec,
            schema,
            new_part(place),
            [data_files.data_file(file, spec.spec_id, types) for file in some],
            added=added,
            names=whole,
        )
        for some in pieces
        if some
    )


def new_part(place: str) -> str:
    """Return the URI of a new manifest of staged files in the directory *place*."""
    return f"{place}manifest-{uuid.uuid4().hex}.avro"


def write_part(
    io: FileIO,
    spec: PartitionSpec,
    schema: Schema,
    uri: str,
    files: Sequence[DataFile],
    *,
    carried_from: int | None = None,
    added: Mapping[str, int] | None = None,
    names: str | None = None,
) -> Part:
    """Write the manifest of *files* to *uri*.

    :param carried_from: barrier (microseconds) of the slice that shares the files; None if none does.
    :param added: as for :func:`write_staged`. :param names: :func:`names_digest` of all files of the output, if there
        are more than *files*.
    """
    manifest = write_added(io, spec, schema, uri, files, snapshot_id=0)
    return Part(
        uri=uri,
        size_bytes=manifest.manifest_length,
        files=len(files),
        rows=sum(file.record_count for file in files),
        description=_summarised(manifest, carried_from, names or _names_of(files), added=added),
    )


def write_added(
    io: FileIO, spec: PartitionSpec, schema: Schema, uri: str, files: Iterable[DataFile], *, snapshot_id: int
) -> ManifestFile:
    """Write a manifest that adds *files*; they inherit sequence numbers from the list that will name it."""
    entries = [ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file) for file in files]
    return manifest_files.write_manifest(
        io, spec, schema, uri, entries, status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id
    )


def _names_of(files: Iterable[DataFile]) -> str:
    return names_digest((storage.split(file.file_path)[1], file.file_size_in_bytes) for file in files)


def names_digest(files: Iterable[tuple[str, int]]) -> str:
    """Return a hash of paths and sizes of *files*, independent of their order, to compare with a listing."""
    digest = hashlib.blake2b(digest_size=16)
    for path, size in sorted(files):
        digest.update(f"{size} {path}\n".encode())
    return digest.hexdigest()


def _summarised(
    manifest: ManifestFile, carried_from: int | None, names: str, *, added: Mapping[str, int] | None
) -> str:
    """Return the partition summary of a manifest as JSON, so that publish need not read the manifest."""
    fields = [
        [field.contains_null, field.contains_nan, _text(field.lower_bound), _text(field.upper_bound)]
        for field in manifest.partitions or []
    ]
    said: dict[str, Any] = {"spec": manifest.partition_spec_id, "partitions": fields, "names": names}
    if carried_from is not None:
        said["carried_from"] = carried_from
    if added is not None:
        said["added"] = added
    return json.dumps(said, separators=(",", ":"))


def names(part: Part) -> str:
    """Return :func:`names_digest` of the files that *part* belongs to; empty if an older version staged it."""
    digest: str = json.loads(part.description).get("names", "")
    return digest


def carried_barrier(part: Part) -> int | None:
    """Return the barrier (microseconds) of the slice that shares the files of *part*; None if none does."""
    barrier: int | None = json.loads(part.description).get("carried_from")
    return barrier


def added_columns(part: Part) -> dict[str, int] | None:
    """Return the ids of the columns that the files of *part*, of another program, are known to have by their names.

    None if they are no such files; nothing if the files have ids.
    """
    found: dict[str, int] | None = json.loads(part.description).get("added")
    return found


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def staged(part: Part, snapshot_id: int) -> ManifestFile:
    """Return the manifest list's entry for *part*, added by *snapshot_id*."""
    description = json.loads(part.description)
    summaries = [
        PartitionFieldSummary(
            null,
            nan,
            None if low is None else base64.b64decode(low),
            None if high is None else base64.b64decode(high),
        )
        for null, nan, low, high in description["partitions"]
    ]
    return ManifestFile.from_args(
        manifest_path=part.uri,
        manifest_length=part.size_bytes,
        partition_spec_id=description["spec"],
        content=ManifestContent.DATA,
        sequence_number=UNASSIGNED_SEQ,
        min_sequence_number=UNASSIGNED_SEQ,
        added_snapshot_id=snapshot_id,
        added_files_count=part.files,
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=part.rows,
        existing_rows_count=0,
        deleted_rows_count=0,
        partitions=summaries,
        key_metadata=None,
    )


# --- the list ------------------------------------------------------------------------------------------------


def live_files(manifests: Iterable[ManifestFile]) -> int:
    return sum(_size(manifest) for manifest in manifests)


def live_rows(manifests: Iterable[ManifestFile]) -> int:
    return sum(
        (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0) for manifest in manifests
    )


def live(manifests: Iterable[ManifestFile]) -> list[ManifestFile]:
    """Return *manifests* without those of deleted entries alone, which belong to one snapshot and go no further."""
    return [
        manifest
        for manifest in manifests
        if _size(manifest) or None in (manifest.added_files_count, manifest.existing_files_count)
    ]


def _size(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


# --- epochs --------------------------------------------------------------------------------------------------


def encoded(barrier: int) -> bytes:
    """Serialise *barrier* (microseconds) as a bound of the epoch column."""
    return to_bytes(TimestamptzType(), barrier)


def decoded(bound: bytes) -> int:
    return int.from_bytes(bound, "little", signed=True)


def epochs_of(manifest: ManifestFile) -> tuple[int, int] | None:
    """Return the least and greatest barrier (microseconds) in *manifest*; None if it does not say them."""
    summary = manifest.partitions[0] if manifest.partitions else None
    if summary is None or summary.lower_bound is None or summary.upper_bound is None:
        return spans.of_manifest(manifest.manifest_path)
    return decoded(summary.lower_bound), decoded(summary.upper_bound)


def slice_of(io: FileIO, listed: Iterable[ManifestFile], barrier: int) -> Iterator[tuple[int, DataFile]]:
    """Yield the files of the epoch at *barrier* (microseconds) in *listed*, each with the id of its partition spec."""
    for manifest in live(listed):
        bounds = epochs_of(manifest)
        if bounds is None or bounds[0] <= barrier <= bounds[1]:
            for entry in manifest_files.entries(io, manifest):
                if spans.span_of(entry.data_file) == (barrier, barrier):
                    yield manifest.partition_spec_id, entry.data_file


# --- replacing and folding -----------------------------------------------------------------------------------


def without(
    layout: Layout, manifests: Iterable[ManifestFile], removed: spans.Removed, snapshot_id: int
) -> Iterator[ManifestFile]:
    """Yield *manifests* without the files of the epochs *removed*.

    A manifest of removed files only is dropped without being read; only mixed ones are rewritten.

    :raises Unavailable: the rows of such an epoch are in a unit file, with those of epochs that stay.
    """
    for manifest in manifests:
        bounds = epochs_of(manifest)
        if bounds is not None and not removed.meets(bounds):
            yield manifest
        elif bounds is None or bounds[0] != bounds[1]:
            live = manifest_files.entries(layout.io, manifest)
            kept = [entry for entry in live if not removed.takes(entry.data_file)]
            if len(kept) == len(live):
                yield manifest
            elif kept:
                yield rewritten(layout, manifest.partition_spec_id, kept, snapshot_id)


def folded(layout: Layout, manifests: Sequence[ManifestFile], snapshot_id: int) -> list[ManifestFile]:
    """Fold manifests of one size class into one as soon as there are :data:`FOLD_AT` of them, early epochs first.

    So a manifest has epochs that lie near each other, in whichever order they were published, and a reader of some
    epochs skips the others. An entry is copied at most twice on its way into a full manifest, so that the work of a
    publish does not grow with the table's history.
    """
    kept = list(manifests)
    for low, high in ((1, FOLD_AT), (FOLD_AT, FULL_AT_FILES)):
        for spec_id in {manifest.partition_spec_id for manifest in kept}:
            group = [
                manifest
                for manifest in kept
                if manifest.partition_spec_id == spec_id and low <= _size(manifest) < high
            ]
            if len(group) >= FOLD_AT:
                group.sort(key=lambda manifest: epochs_of(manifest) or (0, 0))
                sizes = accumulate(map(_size, group))
                earliest = [
                    manifest for manifest, size in zip(group, sizes, strict=True) if size <= MOST_COPIED_FILES
                ]
                read = list(_readable(layout.io, earliest))
                together = [entry for _, entries in read for entry in entries]
                together.sort(key=lambda entry: data_files.place_in_order(entry.data_file))
                if len(read) > 1:
                    merged = rewritten(layout, spec_id, together, snapshot_id)
                    gone = [manifest for manifest, _ in read]
                    kept = [manifest for manifest in kept if manifest not in gone] + [merged]
    return kept


def _readable(
    io: FileIO, manifests: Iterable[ManifestFile]
) -> Iterator[tuple[ManifestFile, list[ManifestEntry]]]:
    """Yield *manifests* with their live entries, without those that are lost: they stop readers, and no publish."""
    for manifest in manifests:
        try:
            yield manifest, manifest_files.entries(io, manifest)
        except (FileNotFoundError, Unavailable):
            log.warning("%s is lost or damaged: it stays as it is, and is not folded", manifest.manifest_path)


def rewritten(layout: Layout, spec_id: int, kept: Iterable[ManifestEntry], snapshot_id: int) -> ManifestFile:
    """Write *kept*, live entries of other manifests, to a new manifest."""
    entries = [_existing(entry) for entry in kept]
    return manifest_files.write_manifest(
        layout.io,
        layout.specs[spec_id],
        layout.schema,
        layout.new_uri(snapshot_id, [entry.data_file for entry in entries]),
        entries,
        status=ManifestEntryStatus.EXISTING,
        snapshot_id=snapshot_id,
    )


def _existing(entry: ManifestEntry) -> ManifestEntry:
    """Return *entry* for another manifest; it still names the snapshot that added it."""
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.EXISTING,
        snapshot_id=entry.snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )
