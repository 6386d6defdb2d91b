"""A table's metadata with one more snapshot, as pyiceberg's own updates make it; and files that are read once."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadataV2, new_table_metadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)

from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.topology import Table
from airflow_provider.tables.columns import table_schema
from airflow_provider.tables.iceberg import publishing, remembering, schemas
from airflow_provider.tables.iceberg.catalogs import rest_updates
from airflow_provider.tables.iceberg.file_io import DurableFileIO, write_together
from airflow_provider.tables.iceberg.remembering import Remembered

TABLE = Table(TableName("t"))


def empty(properties: dict[str, str]) -> TableMetadataV2:
    columns = schemas.to_iceberg(table_schema(TABLE, pa.schema([("id", pa.int64())])))
    found = new_table_metadata(
        location="file:///t",
        schema=columns,
        partition_spec=schemas.partition_spec(TABLE, columns),
        sort_order=schemas.sort_order(TABLE, columns),
        properties=properties,
    )
    assert isinstance(found, TableMetadataV2)
    return found


def snapshot_of(metadata: TableMetadataV2) -> Snapshot:
    number = metadata.last_sequence_number + 1
    return Snapshot.model_validate(
        {
            "snapshot-id": 1000 + number,
            "parent-snapshot-id": metadata.current_snapshot_id,
            "sequence-number": number,
            "timestamp-ms": metadata.last_updated_ms + 7,
            "manifest-list": f"file:///t/metadata/{number}.avro",
            "summary": Summary(Operation.APPEND, **{"epochs.csn": str(number)}),
            "schema-id": 0,
        }
    )


def updated(metadata: TableMetadataV2, snapshot: Snapshot, pointer: str) -> TableMetadataV2:
    """The same by pyiceberg: the oracle."""
    head = {"type": SnapshotRefType.BRANCH, "snapshot-id": snapshot.snapshot_id}
    updates: list[TableUpdate] = [
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate.model_validate({"ref-name": MAIN_BRANCH, **head}),
    ]
    tagged = {ref.snapshot_id for name, ref in metadata.refs.items() if name != MAIN_BRANCH}
    oldest = metadata.snapshots[: -(publishing.KEPT_SNAPSHOTS - 1)]
    gone = [old.snapshot_id for old in oldest if old.snapshot_id not in tagged]
    if gone:
        updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": gone}))
    found = update_table_metadata(metadata, tuple(updates), metadata_location=pointer)
    assert isinstance(found, TableMetadataV2)
    return found


def tagged(metadata: TableMetadataV2) -> TableMetadataV2:
    """*metadata* with a tag of another program on its current snapshot."""
    tag = {"ref-name": "audit", "type": SnapshotRefType.TAG, "snapshot-id": metadata.current_snapshot_id}
    found = update_table_metadata(metadata, (SetSnapshotRefUpdate.model_validate(tag),))
    assert isinstance(found, TableMetadataV2)
    return found


@pytest.mark.parametrize("properties", [{}, {"write.metadata.previous-versions-max": "5"}])
def test_a_snapshot_is_added_as_pyiceberg_adds_it(properties: dict[str, str]) -> None:
    metadata = empty(properties)
    for number in range(publishing.KEPT_SNAPSHOTS + 12):
        if number == 3:
            metadata = tagged(metadata)
        snapshot, pointer = snapshot_of(metadata), f"file:///t/metadata/{number}.metadata.json"
        before = metadata.model_dump_json()
        made = publishing.with_snapshot(metadata, snapshot, pointer)
        assert made.model_dump_json() == updated(metadata, snapshot, pointer).model_dump_json()
        assert metadata.model_dump_json() == before, "what it was made from stays as it was"
        metadata = made
    assert TableMetadataV2.model_validate_json(metadata.model_dump_json()) == metadata
    assert len(metadata.snapshots) == publishing.KEPT_SNAPSHOTS + 1, "the tag holds one more"


def with_next(metadata: TableMetadataV2, **changes: object) -> TableMetadataV2:
    """*metadata* with one more snapshot, which has *changes*."""
    snapshot = snapshot_of(metadata)
    return publishing.with_snapshot(metadata, snapshot.model_copy(update=changes), "file:///t/next.json")


def with_spec(metadata: TableMetadataV2) -> TableMetadataV2:
    return metadata.model_copy(update={"partition_specs": [PartitionSpec(spec_id=0)]})


def without_snapshot(metadata: TableMetadataV2) -> TableMetadataV2:
    """A table whose main branch is at a snapshot that it does not list."""
    return metadata.model_copy(update={"snapshots": metadata.snapshots[:-1]})


INEXPRESSIBLE: dict[str, Callable[[TableMetadataV2], TableMetadataV2]] = {
    "another table": lambda before: with_next(before).model_copy(update={"table_uuid": uuid.uuid4()}),
    "an earlier number": lambda before: with_next(before, sequence_number=1),
    "an earlier time": lambda before: with_next(before, timestamp_ms=before.last_updated_ms - 60_001),
    "an unlisted snapshot": lambda before: without_snapshot(with_next(before)),
    "another layout": with_spec,
}


@pytest.mark.parametrize("what", INEXPRESSIBLE)
def test_what_no_commit_to_a_rest_catalog_says_is_not_made_one(what: str) -> None:
    """R17: files would go by another layout, or the server's table would be at other rows than the package's."""
    before = with_next(with_next(empty({})))
    said = rest_updates.updates(before, after := with_next(before), "file:///t/next.json")
    made = update_table_metadata(before, said)
    assert (made.refs, made.snapshots) == (after.refs, after.snapshots)
    assert rest_updates.pointer_of(made, "file:///server.json") == "file:///t/next.json"
    with pytest.raises(rest_updates.Inexpressible):
        rest_updates.updates(before, INEXPRESSIBLE[what](before), "file:///t/next.json")


class Reading:
    """Reads files, and counts."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, io: FileIO, uri: str) -> bytes:
        self.read.append(uri)
        with io.new_input(uri).open() as stream:
            return stream.read()


