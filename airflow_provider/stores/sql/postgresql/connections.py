"""Open connections to PostgreSQL: the settings of a session, and a deadline for every answer."""

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
"""PostgreSQL 14, the first with an exact ``extract``."""
POOLED_CONNECTIONS = 2
"""Connections that a process keeps open to a database: one for transactions, one to renew a lock meanwhile."""
MOST_CONNECTIONS = 16
"""Maximum of one process to one database; those beyond :data:`POOLED_CONNECTIONS` are closed when returned."""
MOST_LISTENERS = 2
"""Maximum number of a process's watches that wait for notifications; further ones poll."""
_NO_FILE = "/nonexistent"
_LONGEST_CONNECT_S = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Time limits, with which every call ends, whatever the server and the network do.

    :param lock: the server's wait for one lock.
    :param idle: time for which a client that is stopped inside a transaction keeps its locks.
    :param read: a client's wait for the answer to a read.
    :param write: a client's wait for the answers of one transaction.
    """

    lock: timedelta
    idle: timedelta
    read: timedelta
    write: timedelta

    @classmethod
    def within(cls, timeout: timedelta) -> Limits:
        """Return limits such that a transaction that waits for a lock ends within *timeout*, or little more.

        A stopped client loses its transaction before the clients that wait for its locks give up.
        """
        return cls(lock=timeout, idle=timeout / 3, read=timeout / 2, write=timeout * 1.2)

    @property
    def connect_s(self) -> int:
        """Time limit for opening a connection, in whole seconds as libpq requires (at least 2)."""
        return max(2, min(_LONGEST_CONNECT_S, round(self.read.total_seconds())))

    def settings(self) -> dict[str, str]:
        """Return the limits as settings of the server, in milliseconds."""
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
    """The server that answered is a standby: its answers may be old, and nothing in them tells."""


class BoundedConnection(psycopg.Connection[TupleRow]):
    """Connection that waits for the server until :attr:`deadline` and no longer.

    The server's own time-outs do not help when the network loses its messages.
    """

    deadline: float | None = None
    """On ``time.monotonic``; None for no end."""
    sending: psycopg.Pipeline
    """Pipeline of the transaction that writes."""

    def answer(self) -> None:
        """Wait for the answers to all statements that were sent.

        (Leaving the pipeline would wait, too, but sends a Flush behind the Sync. A server that has read the Flush
        no longer counts the time for which the client leaves its transaction idle.)
        """
        self.sending.sync()

    def require_session(self) -> None:
        """Check, without waiting, that the server has not ended the session.

        :raises SessionEnded: it has; statements that were not sent yet cannot have happened.
        """
        readable = select.poll()
        readable.register(self.fileno(), select.POLLIN)
        try:
            while readable.poll(0):
                self.pgconn.consume_input()
        except psycopg.OperationalError as error:
            raise SessionEnded(*error.args) from error

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **options: Any) -> Any:
        """Wait as psycopg does, which resumes *gen* every tenth of a second, but no longer than the deadline."""
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
    """Open a connection. User and password come from *address* alone, not from files or the environment.

    :raises ConnectFailed: no server accepted the connection, or only a standby did.
    :raises StoreIncompatible: the server is too old, its database is not in UTF-8, or a pooler stands before it
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
    """Set the limits of the session and check who answers: the server itself, a pooler or a standby.

    The limits of a pooler's session are set in each transaction instead.
    """
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
    """State that all stores and catalogs of one process share for one database.

    :ivar answered: True once the server has answered: if it cannot be reached later, it is being restarted.
    :ivar listeners: permits for watches to wait for notifications, each on a connection; further ones poll.
    :ivar queues: by domain, the lock of the thread that has the turn or asks for it: the only one with a connection
        for it.
    """

    def __init__(self) -> None:
        self.answered = False
        self.listeners = BoundedSemaphore(MOST_LISTENERS)
        self.queues: defaultdict[str, Lock] = defaultdict(Lock)


def engine_of(address: Address, limits: Limits) -> Engine:
    """Return this process's engine for *address*, made at the first call; opens no connection by itself.

    Its connections stay with the parent when the process forks. Disposing of the engine closes the idle ones; other
    users of the engine open theirs again.
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
            driver.autocommit = (
                False  # for SQLAlchemy and catalogs; the store sets its own mode in each transaction
            )
        except psycopg.Error as error:
            raise DisconnectionError from error

    event.listen(engine, "do_connect", connected)
    event.listen(engine, "checkout", bounded)
    if address.pooled:
        told = sql.SQL("SELECT {}").format(statements.set_for(limits.settings(), local=True)).as_string()
        event.listen(engine, "begin", lambda connection: _tell(connection, told))
    return engine


def _tell(connection: Connection, told: str) -> None:
    """Set the limits in a transaction that is not the store's, such as one of Iceberg's catalog."""
    driver = connection.connection.driver_connection
    if isinstance(driver, BoundedConnection) and not driver.autocommit:
        driver.execute(told.encode(), prepare=False)


_engines: WeakValueDictionary[Any, Engine] = WeakValueDictionary()
_shared: WeakKeyDictionary[Engine, Shared] = WeakKeyDictionary()
_lock = Lock()


def _after_fork() -> None:
    """Leave inherited connections to the parent: the child neither uses nor closes them."""
    global _lock  # noqa: PLW0603 - another thread of the parent may hold it
    _lock = Lock()
    for engine, shared in list(_shared.items()):
        engine.dispose(close=False)
        shared.listeners = BoundedSemaphore(MOST_LISTENERS)
        shared.queues = defaultdict(Lock)


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
            found=str(found // 10_000),
            expected=str(OLDEST_SERVER // 10_000),
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreIncompatible(
            f"{address.location}: the database has the encoding {encoding}; names need UTF8.",
            next_step="make a database with: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0.",
            store=address.location,
            found=str(encoding),
            expected="UTF8",
        )
