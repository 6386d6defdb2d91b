"""Cut files: Iceberg metadata of one state, made of the version's manifest list alone (docs/decisions/cut-files.md).

A table's cut files lie beside its metadata, each in a directory of its own::

    {table}/metadata/{list}.avro                              the version's manifest list
    {table}/cuts/{list}.{digest}/metadata/v1.metadata.json    a cut file of that version

So the name of the directory tells which list it needs, and retention finds it without reading it.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.transforms import IdentityTransform, TruncateTransform, VoidTransform
from pyiceberg.types import StringType

from airflow_provider.domain.cut import State
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import from_micros, micros
from airflow_provider.domain.version import TableRef
from airflow_provider.tables import checks, parquet_files, storage
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.cut_files import TABLE_UUID, CutFile
from airflow_provider.tables.iceberg import (
    column_names,
    data_files,
    manifest_files,
    manifests,
    regrouping,
    schemas,
    spans,
)
from airflow_provider.tables.iceberg.file_io import write_together
from airflow_provider.tables.iceberg.task_writer import IcebergTaskWriter, OpenFile
from airflow_provider.tables.statistics import Clip

FORM = 3
"""Number of the form in which this version of the package writes cut files: another one gets another name."""
_READ_AT_ONCE = 16
_NAME = "v1.metadata.json"
_HINT = "version-hint.text"
_DIRECTORY = re.compile(r"(?P<list>.+)\.[0-9a-f]{32}")


def cut_file(io: FileIO, state: State, schema: str) -> CutFile:
    """See :meth:`~airflow_provider.tables.cut_files.CutFileFormat.cut_file`.

    The metadata file comes last, whole or not at all: what it names is durable by then.
    """
    ref = _committed(state)
    place = _place(state, ref, schema)
    if not io.new_input(ref.location).exists():
        raise checks.missing_file(ref.location)
    uri = f"{place}/metadata/{_NAME}"
    metadata = _found(io, uri) or _written(io, state, ref, schema, place)
    (snapshot,) = metadata["snapshots"]
    return CutFile(
        uri=uri,
        snapshot_id=snapshot["snapshot-id"],
        rows=int(snapshot["summary"]["total-records"]),
        files=int(snapshot["summary"]["total-data-files"]),
        metadata=metadata,
    )


def _committed(state: State) -> TableRef:
    """:raises InvalidInput: *state* has no version, or unpublished output."""
    if state.ref is None or state.staged:
        raise InvalidInput(
            field="state",
            value=state.table,
            expected="a state of committed rows",
            next_step="make the cut at read_committed.",
        )
    return state.ref


def _place(state: State, ref: TableRef, schema: str) -> str:
    """Return the directory of the cut file: a pure function of what the file says."""
    low = state.low if state.kind.accumulates else None
    said = [
        FORM,
        ref.location,
        schema,
        state.kind,
        None if low is None else micros(low),
        micros(state.barrier),
    ]
    digest = hashlib.blake2b(json.dumps(said).encode(), digest_size=16).hexdigest()
    _, _, name = ref.location.rpartition("/")
    return f"{_cuts_of(ref.location)}/{name.removesuffix('.avro')}.{digest}"


def _cuts_of(location: str) -> str:
    """Return the directory of the cut files of a table, given one of its manifest lists."""
    return f"{_parent(_parent(location))}/cuts"


def _parent(uri: str) -> str:
    return uri.rpartition("/")[0]


# --- writing -------------------------------------------------------------------------------------------------


def _found(io: FileIO, uri: str) -> dict[str, Any] | None:
    """Return the content of the cut file at *uri*; None if it is not there whole, with its list."""
    try:
        with io.new_input(uri).open() as stream:
            metadata: dict[str, Any] = json.loads(stream.read())
        (snapshot,) = metadata["snapshots"]
    except (FileNotFoundError, ValueError):
        return None
    return metadata if io.new_input(snapshot["manifest-list"]).exists() else None


def _written(io: FileIO, state: State, ref: TableRef, schema: str, place: str) -> dict[str, Any]:
    """Write the cut file, and return its content."""
    listed = manifests.live(manifest_files.read_list(io, ref.location))
    layout = manifests.Layout(
        io=io, schema=schemas.from_json(schema), specs={}, directory=f"{place}/metadata"
    )
    kept = list(_of_state(layout, state, listed, ref.version))
    for manifest in kept:
        _know_spec(layout, manifest)
    own = _own(layout, kept, ref.version)
    number = max((manifest.sequence_number for manifest in listed), default=1)
    snapshot_id = _snapshot_id(place)
    location = _private_list(layout, own, snapshot_id, number)
    snapshot = _snapshot(state, ref, own, location, number=number, snapshot_id=snapshot_id)
    metadata = _metadata(state, ref, layout, place, snapshot)
    for name, content in ((_HINT, b"1"), (_NAME, json.dumps(metadata).encode())):
        filesystem, path = storage.filesystem(f"{layout.directory}/{name}")
        storage.write_whole(filesystem, path, content)
    return metadata


def _of_state(
    layout: manifests.Layout, state: State, listed: Iterable[ManifestFile], snapshot_id: int
) -> Iterator[ManifestFile]:
    """Yield manifests of exactly the files of *state*: those wholly inside as they are, of others a part."""
    for manifest in listed:
        bounds = manifests.epochs_of(manifest)
        if bounds is not None and all(state.has(from_micros(bound)) for bound in bounds):
            yield manifest
        elif bounds is None or spans.may_have(state, bounds):
            yield from _part(layout, state, manifest, snapshot_id)


def _part(
    layout: manifests.Layout, state: State, manifest: ManifestFile, snapshot_id: int
) -> Iterator[ManifestFile]:
    """Yield private manifests of those files of *manifest* that *state* has; itself if these are all."""
    entries = manifest_files.entries(layout.io, manifest)
    spanned = [(entry, spans.span_of(entry.data_file)) for entry in entries]
    inside = [entry for entry, span in spanned if spans.is_inside(state, span)]
    if len(inside) == len(entries):
        yield manifest
        return
    spec_id = manifest.partition_spec_id
    cut = [
        entry.data_file
        for entry, span in spanned
        if spans.overlaps(state, span) and not spans.is_inside(state, span)
    ]
    if inside or cut:
        _know_spec(layout, manifest)
    own = list(_private_rows(layout, state, cut, spec_id)) if cut else []
    if own:
        uri, spec = layout.new_uri(snapshot_id), layout.specs[spec_id]
        yield manifests.write_added(layout.io, spec, layout.schema, uri, own, snapshot_id=snapshot_id)
    for start in range(0, len(inside), manifests.MOST_COPIED_FILES):
        some = inside[start : start + manifests.MOST_COPIED_FILES]
        yield manifests.rewritten(layout, spec_id, some, snapshot_id)


def _private_rows(
    layout: manifests.Layout, state: State, files: Sequence[DataFile], spec_id: int
) -> Iterator[DataFile]:
    """Yield copies of *files*, which have rows beside those of *state*, with its rows alone.

    No list of deleted rows does: it names a file by its URI, which engines spell in several ways.
    """
    schema, spec = schemas.to_arrow(layout.schema), layout.specs[spec_id]
    clip = Clip(files=frozenset(), low=state.low, high=state.barrier)
    writer = IcebergTaskWriter(
        table=state.table, place=f"{_parent(layout.directory)}/data/", schema=schema, barrier=0
    )
    types = data_files.partition_types(spec, layout.schema)
    for file in files:
        rows = parquet_files.read_clipped(file.file_path, schema, schema.field(EPOCH_COLUMN), clip)
        if not rows.num_rows:
            continue
        partition = tuple(regrouping.plain_partition(file))
        copy = OpenFile(writer, storage.filesystem(writer.place), f"{uuid.uuid4().hex}.parquet", partition)
        for batch in rows.to_batches():
            copy.write(batch)
        yield data_files.data_file(copy.close(), spec_id, types)


def _know_spec(layout: manifests.Layout, manifest: ManifestFile) -> int:
    """Enter the partition spec of *manifest*, which its own header has, into *layout*; return the spec's id."""
    spec_id = manifest.partition_spec_id
    if spec_id not in layout.specs:
        content = manifest_files.content(layout.io, manifest.manifest_path)
        fields = manifest_files.partition_fields(content, manifest.manifest_path)
        spec = PartitionSpec.model_validate({"spec-id": spec_id, "fields": fields})
        layout.specs[spec_id] = _for_readers(spec, layout.schema)
    return spec_id


