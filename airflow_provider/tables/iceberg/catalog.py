"""Iceberg's SQL catalog: in the metadata store's database, where one transaction moves pointers and records, or
elsewhere, where the pointers follow the store (R17).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import RLock
from typing import Any

import sqlalchemy as sa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog, SqlCatalogBaseTable
from pyiceberg.exceptions import NamespaceAlreadyExistsError, TableAlreadyExistsError
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from sqlalchemy.sql.compiler import SQLCompiler

from airflow_provider.domain.errors import StoreUnavailable, Unavailable
from airflow_provider.domain.topology import Table
from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.stores.factory import catalog_engine, catalog_operation, catalog_properties
from airflow_provider.tables import checks
from airflow_provider.tables.iceberg.remembering import Remembered
from airflow_provider.tables.iceberg.schemas import partition_spec, sort_order
from airflow_provider.tables.locations import table_path
from airflow_provider.tables.projection import REMEMBERED

KEPT_METADATA_FILES = REMEMBERED
"""Number of earlier metadata files that are kept for programs that still hold an earlier pointer."""

_NOBODY_COMMITS = NoopCatalog(CATALOG_NAME)
"""Catalog of loaded tables: it refuses commits, since only the store commits (R17)."""

REPLACES = "epochs.replaces"
"""Property of a table: identities of the unpublished tables that it replaced."""

_PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": str(KEPT_METADATA_FILES),
    # Compactions of others count and bound all columns; without this, the first hundred.
    "write.metadata.metrics.default": "truncate(16)",
    # Earlier cuts read files that no snapshot in the metadata names: other programs must not expire by snapshots.
    "gc.enabled": "false",
}


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


class IcebergCatalog:
    """Catalog of the tables of one warehouse; opens the database on first use.

    :param io: reads and writes the files of tables. :param url: SQLAlchemy URL of the database.
    :param warehouse: URI of the directory that holds all tables.
    :param makes_tables: whether to create the catalog's own tables if they are missing; those in the store's
        database are created with the store's schema.
    """

    def __init__(self, io: FileIO, url: str, warehouse: str, *, makes_tables: bool = False) -> None:
        self.warehouse = warehouse
        self._io = io
        self._url = url
        self._makes_tables = makes_tables
        self._properties = _properties(url, warehouse)
        self._described = Remembered(io, _read_metadata)
        self._engine: sa.Engine | None = None
        self._lock = RLock()

    def load(self, table: Table) -> IcebergTable | None:
        """Return the table that the pointer names now, or None if the catalog lacks it.

        :raises Unavailable: the metadata file that the pointer names is missing.
        :raises StoreUnavailable: the database does not answer.
        """
        return self.load_all([table])[0]

    def load_all(self, tables: Sequence[Table]) -> list[IcebergTable | None]:
        """Return the result of :meth:`load` for each of *tables*, by one query.

        :raises Unavailable: as in :meth:`load`. :raises StoreUnavailable: likewise.
        """
        with checks.translated(self.warehouse), _translated(self._url):
            pointers = self._pointers(tables)
        return [None if pointer is None else self.named(table, pointer) for table, pointer in pointers]

    def named(self, table: Table, pointer: str) -> IcebergTable:
        """Return the table that the metadata file at *pointer* describes.

        :raises Unavailable: the file is missing.
        """
        with checks.translated(self.warehouse):
            try:
                return self.at(table, pointer)
            except FileNotFoundError as error:
                raise Unavailable(
                    f"the catalog's pointer of table {table.name!r} names a metadata file that is missing: {error}",
                    next_step="restore the file; if the store was restored from a backup, restore the warehouse too.",
                    tables=(table.name,),
                ) from error

    def at(self, table: Table, location: str) -> IcebergTable:
        """Return the table that the metadata file at *location* describes, wherever its pointer is.

        :raises FileNotFoundError: the file is missing.
        """
        metadata = self._described(location)
        return IcebergTable((table.domain, table.name), metadata, location, self._io, _NOBODY_COMMITS)

    def note(self, location: str, metadata: TableMetadata) -> None:
        """Remember *metadata*, which was just written to *location*."""
        self._described.keep(location, metadata)

    def _pointers(self, tables: Sequence[Table]) -> list[tuple[Table, str | None]]:
        where = {
            name: value
            for position, table in enumerate(tables)
            for name, value in ((f"namespace_{position}", table.domain), (f"table_{position}", table.name))
        }
        engine = self._opened()
        statement = _pointers_of(len(tables), engine.dialect)
        with engine.begin() as connection:
            rows = _selected(connection, statement, where)
        pointers = {
            (row["table_namespace"], row["table_name"]): row["metadata_location"]
            for row in rows
            if row.get("iceberg_type") in (None, "TABLE")
        }
        return [(table, pointers.get((table.domain, table.name))) for table in tables]

    def move(self, table: Table, expected: str, new: str) -> bool:
        """Move the pointer of *table* from *expected* to *new* by compare-and-set; return whether it moved.

        :raises StoreUnavailable: the database does not answer.
        """
        what = {"namespace": table.domain, "table": table.name, "expected": expected, "new": new}
        with _translated(self._url), self._opened().begin() as connection:
            return connection.execute(_MOVE, what).rowcount == 1

    def replace(self, table: Table, schema: Schema, before: IcebergTable) -> None:
        """Replace *before* by an empty table, unless another program has moved its pointer."""
        replaced = " ".join((before.properties.get(REPLACES, ""), str(before.metadata.table_uuid))).strip()
        metadata = new_table_metadata(
            location=before.location(),
            schema=schema,
            partition_spec=partition_spec(table, schema),
            sort_order=sort_order(table, schema),
            properties=_properties_of(table) | {REPLACES: replaced},
        )
        with checks.translated(self.warehouse):
            location = before.location_provider().new_table_metadata_file_location()
            ToOutputFile.table_metadata(metadata, before.io.new_output(location))
            self.move(table, before.metadata_location, location)

    def create(self, table: Table, schema: Schema) -> IcebergTable | None:
        """Create the table; return None if it exists, such as when another attempt was faster."""
        try:
            with checks.translated(self.warehouse), self._making() as catalog:
                self._create_namespace(catalog, table.domain)
                return catalog.create_table(
                    (table.domain, table.name),
                    schema,
                    location=f"{self.warehouse}/{table_path(table.domain, table.name)}",
                    partition_spec=partition_spec(table, schema),
                    sort_order=sort_order(table, schema),
                    properties=_properties_of(table),
                )
        except TableAlreadyExistsError:
            return None

    def register(self, table: Table, pointer: str) -> IcebergTable | None:
        """Register the table that *pointer* describes; return None if the catalog has a table of that name.

        :raises Unavailable: the metadata file is missing.
        """
        try:
            # pyiceberg inserts the pointer before it reads the file: a missing file would leave a broken table.
            self._described(pointer)
            with checks.translated(self.warehouse), self._making() as catalog:
                self._create_namespace(catalog, table.domain)
                return catalog.register_table((table.domain, table.name), pointer)
        except TableAlreadyExistsError:
            return None
        except FileNotFoundError as error:
            raise checks.missing_file(pointer) from error

    def close(self) -> None:
        """Close connections; the next call opens them again."""
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
        """Open pyiceberg's own catalog, for creating tables only: opening it costs three queries."""
        with _translated(self._url):
            self._opened()  # creates the catalog's own tables if they are missing
            catalog = SqlCatalog(CATALOG_NAME, **self._properties)
            catalog.engine = catalog_engine(self._url)
            try:
                yield catalog
            finally:
                catalog.engine.dispose()


def _read_metadata(io: FileIO, location: str) -> TableMetadata:
    return FromInputFile.table_metadata(io.new_input(location))


def has_tables(url: str) -> bool:
    """Return whether the database at *url* has the catalog's own tables.

    :raises StoreUnavailable: the database does not answer.
    """
    with _looking_at(url) as engine:
        return not _missing(engine)


def make_tables(url: str) -> None:
    """Create the catalog's own tables in the database at *url* if they are missing.

    :raises StoreUnavailable: the database does not answer.
    """
    with _looking_at(url) as engine:
        _make_tables(engine)


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


def _properties_of(table: Table) -> dict[str, str]:
    return _PROPERTIES | {
        "epochs.domain": table.domain,
        "epochs.table": table.name,
        "epochs.kind": table.kind.value,
    }


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
