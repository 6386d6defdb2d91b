"""The store contract and the table contract on a real PostgreSQL."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider.domain.records import Key
from airflow_provider.stores.base import CATALOG_NAME, MetadataStore
from airflow_provider.stores.factory import open_store, upgrade_schema
from airflow_provider.testing.store_contract import StoreBackend, StoreContract
from airflow_provider.testing.table_cases.backend import TableBackend
from airflow_provider.testing.table_cases.publishing import PublishingCases
from airflow_provider.testing.table_cases.reading import ReadingCases
from tests.contract.test_table_contract import IcebergBackend, memory_disk
from tests.services.postgresql import PostgresqlServer


class PostgresqlBackend(StoreBackend):
    """A database of a server."""

    def __init__(self, server: PostgresqlServer) -> None:
        self.server = server
        self.database = server.create_database()
        self.url = server.url(self.database)
        upgrade_schema(self.url)

    def open(self) -> MetadataStore:
        return open_store(self.url)

    def opener(self) -> Callable[[], MetadataStore]:
        return functools.partial(open_store, self.url)

    def plant(self, key: Key, body: bytes) -> None:
        self.execute(
            "UPDATE epochs_record SET body = %s WHERE domain = %s AND kind = %s AND partition = %s AND item = %s",
            body.decode(),
            key.domain,
            key.kind.value,
            key.partition,
            key.item,
        )

    def create_pointer(self, namespace: str, table: str, pointer: str) -> None:
        self.execute(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location) "
            "VALUES (%s, %s, %s, %s)",
            CATALOG_NAME,
            namespace,
            table,
            pointer,
        )

    def pointer(self, namespace: str, table: str) -> str | None:
        found = self.execute(
            "SELECT metadata_location FROM iceberg_tables "
            "WHERE catalog_name = %s AND table_namespace = %s AND table_name = %s",
            CATALOG_NAME,
            namespace,
            table,
        )
        return str(found[0][0]) if found else None

    def execute(self, statement: str, *parameters: object) -> list[tuple[object, ...]]:
        """Run one statement, behind the store's back."""
        with self.server.connect(self.database) as connection:
            cursor = connection.execute(statement, parameters)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="module")
def postgresql_backend(postgresql: PostgresqlServer) -> PostgresqlBackend:
    return PostgresqlBackend(postgresql)


class TestPostgresqlStore(StoreContract):
    """PostgreSQL, all cases in one database."""

    @pytest.fixture
    def backend(self, postgresql_backend: PostgresqlBackend) -> StoreBackend:
        return postgresql_backend


class PostgresqlIcebergBackend(IcebergBackend):
    """Iceberg tables whose catalog is in a PostgreSQL store's database."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._warehouse = f"{folder}/ware house"
        self._store = open_store(self._url)
        self._formats = []
        self._outsider_catalog = SqlCatalog(CATALOG_NAME, uri=url)

    def _outsider(self) -> SqlCatalog:
        return self._outsider_catalog

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._outsider_catalog.engine.dispose()


class TestIcebergTablesOnPostgresql(PublishingCases, ReadingCases):
    """Iceberg on PostgreSQL: the cases in which pointers move and are read."""

    @pytest.fixture
    def backend(self, postgresql_backend: PostgresqlBackend) -> Iterator[TableBackend]:
        with memory_disk() as folder, PostgresqlIcebergBackend(postgresql_backend.url, folder) as backend:
            yield backend
