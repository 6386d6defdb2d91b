"""Iceberg's SQL catalog in the database of the metadata store, so that one transaction moves pointers and records."""

from __future__ import annotations

import logging
import os
import time
from threading import RLock

import sqlalchemy as sa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from airflow_provider.domain.errors import InvalidInput, StoreUnavailable
from airflow_provider.domain.topology import EpochTable
from airflow_provider.tables.checks import missing_file
from airflow_provider.tables.iceberg.schemas import partition_spec, sort_order
from airflow_provider.tables.locations import table_path

CATALOG_NAME = "epochs"
KEPT_METADATA_FILES = 50
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
        self._url = _catalog_url(store_url)
        self._opened: SqlCatalog | None = None
        self._opened_by = 0
        self._lock = RLock()

    def load(self, table: EpochTable) -> Table | None:
        """Return the table as its pointer has it now, None when there is none.

        :raises Unavailable: the metadata file that the pointer names is missing.
        :raises StoreUnavailable: the database does not answer.
        """
        try:
            return self._catalog().load_table((table.domain, table.name))
        except NoSuchTableError:
            return None
        except FileNotFoundError as error:
            raise missing_file(str(error.filename or error)) from error
        except sa.exc.OperationalError as error:
            raise _unavailable(error) from error

    def create(self, table: EpochTable, schema: Schema) -> Table | None:
        """Make the table; None when somebody else was faster."""
        catalog = self._catalog()
        try:
            self._create_namespace(catalog, table.domain)
            return catalog.create_table(
                (table.domain, table.name),
                schema,
                location=f"{self.warehouse}/{table_path(table.domain, table.name)}",
                partition_spec=partition_spec(table, schema),
                sort_order=sort_order(table, schema),
                properties=_PROPERTIES
                | {"epochs.domain": table.domain, "epochs.table": table.name, "epochs.kind": table.kind.value},
            )
        except TableAlreadyExistsError:
            return None
        except sa.exc.OperationalError as error:
            raise _unavailable(error) from error

    def close(self) -> None:
        """Give back connections; the next call opens them again."""
        with self._lock:
            if self._opened is not None and self._opened_by == os.getpid():
                self._opened.engine.dispose()
            self._opened = None

    def _create_namespace(self, catalog: SqlCatalog, namespace: str) -> None:
        try:
            catalog.create_namespace_if_not_exists((namespace,))
        except (NamespaceAlreadyExistsError, sa.exc.IntegrityError):
            return

    def _catalog(self) -> SqlCatalog:
        """The open catalog; a process that was forked opens one of its own."""
        with self._lock:
            if self._opened is None or self._opened_by != os.getpid():
                self._opened = self._open()
                self._opened_by = os.getpid()
            return self._opened

    def _open(self, tries: int = 20) -> SqlCatalog:
        for remaining in reversed(range(tries)):
            try:
                return SqlCatalog(CATALOG_NAME, uri=self._url, warehouse=self.warehouse, **_FILE_IO)
            except (sa.exc.OperationalError, sa.exc.ProgrammingError, sa.exc.IntegrityError) as error:
                # Of several that make the catalog's tables at once, all but one fail; then the tables are there.
                if not remaining:
                    raise _unavailable(error) from error
                logging.getLogger(__name__).debug("The catalog's tables are being made by another: %s", error)
                time.sleep(0.05)
        raise AssertionError("unreachable")


_FILE_IO = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}


def _catalog_url(store_url: str) -> str:
    try:
        url = sa.make_url(store_url)
    except sa.exc.ArgumentError as error:
        raise InvalidInput(field="store_url", value="(hidden)", expected="a SQLAlchemy URL") from error
    backend = url.get_backend_name()
    if backend not in {"sqlite", "postgresql"} or (backend == "sqlite" and url.database in {None, "", ":memory:"}):
        raise InvalidInput(
            field="store_url",
            value=url.render_as_string(hide_password=True),
            expected="a SQLite file or a PostgreSQL database: Iceberg's catalog lies in the metadata store's database",
            next_step="choose such a store, or format='memory' for the tables.",
        )
    if backend == "sqlite":
        url = url.update_query_dict({"timeout": _SQLITE_BUSY_S})
    return url.render_as_string(hide_password=False)


def _unavailable(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"the database of the table catalog does not answer: {error.__class__.__name__}: "
        f"{getattr(error, 'orig', None) or error}",
        next_step="`airflow epochs db check`; then try again.",
    )
