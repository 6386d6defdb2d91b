"""Memory tables on a real store: their pointers lie in its catalog, so that its transactions move them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any, Protocol

from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.stores.memory import MemoryCatalog
from airflow_provider.stores.sql.opening import PostgresqlOpener, SqliteOpener

_OF_TABLE = "WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"


class _Connection(Protocol):
    """What both drivers offer; each statement is a transaction of its own."""

    def execute(self, statement: Any, parameters: Any = ...) -> Any: ...

    def close(self) -> None: ...


class StoreCatalog(MemoryCatalog):
    """The catalog in the database of a SQL store; what memory tables keep stays in this process.

    :param url: of a SQL store.
    """

    def __init__(self, url: str) -> None:
        super().__init__(RLock())
        self._connect, self._mark = _driver(url)
        self._connections: dict[int, _Connection] = {}  # by process: none is inherited

    def pointer(self, namespace: str, table: str) -> str | None:
        found = self.execute(
            f"SELECT metadata_location FROM iceberg_tables {_OF_TABLE}",  # noqa: S608 - a constant
            (CATALOG_NAME, namespace, table),
        )
        return str(found[0][0]) if found else None

    def create(self, namespace: str, table: str, pointer: str) -> str:
        self.execute(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location) "
            "VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (CATALOG_NAME, namespace, table, pointer),
        )
        return self.pointer(namespace, table) or pointer

    def move(self, namespace: str, table: str, expected: str, new: str) -> bool:
        moved = self.execute(
            f"UPDATE iceberg_tables SET metadata_location = ? {_OF_TABLE} AND metadata_location = ? "  # noqa: S608
            "RETURNING table_name",
            (new, CATALOG_NAME, namespace, table, expected),
        )
        return bool(moved)

    def drop(self, namespace: str, table: str) -> None:
        self.execute(
            f"DELETE FROM iceberg_tables {_OF_TABLE}",  # noqa: S608 - a constant
            (CATALOG_NAME, namespace, table),
        )

    def remove(self, namespace: str, table: str, expected: str) -> bool:
        removed = self.execute(
            f"DELETE FROM iceberg_tables {_OF_TABLE} AND metadata_location = ? RETURNING table_name",  # noqa: S608
            (CATALOG_NAME, namespace, table, expected),
        )
        return bool(removed)

    def tables(self, namespace: str) -> list[str]:
        found = self.execute(
            "SELECT table_name FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ?",
            (CATALOG_NAME, namespace),
        )
        return sorted(name for (name,) in found)

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        """Run one statement, behind the store's back; ``?`` stands for a parameter."""
        with self._lock:
            connection = self._connections.get(os.getpid())
            if connection is None:
                connection = self._connections[os.getpid()] = self._connect()
            cursor = connection.execute(statement.replace("?", self._mark), tuple(parameters))
            return list(cursor.fetchall()) if cursor.description else []

    def close(self) -> None:
        """Close this process's connection; the next call opens another."""
        with self._lock:
            connection = self._connections.pop(os.getpid(), None)
            if connection is not None:
                connection.close()


def _driver(url: str) -> tuple[Callable[[], _Connection], str]:
    """What opens a connection to the store at *url*, and how its statements mark a parameter."""
    scheme = url.partition("://")[0]
    if scheme == SqliteOpener.scheme:
        path = url.partition(":///")[2]
        return lambda: sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False), "?"
    assert scheme == PostgresqlOpener.scheme, f"the store {scheme} has no catalog"
    import psycopg

    return lambda: psycopg.connect(url.replace("+psycopg", "", 1), autocommit=True), "%s"
