"""Manifests: writing those of an attempt, leaving out slices, and keeping their number small.

A manifest that holds staged files names no snapshot: its entries inherit snapshot and sequence number from the
manifest list that adds it (Iceberg specification, "Sequence Number Inheritance"). So it is written when the
output is, in parallel and long before the publish, and published without being read.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    UNASSIGNED_SEQ,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import DecimalType, PrimitiveType, TimestamptzType

from airflow_provider.domain.version import Part
from airflow_provider.tables import storage
from airflow_provider.tables.base import WrittenFile
from airflow_provider.tables.iceberg import manifest_files

FOLD_AT = 12
"""So many manifests of one size class are folded into one of the next."""
FULL_AT_FILES = 256
"""A manifest of so many files is folded no more."""
MOST_COPIED_FILES = 1024
"""So many files are copied by a fold at most: many large manifests of one epoch are left to the publishes after it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """What manifests of a table are written with."""

    io: FileIO
    schema: Schema
    specs: dict[int, PartitionSpec]
    directory: str
    """URI of the table's metadata directory, without a slash at its end."""

    def new_uri(self, snapshot_id: int) -> str:
        return f"{self.directory}/{snapshot_id}-{uuid.uuid4().hex}.avro"


# --- staging -------------------------------------------------------------------------------------------------


def write_staged(
    io: FileIO, spec: PartitionSpec, schema: Schema, uri: str, files: Sequence[WrittenFile]
) -> Part:
    """Write the manifest of an attempt's *files* to *uri*."""
    types = [_primitive(field.field_type) for field in spec.partition_type(schema).fields]
    return write_part(io, spec, schema, uri, [_data_file(file, spec.spec_id, types) for file in files])


def write_part(
    io: FileIO,
    spec: PartitionSpec,
    schema: Schema,
    uri: str,
    files: Sequence[DataFile],
    *,
    carried_from: int | None = None,
) -> Part:
    """Write the manifest of *files* to *uri*.

    :param carried_from: the barrier (microseconds) of the slice whose files they are, too; None for none.
    """
    manifest = write_added(io, spec, schema, uri, files, snapshot_id=0)
    return Part(
        uri=uri,
        size_bytes=manifest.manifest_length,
        files=len(files),
        rows=sum(file.record_count for file in files),
        description=_summarised(manifest, carried_from, _names_of(files)),
    )


def write_added(
    io: FileIO, spec: PartitionSpec, schema: Schema, uri: str, files: Iterable[DataFile], *, snapshot_id: int
) -> ManifestFile:
    """Write a manifest that adds *files*; their numbers are inherited from the list that it will be in."""
    entries = [ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file) for file in files]
    return manifest_files.write_manifest(
        io, spec, schema, uri, entries, status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id
    )


def _primitive(kind: object) -> PrimitiveType:
    if not isinstance(kind, PrimitiveType):
        raise TypeError(f"a partition field has the type {kind}")
    return kind


def _data_file(file: WrittenFile, spec_id: int, types: Sequence[PrimitiveType]) -> DataFile:
    description: dict[str, Any] = json.loads(file.description)
    columns = {int(number): values for number, values in description["columns"].items()}
    partition = [
        Decimal(value) if isinstance(kind, DecimalType) and value is not None else value
        for kind, value in zip(types, description["partition"], strict=True)
    ]
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.uri,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=file.rows,
        file_size_in_bytes=file.size_bytes,
        column_sizes={number: one[0] for number, one in columns.items()},
        value_counts={number: one[1] for number, one in columns.items()},
        null_value_counts={number: one[2] for number, one in columns.items() if one[2] is not None},
        lower_bounds={
            number: base64.b64decode(one[3]) for number, one in columns.items() if one[3] is not None
        },
        upper_bounds={
            number: base64.b64decode(one[4]) for number, one in columns.items() if one[4] is not None
        },
        split_offsets=description["offsets"],
        spec_id=spec_id,
    )


def _names_of(files: Iterable[DataFile]) -> str:
    return names_digest((storage.split(one.file_path)[1], one.file_size_in_bytes) for one in files)


def names_digest(files: Iterable[tuple[str, int]]) -> str:
    """What paths and sizes of *files* come to, in whatever order: a listing is compared with it."""
    digest = hashlib.blake2b(digest_size=16)
    for path, size in sorted(files):
        digest.update(f"{size} {path}\n".encode())
    return digest.hexdigest()


def _summarised(manifest: ManifestFile, carried_from: int | None, names: str) -> str:
    """The partition summary of a manifest as text, so that publish need not read the manifest."""
    fields = [
        [one.contains_null, one.contains_nan, _text(one.lower_bound), _text(one.upper_bound)]
        for one in manifest.partitions or []
    ]
    said: dict[str, Any] = {"spec": manifest.partition_spec_id, "partitions": fields, "names": names}
    if carried_from is not None:
        said["carried_from"] = carried_from
    return json.dumps(said, separators=(",", ":"))


