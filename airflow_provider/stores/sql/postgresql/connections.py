"""Connections to PostgreSQL: what each says when it is opened, and how long it waits for an answer."""

from __future__ import annotations

import os
import select
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass
from datetime import timedelta
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DisconnectionError

from airflow_provider.domain.errors import StoreIncompatible
from airflow_provider.stores.sql.pool import StorePool
from airflow_provider.stores.sql.postgresql import statements
from airflow_provider.stores.sql.postgresql.address import Address

APPLICATION_NAME = "airflow-provider-epochs"
OLDEST_SERVER = 140_000
"""PostgreSQL 14: the first whose ``extract`` is exact."""
POOLED_CONNECTIONS = 2
"""Kept open by a process that uses a database: for what runs, and for what renews its lock."""
MOST_CONNECTIONS = 16
"""Of one process to one database; those beyond :data:`POOLED_CONNECTIONS` are closed when they are given back."""
MOST_LISTENERS = 2
"""Watches of a process that wait for a call at a time; further ones poll."""
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

    def settings(self) -> dict[str, str]:
        """Return what the server is told, by the names of its settings, in milliseconds."""
        limits = {
            "lock_timeout": self.lock,
            "idle_in_transaction_session_timeout": self.idle,
            "statement_timeout": self.write,
        }
        return {name: str(round(value.total_seconds() * 1000)) for name, value in limits.items()}


class NoAnswer(psycopg.OperationalError):
    """The deadline passed before the server answered; the connection was closed."""


class SessionEnded(psycopg.OperationalError):
    """The server had ended the session before anything was sent to it."""


class ConnectFailed(psycopg.OperationalError):
    """No connection could be opened."""


class StandbyMet(ConnectFailed):
    """The server that answered is a standby: what it says may be old, however fresh it looks."""


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

    :raises ConnectFailed: none could be opened, or only one to a standby.
    :raises StoreIncompatible: the server is too old, its database keeps no Unicode, or a pooler stands before it
        that the address does not mention.
    """
    try:
        connection = BoundedConnection.connect(_conninfo(address, limits))
    except psycopg.Error as error:
        raise ConnectFailed(*error.args) from error
    try:
        connection.deadline = monotonic() + limits.connect_s
        _check(connection, address)
        _agree(connection, address, limits)
    except BaseException:
        connection.close()
        raise
    return connection


def _agree(connection: BoundedConnection, address: Address, limits: Limits) -> None:
    """Tell the session its limits, and hear whose it is. A pooler's sessions are told in each transaction."""
    connection.autocommit = True
    try:
        told = (
            None
            if address.pooled
            else statements.set_for(limits.settings() | statements.ISOLATION, local=False)
        )
        asked = statements.GREETING if told is None else sql.SQL("{}, {}").format(statements.GREETING, told)
        found = connection.execute(sql.SQL("SELECT {}").format(asked), prepare=False).fetchone() or (0, True)
    except psycopg.Error as error:
        raise ConnectFailed(*error.args) from error
    connection.autocommit = False
    if address.pooled:
        connection.prepare_threshold = None
    elif found[0] != connection.info.backend_pid:
        raise StoreIncompatible(
            f"{address.location}: a connection pooler, such as PgBouncer, stands before the server.",
            next_step="add pooled=true to the store's URL (in Airflow: to the extra of its connection), or name the "
            "server itself.",
            store=address.location,
            found="a pooler",
            expected="pooled=true",
        )
    if found[1]:
        raise StandbyMet(f"{address.location} is a standby")


class Shared:
    """What all stores and catalogs of one process that use one database have together.

    :ivar answered: whether the server has answered, so that one that cannot be reached is being restarted.
    :ivar listeners: watches that wait for a call, each with a connection; further ones poll.
    :ivar turns: by domain, the thread that has its turn or asks for it: only that one has a connection for it.
    """

    def __init__(self) -> None:
        self.answered = False
        self.listeners = BoundedSemaphore(MOST_LISTENERS)
        self.turns: defaultdict[str, Lock] = defaultdict(Lock)


def engine_of(address: Address, limits: Limits) -> Engine:
    """Return this process's engine for *address*, made at the first call; opens no connection by itself.

    What it has stays with the parent when the process forks. Whoever disposes of it closes its idle connections;
    others that use it open theirs again.
    """
    with _lock:
        key = (repr(address), address.password, limits)
        engine = _engines.get(key)
        if engine is None:
            engine = _engines[key] = _new_engine(address, limits)
        return engine


def shared_of(engine: Engine) -> Shared:
    return _shared[engine]


def _new_engine(address: Address, limits: Limits) -> Engine:
    engine = create_engine(
        "postgresql+psycopg://",
        poolclass=StorePool,
        pool_size=POOLED_CONNECTIONS,
        max_overflow=MOST_CONNECTIONS - POOLED_CONNECTIONS,
        pool_timeout=limits.lock.total_seconds(),
        pool_use_lifo=True,
        use_native_hstore=False,
    )
    shared = _shared[engine] = Shared()

    def connected(*_: Any) -> BoundedConnection:
        driver = connect(address, limits)
        shared.answered = True
        return driver

    def bounded(driver: BoundedConnection, *_: Any) -> None:
        driver.deadline = monotonic() + limits.write.total_seconds()
        try:
            driver.require_session()
            driver.autocommit = False  # which the store changes for itself
        except psycopg.Error as error:
            raise DisconnectionError from error

    event.listen(engine, "do_connect", connected)
    event.listen(engine, "checkout", bounded)
    if address.pooled:
        told = sql.SQL("SELECT {}").format(statements.set_for(limits.settings(), local=True)).as_string()
        event.listen(engine, "begin", lambda connection: _tell(connection, told))
    return engine


def _tell(connection: Connection, told: str) -> None:
    """Say in a transaction of others than the store, such as Iceberg's catalog, how long it may take."""
    driver = connection.connection.driver_connection
    if isinstance(driver, BoundedConnection) and not driver.autocommit:
        driver.execute(told.encode(), prepare=False)


_engines: WeakValueDictionary[Any, Engine] = WeakValueDictionary()
_shared: WeakKeyDictionary[Engine, Shared] = WeakKeyDictionary()
_lock = Lock()


def _after_fork() -> None:
    """What a child inherited belongs to its parent: it is neither used nor closed."""
    global _lock  # noqa: PLW0603 - another thread of the parent may hold it
    _lock = Lock()
    for engine, shared in list(_shared.items()):
        engine.dispose(close=False)
        shared.listeners = BoundedSemaphore(MOST_LISTENERS)
        shared.turns = defaultdict(Lock)


os.register_at_fork(after_in_child=_after_fork)


def _conninfo(address: Address, limits: Limits) -> str:
    given: dict[str, Any] = {
        **address.places,
        "dbname": address.database,
        "user": address.user or None,
        "password": address.password,
        "passfile": _NO_FILE,
        "connect_timeout": limits.connect_s,
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
