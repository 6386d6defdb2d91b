"""Iceberg's SQL catalog in the database of the metadata store, so that one transaction moves pointers and records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import sqlalchemy as sa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from airflow_provider.domain.errors import StoreUnavailable, Unavailable
from airflow_provider.domain.topology import EpochTable
from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.stores.factory import adopt_catalog, catalog_properties
from airflow_provider.stores.sql.forks import operation
from airflow_provider.tables import checks
from airflow_provider.tables.iceberg.schemas import partition_spec, sort_order
from airflow_provider.tables.locations import table_path

KEPT_METADATA_FILES = 25
"""So many earlier metadata files stay for programs that hold a pointer a little longer."""

_SQLITE_BUSY_S = "30"
_PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": str(KEPT_METADATA_FILES),
    # What earlier cuts read is in no snapshot list: other programs must not clean up by that list.
    "gc.enabled": "false",
}


class IcebergCatalog:
    """The tables of one warehouse; opens the database when it is first asked.

    :param store_url: the metadata store's SQLAlchemy URL.
    :param warehouse: URI of the directory that holds all tables.
    """

    def __init__(self, store_url: str, warehouse: str) -> None:
        self.warehouse = warehouse
        self._store_url = store_url
        self._properties = _properties(store_url, warehouse)
        self._opened: SqlCatalog | None = None
        self._lock = RLock()

    def load(self, table: EpochTable) -> Table | None:
        """Return the table as its pointer has it now, None when there is none.

        :raises Unavailable: the metadata file that the pointer names is missing.
        :raises StoreUnavailable: the database does not answer.
        """
        with checks.translated(self.warehouse):
            try:
                with _translated():
                    return self._catalog().load_table((table.domain, table.name))
            except NoSuchTableError:
                return None
            except FileNotFoundError as error:
                raise Unavailable(
                    f"the catalog's pointer of table {table.name!r} names a metadata file that is missing: {error}",
                    next_step="restore the file; if the store was restored from a backup, restore the warehouse too.",
                    table=table.name,
                ) from error

    def create(self, table: EpochTable, schema: Schema) -> Table | None:
        """Make the table; None when somebody else was faster."""
        properties = _PROPERTIES | {
            "epochs.domain": table.domain,
            "epochs.table": table.name,
            "epochs.kind": table.kind.value,
        }
        try:
            with checks.translated(self.warehouse), _translated():
                catalog = self._catalog()
                self._create_namespace(catalog, table.domain)
                return catalog.create_table(
                    (table.domain, table.name),
                    schema,
                    location=f"{self.warehouse}/{table_path(table.domain, table.name)}",
                    partition_spec=partition_spec(table, schema),
                    sort_order=sort_order(table, schema),
                    properties=properties,
                )
        except TableAlreadyExistsError:
            return None

    def close(self) -> None:
        """Give back connections; the next call opens them again."""
        with self._lock:
            if self._opened is not None:
                self._opened.engine.dispose()
            self._opened = None

    def _create_namespace(self, catalog: SqlCatalog, namespace: str) -> None:
        try:
            catalog.create_namespace_if_not_exists((namespace,))
        except (NamespaceAlreadyExistsError, sa.exc.IntegrityError):
            return

    def _catalog(self) -> SqlCatalog:
        with self._lock:
            if self._opened is None:
                self._opened = SqlCatalog(CATALOG_NAME, **self._properties)
                adopt_catalog(self._store_url, self._opened.engine)
            return self._opened


def _properties(store_url: str, warehouse: str) -> dict[str, str]:
    """:raises InvalidInput: a store whose database holds no Iceberg catalog."""
    properties = catalog_properties(store_url)
    if properties["uri"].startswith("sqlite:"):
        properties["uri"] += f"?timeout={_SQLITE_BUSY_S}"
    return properties | {
        "warehouse": warehouse,
        "py-io-impl": "airflow_provider.tables.iceberg.file_io.DurableFileIO",
    }


@contextmanager
def _translated() -> Iterator[None]:
    """Let no error of the driver out, and no fork in between."""
    try:
        with operation():
            yield
    except sa.exc.DBAPIError as error:
        raise StoreUnavailable(
            f"the database of the table catalog does not answer: {error.orig or error}",
            next_step="`airflow epochs db check`; then try again.",
        ) from error
