"""The store contract and the table contract on a real PostgreSQL."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt
from airflow_provider.domain.records import Key
from airflow_provider.domain.topology import Job, Table
from airflow_provider.hooks.connection import ConnectionFields, place_of
from airflow_provider.stores.base import CATALOG_NAME, MetadataStore
from airflow_provider.stores.factory import open_store, upgrade_schema
from airflow_provider.testing.arrow_attempts import write_rows
from airflow_provider.testing.store_contract import StoreBackend, StoreContract
from airflow_provider.testing.table_cases.backend import TableBackend
from airflow_provider.testing.table_cases.projecting import ProjectingCases
from airflow_provider.testing.table_cases.publishing import PublishingCases
from airflow_provider.testing.table_cases.reading import ReadingCases
from tests.contract.coordination_world import DOMAIN, ORIGIN, day, owner
from tests.contract.test_table_contract import IcebergBackend
from tests.servers.postgresql import USER, PostgresqlServer
from tests.services.directories import quick_directory
from tests.services.stores import empty_sqlite_file


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
    """Iceberg tables whose catalog is in a PostgreSQL database: the store's, or beside a store in a file.

    :param elsewhere: whether the store is a file.
    """

    def __init__(self, url: str, folder: Path, *, elsewhere: bool = False) -> None:
        self.catalog_url = url
        self._elsewhere = elsewhere
        self._warehouse = f"{folder}/ware house"
        (folder / "store.db").write_bytes(empty_sqlite_file())
        self._store = open_store(f"sqlite:///{folder}/store.db" if elsewhere else url)
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
        with (
            quick_directory("epochs-tables-") as folder,
            PostgresqlIcebergBackend(postgresql_backend.url, folder) as backend,
        ):
            yield backend


class TestIcebergTablesWithACatalogInPostgresql(ProjectingCases):
    """The pointers lie in PostgreSQL, the store does not: they follow."""

    @pytest.fixture
    def backend(self, postgresql: PostgresqlServer) -> Iterator[TableBackend]:
        url = postgresql.url(postgresql.create_database())
        with (
            quick_directory("epochs-tables-") as folder,
            PostgresqlIcebergBackend(url, folder, elsewhere=True) as backend,
        ):
            yield backend


def test_a_connection_leads_to_epochs_on_it(postgresql: PostgresqlServer) -> None:
    """As Airflow's hook does it; the server is restarted between two epochs."""
    database = postgresql.create_database()
    with quick_directory("epochs-tables-") as folder:
        place = place_of(
            ConnectionFields(
                conn_id="epochs_default",
                conn_type="epochs",
                host="127.0.0.1",
                port=postgresql.port,
                schema=database,
                login=USER,
                password=postgresql.password,
                extra={"backend": "postgresql", "warehouse": f"file://{folder}"},
            )
        )
        upgrade_schema(place.store_url)
        table = Table("numbers", domain=DOMAIN, format="iceberg")
        job = Job("count", outputs=[table], cadence="@daily", origin=ORIGIN)
        settings = Settings(store_url=place.store_url, warehouse=place.warehouse)
        with EpochService.open(settings) as service:
            for number in (1, 2):
                attempt = service.begin(job, day(number), owner())
                assert isinstance(attempt, Attempt)
                write_rows(service, attempt, "numbers", pa.table({"number": [number]}))
                assert service.publish(attempt).csn == number
                postgresql.restart("immediate")
            found = service.cuts.read(service.cuts.cut(DOMAIN, ["numbers"]), "numbers", columns=["number"])
            assert sorted(found["number"].to_pylist()) == [1, 2]
            assert isinstance(service.begin(job, day(2), owner()), AlreadyCommitted)
