"""Iceberg's SQL catalog: in the metadata store's database, where one transaction moves pointers and records, or
elsewhere, where the pointers follow the store (R17).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import RLock
from typing import Any

import sqlalchemy as sa
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog, SqlCatalogBaseTable
from pyiceberg.exceptions import NamespaceAlreadyExistsError, TableAlreadyExistsError
from pyiceberg.table.metadata import TableMetadata
from sqlalchemy.sql.compiler import SQLCompiler

from airflow_provider.domain.errors import StoreUnavailable
from airflow_provider.domain.topology import Table
from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.stores.factory import catalog_engine, catalog_operation, catalog_properties
from airflow_provider.tables import checks
from airflow_provider.tables.iceberg.catalogs.base import PointerCatalog

_POINTERS = IcebergTables.metadata.tables[IcebergTables.__tablename__]
_ROW = (
    _POINTERS.c.catalog_name == CATALOG_NAME,
    _POINTERS.c.table_namespace == sa.bindparam("namespace"),
    _POINTERS.c.table_name == sa.bindparam("table"),
)
_MOVE = (
    sa.update(_POINTERS)
    .where(*_ROW, _POINTERS.c.metadata_location == sa.bindparam("expected"))
    .values(metadata_location=sa.bindparam("new"), previous_metadata_location=sa.bindparam("expected"))
)

_REMOVE = sa.delete(_POINTERS).where(*_ROW, _POINTERS.c.metadata_location == sa.bindparam("expected"))


class SqlPointerCatalog(PointerCatalog):
    """Tables in the SQL catalog of the database at *url*; opens it on first use.

    :param url: SQLAlchemy URL of the database. :param warehouse: URI below which tables lie.
    :param makes_tables: whether to create the catalog's own tables if they are missing; those in the store's
        database are created with the store's schema.
    """

    def __init__(self, url: str, warehouse: str, *, makes_tables: bool = False) -> None:
        self._url = url
        self._warehouse = warehouse
        self._makes_tables = makes_tables
        self._properties = _properties(url, warehouse)
        self._engine: sa.Engine | None = None
        self._lock = RLock()

    def pointers(self, tables: Sequence[Table]) -> list[str | None]:
        where = {
            name: value
            for position, table in enumerate(tables)
            for name, value in ((f"namespace_{position}", table.domain), (f"table_{position}", table.name))
        }
        with checks.translated(self._warehouse), _translated(self._url):
            engine = self._opened()
            statement = _pointers_of(len(tables), engine.dialect)
            with engine.begin() as connection:
                rows = _selected(connection, statement, where)
        pointers = {
            (row["table_namespace"], row["table_name"]): row["metadata_location"]
            for row in rows
            if row.get("iceberg_type") in (None, "TABLE")
        }
        return [pointers.get((table.domain, table.name)) for table in tables]

    def insert(self, table: Table, pointer: str, metadata: TableMetadata) -> bool:  # noqa: ARG002 - has no columns
        try:
            with checks.translated(self._warehouse), self._making() as catalog:
                self._create_namespace(catalog, table.domain)
                catalog.register_table((table.domain, table.name), pointer)
        except TableAlreadyExistsError:
            return False
        return True

    def move(
        self,
        table: Table,
        expected: str,
        pointer: str,
        metadata: Callable[[], TableMetadata],  # noqa: ARG002 - has no columns
    ) -> bool:
        what = {"namespace": table.domain, "table": table.name, "expected": expected, "new": pointer}
        with _translated(self._url), self._opened().begin() as connection:
            return connection.execute(_MOVE, what).rowcount == 1

    def remove(self, table: Table, expected: str) -> bool:
        what = {"namespace": table.domain, "table": table.name, "expected": expected}
        with _translated(self._url), self._opened().begin() as connection:
            return connection.execute(_REMOVE, what).rowcount == 1

    def is_ready(self) -> bool:
        with _looking_at(self._url) as engine:
            return not _missing(engine)

    def make(self) -> None:
        with _looking_at(self._url) as engine:
            _make_tables(engine)

    def close(self) -> None:
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()
            self._engine = None

    def _create_namespace(self, catalog: SqlCatalog, namespace: str) -> None:
        try:
            catalog.create_namespace_if_not_exists((namespace,))
        except (NamespaceAlreadyExistsError, sa.exc.IntegrityError):
            return

    def _opened(self) -> sa.Engine:
        with self._lock:
            if self._engine is None:
                opened = catalog_engine(self._url)
                if self._makes_tables:
                    _make_tables(opened)
                self._engine = opened
            return self._engine

    @contextmanager
    def _making(self) -> Iterator[SqlCatalog]:
        """Open pyiceberg's own catalog, for new tables only: opening it costs three queries."""
        with _translated(self._url):
            self._opened()  # creates the catalog's own tables if they are missing
            catalog = SqlCatalog(CATALOG_NAME, **self._properties)
            catalog.engine = catalog_engine(self._url)
            try:
                yield catalog
            finally:
                catalog.engine.dispose()