def names(part: Part) -> str:
    """:func:`names_digest` of the files that *part* names; empty in what was staged before it was kept."""
    found: str = json.loads(part.description).get("names", "")
    return found


def carried_barrier(part: Part) -> int | None:
    """The barrier (microseconds) of the slice that has the files of *part*, too; None for none."""
    found: int | None = json.loads(part.description).get("carried_from")
    return found


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def staged(part: Part, snapshot_id: int) -> ManifestFile:
    """The manifest list's entry for *part*, as *snapshot_id* adds it."""
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
    return sum(_size(one) for one in manifests)


def live_rows(manifests: Iterable[ManifestFile]) -> int:
    return sum((one.added_rows_count or 0) + (one.existing_rows_count or 0) for one in manifests)


def _size(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


# --- epochs --------------------------------------------------------------------------------------------------


def encoded(barrier: int) -> bytes:
    """*barrier* (microseconds) as manifests write bounds of the epoch."""
    return to_bytes(TimestamptzType(), barrier)


def decoded(bound: bytes) -> int:
    return int.from_bytes(bound, "little", signed=True)


def epochs_of(manifest: ManifestFile) -> tuple[int, int] | None:
    """Least and greatest barrier in *manifest*; None when it does not say."""
    summary = manifest.partitions[0] if manifest.partitions else None
    if summary is None or summary.lower_bound is None or summary.upper_bound is None:
        return None
    return decoded(summary.lower_bound), decoded(summary.upper_bound)


def barrier_of(entry: ManifestEntry) -> int:
    return int(entry.data_file.partition[0])


def slice_of(io: FileIO, listed: Iterable[ManifestFile], barrier: int) -> Iterator[tuple[int, DataFile]]:
    """The files of one epoch (microseconds) in the manifests *listed*, each with the id of its spec."""
    for manifest in listed:
        bounds = epochs_of(manifest)
        if bounds is None or bounds[0] <= barrier <= bounds[1]:
            for entry in manifest_files.entries(io, manifest):
                if barrier_of(entry) == barrier:
                    yield manifest.partition_spec_id, entry.data_file


# --- replacing and folding -----------------------------------------------------------------------------------


def without(
    layout: Layout, manifests: Iterable[ManifestFile], removes: Collection[int], snapshot_id: int
) -> Iterator[ManifestFile]:
    """Leave the files of the epochs *removes* (microseconds) out.

    A manifest that holds nothing else is dropped without being read; only mixed ones are written anew.
    """
    for manifest in manifests:
        bounds = epochs_of(manifest)
        if bounds is not None and not any(bounds[0] <= barrier <= bounds[1] for barrier in removes):
            yield manifest
        elif bounds is None or bounds[0] != bounds[1]:
            found = manifest_files.entries(layout.io, manifest)
            kept = [entry for entry in found if barrier_of(entry) not in removes]
            if len(kept) == len(found):
                yield manifest
            elif kept:
                yield rewritten(layout, manifest.partition_spec_id, kept, snapshot_id)


def folded(layout: Layout, manifests: Sequence[ManifestFile], snapshot_id: int) -> list[ManifestFile]:
    """Fold manifests of one size class into one as soon as there are :data:`FOLD_AT` of them, the oldest first.

    A file is copied at most twice on its way from a manifest of its own into a full one, so that what publish
    does stays the same however long the table's history is.
    """
    kept = list(manifests)
    for low, high in ((1, FOLD_AT), (FOLD_AT, FULL_AT_FILES)):
        for spec_id in {one.partition_spec_id for one in kept}:
            group = [one for one in kept if one.partition_spec_id == spec_id and low <= _size(one) < high]
            if len(group) >= FOLD_AT:
                sizes = accumulate(map(_size, group))
                oldest = [one for one, size in zip(group, sizes, strict=True) if size <= MOST_COPIED_FILES]
                together = [entry for one in oldest for entry in manifest_files.entries(layout.io, one)]
                merged = rewritten(layout, spec_id, together, snapshot_id)
                kept = [one for one in kept if one not in oldest] + [merged]
    return kept


def rewritten(layout: Layout, spec_id: int, kept: Iterable[ManifestEntry], snapshot_id: int) -> ManifestFile:
    """Write the entries *kept* of other manifests into a new one."""
    return manifest_files.write_manifest(
        layout.io,
        layout.specs[spec_id],
        layout.schema,
        layout.new_uri(snapshot_id),
        [_existing(entry) for entry in kept],
        status=ManifestEntryStatus.EXISTING,
        snapshot_id=snapshot_id,
    )


def _existing(entry: ManifestEntry) -> ManifestEntry:
    """*entry* in another manifest: it still names the commit that added it."""
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.EXISTING,
        snapshot_id=entry.snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )
