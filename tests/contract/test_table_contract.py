"""The table contract on every format of the package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import StaticTable
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Operation, Snapshot

from airflow_provider.domain.columns import add, rename
from airflow_provider.domain.errors import ForeignCommit, InvalidInput, Unavailable
from airflow_provider.domain.interval import from_micros
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import OnForeignCommit, Table
from airflow_provider.domain.version import ALL_SHOWN
from airflow_provider.stores.base import CATALOG_NAME, MetadataStore
from airflow_provider.stores.factory import open_store
from airflow_provider.stores.memory import MemoryStore
from airflow_provider.tables import parquet_files, storage
from airflow_provider.tables.base import EPOCH_COLUMN, TableFormat
from airflow_provider.tables.iceberg import manifest_files, manifests, spans
from airflow_provider.tables.iceberg.file_io import DurableFileIO
from airflow_provider.tables.iceberg.format import IcebergFormat
from airflow_provider.tables.memory import MemoryFormat
from airflow_provider.tables.pointer_status import PointerStatus
from airflow_provider.testing.table_cases.backend import (
    Publisher,
    Row,
    Slices,
    batch,
    day,
    expected,
    rows_of,
    slice_rows,
)
from airflow_provider.testing.table_cases.changes import (
    Change,
    ChangesBackend,
    ChangesCases,
    changed,
    remove,
)
from airflow_provider.testing.table_cases.drafting import committed, drafting, opened
from airflow_provider.testing.table_cases.model import ModelCases
from airflow_provider.testing.table_cases.showing import days, only
from airflow_provider.testing.table_contract import (
    CutFileBackend,
    DraftingBackend,
    DraftingTableContract,
    ProjectedTableContract,
    TableBackend,
    TableContract,
)
from tests.contract.draft_engine import PyicebergEngine
from tests.contract.outside_commits import add_plain_files, change_layout, commit_outside
from tests.services.directories import quick_directory
from tests.services.stores import empty_sqlite_file


class MemoryBackend(TableBackend):
    """Memory tables beside a memory store.

    :param elsewhere: whether their pointers lie outside of the store.
    """

    def __init__(self, *, elsewhere: bool = False) -> None:
        self._store = MemoryStore()
        self._catalog = MemoryStore().catalog if elsewhere else self._store.catalog
        self._format = MemoryFormat(self._catalog, swaps=not elsewhere)

    def format(self) -> TableFormat:
        return self._format

    def store(self) -> MetadataStore:
        return self._store

    def drop(self, table: Table) -> None:
        self._catalog.drop(table.domain, table.name)

    def engine_rows(self, table: Table) -> list[Row]:
        found = [self._catalog.objects[uri] for uri in self._format.shown_files(table)]
        return sorted(row for rows in found for row in rows_of(rows))

    def rename_column(self, table: Table, old: str, new: str) -> None:
        swap = self._format.rename_column(table, old, new)
        assert self._catalog.move(swap.namespace, swap.table, swap.expected, swap.new)

    def commit_foreign(self, table: Table, operation: str, slices: Slices) -> None:
        swap = self._format.commit_foreign(table, operation, slice_rows(slices))
        assert self._catalog.move(swap.namespace, swap.table, swap.expected, swap.new)

    def lose(self, uri: str) -> None:
        del self._catalog.objects[uri]


class IcebergBackend(DraftingBackend, ChangesBackend, CutFileBackend):
    """Iceberg tables beside a SQLite store.

    :param elsewhere: whether their catalog lies in another file than the store.
    """

    def __init__(self, folder: Path, *, elsewhere: bool = False) -> None:
        store_url = f"sqlite:///{folder}/store.db"
        self.catalog_url = f"sqlite:///{folder}/catalog.db" if elsewhere else store_url
        self._elsewhere = elsewhere
        self._warehouse = f"{folder}/ware house"
        (folder / "store.db").write_bytes(empty_sqlite_file())
        self._store = open_store(store_url)
        self._formats: list[IcebergFormat] = []

    def format(self) -> IcebergFormat:
        self._formats.append(IcebergFormat(self.catalog_url, self._warehouse, swaps=not self._elsewhere))
        return self._formats[-1]

    def store(self) -> MetadataStore:
        return self._store

    def engine_rows(self, table: Table) -> list[Row]:
        return rows_of(self._outsider().load_table((table.domain, table.name)).scan().to_arrow())

    def opened(self, uri: str) -> pa.Table:
        return StaticTable.from_metadata(uri).scan().to_arrow()

    def loaded(self, table: Table) -> IcebergTable:
        return self._outsider().load_table((table.domain, table.name))

    def changes(self, table: Table, after: int) -> list[Change]:
        """Read the entries of each snapshot's own manifests, as Iceberg's changelog scan does."""
        loaded = self.loaded(table)
        found: list[Change] = []
        snapshot = loaded.current_snapshot()
        while snapshot is not None and snapshot.snapshot_id != after:
            if operation_of(snapshot) is not Operation.REPLACE:
                found += _changes(loaded, snapshot)
            snapshot = loaded.snapshot_by_id(snapshot.parent_snapshot_id or 0)
        return found

    def drop(self, table: Table) -> None:
        self._outsider().drop_table((table.domain, table.name))

    def rename_column(self, table: Table, old: str, new: str) -> None:
        with self._outsider().load_table((table.domain, table.name)).update_schema() as update:
            update.rename_column(old, new)

    def commit_foreign(
        self, table: Table, operation: str, slices: Slices, *, root: str | None = None
    ) -> None:
        loaded = self._outsider().load_table((table.domain, table.name))
        commit_outside(loaded, operation, [rows for _, rows in slice_rows(slices)], root=root)

    def add_plain_files(self, table: Table, slices: Slices) -> None:
        """Let another program register Parquet files that know nothing of column ids."""
        loaded = self._outsider().load_table((table.domain, table.name))
        add_plain_files(loaded, [rows for _, rows in slice_rows(slices)])

    def commit_without_epoch(self, table: Table, ids: Sequence[int]) -> None:
        """Let another program append rows whose epoch is null; it has to allow that first."""
        with self._outsider().load_table((table.domain, table.name)).update_schema() as update:
            update.make_column_optional(EPOCH_COLUMN)
        rows = pa.Table.from_batches([batch(ids)])
        rows = rows.append_column(EPOCH_COLUMN, pa.nulls(rows.num_rows, pa.timestamp("us", tz="UTC")))
        commit_outside(self._outsider().load_table((table.domain, table.name)), "append", [rows])

    def change_layout(self, table: Table, how: str) -> None:
        change_layout(self._outsider().load_table((table.domain, table.name)), how)

    def default_spec(self, table: Table) -> list[str]:
        loaded = self._outsider().load_table((table.domain, table.name))
        return [loaded.schema().find_column_name(field.source_id) or "" for field in loaded.spec().fields]

    def lose(self, uri: str) -> None:
        Path(uri.removeprefix("file://")).unlink()

    def engine(self) -> PyicebergEngine:
        return PyicebergEngine()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for made in self._formats:
            made.close()
        self._store.close()

    def _outsider(self) -> Catalog:
        return SqlCatalog(CATALOG_NAME, uri=self.catalog_url)


def operation_of(snapshot: Snapshot) -> Operation:
    assert snapshot.summary is not None
    return snapshot.summary.operation


def _changes(loaded: IcebergTable, snapshot: Snapshot) -> Iterator[Change]:
    signs = {ManifestEntryStatus.ADDED: 1, ManifestEntryStatus.DELETED: -1}
    for manifest in snapshot.manifests(loaded.io):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        for entry in manifest.fetch_manifest_entry(loaded.io, discard_deleted=False):
            if entry.snapshot_id == snapshot.snapshot_id and entry.status in signs:
                barrier = from_micros(spans.span_of(entry.data_file)[0])
                path = storage.split(entry.data_file.file_path)[1]
                for number in parquet.read_table(path, columns=["id"]).column("id").to_pylist():
                    yield signs[entry.status], (barrier, number)


class TestMemoryTables(TableContract):
    """Memory."""

    @pytest.fixture
    def backend(self) -> TableBackend:
        return MemoryBackend()


class TestMemoryTablesElsewhere(ProjectedTableContract):
    """Memory, the pointers outside of the store."""

    @pytest.fixture
    def backend(self) -> TableBackend:
        return MemoryBackend(elsewhere=True)


class IcebergHistories(ModelCases):
    """Iceberg against the reference model."""

    @pytest.fixture
    def backend(self) -> Iterator[TableBackend]:
        with quick_directory("epochs-tables-") as folder, IcebergBackend(folder) as backend:
            yield backend

    def test_rows_of_folded_manifests_are_the_models_state(
        self, backend: TableBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """R19, I1: also where histories as short as the model's fold their manifests."""
        monkeypatch.setattr(manifests, "FOLD_AT", 2)
        self.test_rows_read_are_the_models_state(backend)


