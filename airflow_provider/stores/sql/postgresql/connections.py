"""Connections to PostgreSQL: what each says when it is opened, and how long it waits for an answer."""

from __future__ import annotations

import os
import select
from collections.abc import Generator
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any
from weakref import WeakSet

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow
from sqlalchemy import Engine, event

from airflow_provider.domain.errors import StoreIncompatible
from airflow_provider.stores.sql.postgresql.address import Address

APPLICATION_NAME = "airflow-provider-epochs"
OLDEST_SERVER = 140_000
"""PostgreSQL 14: the first whose ``extract`` is exact."""
_NO_FILE = "/nonexistent"
_LONGEST_CONNECT_S = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How long each thing may take; every call ends, whatever the server and the network do.

    :param lock: how long the server waits for one lock.
    :param idle: how long a client that is stopped in the middle of a transaction holds its locks.
    :param read: how long a client waits for the answer to a read.
    :param write: how long it waits for the answers of one transaction.
    """

    lock: timedelta
    idle: timedelta
    read: timedelta
    write: timedelta

    @classmethod
    def within(cls, patience: timedelta) -> Limits:
        """Return limits such that a transaction that waits for a lock ends within *patience*, or little more.

        A stopped client loses its transaction before those who wait for it lose their patience.
        """
        return cls(lock=patience, idle=patience / 3, read=patience / 2, write=patience * 1.2)

    @property
    def connect_s(self) -> int:
        """How long opening a connection may take, in whole seconds as libpq wants it (2 at least)."""
        return max(2, min(_LONGEST_CONNECT_S, round(self.read.total_seconds())))

    def server_settings(self) -> str:
        """Return what the server is told when a connection is opened."""
        settings = {
            "lock_timeout": self.lock,
            "idle_in_transaction_session_timeout": self.idle,
            "statement_timeout": self.write,
        }
        return " ".join(
            f"-c {name}={round(value.total_seconds() * 1000)}" for name, value in settings.items()
        )


class NoAnswer(psycopg.OperationalError):
    """The deadline passed before the server answered; the connection was closed."""


class SessionEnded(psycopg.OperationalError):
    """The server had ended the session before anything was sent to it."""


class ConnectFailed(psycopg.OperationalError):
    """No connection could be opened."""


class BoundedConnection(psycopg.Connection[TupleRow]):
    """A connection that waits for the server until :attr:`deadline` and no longer.

    The server's own time-outs do not help when the network swallows what it says.
    """

    deadline: float | None = None
    """On ``time.monotonic``; None for no end."""
    sending: psycopg.Pipeline
    """Of the transaction that writes."""

    def answer(self) -> None:
        """Wait for the answers to all that was sent.

        (Leaving the pipeline would do so too, but sends a Flush behind the Sync: a server that has read it no
        longer counts the time for which we leave a transaction idle.)
        """
        self.sending.sync()

    def require_session(self) -> None:
        """Look, without waiting, whether the server has ended the session meanwhile.

        :raises SessionEnded: it has; what was not sent yet cannot have happened.
        """
        readable = select.poll()
        readable.register(self.fileno(), select.POLLIN)
        try:
            while readable.poll(0):
                self.pgconn.consume_input()
        except psycopg.OperationalError as error:
            raise SessionEnded(*error.args) from error

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **options: Any) -> Any:
        """Do as psycopg does, which asks *gen* again every tenth of a second."""
        if self.deadline is None:
            return super().wait(gen, *args, **options)
        return super().wait(self._until(gen, self.deadline), *args, **options)

    def _until(self, gen: Generator[Any, Any, Any], deadline: float) -> Generator[Any, Any, Any]:
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and monotonic() >= deadline:
                    break
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value
        self.pgconn.finish()
        raise NoAnswer("the server did not answer in time")


def connect(address: Address, limits: Limits) -> BoundedConnection:
    """Open a connection. What says who we are comes from *address* alone, not from files or the environment.

    :raises ConnectFailed: none could be opened.
    :raises StoreIncompatible: the server is too old, or its database keeps no Unicode.
    """
    try:
        connection = BoundedConnection.connect(_conninfo(address, limits))
    except psycopg.Error as error:
        raise ConnectFailed(*error.args) from error
    try:
        _check(connection, address)
    except StoreIncompatible:
        connection.close()
        raise
    return connection


def adopt(engine: Engine, address: Address, limits: Limits) -> None:
    """Let *engine*, whoever made it, open connections as :func:`connect` does, use each within a deadline, and
    leave what it has to the parent when the process forks."""

    def bounded(driver: BoundedConnection, *_: Any) -> None:
        driver.deadline = monotonic() + limits.write.total_seconds()

    event.listen(engine, "do_connect", lambda *_: connect(address, limits))
    event.listen(engine, "checkout", bounded)
    _engines.add(engine)


_engines: WeakSet[Engine] = WeakSet()


def _after_fork() -> None:
    """What a child inherited belongs to its parent: it is neither used nor closed."""
    for engine in list(_engines):
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_after_fork)


def _conninfo(address: Address, limits: Limits) -> str:
    given: dict[str, Any] = {
        "host": address.host,
        "port": address.port,
        "dbname": address.database,
        "user": address.user or None,
        "password": address.password,
        "passfile": _NO_FILE,
        "connect_timeout": limits.connect_s,
        "options": limits.server_settings(),
        "application_name": APPLICATION_NAME,
        "client_encoding": "utf8",
        "gssencmode": "disable",
    }
    return make_conninfo("", **{**given, **address.tls, "sslmode": address.sslmode})


def _check(connection: BoundedConnection, address: Address) -> None:
    found = connection.info.server_version
    if found < OLDEST_SERVER:
        raise StoreIncompatible(
            f"{address.location}: PostgreSQL {found // 10_000} is too old; the store needs 14 or newer.",
            next_step="upgrade the server.",
            store=address.location,
            found=found // 10_000,
            expected=OLDEST_SERVER // 10_000,
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreIncompatible(
            f"{address.location}: the database has the encoding {encoding}; names need UTF8.",
            next_step="make a database with: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0.",
            store=address.location,
            found=encoding,
            expected="UTF8",
        )