@contextmanager
def _looking_at(url: str) -> Iterator[sa.Engine]:
    with _translated(url):
        engine = catalog_engine(url)
        try:
            yield engine
        finally:
            engine.dispose()


def _missing(engine: sa.Engine) -> bool:
    return bool(set(SqlCatalogBaseTable.metadata.tables) - set(sa.inspect(engine).get_table_names()))


def _make_tables(engine: sa.Engine) -> None:
    """Create missing tables; of two racing calls one succeeds, and the error of the other is ignored."""
    if _missing(engine):
        try:
            SqlCatalogBaseTable.metadata.create_all(engine)
        except sa.exc.DBAPIError:
            if _missing(engine):
                raise


def _properties(url: str, warehouse: str) -> dict[str, str]:
    """:raises InvalidInput: no catalog can be in the database at *url*."""
    return catalog_properties(url) | {
        "warehouse": warehouse,
        "py-io-impl": "airflow_provider.tables.iceberg.file_io.DurableFileIO",
    }


@lru_cache(maxsize=64)
def _pointers_of(number: int, dialect: sa.Dialect) -> SQLCompiler:
    """Return the statement that selects the pointers of *number* tables.

    It selects all columns: catalogs from before Iceberg's views lack the column ``iceberg_type``.
    """
    named = [
        sa.and_(
            _POINTERS.c.table_namespace == sa.bindparam(f"namespace_{position}"),
            _POINTERS.c.table_name == sa.bindparam(f"table_{position}"),
        )
        for position in range(number)
    ]
    of_ours = _POINTERS.c.catalog_name == CATALOG_NAME
    statement: sa.Select[Any] = sa.select(sa.literal_column("*")).select_from(_POINTERS)
    return statement.where(of_ours, sa.or_(*named)).compile(dialect=dialect)


def _selected(
    connection: sa.Connection, statement: SQLCompiler, where: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Run the statement by the driver: SQLAlchemy's result handling takes longer than the database's answer.

    :raises sa.exc.DBAPIError: the driver failed; the connection is invalidated.
    """
    named: Any = statement.construct_params(where)
    if statement.positional:
        named = tuple(named[name] for name in statement.positiontup or ())
    driver: Any = connection.connection.driver_connection
    try:
        cursor = driver.execute(str(statement), named)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    except connection.dialect.loaded_dbapi.Error as error:
        connection.invalidate(error)
        raise sa.exc.DBAPIError(str(statement), None, error) from error


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """Translate errors of the driver, and use the database at *url* as the store itself would.

    :raises StoreUnavailable: the database does not answer.
    """
    try:
        with catalog_operation(url):
            yield
    except sa.exc.DBAPIError as error:
        raise StoreUnavailable(
            f"the database of the table catalog does not answer: {error.orig or error}",
            next_step="`airflow epochs db check`; then try again.",
        ) from error