def _for_readers(spec: PartitionSpec, schema: Schema) -> PartitionSpec:
    """Return *spec* with the fields' columns as they are now, and without the first letters of texts.

    Readers refuse a field that has the name of another column. Iceberg's Java library takes a prefix of as many UTF-16
    units as a field has characters for the whole value, so that ``startswith`` skips files of rows that it is true for.
    A file's bounds exclude as much.
    """
    fields = []
    for field in spec.fields:
        change: dict[str, Any] = {}
        if isinstance(field.transform, IdentityTransform):
            change["name"] = schema.find_column_name(field.source_id) or field.name
        elif isinstance(field.transform, TruncateTransform) and _is_text(schema, field.source_id):
            change["transform"] = VoidTransform()
        fields.append(field.model_copy(update=change))
    return PartitionSpec(*fields, spec_id=spec.spec_id)


def _is_text(schema: Schema, column: int) -> bool:
    return isinstance(schema.find_type(column), StringType)


def _own(layout: manifests.Layout, kept: Sequence[ManifestFile], snapshot_id: int) -> list[ManifestFile]:
    """Return *kept*, of which those that belong to the table are copied: engines delete what a dropped table names."""
    shared = [m.manifest_path for m in kept if not m.manifest_path.startswith(f"{layout.directory}/")]
    copies = {uri: layout.new_uri(snapshot_id) for uri in shared}
    with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
        contents = pool.map(partial(manifest_files.content, layout.io), shared)
        write_together(layout.io, dict(zip(copies.values(), contents, strict=True)))
    return [
        manifest_files.renamed(manifest, copies.get(manifest.manifest_path, manifest.manifest_path))
        for manifest in kept
    ]


