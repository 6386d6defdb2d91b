"""Read and write manifests and manifest lists."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    UNASSIGNED_SEQ,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    construct_partition_summaries,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import StructType

from airflow_provider.tables import checks, storage
from airflow_provider.tables.iceberg import avro
from airflow_provider.tables.iceberg.file_io import write_together

_LISTED = avro.Kind(
    schema=MANIFEST_LIST_FILE_SCHEMAS[2],
    types={-1: ManifestFile, 508: PartitionFieldSummary},
    enums={517: cache(ManifestContent)},
)
_ENTRIES = avro.Kind(
    schema=MANIFEST_ENTRY_SCHEMAS[2],
    types={-1: ManifestEntry, 2: DataFile},
    enums={0: cache(ManifestEntryStatus), 101: cache(FileFormat), 134: cache(DataFileContent)},
)

_FILE_PATH, _RECORD_COUNT, COLUMN_SIZES, _VALUE_COUNTS, _NULL_COUNTS, _MANIFEST_PATH = 1, 4, 6, 7, 8, 0
"""Positions in pyiceberg's records, which offer no other way to change them; statistics of a file begin with sizes."""


class _Uri(str):
    """URI as this package writes it, with its spelling in the list that named it.

    Names are compared in the former; the latter is what further lists keep, since Iceberg's changelogs take two
    spellings of a manifest for two manifests, and tell its rows twice.
    """

    __slots__ = ("spelling",)

    spelling: str

    @classmethod
    def of(cls, spelling: str) -> _Uri:
        uri = cls(storage.as_uri(spelling))
        uri.spelling = spelling
        return uri


def write_manifest(
    io: FileIO,
    spec: PartitionSpec,
    schema: Schema,
    uri: str,
    entries: Sequence[ManifestEntry],
    *,
    status: ManifestEntryStatus,
    snapshot_id: int,
) -> ManifestFile:
    """Write a manifest whose *entries* all have *status*; added entries inherit sequence numbers from its list.

    Deleted entries are written as :func:`bare` leaves them.
    """
    removed = status is ManifestEntryStatus.DELETED
    form, said = _form(schema.model_dump_json(), spec.model_dump_json(), bare=removed)
    content = avro.encoded(form, said, entries)
    write_together(io, {uri: content})
    files = Counter({status: len(entries)})
    rows = Counter({status: sum(entry.data_file.record_count for entry in entries)})
    live = () if removed else entries
    numbers = [entry.sequence_number for entry in live if entry.sequence_number is not None]
    return ManifestFile.from_args(
        manifest_path=uri,
        manifest_length=len(content),
        partition_spec_id=spec.spec_id,
        content=ManifestContent.DATA,
        sequence_number=UNASSIGNED_SEQ,
        min_sequence_number=min(numbers, default=UNASSIGNED_SEQ),
        added_snapshot_id=snapshot_id,
        added_files_count=files[ManifestEntryStatus.ADDED],
        existing_files_count=files[ManifestEntryStatus.EXISTING],
        deleted_files_count=files[ManifestEntryStatus.DELETED],
        added_rows_count=rows[ManifestEntryStatus.ADDED],
        existing_rows_count=rows[ManifestEntryStatus.EXISTING],
        deleted_rows_count=rows[ManifestEntryStatus.DELETED],
        partitions=construct_partition_summaries(
            spec, schema, [entry.data_file.partition for entry in entries]
        ),
        key_metadata=None,
    )


def write_removed(
    io: FileIO,
    spec: PartitionSpec,
    schema: Schema,
    uri: str,
    entries: Sequence[ManifestEntry],
    *,
    snapshot_id: int,
) -> ManifestFile:
    """Write a manifest that says of *entries*, live ones of other manifests, that *snapshot_id* deletes them."""
    removed = [
        ManifestEntry.from_args(
            status=ManifestEntryStatus.DELETED,
            snapshot_id=snapshot_id,
            sequence_number=entry.sequence_number,
            file_sequence_number=entry.file_sequence_number,
            data_file=entry.data_file,
        )
        for entry in entries
    ]
    return write_manifest(
        io, spec, schema, uri, removed, status=ManifestEntryStatus.DELETED, snapshot_id=snapshot_id
    )


@lru_cache(maxsize=64)
def _form(schema: str, spec: str, *, bare: bool) -> tuple[avro.Form, dict[str, str]]:
    """Return the encoder and the header of manifests of files with this *schema* and this *spec* (both JSON).

    :param bare: whether files are written as :func:`bare` leaves them.
    """
    columns, layout = Schema.model_validate_json(schema), PartitionSpec.model_validate_json(spec)
    file = data_file_with_partition(format_version=2, partition_type=layout.partition_type(columns))
    if bare:
        file = StructType(*file.fields[: COLUMN_SIZES + 1])
    entry = manifest_entry_schema_with_data_file(format_version=2, data_file=file)
    return avro.Form.of(entry, "manifest_entry"), {
        "schema": schema,
        "partition-spec": json.dumps(json.loads(spec)["fields"]),
        "partition-spec-id": str(layout.spec_id),
        "format-version": "2",
        "content": "data",
    }


def bare(entry: ManifestEntry) -> ManifestEntry:
    """Return *entry* without statistics, in place: many entries with them take much memory.

    It keeps the first statistic, empty, which some readers of metadata require.
    """
    entry.data_file[COLUMN_SIZES] = {}
    for position in range(COLUMN_SIZES + 1, len(entry.data_file)):
        entry.data_file[position] = None
    return entry


