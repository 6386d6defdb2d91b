"""PostgreSQL as a SQL store: one or two messages per transaction, one per read, and notifications for watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from datetime import timedelta
from time import monotonic, sleep
from types import MappingProxyType
from typing import Any, cast

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Stamped
from airflow_provider.stores.base import Absent, Head, StoreCapability
from airflow_provider.stores.requests import CheckedTransaction
from airflow_provider.stores.sql import rows
from airflow_provider.stores.sql.dialect import Held, Look, Purpose, SqlDialect
from airflow_provider.stores.sql.postgresql import outcomes, statements
from airflow_provider.stores.sql.postgresql.address import Address
from airflow_provider.stores.sql.postgresql.connections import (
    BoundedConnection,
    Limits,
    engine_of,
    shared_of,
)
from airflow_provider.stores.sql.postgresql.incarnation import LINEAGE

_OPEN = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
SLOWEST_POLL = timedelta(seconds=1)
"""Interval at which a watch reads the head by itself, in case a notification was lost."""


class PostgresqlDialect(SqlDialect):
    """Dialect for a PostgreSQL database.

    A transaction reads in one message, and writes and commits in a second one; a transaction that only puts records
    does all in one message. All transactions take locks in one order, so that they cannot deadlock: the head of the
    domain, pointers by name, records by key. A record that must be absent cannot be locked; creating it fails if
    another transaction has created it meanwhile.

    :param timeout: time to wait for other writers, and for a server that is being restarted.
    """

    capabilities = frozenset(StoreCapability)
    embedded = False
    longest_pause_s = 0.2

    def __init__(self, address: Address, *, timeout: timedelta = DEFAULTS.store_timeout) -> None:
        self.location = address.location
        self.limits = Limits.within(timeout)
        self._address = address
        self._timeout = timeout
        self._engine = engine_of(address, self.limits)
        self._shared = shared_of(self._engine)

    def engine(self) -> Engine:
        return self._engine

    def prepare(self, *, create: bool) -> None:
        """Do nothing: there is nothing to check before connecting."""

    def operation(self) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def transaction(self, connection: Connection, purpose: Purpose) -> Iterator[None]:
        driver = _driver(connection)
        limit_s = (self.limits.read if purpose is Purpose.READ else self.limits.write).total_seconds()
        driver.deadline = monotonic() + limit_s
        try:
            driver.autocommit = purpose is not Purpose.UPGRADE
            with self._context(driver, purpose):
                yield
        except psycopg.Error as error:
            raise self._given_up(connection, error) from error
        finally:
            driver.deadline = monotonic() + limit_s  # for the pool's own rollback

    def _context(self, driver: BoundedConnection, purpose: Purpose) -> AbstractContextManager[None]:
        if purpose is Purpose.UPGRADE:
            return _alone(driver)
        if purpose is Purpose.WRITE:
            return _pipelined(driver)
        if purpose is Purpose.READ and not self._address.pooled:
            return nullcontext()  # one statement, which sees one moment
        return self._told(driver, purpose)

    @contextmanager
    def _told(self, driver: BoundedConnection, purpose: Purpose) -> Iterator[None]:
        """Bound a transaction that reads through a pooler, and leave no transaction open.

        A pooler may give every transaction another session, so the limits are set for the transaction only.
        """
        try:
            if purpose is Purpose.READ:
                driver.execute(statements.opened(self.limits.settings()), prepare=False)
            yield
        finally:
            if driver.info.transaction_status in _OPEN:
                driver.execute("ROLLBACK", prepare=False)

    def _share(self, driver: BoundedConnection) -> None:
        """Lock the store's identity until the transaction ends; waits only for a transaction that changes it."""
        pooled = self._address.pooled
        driver.execute(statements.sharing(self.limits.settings()) if pooled else statements.SHARE_STORE)

    def lineage(self, connection: Connection) -> str | None:
        """Return the history that the server is on; None if it does not tell, such as a server with other storage."""
        try:
            with connection.begin_nested():  # an error must not end the caller's transaction
                return cast("str", connection.exec_driver_sql(LINEAGE).scalar_one())
        except DBAPIError:
            return None

    # --- reading and writing ---------------------------------------------------------------------------------

    def look(
        self,
        connection: Connection,
        domain: DomainName,
        keys: Sequence[Key[Any]],
        known: Mapping[Key[Any], Stamped[Any]],
        pointers: Sequence[str],
    ) -> Look:
        statement, parameters = statements.LOOK, statements.looked_for(domain, keys, known)
        if pointers:
            statement = statements.LOOK_WITH_POINTERS
            parameters["pointers"] = list(pointers)
        found = _driver(connection).execute(statement, parameters).fetchall()
        incarnation, head, now_us = found[0][-3:]
        return Look(
            head=Head(head or 0, incarnation),
            now_us=now_us,
            rows=[row[:-3] for row in found if row[0] not in (None, statements.POINTER)],
            pointers={row[2]: row[6] for row in found if row[0] == statements.POINTER},
        )

    def hold(self, connection: Connection, request: CheckedTransaction) -> Held:
        driver, domain = _driver(connection), request.domain
        taken = pointers = None
        driver.execute(statements.BEGIN, prepare=False)
        # TAKE_NUMBER locks the store's identity itself, behind the row of the head: see LOCK_HEADS.
        if not request.commit:
            self._share(driver)
        elif self._address.pooled:
            driver.execute(statements.telling(self.limits.settings()))
        if request.commit:
            taken = driver.execute(statements.TAKE_NUMBER, {"domain": domain})
        if request.swaps:
            pointers = driver.execute(statements.POINTERS, statements.of_swaps(request.swaps))
        stamped = driver.execute(statements.HOLD, statements.held(request))
        driver.answer()
        return _held(
            request,
            stamped,
            csn=taken.fetchall()[0][0] if taken else None,
            pointers={(row[0], row[1]): row[2] for row in (pointers.fetchall() if pointers else ())},
        )

    def can_at_once(self, request: CheckedTransaction) -> bool:
        """Return whether one statement can do *request*.

        It takes no number, moves no pointer and deletes nothing, and every record that must be absent is created,
        since only its creation proves that. Two requirements of one record do not fit either: the statement compares
        each record with one expected version.
        """
        puts = {put.key for put, _ in request.puts}
        absent = _absent(request)
        contested = len({requirement.key for requirement in request.requires}) < len(request.requires)
        return not (request.commit or request.swaps or request.deletes or absent - puts or contested)

    def at_once(
        self, connection: Connection, request: CheckedTransaction, written: Sequence[Mapping[str, Any]]
    ) -> Held:
        driver, domain = _driver(connection), request.domain
        # Before the first message: what is lost after it may have been committed.
        driver.require_session()
        absent = _absent(request)
        rows_by_need = {
            "made": statements.listed_rows(row for row in written if _key(domain, row) in absent),
            "put": statements.listed_rows(row for row in written if _key(domain, row) not in absent),
        }
        pooled = self._address.pooled
        # A pipeline in autocommit is one transaction, of the session's default isolation. A pooler's session has no
        # defaults of ours, so there the transaction is begun explicitly.
        with driver.pipeline():
            if pooled:
                driver.execute(statements.BEGIN, prepare=False)
            # In a statement before AT_ONCE: a statement that waits for a lock still sees the snapshot of before, and
            # would read the incarnation that was replaced while it waited.
            self._share(driver)
            stamped = driver.execute(statements.AT_ONCE, statements.held(request) | rows_by_need)
            if pooled:
                driver.execute("COMMIT", prepare=False)
        return _held(request, stamped)

    def write(
        self, connection: Connection, request: CheckedTransaction, written: Sequence[Mapping[str, Any]]
    ) -> None:
        driver, domain = _driver(connection), request.domain
        # Before COMMIT is sent: if the session has ended by now, the server has rolled back for certain.
        driver.require_session()
        absent = _absent(request)
        # A record that must stay absent is created and deleted again, see _placeholder.
        proven = absent - {_key(domain, row) for row in written}
        made = [row for row in written if _key(domain, row) in absent] + [_placeholder(key) for key in proven]
        put = [row for row in written if _key(domain, row) not in absent]
        if request.swaps:
            driver.execute(statements.SWAP, statements.of_swaps(request.swaps))
        if made:
            driver.execute(statements.CREATE, statements.of_rows(made))
        if put:
            driver.execute(statements.PUT, statements.of_rows(put))
        if request.deletes or proven:
            driver.execute(statements.DELETE, statements.at(domain, {*request.deletes, *proven}))
        if request.commit:
            driver.execute(statements.ANNOUNCE, {"csn": str(written[0]["csn"]), "domain": domain})
        driver.execute("COMMIT", prepare=False)

    # --- watching --------------------------------------------------------------------------------------------

    def wait(self, domain: DomainName, head: Callable[[], int], after: int, timeout: timedelta) -> int:
        deadline = monotonic() + timeout.total_seconds()
        while (csn := head()) <= after and (left_s := deadline - monotonic()) > 0:
            if self._address.pooled or not self._shared.listeners.acquire(blocking=False):
                sleep(min(left_s, DEFAULTS.store_poll_longest.total_seconds()))
                continue
            try:
                return self._listen(domain, head, after, deadline)
            except (SQLAlchemyError, psycopg.Error):
                sleep(min(left_s, DEFAULTS.store_poll_longest.total_seconds()))  # head() says what is wrong
            finally:
                self._shared.listeners.release()
        return csn

    def _listen(self, domain: DomainName, head: Callable[[], int], after: int, deadline: float) -> int:
        """Read the head after each notification, and once a second without one; return its CSN."""
        with self._engine.connect() as connection:
            driver = _driver(connection)
            driver.deadline = monotonic() + self.limits.read.total_seconds()
            driver.autocommit = True
            driver.execute(
                f"LISTEN {statements.CHANNEL}"
            )  # before the first head(), so that no commit is missed
            driver.deadline = None
            try:
                while (csn := head()) <= after and (left_s := deadline - monotonic()) > 0:
                    _await_call(driver, domain, min(left_s, SLOWEST_POLL.total_seconds()))
            finally:
                driver.deadline = monotonic() + self.limits.read.total_seconds()
                driver.execute("UNLISTEN *")
            return csn

    @contextmanager
    def publish_queue(self, domain: DomainName, timeout: timedelta) -> Iterator[None]:
        """Queue for an advisory lock, which PostgreSQL hands on in order, in a transaction on a second connection.

        Threads of one process queue in its memory first, so that all of them together use one such connection.
        """
        until, queue = monotonic() + timeout.total_seconds(), self._shared.queues[domain]
        # Behind a pooler there is no queue: it would take the few sessions that publishing itself needs.
        if self._address.pooled or not queue.acquire(timeout=timeout.total_seconds()):
            yield
            return
        try:
            with self._queue(domain, timedelta(seconds=max(0.0, until - monotonic()))):
                yield
        finally:
            queue.release()

    def _queue(self, domain: DomainName, timeout: timedelta) -> ExitStack:
        """Return the context that ends the turn; an empty one, without a connection, if the turn did not come."""
        with ExitStack() as stack, suppress(SQLAlchemyError, psycopg.Error):
            driver = _driver(stack.enter_context(self._engine.connect()))
            stack.callback(_leave_queue, driver)
            driver.deadline = monotonic() + self.limits.read.total_seconds()
            driver.autocommit = True
            driver.execute(statements.entering_queue(domain, timeout), prepare=False)
            return stack.pop_all()
        return ExitStack()

    # --- errors and connections ------------------------------------------------------------------------------

    def is_transient(self, error: BaseException, *, committing: bool) -> bool:
        return outcomes.is_transient(error, committing=committing, answered=self._shared.answered)

    def translated(self, error: Exception, *, committing: bool) -> EpochError:
        return outcomes.translated(error, self.location, committing=committing)

    def timeout(self) -> timedelta:
        return self._timeout

    def _given_up(self, connection: Connection, error: psycopg.Error) -> DBAPIError:
        """Return *error* as SQLAlchemy's own error, after closing the connection if its session is lost."""
        driver = _driver(connection)
        lost = driver.closed or driver.broken
        if lost:
            connection.invalidate(error)
            self._engine.dispose()  # what ended this session, such as a restart, has probably ended the idle ones, too
        return DBAPIError(None, None, error, connection_invalidated=lost)


