"""PostgreSQL as a SQL store: two messages a transaction, one a read, and a call for those who watch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from itertools import groupby
from threading import Lock
from time import monotonic, sleep
from typing import Any, cast
from weakref import WeakSet

import psycopg
from psycopg.rows import namedtuple_row
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key
from airflow_provider.stores.base import Absent, Head, StoreCapability
from airflow_provider.stores.requests import CheckedTransaction
from airflow_provider.stores.sql import rows
from airflow_provider.stores.sql.dialect import Held, Look, SqlDialect
from airflow_provider.stores.sql.postgresql import outcomes, statements
from airflow_provider.stores.sql.postgresql.address import Address
from airflow_provider.stores.sql.postgresql.connections import BoundedConnection, Limits, connect

POOLED_CONNECTIONS = 4
MOST_CONNECTIONS = 16
"""Of one store in one process."""
SLOWEST_POLL = timedelta(seconds=1)
"""How often a watch looks by itself, in case that a call was lost."""


class PostgresqlDialect(SqlDialect):
    """A PostgreSQL database.

    A transaction looks in one message and writes and commits in a second one. Locks are taken in one order by
    all: the head of the domain, records by key, pointers by name. A record that must be absent cannot be
    locked; making it fails if somebody else did meanwhile.

    :param patience: how long to wait for others who write, and for a server that is restarted.
    """

    capabilities = frozenset(StoreCapability)
    embedded = False
    longest_pause_s = 0.2

    def __init__(self, address: Address, *, patience: timedelta = DEFAULTS.store_patience) -> None:
        self.location = address.location
        self.limits = Limits.within(patience)
        self._address = address
        self._patience = patience
        self._answered = False
        self._engine: Engine | None = None
        self._lock = Lock()
        _dialects.add(self)

    def engine(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = create_engine(
                    "postgresql+psycopg://",
                    creator=self._connect,
                    poolclass=QueuePool,
                    pool_size=POOLED_CONNECTIONS,
                    max_overflow=MOST_CONNECTIONS - POOLED_CONNECTIONS,
                    pool_timeout=self._patience.total_seconds(),
                    pool_use_lifo=True,
                    use_native_hstore=False,
                )
            return self._engine

    def prepare(self, *, create: bool) -> None:
        """There is nothing to see before connecting."""

    def operation(self) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def transaction(self, connection: Connection, *, write: bool) -> Iterator[None]:
        """A read is one statement, which needs no transaction around it."""
        driver = _driver(connection)
        limit = self.limits.write if write else self.limits.read
        driver.deadline = monotonic() + limit.total_seconds()
        try:
            driver.autocommit = not write
            yield
        except psycopg.Error as error:
            raise self._given_up(connection, error) from error
        finally:
            driver.deadline = monotonic() + limit.total_seconds()  # for what the pool does with it

    def lock_schema(self, connection: Connection) -> None:
        """An upgrade may take as long as it takes; only for a lock it does not wait for ever."""
        _driver(connection).deadline = None
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
        connection.exec_driver_sql(statements.LOCK_SCHEMA)

    # --- reading and writing ---------------------------------------------------------------------------------

    def look(self, connection: Connection, domain: DomainName, keys: Sequence[Key]) -> Look:
        found = _send(_driver(connection), statements.LOOK, statements.at(domain, keys)).fetchall()
        first = found[0]
        return Look(
            head=Head(first.head or 0, first.incarnation),
            now_us=first.now_us,
            rows=[row for row in found if row.kind is not None],
        )

    def hold(self, connection: Connection, request: CheckedTransaction) -> Held:
        driver, domain = _driver(connection), request.domain
        swaps = statements.of_swaps(request.swaps)
        taken = pointers = None
        with driver.pipeline():
            if request.commit:
                taken = _send(driver, statements.TAKE_NUMBER, {"domain": domain})
            locked = [
                _send(driver, statements.FOR_UPDATE if changed else statements.FOR_SHARE, parameters)
                for changed, parameters in _locks(request)
            ]
            if request.swaps:
                pointers = _send(driver, statements.POINTERS, swaps)
            stamped = _send(driver, statements.STAMP, {})
        stamp = stamped.fetchone()
        return Held(
            csn=taken.fetchone().csn if taken else None,
            versions={rows.key(domain, row): row.version for found in locked for row in found.fetchall()},
            pointers={
                (row.table_namespace, row.table_name): row.metadata_location
                for row in (pointers.fetchall() if pointers else ())
            },
            incarnation=stamp.incarnation,
            version=stamp.version,
            at_us=stamp.at_us,
        )

    def write(
        self, connection: Connection, request: CheckedTransaction, written: Sequence[Mapping[str, Any]]
    ) -> None:
        driver, domain = _driver(connection), request.domain
        absent = {one.key for one in request.requires if isinstance(one, Absent)}
        proven = absent - {_key(domain, row) for row in written}
        made = [row for row in written if _key(domain, row) in absent] + [_placeholder(key) for key in proven]
        put = [row for row in written if _key(domain, row) not in absent]
        with driver.pipeline():
            if request.swaps:
                _send(driver, statements.SWAP, statements.of_swaps(request.swaps))
            if made:
                _send(driver, statements.CREATE, statements.of_rows(made))
            if put:
                _send(driver, statements.PUT, statements.of_rows(put))
            if request.deletes or proven:
                _send(driver, statements.DELETE, statements.at(domain, {*request.deletes, *proven}))
            if request.commit:
                _send(driver, statements.ANNOUNCE, {"csn": str(written[0]["csn"]), "domain": domain})
            driver.execute("COMMIT")
        connection.commit()

    # --- watching --------------------------------------------------------------------------------------------

    def wait(self, domain: DomainName, head: Callable[[], int], after: int, timeout: timedelta) -> int:
        deadline = monotonic() + timeout.total_seconds()
        while (csn := head()) <= after and monotonic() < deadline:
            try:
                csn = self._listen(domain, head, after, deadline)
            except (SQLAlchemyError, psycopg.Error):
                sleep(DEFAULTS.store_poll_longest.total_seconds())  # the head's reader says what is wrong
            else:
                break
        return csn

    def _listen(self, domain: DomainName, head: Callable[[], int], after: int, deadline: float) -> int:
        """Look whenever somebody calls, and slowly without a call; what was committed before is seen first."""
        with self.engine().connect() as connection:
            driver = _driver(connection)
            driver.deadline = monotonic() + self.limits.read.total_seconds()
            driver.autocommit = True
            driver.execute(f"LISTEN {statements.CHANNEL}")
            driver.deadline = None
            try:
                while (csn := head()) <= after and (left_s := deadline - monotonic()) > 0:
                    _await_call(driver, domain, min(left_s, SLOWEST_POLL.total_seconds()))
            finally:
                driver.deadline = monotonic() + self.limits.read.total_seconds()
                driver.execute("UNLISTEN *")
            return csn

    # --- errors and connections ------------------------------------------------------------------------------

    def is_transient(self, error: BaseException, *, committing: bool) -> bool:
        return outcomes.is_transient(error, committing=committing, answered=self._answered)

    def translated(self, error: Exception, *, committing: bool) -> EpochError:
        return outcomes.translated(error, self.location, committing=committing)

    def patience(self) -> timedelta:
        return self._patience

    def _connect(self) -> BoundedConnection:
        connection = connect(self._address, self.limits)
        self._answered = True
        return connection

    def _given_up(self, connection: Connection, error: psycopg.Error) -> DBAPIError:
        """Return *error* as SQLAlchemy's own; when the session is over, others opened before it are suspect too."""
        driver = _driver(connection)
        lost = driver.closed or driver.broken
        if lost:
            connection.invalidate(error)
            self.engine().dispose()
        return DBAPIError(None, None, error, connection_invalidated=lost)

    def forget_connections(self) -> None:
        """In a child: what was inherited belongs to the parent, and is neither used nor closed."""
        self._lock = Lock()
        if self._engine is not None:
            self._engine.dispose(close=False)