def test_a_file_is_read_once(tmp_path: Path) -> None:
    reading, io = Reading(), DurableFileIO()
    remembered = Remembered(io, reading)
    written, noted = f"file://{tmp_path}/a", f"file://{tmp_path}/b"
    write_together(io, {written: b"a", noted: b"b"})
    remembered.keep(noted, b"b")
    assert [remembered(uri) for uri in (written, noted, written, noted)] == [b"a", b"b", b"a", b"b"]
    assert reading.read == [written]


def test_a_file_that_is_gone_is_not_remembered(tmp_path: Path) -> None:
    io = DurableFileIO()
    remembered = Remembered(io, Reading())
    uri = f"file://{tmp_path}/a"
    write_together(io, {uri: b"a"})
    assert remembered(uri) == b"a"
    (tmp_path / "a").unlink()
    with pytest.raises(FileNotFoundError, match="does not exist"):
        remembered(uri)


def test_so_many_files_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembering, "MOST_REMEMBERED", 2)
    reading, io = Reading(), DurableFileIO()
    remembered = Remembered(io, reading)
    uris = [f"file://{tmp_path}/{name}" for name in "abc"]
    write_together(io, dict.fromkeys(uris, b"x"))
    for uri in (*uris, uris[2], uris[0]):
        remembered(uri)
    assert reading.read == [*uris, uris[0]], "the first one made room"


def test_files_written_together_are_new(tmp_path: Path) -> None:
    io, taken = DurableFileIO(), tmp_path / "taken"
    taken.write_bytes(b"of somebody else")
    with pytest.raises(FileExistsError):
        write_together(io, {f"file://{tmp_path}/new": b"a", f"file://{taken}": b"b"})
    assert taken.read_bytes() == b"of somebody else"


def test_files_written_together_are_synced_and_then_their_directory_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[int, int]] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        found = os.fstat(descriptor)
        synced.append((found.st_ino, found.st_size if stat.S_ISREG(found.st_mode) else 0))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    write_together(DurableFileIO(), {f"file://{tmp_path}/{name}": b"content" for name in "ab"})
    files = {((tmp_path / name).stat().st_ino, len(b"content")) for name in "ab"}
    assert set(synced[:2]) == files, "the whole content of both"
    assert synced[2:] == [(tmp_path.stat().st_ino, 0)]
