"""Manifests: what leaves with an epoch, what is folded, and how many remain."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, ManifestEntryStatus, ManifestFile, read_manifest_list
from pyiceberg.typedef import Record

from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.topology import Table
from airflow_provider.tables import storage
from airflow_provider.tables.columns import table_schema
from airflow_provider.tables.iceberg import manifest_files, manifests, schemas, spans
from airflow_provider.tables.iceberg.file_io import DurableFileIO
from airflow_provider.tables.iceberg.spans import Removed
from airflow_provider.tables.iceberg.task_writer import IcebergTaskWriter

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.string())])
TABLE = Table(TableName("t"), partition_by=("p",))


class Files:
    """A table's metadata directory without a catalog."""

    def __init__(self, folder: Path) -> None:
        self.columns = table_schema(TABLE, COLUMNS)
        self.schema = schemas.to_iceberg(self.columns)
        self.spec = schemas.partition_spec(TABLE, self.schema)
        self.folder = f"file://{folder}"
        self.layout = manifests.Layout(
            io=DurableFileIO(), schema=self.schema, specs={0: self.spec}, directory=f"{self.folder}/metadata"
        )
        self.last = 0

    def staged(self, barrier: int, values: Iterable[str | None] = ("a",)) -> ManifestFile:
        """The manifest of an epoch with a file for each of *values*."""
        self.last += 1
        place = f"{self.folder}/{self.last}/"
        writing = IcebergTaskWriter(
            table="t", place=place, schema=self.columns, barrier=barrier, partition_by=("p",)
        )
        rows = pa.record_batch([list(range(len(list(values)))), list(values)], schema=COLUMNS)
        (part,) = manifests.write_staged(self.layout.io, self.spec, self.schema, place, list(writing([rows])))
        return manifests.staged(part, self.last)

    def listed(self, found: list[ManifestFile], snapshot_id: int) -> list[ManifestFile]:
        """Write *found* as the list of a snapshot and read it back, with all that it assigns."""
        uri = self.layout.new_uri(snapshot_id)
        manifest_files.write_list(
            self.layout.io, uri, found, snapshot_id=snapshot_id, parent=None, sequence_number=snapshot_id
        )
        return manifest_files.read_list(self.layout.io, uri)

    def published(self, count: int) -> list[ManifestFile]:
        """As many epochs, one commit each."""
        found: list[ManifestFile] = []
        for number in range(1, count + 1):
            added = self.staged(number)
            found = self.listed([*manifests.folded(self.layout, found, self.last), added], self.last)
        return found

    def epochs(self, found: Iterable[ManifestFile]) -> list[int]:
        return sorted(
            spans.span_of(entry.data_file)[0]
            for each in found
            for entry in manifest_files.entries(self.layout.io, each)
        )


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """A directory whose manifests are folded early."""
    monkeypatch.setattr(manifests, "FOLD_AT", 4)
    monkeypatch.setattr(manifests, "FULL_AT_FILES", 16)
    return Files(tmp_path)


def test_a_staged_manifest_is_listed_without_being_read(files: Files) -> None:
    barrier = -1_000_000  # before 1970
    (found,) = files.listed([files.staged(barrier, ["a", None])], 1)
    assert manifests.epochs_of(found) == (barrier, barrier)
    assert (found.added_files_count, found.added_rows_count, found.added_snapshot_id) == (2, 2, 1)
    assert found.sequence_number == 1
    summary = (found.partitions or [])[1]
    assert (summary.contains_null, summary.lower_bound, summary.upper_bound) == (True, b"a", b"a")
    entries = manifest_files.entries(files.layout.io, found)
    assert {(entry.snapshot_id, entry.sequence_number) for entry in entries} == {(1, 1)}
    assert [entry.data_file.partition[1] for entry in entries] == ["a", None]


def test_an_empty_list_is_a_list(files: Files) -> None:
    assert files.listed([], 1) == []


def test_folding_keeps_every_entry_and_few_manifests(files: Files) -> None:
    count = manifests.FOLD_AT**2 + manifests.FOLD_AT + 3
    found = files.published(count)
    assert files.epochs(found) == list(range(1, count + 1))
    assert len(found) <= 2 * manifests.FOLD_AT
    largest = max(found, key=lambda manifest: manifest.existing_files_count or 0)
    entries = manifest_files.entries(files.layout.io, largest)
    assert {(entry.snapshot_id, entry.sequence_number) for entry in entries} == {
        spans.span_of(entry.data_file) for entry in entries
    }, "a folded entry still names the commit that added it"


