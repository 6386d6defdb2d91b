"""Bare clients: the least that an application does on a store's server, with nothing of the package.

A bare transaction is one locking select, one insert and one update; on ZooKeeper one multi of as many
operations. SQL stores are measured through SQLAlchemy, which the package uses, and through the driver alone.
"""

from __future__ import annotations

import sqlite3
import uuid
from abc import ABC, abstractmethod
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError

PAYLOAD = "x" * 300
"""About the size of a record of the protocol."""

metadata = sa.MetaData()
counter = sa.Table(
    "bench_counter",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)
log = sa.Table(
    "bench_log",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("body", sa.Text, nullable=False),
)

SHARED = 0
"""The counter that all clients compare and set; each has one of its own besides."""


class BareClient(ABC):
    """One client with an open connection.

    :param number: of the client: the counter of its own.
    """

    number: int

    @abstractmethod
    def transaction(self) -> None:
        """Do one bare transaction on the client's own counter."""

    @abstractmethod
    def compare_and_set(self) -> bool:
        """Read the shared counter, raise it if it has not changed meanwhile; return whether it was raised."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


def prepare(url: str, clients: int) -> None:
    """Make what bare clients need on the server of the store at *url*; what earlier ones left is removed."""
    if url.startswith("zookeeper:"):
        _prepare_nodes(url, clients)
        return
    engine = _engine(url)
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(sa.delete(log))
        connection.execute(sa.delete(counter))
        rows = [{"id": number, "version": 0, "body": PAYLOAD} for number in range(clients + 1)]
        connection.execute(sa.insert(counter), rows)
    engine.dispose()


def library_client(url: str, number: int) -> BareClient:
    """A client through the library with which the package speaks to the store."""
    return _Kazoo(url, number) if url.startswith("zookeeper:") else _Core(url, number)


def raw_client(url: str, number: int) -> BareClient:
    """A client through the bare driver; kazoo is library and driver."""
    if url.startswith("zookeeper:"):
        return _Kazoo(url, number)
    return _Sqlite(url, number) if url.startswith("sqlite:") else _Psycopg(url, number)


def _engine(url: str) -> sa.Engine:
    if not url.startswith("sqlite:"):
        return sa.create_engine(url)
    engine = sa.create_engine(url, connect_args={"timeout": 30, "isolation_level": None})

    @sa.event.listens_for(engine, "connect")
    def durable(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


class _Core(BareClient):
    """SQLAlchemy Core, a connection from its pool for each transaction."""

    _select = sa.select(counter.c.version).where(counter.c.id == sa.bindparam("at")).with_for_update()
    _insert = sa.insert(log).inline()
    _update = (
        sa.update(counter)
        .where(counter.c.id == sa.bindparam("at"), counter.c.version == sa.bindparam("expected"))
        .values(version=counter.c.version + 1, body=sa.bindparam("new_body"))
    )
    _read = sa.select(counter.c.version).where(counter.c.id == sa.bindparam("at"))

    def __init__(self, url: str, number: int) -> None:
        self.number = number
        self._engine = _engine(url)

    def transaction(self) -> None:
        with self._engine.begin() as connection:
            version = connection.execute(self._select, {"at": self.number}).scalar_one()
            connection.execute(self._insert, {"body": PAYLOAD})
            connection.execute(self._update, {"at": self.number, "expected": version, "new_body": PAYLOAD})

    def compare_and_set(self) -> bool:
        with self._engine.connect() as connection:
            version = connection.execute(self._read, {"at": SHARED}).scalar_one()
        with self._engine.begin() as connection:
            done = connection.execute(self._update, {"at": SHARED, "expected": version, "new_body": PAYLOAD})
        return done.rowcount == 1

    def close(self) -> None:
        self._engine.dispose()


_UPDATE = "UPDATE bench_counter SET version = version + 1, body = {0} WHERE id = {0} AND version = {0}"


class _Sqlite(BareClient):
    """Python's own driver."""

    def __init__(self, url: str, number: int) -> None:
        self.number = number
        self._connection = sqlite3.connect(url.partition(":///")[2], timeout=30, isolation_level=None)
        self._connection.execute("PRAGMA synchronous=FULL")

    def transaction(self) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        ((version,),) = execute("SELECT version FROM bench_counter WHERE id = ?", (self.number,))
        execute("INSERT INTO bench_log (body) VALUES (?)", (PAYLOAD,))
        execute(_UPDATE.format("?"), (PAYLOAD, self.number, version))
        execute("COMMIT")

    def compare_and_set(self) -> bool:
        execute = self._connection.execute
        ((version,),) = execute("SELECT version FROM bench_counter WHERE id = ?", (SHARED,)).fetchall()
        return execute(_UPDATE.format("?"), (PAYLOAD, SHARED, version)).rowcount == 1

    def close(self) -> None:
        self._connection.close()


class _Psycopg(BareClient):
    """psycopg, one statement after the other."""

    def __init__(self, url: str, number: int) -> None:
        import psycopg

        parts = urlsplit(url)
        self.number = number
        self._connection = psycopg.connect(
            host=parts.hostname,
            port=parts.port,
            user=parts.username,
            password=parts.password,
            dbname=parts.path[1:],
            autocommit=True,
        )

    def transaction(self) -> None:
        connection = self._connection
        with connection.transaction():
            found = connection.execute(
                "SELECT version FROM bench_counter WHERE id = %s FOR UPDATE", (self.number,)
            ).fetchone()
            connection.execute("INSERT INTO bench_log (body) VALUES (%s)", (PAYLOAD,))
            connection.execute(_UPDATE.format("%s"), (PAYLOAD, self.number, found[0] if found else None))

    def compare_and_set(self) -> bool:
        execute = self._connection.execute
        found = execute("SELECT version FROM bench_counter WHERE id = %s", (SHARED,)).fetchone()
        return execute(_UPDATE.format("%s"), (PAYLOAD, SHARED, found[0] if found else None)).rowcount == 1

    def close(self) -> None:
        self._connection.close()


_NODES = "/epochs-bench"


def _connected(url: str) -> Any:
    client = KazooClient(hosts=urlsplit(url).netloc, timeout=10)
    client.start(timeout=30)
    return client


def _prepare_nodes(url: str, clients: int) -> None:
    client = _connected(url)
    client.ensure_path(f"{_NODES}/log")
    for number in range(clients + 1):
        client.ensure_path(f"{_NODES}/{number}")
        client.set(f"{_NODES}/{number}", PAYLOAD.encode())
    client.stop()
    client.close()


class _Kazoo(BareClient):
    """kazoo: a check, a create and a set in one multi, each time with a new log node."""

    def __init__(self, url: str, number: int) -> None:
        self.number = number
        self._client = _connected(url)
        self._run = uuid.uuid4().hex
        self._logged = 0

    def transaction(self) -> None:
        path, self._logged = f"{_NODES}/{self.number}", self._logged + 1
        request = self._client.transaction()
        request.check(f"{_NODES}/log", -1)
        request.create(f"{_NODES}/log/{self._run}-{self._logged}", PAYLOAD.encode())
        request.set_data(path, PAYLOAD.encode(), -1)
        failed = [result for result in request.commit() if isinstance(result, Exception)]
        assert failed == []

    def compare_and_set(self) -> bool:
        path = f"{_NODES}/{SHARED}"
        _, stat = self._client.get(path)
        try:
            self._client.set(path, PAYLOAD.encode(), version=stat.version)
        except BadVersionError:
            return False
        return True

    def close(self) -> None:
        self._client.stop()
        self._client.close()
