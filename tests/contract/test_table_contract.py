"""The table contract on every format of the package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.table import StaticTable

from airflow_provider.domain.columns import add, rename
from airflow_provider.domain.topology import Table
from airflow_provider.stores.base import CATALOG_NAME, MetadataStore
from airflow_provider.stores.factory import open_store
from airflow_provider.stores.memory import MemoryStore
from airflow_provider.tables.base import TableFormat
from airflow_provider.tables.iceberg import manifests
from airflow_provider.tables.iceberg.format import IcebergFormat
from airflow_provider.tables.memory import MemoryFormat
from airflow_provider.testing.table_cases.backend import (
    Publisher,
    Row,
    Slices,
    batch,
    day,
    rows_of,
    slice_rows,
)
from airflow_provider.testing.table_cases.drafting import committed, opened
from airflow_provider.testing.table_cases.model import ModelCases
from airflow_provider.testing.table_contract import (
    DraftingBackend,
    DraftingTableContract,
    ProjectedTableContract,
    TableBackend,
    TableContract,
)
from tests.contract.draft_engine import PyicebergEngine
from tests.contract.outside_commits import commit_outside
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


class IcebergBackend(DraftingBackend):
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

    def drop(self, table: Table) -> None:
        self._outsider().drop_table((table.domain, table.name))

    def rename_column(self, table: Table, old: str, new: str) -> None:
        with self._outsider().load_table((table.domain, table.name)).update_schema() as update:
            update.rename_column(old, new)

    def commit_foreign(self, table: Table, operation: str, slices: Slices) -> None:
        loaded = self._outsider().load_table((table.domain, table.name))
        commit_outside(loaded, operation, [rows for _, rows in slice_rows(slices)])

    def lose(self, uri: str) -> None:
        Path(uri.removeprefix("file://")).unlink()

    def engine(self) -> PyicebergEngine:
        return PyicebergEngine()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._formats:
            one.close()
        self._store.close()

    def _outsider(self) -> SqlCatalog:
        return SqlCatalog(CATALOG_NAME, uri=self.catalog_url)


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


class TestIcebergTables(IcebergHistories, TableContract):
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


class TestIcebergTablesElsewhere(ProjectedTableContract):
    """Iceberg, the catalog outside of the store's database."""

    @pytest.fixture
    def backend(self) -> Iterator[TableBackend]:
        with quick_directory("epochs-tables-") as folder, IcebergBackend(folder, elsewhere=True) as backend:
            yield backend
