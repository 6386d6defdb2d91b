"""PostgreSQL as a SQL store: two messages a transaction, one a read, and a call for those who watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from itertools import groupby
from threading import BoundedSemaphore
from time import monotonic, sleep
from typing import Any, cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key
from airflow_provider.stores.base import Absent, Head, StoreCapability
from airflow_provider.stores.requests import CheckedTransaction
from airflow_provider.stores.sql import rows
from airflow_provider.stores.sql.dialect import Held, Look, Purpose, SqlDialect
from airflow_provider.stores.sql.postgresql import outcomes, statements
from airflow_provider.stores.sql.postgresql.address import Address
from airflow_provider.stores.sql.postgresql.connections import BoundedConnection, Limits, adopt

POOLED_CONNECTIONS = 4
MOST_CONNECTIONS = 16
"""Of one store in one process."""
MOST_LISTENERS = 8
"""Watches that wait for a call at a time, each with a connection; further ones poll."""
_OPEN = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
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
        self._listeners = BoundedSemaphore(MOST_LISTENERS)
        self._engine = create_engine(
            "postgresql+psycopg://",
            poolclass=QueuePool,
            pool_size=POOLED_CONNECTIONS,
            max_overflow=MOST_CONNECTIONS - POOLED_CONNECTIONS,
            pool_timeout=patience.total_seconds(),
            pool_use_lifo=True,
            use_native_hstore=False,
        )
        self.adopt(self._engine)
        event.listen(self._engine, "connect", self._note_answer)

    def engine(self) -> Engine:
        return self._engine

    def adopt(self, engine: Engine) -> None:
        adopt(engine, self._address, self.limits)

    def prepare(self, *, create: bool) -> None:
        """There is nothing to see before connecting."""

    def operation(self) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def transaction(self, connection: Connection, purpose: Purpose) -> Iterator[None]:
        driver = _driver(connection)
        limit_s = (self.limits.read if purpose is Purpose.READ else self.limits.write).total_seconds()
        driver.deadline = monotonic() + limit_s
        try:
            driver.autocommit = purpose is not Purpose.UPGRADE
            with _context(driver, purpose):
                yield
        except psycopg.Error as error:
            raise self._given_up(connection, error) from error
        finally:
            driver.deadline = monotonic() + limit_s  # for what the pool does with it

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
        driver.execute(statements.BEGIN, prepare=False)
        if request.commit:
            taken = _send(driver, statements.TAKE_NUMBER, {"domain": domain})
        locked = [
            _send(driver, statements.FOR_UPDATE if changed else statements.FOR_SHARE, parameters)
            for changed, parameters in _locks(request)
        ]
        if request.swaps:
            pointers = _send(driver, statements.POINTERS, swaps)
        stamped = _send(driver, statements.STAMP, {})
        driver.answer()
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
        driver.require_session()
        absent = {one.key for one in request.requires if isinstance(one, Absent)}
        proven = absent - {_key(domain, row) for row in written}
        made = [row for row in written if _key(domain, row) in absent] + [_placeholder(key) for key in proven]
        put = [row for row in written if _key(domain, row) not in absent]
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
        driver.execute("COMMIT", prepare=False)

    # --- watching --------------------------------------------------------------------------------------------

    def wait(self, domain: DomainName, head: Callable[[], int], after: int, timeout: timedelta) -> int:
        deadline = monotonic() + timeout.total_seconds()
        while (csn := head()) <= after and (left_s := deadline - monotonic()) > 0:
            if not self._listeners.acquire(blocking=False):
                sleep(min(left_s, DEFAULTS.store_poll_longest.total_seconds()))
                continue
            try:
                return self._listen(domain, head, after, deadline)
            except (SQLAlchemyError, psycopg.Error):
                sleep(min(left_s, DEFAULTS.store_poll_longest.total_seconds()))  # head() says what is wrong
            finally:
                self._listeners.release()
        return csn

    def _listen(self, domain: DomainName, head: Callable[[], int], after: int, deadline: float) -> int:
        """Look whenever somebody calls, and slowly without a call; what was committed before is seen first."""
        with self._engine.connect() as connection:
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

    def _note_answer(self, *_: Any) -> None:
        self._answered = True

    def _given_up(self, connection: Connection, error: psycopg.Error) -> DBAPIError:
        """Return *error* as SQLAlchemy's own; when the session is over, others opened before it are suspect too."""
        driver = _driver(connection)
        lost = driver.closed or driver.broken
        if lost:
            connection.invalidate(error)
            self._engine.dispose()
        return DBAPIError(None, None, error, connection_invalidated=lost)


def _driver(connection: Connection) -> BoundedConnection:
    return cast("BoundedConnection", connection.connection.driver_connection)


def _context(driver: BoundedConnection, purpose: Purpose) -> AbstractContextManager[None]:
    if purpose is Purpose.READ:
        return nullcontext()  # one statement, which sees one moment
    return _pipelined(driver) if purpose is Purpose.WRITE else _alone(driver)


@contextmanager
def _pipelined(driver: BoundedConnection) -> Iterator[None]:
    """Send statements without waiting; the end of the context waits for all that was sent."""
    with driver.pipeline() as driver.sending:
        try:
            yield
        finally:
            if driver.info.transaction_status in _OPEN:
                driver.execute("ROLLBACK", prepare=False)


@contextmanager
def _alone(driver: BoundedConnection) -> Iterator[None]:
    """Change the schema while nobody else does. It may take as long as it takes; only locks are not waited for."""
    driver.deadline = None
    driver.execute("SET LOCAL statement_timeout = 0")
    driver.execute(statements.LOCK_SCHEMA)
    yield


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