_dialects: WeakSet[PostgresqlDialect] = WeakSet()


def _after_fork() -> None:
    for dialect in list(_dialects):
        dialect.forget_connections()


os.register_at_fork(after_in_child=_after_fork)


def _driver(connection: Connection) -> BoundedConnection:
    return cast("BoundedConnection", connection.connection.driver_connection)


def _send(driver: BoundedConnection, statement: Any, parameters: Mapping[str, Any]) -> Any:
    """Send a statement, in a pipeline without waiting; the answer is read from what is returned."""
    return driver.cursor(row_factory=namedtuple_row).execute(statement, parameters)


def _locks(request: CheckedTransaction) -> Iterator[tuple[bool, dict[str, Any]]]:
    """What to lock, in the order of keys: runs of records that are changed, and of those that are only required."""
    changed = {*request.deletes, *(put.key for put, _ in request.puts)}
    keys = statements.in_order({*changed, *(one.key for one in request.requires)})
    for strong, run in groupby(keys, key=changed.__contains__):
        yield strong, statements.at(request.domain, run)


def _key(domain: DomainName, row: Mapping[str, Any]) -> Key:
    return Key(domain, row["kind"], row["partition"], row["item"])


def _placeholder(key: Key) -> dict[str, Any]:
    """A row that is made and deleted again: proof that nobody else makes it meanwhile."""
    return {
        "domain": key.domain,
        "kind": key.kind.value,
        "partition": key.partition,
        "item": key.item,
        "version": 0,
        "csn": None,
        "updated_at": 0,
        "state": None,
        "interval_start": None,
        "interval_end": None,
        "body": "",
    }


def _await_call(driver: BoundedConnection, domain: DomainName, longest_s: float) -> None:
    """Return when a commit of *domain* is announced, at the latest after so many seconds."""
    until = monotonic() + longest_s
    while (left_s := until - monotonic()) > 0:
        for call in driver.notifies(timeout=left_s, stop_after=1):
            if call.payload.partition(" ")[2] == domain:
                return