def test_folded_manifests_have_near_epochs_whatever_the_order_of_their_commits(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two years are loaded side by side: a cut of one need not read manifests of the other."""
    monkeypatch.setattr(manifests, "MOST_COPIED_FILES", manifests.FOLD_AT)
    barriers = [1000 * (number % 2) + number for number in range(2 * manifests.FOLD_AT)]
    found = files.listed([files.staged(barrier) for barrier in barriers], files.last)
    for number in range(2):
        found = files.listed(manifests.folded(files.layout, found, 100 + number), 100 + number)
    assert files.epochs(found) == sorted(barriers)
    assert [manifests.epochs_of(manifest) for manifest in found] == [(0, 6), (1001, 1007)]
    for manifest in found:
        inside = [
            spans.span_of(entry.data_file)[0] for entry in manifest_files.entries(files.layout.io, manifest)
        ]
        assert inside == sorted(inside)


def test_full_manifests_are_left_alone(files: Files) -> None:
    many = [f"value {number:03}" for number in range(manifests.FULL_AT_FILES)]
    found = []
    for number in range(manifests.FOLD_AT):
        found += files.listed([files.staged(number, many)], files.last)
    assert manifests.folded(files.layout, found, 99) == found


def test_manifests_of_the_middle_size_are_folded_once_more(files: Files) -> None:
    few = [f"value {number}" for number in range(manifests.FOLD_AT)]
    found = []
    for number in range(manifests.FOLD_AT):
        found += files.listed([files.staged(number, few)], files.last)
    (merged,) = manifests.folded(files.layout, found, 99)
    assert merged.existing_files_count == manifests.FOLD_AT**2


def test_a_fold_copies_so_many_files_at_most(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MOST_COPIED_FILES", 2 * manifests.FOLD_AT + 1)
    few = [f"value {number}" for number in range(manifests.FOLD_AT)]
    found = []
    for number in range(3 * manifests.FOLD_AT):
        found += files.listed([files.staged(number, few)], files.last)
    *left, merged = manifests.folded(files.layout, found, 99)
    assert left == found[2:]
    assert files.epochs([merged]) == [0] * manifests.FOLD_AT + [1] * manifests.FOLD_AT


def leaving(*barriers: int) -> Removed:
    return Removed(frozenset(barriers))


def test_a_whole_manifest_leaves_unread(files: Files) -> None:
    kept, removed = files.listed([files.staged(1)], 1), files.listed([files.staged(2)], 2)
    Path(removed[0].manifest_path.removeprefix("file://")).unlink()
    assert list(manifests.without(files.layout, [*kept, *removed], leaving(2), 3)) == kept


def test_a_mixed_manifest_is_written_anew(files: Files) -> None:
    found = files.published(manifests.FOLD_AT + 1)
    mixed = next(manifest for manifest in found if manifests.epochs_of(manifest) == (1, manifests.FOLD_AT))
    left = list(manifests.without(files.layout, found, leaving(3, 5), 99))
    assert files.epochs(files.listed(left, 99)) == [
        epoch for epoch in range(1, manifests.FOLD_AT + 2) if epoch not in {3, 5}
    ]
    assert mixed.manifest_path not in {manifest.manifest_path for manifest in left}
    assert files.epochs([mixed]) == list(range(1, manifests.FOLD_AT + 1)), (
        "older lists still read the old one"
    )


def test_a_gap_within_the_bounds_changes_nothing(files: Files) -> None:
    found = []
    for barrier in (1, 2, 4, 5):
        found += files.listed([files.staged(barrier)], files.last)
    together = files.listed(manifests.folded(files.layout, found, 99), 99)
    assert len(together) == 1
    assert list(manifests.without(files.layout, together, leaving(3), 4)) == together


def test_an_epoch_that_a_mixed_manifest_holds_alone_takes_it_along(files: Files) -> None:
    found = files.published(manifests.FOLD_AT + 1)
    removed = leaving(*range(1, manifests.FOLD_AT + 1))
    left = list(manifests.without(files.layout, found, removed, 99))
    assert files.epochs(left) == [manifests.FOLD_AT + 1]


def test_bounds_are_microseconds() -> None:
    moment = dt.datetime(2013, 2, 8, tzinfo=dt.UTC)
    number = int(moment.timestamp() * 1_000_000)
    assert manifests.decoded(manifests.encoded(number)) == number


def test_file_name_does_not_depend_on_the_manifests_writer(files: Files) -> None:
    """R24: Hadoop writes one slash where this package writes three; retention compares names."""
    own = files.staged(1)
    (entry,) = manifest_files.entries(files.layout.io, own)
    name = entry.data_file.file_path
    entry.data_file[1] = name.replace("file:///", "file:/")
    assert entry.data_file.file_path != name
    uri = f"{files.folder}/theirs.avro"
    theirs = manifest_files.write_manifest(
        files.layout.io, files.spec, files.schema, uri, [entry],
        status=ManifestEntryStatus.EXISTING, snapshot_id=2,
    )  # fmt: skip
    theirs[0] = uri.replace("file:///", "file:/")
    (found,) = files.listed([theirs], 2)
    assert found.manifest_path == uri
    assert [written.data_file.file_path for written in manifest_files.entries(files.layout.io, found)] == [
        name
    ]


def test_lists_keep_the_spelling_of_names_that_another_program_wrote(files: Files) -> None:
    """R17: Iceberg's changelogs take two spellings for two manifests, and tell the rows twice."""
    own, theirs = files.staged(1), files.staged(2)
    theirs[0] = theirs[0].replace("file:///", "file:/")
    numbers = {"snapshot_id": 1, "parent": None, "sequence_number": 1}
    spelled = [own.manifest_path, theirs.manifest_path]
    read = [own, theirs]
    for number in range(2):
        uri = f"{files.folder}/{number}.avro"
        manifest_files.write_list(files.layout.io, uri, read, **numbers)
        read = manifest_files.read_list(files.layout.io, uri)
        assert [manifest.manifest_path for manifest in read] == [spelled[0], storage.as_uri(spelled[1])]
        written = read_manifest_list(files.layout.io.new_input(uri))
        assert [manifest.manifest_path for manifest in written] == spelled


def test_a_file_that_says_no_epoch_is_of_none(tmp_path: Path) -> None:
    """R17, R41: files of many epochs say them by their names, and one of another program has such a partition, too."""
    unit = DataFile.from_args(file_path=f"file:///t/{spans.data_name((1, 3), 0)}", partition=Record(None))
    foreign = DataFile.from_args(file_path=f"file://{tmp_path}/part-0.parquet", partition=Record(None))
    assert spans.span_of(unit) == (1, 3)
    with pytest.raises(Unavailable, match=r"part-0\.parquet does not say its epochs"):
        spans.span_of(foreign)