class TestIcebergTables(IcebergHistories, ChangesCases, TableContract):
    """Iceberg."""

    examples = 20
    """More in the slow tier."""

    def test_others_see_the_columns_that_the_table_has(self, publisher: Publisher, table: Table) -> None:
        """R32: by the catalog's pointer, and by the number of a snapshot those that it had then."""
        before = publisher.publish(table, day(0), [1])
        publisher.change(table, rename("label", "title"), add("label", "bigint"))
        newest = StaticTable.from_metadata(publisher.refs[table].metadata)
        columns = ("id", "title", "label")
        assert newest.scan(selected_fields=columns).to_arrow().to_pylist() == [
            {"id": 1, "title": "row 1", "label": None}
        ]
        assert newest.scan(row_filter="label IS NULL AND title = 'row 1'").to_arrow().num_rows == 1
        then = newest.scan(snapshot_id=before.version, selected_fields=("id", "label")).to_arrow()
        assert then.to_pylist() == [{"id": 1, "label": "row 1"}]

    def test_changes_of_folded_manifests_add_up(
        self, backend: ChangesBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """R17: also where histories as short as the model's fold their manifests, or write several."""
        monkeypatch.setattr(manifests, "FOLD_AT", 2)
        monkeypatch.setattr(manifests, "MOST_COPIED_FILES", 2)
        self.test_changes_add_up_to_what_engines_see(backend)

    def test_a_snapshot_says_what_it_changes(
        self, backend: IcebergBackend, publisher: Publisher, full_table: Table
    ) -> None:
        """R17: engines pass over what is no change, and their totals are those of the shown files."""
        publisher.publish(full_table, day(0), [1, 2, 3], shows=only(0))
        says(backend, full_table, Operation.APPEND, added=3, deleted=0, total=3)
        publisher.publish(full_table, day(0), [4], replaces=True, shows=only(0))
        says(backend, full_table, Operation.OVERWRITE, added=1, deleted=3, total=1)
        publisher.publish(full_table, day(1), [5, 6], shows=only(0))
        says(backend, full_table, Operation.APPEND, added=0, deleted=0, total=1)
        publisher.publish(full_table, day(1), [7, 8], replaces=True, shows=only(0))
        says(backend, full_table, Operation.REPLACE, added=0, deleted=0, total=1)
        publisher.publish(full_table, day(2), [9], shows=days(0, 2))
        says(backend, full_table, Operation.APPEND, added=3, deleted=0, total=4)
        remove(publisher, full_table, 1, days(0, 2))
        says(backend, full_table, Operation.DELETE, added=0, deleted=2, total=2)

    def test_deleted_entries_belong_to_one_snapshot(self, publisher: Publisher, table: Table) -> None:
        """R17, R24: no other list has them, and they go with it; what they name is a hidden slice's, and stays."""
        first = publisher.publish(table, day(0), [1])
        second = publisher.publish(table, day(0), [2], replaces=True)
        assert removing(second.location), "all slices are shown"
        third = publisher.publish(table, day(1), [3])
        assert not removing(third.location)
        fourth = publisher.publish(table, day(2), [4], shows=days(0, 0))
        shown = fourth.location.replace("/states-", "/snap-")
        assert (removing(fourth.location), len(removing(shown))) == ([], 1)
        last = publisher.publish(table, day(3), [5], shows=days(0, 0))
        own = {*removing(second.location), *removing(shown)}
        deleted = set(publisher.format.vacuum(table, [first, second, third, fourth], [last]))
        assert own <= deleted
        assert shown in deleted
        assert publisher.format.missing(table, [last]) == []
        assert publisher.rows(table, 3) == expected((0, [2]), (1, [3]), (2, [4]), (3, [5]))

    @pytest.mark.parametrize("kind", list(TableKind))
    def test_a_lost_manifest_of_what_leaves_stops_no_publish(
        self, backend: IcebergBackend, publisher: Publisher, kind: TableKind
    ) -> None:
        """I6: the next version does not need it; to compute the epoch again is the way out of the loss."""
        table = publisher.table(kind=kind)
        lost = publisher.publish(table, day(0), [1, 2], shows=only(0))
        (listed,) = manifest_files.read_list(DurableFileIO(), lost.location)
        backend.lose(listed.manifest_path)
        newest = publisher.publish(table, day(0), [3], replaces=True, shows=only(0))
        assert publisher.rows(table, 0) == backend.engine_rows(table) == expected((0, [3]))
        assert publisher.format.missing(table, [newest]) == []
        snapshot = backend.loaded(table).current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        said = snapshot.summary
        assert operation_of(snapshot) is Operation.OVERWRITE
        assert (said["deleted-records"], said["total-records"], said["total-files-size"]) == ("2", "1", None)

    def test_a_vacuum_that_cannot_see_what_is_kept_deletes_nothing(
        self, backend: IcebergBackend, publisher: Publisher, table: Table
    ) -> None:
        """R24: the manifest that is lost may name the very files."""
        before = publisher.publish(table, day(0), [1])
        publisher.publish(table, day(0), [2], replaces=True)
        kept = publisher.publish(table, day(1), [3])
        rows = publisher.format.files(publisher.state(table, 1))
        for manifest in manifest_files.read_list(DurableFileIO(), kept.location):
            backend.lose(manifest.manifest_path)
        with pytest.raises(Unavailable, match="is missing"):
            publisher.format.vacuum(table, [before], [kept])
        assert storage.missing(rows) == []

    def test_cuts_do_without_deleted_entries(
        self, backend: IcebergBackend, publisher: Publisher, table: Table
    ) -> None:
        """R22: only programs that follow changes read them."""
        publisher.publish(table, day(0), [1])
        newest = publisher.publish(table, day(0), [2], replaces=True)
        for uri in removing(newest.location):
            backend.lose(uri)
        assert publisher.format.missing(table, [newest]) == []
        assert publisher.rows(table, 0) == expected((0, [2]))
        publisher.publish(table, day(1), [3])
        assert publisher.rows(table, 1) == expected((0, [2]), (1, [3]))

    def test_files_without_column_ids_are_named(self, backend: IcebergBackend, publisher: Publisher) -> None:
        """I1, R17: they were read as rows of nulls. They are foreign while they are there, and no state has them."""
        table = adopting(publisher)
        before = publisher.publish(table, day(0), [1])
        backend.add_plain_files(table, {0: [7], 1: [8]})
        found = publisher.format.compare(table, before)
        assert found.status is PointerStatus.FOREIGN
        assert "files without column ids" in found.foreign.obstacle
        assert found.foreign.epochs == (day(0).end, day(1).end)
        publisher.follow(table, found, shows=ALL_SHOWN)
        with pytest.raises(Unavailable, match=r"plain-0\.parquet has no column ids"):
            publisher.rows(table, 1)
        assert publisher.rows(table, 1, ref=before) == expected((0, [1]))

    def test_files_without_column_ids_that_others_rewrote_are_no_obstacle(
        self, backend: IcebergBackend, publisher: Publisher
    ) -> None:
        """R17: what is there now counts, whatever lies on the way."""
        table = adopting(publisher)
        before = publisher.publish(table, day(0), [1])
        backend.add_plain_files(table, {0: [7]})
        backend.commit_foreign(table, "replace", {0: [1, 7]})
        found = publisher.format.compare(table, before)
        assert (found.status, found.foreign.obstacle) == (PointerStatus.FOREIGN, "")
        publisher.follow(table, found, shows=ALL_SHOWN)
        assert publisher.rows(table, 0) == expected((0, [1, 7]))

    @pytest.mark.parametrize("operation", ["append", "replace"])
    @pytest.mark.parametrize("root", ["", "hdfs://elsewhere", "abfss://c@elsewhere.dfs.core.windows.net"])
    def test_files_that_are_not_opened_here_are_an_obstacle(
        self, backend: IcebergBackend, publisher: Publisher, operation: str, root: str
    ) -> None:
        """R17: before anything asks Arrow for them, which may end the process."""
        table = adopting(publisher)
        before = publisher.publish(table, day(0), [1])
        backend.commit_foreign(table, operation, {0: [1]}, root=root)
        found = publisher.format.compare(table, before)
        assert found.status is PointerStatus.FOREIGN
        assert f"it has files that cannot be opened here: {root}/" in found.foreign.obstacle

    @pytest.mark.parametrize("how", ["lost", "damaged", "denied"])
    def test_files_that_cannot_be_read_are_an_obstacle(
        self, backend: IcebergBackend, publisher: Publisher, how: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """R17: they hide neither the other program's commit, nor stop what looks at other tables."""
        table = adopting(publisher)
        before = publisher.publish(table, day(0), [1])
        own = publisher.format.shown_files(table)
        backend.commit_foreign(table, "append", {0: [7]})
        (uri,) = set(publisher.format.shown_files(table)) - set(own)
        if how == "denied":
            monkeypatch.setattr(parquet_files, "_opened", denied)
        elif how == "damaged":
            Path(storage.split(uri)[1]).write_bytes(b"PAR1 and no more")
        else:
            backend.lose(f"file://{storage.split(uri)[1]}")
        found = publisher.format.compare(table, before)
        assert (found.status, found.foreign.epochs) == (PointerStatus.FOREIGN, (day(0).end,))
        assert found.foreign.obstacle.startswith("it has files that cannot be opened here: ")
        assert ("ACCESS_DENIED" if how == "denied" else uri) in found.foreign.obstacle

    def test_footers_are_read_only_where_the_verdict_depends_on_them(
        self, backend: IcebergBackend, publisher: Publisher
    ) -> None:
        """R17: changed rows that a table does not adopt are refused, whatever files they are in."""
        table = publisher.table()
        before = publisher.publish(table, day(0), [1])
        backend.add_plain_files(table, {0: [7]})
        found = publisher.format.compare(table, before)
        assert (found.status, found.foreign.obstacle) == (PointerStatus.FOREIGN, "")

    def test_rows_without_an_epoch_are_an_obstacle(
        self, backend: IcebergBackend, publisher: Publisher
    ) -> None:
        """R17: they belong to no epoch's slice."""
        table = publisher.table()
        before = publisher.publish(table, day(0), [1])
        backend.commit_without_epoch(table, [7])
        found = publisher.format.compare(table, before)
        assert found.status is PointerStatus.FOREIGN
        assert "rows without _epoch" in found.foreign.obstacle

    @pytest.mark.parametrize("how", ["added", "replaced", "undone"])
    def test_a_layout_that_no_file_has_stops_nothing(
        self, backend: IcebergBackend, publisher: Publisher, how: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """R17: and the next version goes back to a layout by epochs, by which others compact then."""
        monkeypatch.setattr(manifests, "FOLD_AT", 2)
        table = publisher.table()
        before = publisher.publish(table, day(0), [0])
        backend.change_layout(table, how)
        found = publisher.format.compare(table, before)
        assert (found.status, found.stops) == (PointerStatus.CURRENT, "")
        for number in range(1, 6):
            publisher.publish(table, day(number), [number])
        assert backend.default_spec(table)[0] == EPOCH_COLUMN
        backend.commit_foreign(table, "replace", {number: [number] for number in range(6)})
        assert publisher.format.compare(table, publisher.refs[table]).status is PointerStatus.COMPACTED
        for number in range(6, 10):
            publisher.publish(table, day(number), [number])
        wanted = expected(*((number, [number]) for number in range(10)))
        assert backend.engine_rows(table) == publisher.rows(table, 9) == wanted

    def test_files_in_a_layout_without_epochs_stop_the_table(
        self, backend: IcebergBackend, publisher: Publisher
    ) -> None:
        """R17: what another field of the partition says was read as the epoch. It goes on when they are rewritten."""
        table = publisher.table()
        before = publisher.publish(table, day(0), [0, 1])
        staged = publisher.stage(table, day(1), [batch([2])])
        backend.change_layout(table, "replaced")
        backend.commit_foreign(table, "replace", {0: [0, 1]})
        found = publisher.format.compare(table, before)
        assert found.status is PointerStatus.FOREIGN
        assert "files in a partition spec that does not begin with _epoch" in found.foreign.obstacle
        publication = publisher.publication(table, (day(1), staged))
        for adopts in (None, found.version):
            with pytest.raises(ForeignCommit, match="does not begin with _epoch"):
                publisher.format.prepare(replace(publication, adopts=adopts))
        backend.change_layout(table, "back")
        backend.commit_foreign(table, "replace", {0: [0, 1]})
        found = publisher.format.compare(table, before)
        assert (found.status, found.foreign.same_rows) == (PointerStatus.COMPACTED, True)
        publisher.publish(table, day(1), [2])
        assert publisher.rows(table, 1) == expected((0, [0, 1]), (1, [2]))


def adopting(publisher: Publisher) -> Table:
    return replace(publisher.table(), on_foreign_commit=OnForeignCommit.ADOPT)


def denied(root: str) -> None:
    raise OSError(f"AWS Error ACCESS_DENIED at {root}")


def removing(uri: str) -> list[str]:
    """Return the manifests of deleted entries in the list at *uri*."""
    listed = manifest_files.read_list(DurableFileIO(), uri)
    return [manifest.manifest_path for manifest in listed if manifest.deleted_files_count]


def says(
    backend: IcebergBackend, table: Table, operation: Operation, *, added: int, deleted: int, total: int
) -> None:
    """Assert what the newest snapshot says of its rows, and that its totals are those of the files found."""
    loaded = backend.loaded(table)
    snapshot = loaded.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    said = snapshot.summary
    assert operation_of(snapshot) is operation
    assert (said["added-records"], said["deleted-records"] or "0", said["total-records"]) == tuple(
        map(str, (added, deleted, total))
    )
    assert set(loaded.inspect.entries()["status"].to_pylist()) <= {
        status.value for status in ManifestEntryStatus
    }
    files = [task.file for task in loaded.scan().plan_files()]
    assert said["total-data-files"] == str(len(files))
    assert said["total-files-size"] == str(sum(file.file_size_in_bytes for file in files))


class TestIcebergDrafts(DraftingTableContract):
    """Iceberg, slices made by statements."""

    @pytest.fixture
    def backend(self) -> Iterator[DraftingBackend]:
        with quick_directory("epochs-tables-") as folder, IcebergBackend(folder) as backend:
            yield backend

    def test_others_read_the_barrier_from_the_partition(
        self, publisher: Publisher, full_table: Table, engine: PyicebergEngine
    ) -> None:
        """Files of a draft do without the epoch column; a file in two slices has the barrier of each."""
        first = opened(publisher, engine, full_table, 0)
        engine.insert(first, batch([1]))
        committed(publisher, first)
        second = opened(publisher, engine, full_table, 1, base=publisher.state(full_table, 0))
        engine.insert(second, batch([2]))
        newest = StaticTable.from_metadata(committed(publisher, second).metadata)
        for number, ids in ((0, [1]), (1, [1, 2])):
            rows = newest.scan(row_filter=EqualTo("_epoch", day(number).end.isoformat())).to_arrow()
            assert sorted(rows.column("id").to_pylist()) == ids
            assert set(rows.column("_epoch").to_pylist()) == {day(number).end}

    def test_a_file_that_two_states_share_leaves_with_one_and_comes_with_the_other(
        self, backend: IcebergBackend, publisher: Publisher, full_table: Table, engine: PyicebergEngine
    ) -> None:
        """R17: its rows are at another barrier then."""
        first = opened(publisher, engine, full_table, 0)
        engine.insert(first, batch([1]))
        before = committed(publisher, first)
        second = opened(publisher, engine, full_table, 1, base=publisher.state(full_table, 0))
        engine.insert(second, batch([2]))
        staged = drafting(publisher).describe_draft(second)
        publication = publisher.publication(full_table, (day(1), staged), shows=only(1))
        publisher.commit((publication, publisher.format.prepare(publication)))
        assert backend.engine_rows(full_table) == expected((1, [1, 2]))
        assert changed(backend, full_table, before) == (expected((1, [1, 2])), expected((0, [1])))

    def test_a_draft_does_not_begin_with_files_of_another_layout(
        self, backend: IcebergBackend, publisher: Publisher, full_table: Table, engine: PyicebergEngine
    ) -> None:
        """R19: their partitions do not say by which value of the new column engines would look for rows."""
        first = opened(publisher, engine, full_table, 0)
        engine.insert(first, batch([1]))
        committed(publisher, first)
        base = publisher.state(full_table, 0)
        backend.change_layout(full_table, "added")
        later = replace(full_table, partition_by=("id",))
        place, info = publisher.place(later, day(1)), publisher.create(later)
        with pytest.raises(InvalidInput, match="the layout of the rows that the draft begins with"):
            drafting(publisher).open_draft(place, info, base)
        assert publisher.rows(full_table, 0) == expected((0, [1]))

    def test_others_find_rows_that_were_written_as_files_and_carried_on(
        self, publisher: Publisher, full_table: Table, engine: PyicebergEngine
    ) -> None:
        """A filter on the epoch finds them, since their first draft has copies that do not say an earlier one."""
        publisher.publish(full_table, day(0), [1])
        draft = opened(publisher, engine, full_table, 1, base=publisher.state(full_table, 0))
        engine.insert(draft, batch([2]))
        newest = StaticTable.from_metadata(committed(publisher, draft).metadata)
        for number, ids in ((0, [1]), (1, [1, 2])):
            rows = newest.scan(row_filter=EqualTo("_epoch", day(number).end.isoformat())).to_arrow()
            assert sorted(rows.column("id").to_pylist()) == ids


class TestIcebergTablesElsewhere(ChangesCases, ProjectedTableContract):
    """Iceberg, the catalog outside of the store's database."""

    @pytest.fixture
    def backend(self) -> Iterator[TableBackend]:
        with quick_directory("epochs-tables-") as folder, IcebergBackend(folder, elsewhere=True) as backend:
            yield backend