def _driver(connection: Connection) -> BoundedConnection:
    return cast("BoundedConnection", connection.connection.driver_connection)


def _absent(request: CheckedTransaction) -> set[Key[Any]]:
    return {requirement.key for requirement in request.requires if isinstance(requirement, Absent)}


@contextmanager
def _pipelined(driver: BoundedConnection) -> Iterator[None]:
    """Send statements without waiting for each; the end of the context waits for all answers."""
    with driver.pipeline() as driver.sending:
        try:
            yield
        finally:
            if driver.info.transaction_status in _OPEN:
                driver.execute("ROLLBACK", prepare=False)


@contextmanager
def _alone(driver: BoundedConnection) -> Iterator[None]:
    """Change the schema or the store's identity after all transactions that were decided under it have ended.

    A migration has no time limit; only the wait for a lock keeps the session's.
    """
    driver.deadline = None
    driver.execute("SET LOCAL statement_timeout = 0")
    driver.execute(statements.LOCK_SCHEMA)
    driver.execute(statements.LOCK_HEADS)
    driver.execute(statements.LOCK_STORE)
    yield


def _leave_queue(driver: BoundedConnection) -> None:
    with suppress(psycopg.Error):
        driver.execute("ROLLBACK", prepare=False)


def _held(
    request: CheckedTransaction,
    stamped: psycopg.Cursor[Any],
    *,
    csn: int | None = None,
    pointers: Mapping[tuple[str, str], str | None] = MappingProxyType({}),
) -> Held:
    ((versions, incarnation, version, at_us),) = stamped.fetchall()
    return Held(
        csn=csn,
        versions={rows.key(request.domain, row): row[3] for row in versions or ()},
        pointers=pointers,
        incarnation=incarnation,
        version=version,
        at_us=at_us,
    )


def _key(domain: DomainName, row: Mapping[str, Any]) -> Key[Any]:
    return Key(domain, row["kind"], row["partition"], row["item"])


def _placeholder(key: Key[Any]) -> dict[str, Any]:
    """Return a row that is created and deleted again: proof that no other transaction creates it meanwhile."""
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
    """Wait until a commit of *domain* is announced, at most *longest_s* seconds."""
    until = monotonic() + longest_s
    while (left_s := until - monotonic()) > 0:
        for call in driver.notifies(timeout=left_s, stop_after=1):
            if call.payload.partition(" ")[2] == domain:
                return