def _private_list(
    layout: manifests.Layout, kept: Sequence[ManifestFile], snapshot_id: int, sequence_number: int
) -> str:
    uri = f"{layout.directory}/snap-{snapshot_id}-{uuid.uuid4().hex}.avro"
    content, _ = manifest_files.encoded_list(
        kept, snapshot_id=snapshot_id, parent=None, sequence_number=sequence_number
    )
    write_together(layout.io, {uri: content})
    return uri


def _snapshot_id(place: str) -> int:
    """Return the id of the snapshot in the cut file at *place*: engines tell two states of a table apart by it."""
    return int(place.rpartition(".")[2][:16], 16) >> 1


def _snapshot(
    state: State,
    ref: TableRef,
    kept: Sequence[ManifestFile],
    location: str,
    *,
    number: int,
    snapshot_id: int,
) -> dict[str, Any]:
    return {
        "snapshot-id": snapshot_id,
        "sequence-number": number,
        "timestamp-ms": micros(state.barrier) // 1000,
        "manifest-list": location,
        "schema-id": ref.schema_id,
        "summary": {
            "operation": "append",
            "total-records": str(manifests.live_rows(kept)),
            "total-data-files": str(manifests.live_files(kept)),
            "total-delete-files": "0",
        },
    }


def _metadata(
    state: State, ref: TableRef, layout: manifests.Layout, place: str, snapshot: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of the cut file: a table with one snapshot, one schema, and the directory as its own."""
    schema = json.loads(schemas.to_json(layout.schema)) | {"schema-id": ref.schema_id}
    specs = layout.specs or {0: PartitionSpec(spec_id=0)}
    fields = [field.field_id for spec in specs.values() for field in spec.fields]
    return {
        "format-version": 2,
        "table-uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, place)),
        "location": place,
        "last-sequence-number": snapshot["sequence-number"],
        "last-updated-ms": snapshot["timestamp-ms"],
        "last-column-id": layout.schema.highest_field_id,
        "schemas": [schema],
        "current-schema-id": ref.schema_id,
        "partition-specs": [json.loads(specs[number].model_dump_json()) for number in sorted(specs)],
        "default-spec-id": max(specs),
        "last-partition-id": max(fields, default=PARTITION_FIELD_ID_START - 1),
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": _properties(state, ref) | _names(layout, ref),
        "current-snapshot-id": snapshot["snapshot-id"],
        "refs": {"main": {"snapshot-id": snapshot["snapshot-id"], "type": "branch"}},
        "snapshots": [snapshot],
        "snapshot-log": [],
        "metadata-log": [],
    }


def _names(layout: manifests.Layout, ref: TableRef) -> dict[str, str]:
    """Return the property by which engines know the columns of files without ids, if the table may have such files."""
    names = column_names.read_names(layout.io, _parent(ref.location), ref.table_uuid)
    return {} if names is None else {TableProperties.DEFAULT_NAME_MAPPING: column_names.mapping(names)}


def _properties(state: State, ref: TableRef) -> dict[str, str]:
    low = {} if state.low is None else {"epochs.low": state.low.isoformat()}
    return {
        "gc.enabled": "false",
        "epochs.table": state.table,
        TABLE_UUID: ref.table_uuid,
        "epochs.list": ref.location,
        "epochs.barrier": state.barrier.isoformat(),
        **low,
    }


# --- retention -----------------------------------------------------------------------------------------------


def vacuum(expired: Collection[str], kept: Collection[str]) -> list[str]:
    """Delete the cut files of the manifest lists *expired*, and all whose list is gone; return their URIs.

    The latter are of readers that were slower than an earlier vacuum.

    :param kept: lists of the same table that stay.
    """
    deleted: list[str] = []
    for folder in sorted({_parent(location) for location in (*expired, *kept)}):
        needs = _directories(folder)
        unknown = {
            location for location in needs.values() if location not in expired and location not in kept
        }
        gone = {*expired, *storage.missing(sorted(unknown))}
        for directory in sorted(needs):
            if needs[directory] in gone:
                deleted += _remove(directory)
    return deleted


def _directories(folder: str) -> dict[str, str]:
    """Return the directories of cut files of the table whose metadata is in *folder*, each with the list it needs."""
    cuts = f"{_parent(folder)}/cuts"
    filesystem, path = storage.filesystem(cuts)
    matches = [_DIRECTORY.fullmatch(name) for name in storage.folders(cuts)]
    named = {match[0]: match["list"] for match in matches if match}
    if isinstance(filesystem, pafs.LocalFileSystem):  # a link leads to data of others
        named = {name: listed for name, listed in named.items() if not Path(path, name).is_symlink()}
    return {f"{cuts}/{name}": f"{folder}/{listed}.avro" for name, listed in named.items()}


def _remove(directory: str) -> list[str]:
    """Delete *directory*, the metadata file first; return the URIs of its files."""
    filesystem, path = storage.filesystem(directory)
    selector = pafs.FileSelector(path, recursive=True, allow_not_found=True)
    infos = [info for info in filesystem.get_file_info(selector) if info.is_file]
    storage.remove(filesystem, f"{path}/metadata/{_NAME}")
    with suppress(FileNotFoundError):  # another vacuum was faster
        storage.remove_folder(filesystem, path)
    return sorted(f"{directory}{info.path.removeprefix(path)}" for info in infos)
