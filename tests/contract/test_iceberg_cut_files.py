"""Cut files of Iceberg tables: what they name, what a crash leaves, and what other programs find in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Table
from airflow_provider.tables import storage
from airflow_provider.tables.errors import WarehouseUnavailable
from airflow_provider.tables.iceberg import manifest_files, manifests
from airflow_provider.tables.iceberg.file_io import DurableFileIO
from airflow_provider.testing.table_cases.backend import Publisher, batch, day, expected, rows_of
from airflow_provider.testing.table_cases.cut_files import CutFileCases, content, cut_file
from airflow_provider.testing.table_cases.drafting import committed, opened
from airflow_provider.testing.table_contract import TableBackend
from tests.contract.test_table_contract import IcebergBackend
from tests.services.directories import quick_directory


def said(uri: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(content(uri))
    return found


def listed(uri: str) -> str:
    """Return the manifest list that a cut file names."""
    (snapshot,) = said(uri)["snapshots"]
    return str(snapshot["manifest-list"])


class TestIcebergCutFiles(CutFileCases):
    """Iceberg."""

    @pytest.fixture
    def backend(self) -> Iterator[TableBackend]:
        with quick_directory("epochs-tables-") as folder, IcebergBackend(folder) as backend:
            yield backend

    def test_a_cut_file_of_folded_manifests_is_the_state(
        self, backend: IcebergBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """R19: also where most manifests have epochs of the state and others."""
        monkeypatch.setattr(manifests, "FOLD_AT", 2)
        monkeypatch.setattr(manifests, "MOST_COPIED_FILES", 2)
        self.test_a_cut_file_is_the_state_in_any_history(backend)

    @pytest.mark.parametrize("kind", TableKind)
    def test_an_earlier_state_in_a_folded_manifest_is_alone(
        self, backend: IcebergBackend, publisher: Publisher, kind: TableKind, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """R19: the manifest has later states, too; the private ones are no larger than others."""
        monkeypatch.setattr(manifests, "FOLD_AT", 2)
        monkeypatch.setattr(manifests, "MOST_COPIED_FILES", 2)
        table = publisher.table(kind=kind)
        for number in range(4):
            publisher.publish(table, day(number), [number])
        for until in range(4):
            found = cut_file(publisher, table, publisher.state(table, until))
            assert rows_of(backend.opened(found.uri)) == publisher.rows(table, until)

    def test_a_cut_file_names_nothing_of_the_tables_own_but_data(
        self, backend: IcebergBackend, publisher: Publisher, table: Table
    ) -> None:
        """I6: engines delete the manifests and lists of a dropped table, also with ``gc.enabled=false``."""
        publisher.publish(table, day(0), [1])
        publisher.publish(table, day(0), [2], replaces=True)
        publisher.publish(table, day(1), [3])
        for until in range(2):
            found = cut_file(publisher, table, publisher.state(table, until))
            directory = found.uri.rpartition("/")[0]
            manifest_list = listed(found.uri)
            named = [
                manifest.manifest_path
                for manifest in manifest_files.read_list(DurableFileIO(), manifest_list)
            ]
            assert {uri.rpartition("/")[0] for uri in (manifest_list, *named)} == {directory}
            for uri in (*named, manifest_list):
                backend.lose(uri)
        assert publisher.rows(table, 1) == backend.engine_rows(table) == expected((0, [2]), (1, [3]))

    def test_no_deleted_entry_is_in_a_private_list(self, publisher: Publisher, table: Table) -> None:
        """R22: what a version took out of sight says nothing of its earlier states."""
        for number in range(3):
            publisher.publish(table, day(number), [number])
        publisher.publish(table, day(1), [10], replaces=True)
        found = listed(cut_file(publisher, table, publisher.state(table, 1)).uri)
        named = manifest_files.read_list(DurableFileIO(), found)
        assert named == manifests.live(named)

    def test_a_cut_file_is_a_table_of_its_own(
        self, backend: IcebergBackend, publisher: Publisher, full_table: Table
    ) -> None:
        """I6: an engine takes the file for a table with a directory of its own, and changes nothing elsewhere."""
        for number in range(2):
            publisher.publish(full_table, day(number), [number, 5 + number])
        found = cut_file(publisher, full_table, publisher.state(full_table, 0))
        metadata = said(found.uri)
        directory = found.uri.removesuffix("/metadata/v1.metadata.json")
        assert metadata["location"] == directory
        assert metadata["properties"]["gc.enabled"] == "false"
        assert metadata["table-uuid"] != str(backend.loaded(full_table).metadata.table_uuid)
        assert content(f"{directory}/metadata/version-hint.text") == b"1"
        summary = StaticTable.from_metadata(found.uri).current_snapshot()
        assert summary is not None
        assert summary.summary is not None
        assert (summary.summary["total-records"], summary.summary["total-data-files"]) == ("2", "1")

    def test_a_crash_before_the_metadata_file_leaves_nothing_to_read(
        self,
        backend: IcebergBackend,
        publisher: Publisher,
        full_table: Table,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """R22: the list is there, and the next call writes what is missing."""
        for number in range(2):
            publisher.publish(full_table, day(number), [number])
        state = publisher.state(full_table, 0)

        def crash(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(storage, "write_whole", crash)
            with pytest.raises(KeyboardInterrupt):
                cut_file(publisher, full_table, state)
        assert state.ref is not None
        root = Path(storage.split(state.ref.location)[1]).parents[1]
        assert list(root.rglob("cuts/*/metadata/snap-*.avro"))
        assert not list(root.rglob("cuts/*/metadata/*.json*"))
        assert rows_of(backend.opened(cut_file(publisher, full_table, state).uri)) == expected((0, [0]))

    @pytest.mark.parametrize("damage", ["half a file", "no list"])
    def test_a_damaged_cut_file_is_written_again(
        self, backend: IcebergBackend, publisher: Publisher, full_table: Table, damage: str
    ) -> None:
        """R22: where a file system shows files before they are whole, or lost what the file names."""
        for number in range(2):
            publisher.publish(full_table, day(number), [number])
        state = publisher.state(full_table, 0)
        found = cut_file(publisher, full_table, state)
        if damage == "no list":
            backend.lose(listed(found.uri))
        else:
            path = Path(storage.split(found.uri)[1])
            path.write_bytes(path.read_bytes()[:100])
        assert cut_file(publisher, full_table, state) == found
        assert rows_of(backend.opened(found.uri)) == expected((0, [0]))

    def test_a_warehouse_that_cannot_be_written_is_named(
        self, publisher: Publisher, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A reader may have no right to write there."""
        ref = publisher.publish(table, day(0), [1])
        cuts = Path(storage.split(ref.location)[1]).parents[1] / "cuts"

        def refuse(path: str, **_: object) -> None:
            raise PermissionError(13, "Permission denied", path)

        state = publisher.state(table, 0)
        with monkeypatch.context() as patch:
            patch.setattr("airflow_provider.tables.storage.os.makedirs", refuse)
            with pytest.raises(WarehouseUnavailable) as error:
                cut_file(publisher, table, state)
        assert "cannot be written" in str(error.value)
        assert error.value.path.startswith(str(cuts))
        cuts.write_text("a file where the directory should be")
        with pytest.raises(WarehouseUnavailable):
            cut_file(publisher, table, state)

    @pytest.mark.parametrize("until", [0, 1])
    def test_partitions_follow_columns_that_are_renamed(
        self, backend: IcebergBackend, publisher: Publisher, until: int
    ) -> None:
        """R32: a partition field has the name that its column has in the cut, not the one in old manifests."""
        before = publisher.table(declared={"partition_by": ("label",)})
        publisher.publish(before, day(0), [0])
        backend.rename_column(before, "label", "title")
        table = replace(before, partition_by=("title",))
        publisher.refs[table] = publisher.refs[before]
        staged = publisher.stage(table, day(1), [batch([1]).rename_columns(["id", "title"])])
        publication = publisher.publication(table, (day(1), staged))
        publisher.commit((publication, publisher.format.prepare(publication)))
        found = cut_file(publisher, table, publisher.state(table, until))
        fields = said(found.uri)["partition-specs"][0]["fields"]
        assert [field["name"] for field in fields] == ["_epoch", "title"]
        rows = StaticTable.from_metadata(found.uri).scan(row_filter="title = 'row 0'").to_arrow()
        assert [row["id"] for row in rows.to_pylist()] == [0]

    def test_states_that_share_files_have_their_own_barriers(
        self, backend: IcebergBackend, publisher: Publisher, full_table: Table
    ) -> None:
        """Rows that statements left alone are in two states, and in each at its barrier."""
        engine = backend.engine()
        first = opened(publisher, engine, full_table, 0)
        engine.insert(first, batch([1]))
        committed(publisher, first)
        second = opened(publisher, engine, full_table, 1, base=publisher.state(full_table, 0))
        engine.insert(second, batch([2]))
        committed(publisher, second)
        for until, ids in ((0, [1]), (1, [1, 2])):
            uri = cut_file(publisher, full_table, publisher.state(full_table, until)).uri
            assert rows_of(backend.opened(uri)) == expected((until, ids))

    def test_cut_files_are_not_looked_for_in_other_directories(
        self, publisher: Publisher, table: Table
    ) -> None:
        """R24: of what lies among cut files, only directories of their form are deleted, and no link leads out."""
        first = publisher.publish(table, day(0), [1])
        newest = publisher.publish(table, day(0), [2], replaces=True)
        uri = cut_file(publisher, table, publisher.state(table, 0, ref=first)).uri
        other = Path(storage.split(uri)[1]).parents[2] / "mine"
        other.mkdir()
        (other / "metadata").mkdir()
        (other / "metadata" / "v1.metadata.json").touch()
        link = other.with_name(f"{uri.split('/')[-3].rpartition('.')[0]}.{'0' * 32}")
        link.symlink_to(other)
        publisher.format.vacuum(table, [first], [newest])
        assert sorted(other.parent.iterdir()) == sorted([other, link])
        assert (other / "metadata" / "v1.metadata.json").exists()