def recount(file: DataFile, rows: int) -> None:
    """Make *file* say, in place, that *rows* of its rows count; their nulls are not known. Bounds stay bounds."""
    file[_RECORD_COUNT], file[_VALUE_COUNTS], file[_NULL_COUNTS] = rows, {}, {}


def entries(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """Return the live entries of a data manifest, with inherited snapshot and sequence numbers filled in.

    File names are normalised, since writers spell URIs differently, and retention and drafts compare names.

    :raises FileNotFoundError: the manifest is missing. :raises Unavailable: it is damaged.
    """
    return entries_in(content(io, manifest.manifest_path), manifest)


def partition_fields(content: bytes, uri: str) -> list[dict[str, Any]]:
    """Return the fields of the partition spec of the manifest at *uri*. :raises Unavailable: it is damaged."""
    try:
        return list(json.loads(avro.said(content)["partition-spec"]))
    except (ValueError, KeyError) as error:
        raise checks.damaged_file(uri, error) from error


def partition_columns(content: bytes, uri: str) -> tuple[int | None, ...]:
    """Return of each partition value in a manifest's entries the id of the column that it is a value of, else None.

    :raises Unavailable: the manifest is damaged.
    """
    fields = partition_fields(content, uri)
    return tuple(field["source-id"] if field["transform"] == "identity" else None for field in fields)


def entries_in(content: bytes, manifest: ManifestFile) -> list[ManifestEntry]:
    """Return :func:`entries` of a manifest whose *content* is given."""
    live: list[ManifestEntry] = []
    for entry in _decoded(content, _ENTRIES, manifest.manifest_path):
        if entry.status == ManifestEntryStatus.DELETED:
            continue
        if entry.snapshot_id is None:
            entry.snapshot_id = manifest.added_snapshot_id
        if manifest.sequence_number == 0 or entry.status == ManifestEntryStatus.ADDED:
            if entry.sequence_number is None:
                entry.sequence_number = manifest.sequence_number
            if entry.file_sequence_number is None:
                entry.file_sequence_number = manifest.sequence_number
        entry.data_file.spec_id = manifest.partition_spec_id
        entry.data_file[_FILE_PATH] = storage.as_uri(entry.data_file.file_path)
        live.append(entry)
    return live


def write_list(
    io: FileIO,
    uri: str,
    manifests: Iterable[ManifestFile],
    *,
    snapshot_id: int,
    parent: int | None,
    sequence_number: int,
) -> None:
    """Write the list of *manifests* to *uri*."""
    content, _ = encoded_list(
        manifests, snapshot_id=snapshot_id, parent=parent, sequence_number=sequence_number
    )
    write_together(io, {uri: content})


def encoded_list(
    manifests: Iterable[ManifestFile], *, snapshot_id: int, parent: int | None, sequence_number: int
) -> tuple[bytes, list[ManifestFile]]:
    """Return the content of a manifest list, and the manifests as :func:`read_list` would return them."""
    listed = [_numbered(manifest, sequence_number) for manifest in manifests]
    said = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "sequence-number": str(sequence_number),
        "format-version": "2",
    }
    return avro.encoded(_list_form(), said, [_as_spelled(manifest) for manifest in listed]), listed


def _as_spelled(manifest: ManifestFile) -> ManifestFile:
    uri = manifest.manifest_path
    return renamed(manifest, uri.spelling) if isinstance(uri, _Uri) else manifest


def renamed(manifest: ManifestFile, uri: str) -> ManifestFile:
    """Return *manifest* as its copy at *uri*."""
    copy = ManifestFile(*(manifest[position] for position in range(len(manifest))))
    copy[_MANIFEST_PATH] = uri
    return copy


def _numbered(manifest: ManifestFile, sequence_number: int) -> ManifestFile:
    """Return *manifest* with the sequence numbers that the first list to name it assigns."""
    numbered = renamed(manifest, manifest.manifest_path)
    if manifest.sequence_number == UNASSIGNED_SEQ:
        numbered.sequence_number = sequence_number
    if manifest.min_sequence_number == UNASSIGNED_SEQ:
        numbered.min_sequence_number = sequence_number
    return numbered


@lru_cache(maxsize=1)
def _list_form() -> avro.Form:
    return avro.Form.of(MANIFEST_LIST_FILE_SCHEMAS[2], "manifest_file")


def read_list(io: FileIO, uri: str) -> list[ManifestFile]:
    """Return the manifests of a list, their names normalised; :func:`encoded_list` writes them as they were.

    :raises FileNotFoundError: the list is missing. :raises Unavailable: it is damaged.
    """
    manifests: list[ManifestFile] = _decoded(content(io, uri), _LISTED, uri)
    for manifest in manifests:
        manifest[_MANIFEST_PATH] = _Uri.of(manifest.manifest_path)
    return manifests


def _decoded(content: bytes, kind: avro.Kind, uri: str) -> list[Any]:
    try:
        return avro.decoded(content, kind)
    except avro.Damaged as error:
        raise checks.damaged_file(uri, error) from error


def content(io: FileIO, uri: str) -> bytes:
    with io.new_input(uri).open() as stream:
        return stream.read()
