"""The store contract, on the stores that need no server."""

from __future__ import annotations

import functools
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from airflow_provider.domain.records import Key
from airflow_provider.stores import memory
from airflow_provider.stores.base import CATALOG_NAME, MetadataStore
from airflow_provider.stores.factory import open_store
from airflow_provider.testing.store_contract import StoreBackend, StoreContract


class MemoryBackend(StoreBackend):
    """A named store in this process."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self) -> MetadataStore:
        return open_store(f"memory://{self.name}")

    def plant(self, key: Key, body: bytes) -> None:
        memory._server(self.name).entries[key].body = body

    def create_pointer(self, namespace: str, table: str, pointer: str) -> None:
        memory.memory_catalog(self.name).create(namespace, table, pointer)

    def pointer(self, namespace: str, table: str) -> str | None:
        return memory.memory_catalog(self.name).pointer(namespace, table)


class SqliteBackend(StoreBackend):
    """A file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> MetadataStore:
        return open_store(f"sqlite:///{self.path}")

    def opener(self) -> Callable[[], MetadataStore]:
        return functools.partial(open_store, f"sqlite:///{self.path}")

    def plant(self, key: Key, body: bytes) -> None:
        self._execute(
            "UPDATE epochs_record SET body = ? WHERE domain = ? AND kind = ? AND partition = ? AND item = ?",
            (body.decode(), key.domain, key.kind, key.partition, key.item),
        )

    def create_pointer(self, namespace: str, table: str, pointer: str) -> None:
        self._execute(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location) "
            "VALUES (?, ?, ?, ?)",
            (CATALOG_NAME, namespace, table, pointer),
        )

    def pointer(self, namespace: str, table: str) -> str | None:
        rows = self._execute(
            "SELECT metadata_location FROM iceberg_tables "
            "WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?",
            (CATALOG_NAME, namespace, table),
        )
        return rows[0][0] if rows else None

    def _execute(self, statement: str, parameters: tuple[object, ...]) -> list[tuple[str]]:
        with closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
            return connection.execute(statement, parameters).fetchall()


@pytest.fixture(scope="module")
def sqlite_backend(tmp_path_factory: pytest.TempPathFactory) -> StoreBackend:
    """A file whose name is as odd as a name may be."""
    return SqliteBackend(tmp_path_factory.mktemp("store") / "odd name's %20 #1.db")


class TestMemoryStore(StoreContract):
    """Memory."""

    @pytest.fixture
    def backend(self) -> Iterator[StoreBackend]:
        backend = MemoryBackend(uuid.uuid4().hex)
        yield backend
        memory.forget(backend.name)


class TestSqliteStore(StoreContract):
    """SQLite, all cases in one file."""

    @pytest.fixture
    def backend(self, sqlite_backend: StoreBackend) -> StoreBackend:
        return sqlite_backend
