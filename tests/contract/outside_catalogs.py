"""Catalogs outside of the stores' databases, as tests and other programs reach them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import boto3
from hive_metastore import ttypes
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.catalog.rest import RestCatalog

from airflow_provider.stores.base import CATALOG_NAME
from tests.servers.hive import HiveMetastore
from tests.servers.iceberg_rest import RestCatalogServer


class OutsidePlace(ABC):
    """A catalog: its URL for the package, and the client of other programs."""

    url: str
    folds_names: bool = True

    @abstractmethod
    def outsider(self, options: Mapping[str, str] = {}) -> Catalog:
        """Return the catalog as a program sees it that knows nothing of epochs. :param options: of its client."""


class RemarkedPlace(OutsidePlace):
    """A catalog in which other programs keep more of a table than its pointer."""

    @abstractmethod
    def remark(self, database: str, name: str) -> None:
        """Let another program write down something of the table, and of its first column."""

    @abstractmethod
    def remarks(self, database: str, name: str) -> object:
        """Return what it has written down."""


class _HiveClient(HiveCatalog):
    """pyiceberg's client. A metastore that runs in a test refuses locks that do not say what they are for."""

    def _create_lock_request(self, database_name: str, table_name: str) -> ttypes.LockRequest:
        request = super()._create_lock_request(database_name, table_name)
        for component in request.component:
            component.operationType = ttypes.DataOperationType.NO_TXN
            component.isTransactional = False
        return request


class HivePlace(RemarkedPlace):
    """A Hive metastore."""

    def __init__(self, server: HiveMetastore) -> None:
        self.url, self.port, self._server = server.url, server.port, server

    def outsider(self, options: Mapping[str, str] = {}) -> Catalog:
        return _HiveClient(
            CATALOG_NAME, uri=self._server.thrift, **{"hive.hive2-compatible": "true", **options}
        )

    def remark(self, database: str, name: str) -> None:
        with self._server.client() as client:
            entry = client.get_table(database, name)
            entry.parameters["team"] = "ops"
            entry.sd.serdeInfo.serializationLib = "org.apache.iceberg.mr.hive.HiveIcebergSerDe"
            entry.sd.cols[0].comment = "the number"
            client.alter_table(database, name, entry)

    def remarks(self, database: str, name: str) -> object:
        with self._server.client() as client:
            entry = client.get_table(database, name)
        return entry.parameters.get("team"), entry.sd.serdeInfo.serializationLib, entry.sd.cols[0].comment

    def make_parquet_table(self, database: str, name: str, location: str) -> None:
        """Let another program have a table of that name which is no Iceberg table."""
        with self._server.client() as client:
            client.create_database(ttypes.Database(name=database, locationUri=f"{location}-database"))
            storage = ttypes.StorageDescriptor(
                [ttypes.FieldSchema("id", "bigint", None)],
                location,
                serdeInfo=ttypes.SerDeInfo(
                    serializationLib="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
                ),
            )
            client.create_table(
                ttypes.Table(
                    dbName=database,
                    tableName=name,
                    sd=storage,
                    partitionKeys=[],
                    parameters={"EXTERNAL": "TRUE"},
                    tableType="EXTERNAL_TABLE",
                )
            )

    @contextmanager
    def locked(self, database: str, name: str) -> Iterator[None]:
        """Let another program hold the lock of a table."""
        component = ttypes.LockComponent(
            level=ttypes.LockLevel.TABLE,
            type=ttypes.LockType.EXCLUSIVE,
            dbname=database,
            tablename=name,
            operationType=ttypes.DataOperationType.NO_TXN,
        )
        with self._server.client() as client:
            request = ttypes.LockRequest(component=[component], user="another", hostname="elsewhere")
            lock = client.lock(request)
            assert lock.state == ttypes.LockState.ACQUIRED
            yield
            client.unlock(ttypes.UnlockRequest(lockid=lock.lockid))


class GluePlace(RemarkedPlace):
    """AWS Glue, where this process's environment leads to an emulator of it."""

    url = "glue://us-east-1"

    def outsider(self, options: Mapping[str, str] = {}) -> Catalog:
        return GlueCatalog(CATALOG_NAME, **{"glue.region": "us-east-1", **options})

    def clear(self) -> None:
        """Delete all databases with their tables."""
        glue = boto3.client("glue", region_name="us-east-1")
        for database in glue.get_databases()["DatabaseList"]:
            for table in glue.get_tables(DatabaseName=database["Name"])["TableList"]:
                glue.delete_table(DatabaseName=database["Name"], Name=table["Name"])
            glue.delete_database(Name=database["Name"])

    def remark(self, database: str, name: str) -> None:
        glue = boto3.client("glue", region_name="us-east-1")
        entry = glue.get_table(DatabaseName=database, Name=name)["Table"]
        storage = entry["StorageDescriptor"]
        storage["Columns"][0]["Comment"] = "the number"
        given = {
            "Name": name,
            "Description": "of the team",
            "Parameters": {**entry["Parameters"], "team": "ops"},
            "StorageDescriptor": {**storage, "SerdeInfo": {"Name": "own"}},
        }
        glue.update_table(DatabaseName=database, TableInput=given)

    def remarks(self, database: str, name: str) -> object:
        entry = boto3.client("glue", region_name="us-east-1").get_table(DatabaseName=database, Name=name)[
            "Table"
        ]
        storage = entry["StorageDescriptor"]
        comment = storage["Columns"][0].get("Comment")
        return entry.get("Description"), entry["Parameters"].get("team"), storage.get("SerdeInfo"), comment


class RestPlace(RemarkedPlace):
    """A REST catalog. :param name: what the server shall have (``RestCatalogServer.java``)."""

    folds_names = False

    def __init__(self, server: RestCatalogServer, name: str = "lake") -> None:
        self.url, self._uri, self._name = server.url(name), server.uri, name

    def outsider(self, options: Mapping[str, str] = {}) -> Catalog:
        known: dict[str, Any] = {"uri": self._uri, "warehouse": self._name, "auth": {"type": "noop"}}
        return RestCatalog(CATALOG_NAME, **known, **options)

    def clear(self) -> None:
        """Drop all tables."""
        catalog = self.outsider()
        for namespace in catalog.list_namespaces():
            for table in catalog.list_tables(namespace):
                catalog.drop_table(table)

    def remark(self, database: str, name: str) -> None:
        with self.outsider().load_table((database, name)).transaction() as changing:
            changing.set_properties({"comment": "the number", "write.target-file-size-bytes": "7"})

    def remarks(self, database: str, name: str) -> object:
        properties = self.outsider().load_table((database, name)).properties
        return properties.get("comment"), properties.get("write.target-file-size-bytes")
