"""PostgreSQL as a SQL store: one or two messages a transaction, one a read, and a call for those who watch."""

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

_OPEN = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
SLOWEST_POLL = timedelta(seconds=1)
"""How often a watch looks by itself, in case that a call was lost."""


class PostgresqlDialect(SqlDialect):
    """A PostgreSQL database.

    A transaction looks in one message and writes and commits in a second one; one that only puts records does all
    in one message. Locks are taken in one order by
    all: the head of the domain, pointers by name, records by key. A record that must be absent cannot be
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
        self._engine = engine_of(address, self.limits)
        self._shared = shared_of(self._engine)

    def engine(self) -> Engine:
        return self._engine

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
            with self._context(driver, purpose):
                yield
        except psycopg.Error as error:
            raise self._given_up(connection, error) from error
        finally:
            driver.deadline = monotonic() + limit_s  # for what the pool does with it

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
        """Leave no transaction open. For one, and for it alone, a pooler's session can be told how long to wait."""
        try:
            if purpose is Purpose.READ:
                driver.execute(statements.opened(self.limits.settings()), prepare=False)
            yield
        finally:
            if driver.info.transaction_status in _OPEN:
                driver.execute("ROLLBACK", prepare=False)

    def _share(self, driver: BoundedConnection) -> None:
        """Hold the store's identity until the transaction ends; waits for nothing but who changes that."""
        pooled = self._address.pooled
        driver.execute(statements.sharing(self.limits.settings()) if pooled else statements.SHARE_STORE)

    def lineage(self, connection: Connection) -> str | None:
        """Which history the server is on; None for one that does not tell, such as a server with other storage."""
        try:
            with connection.begin_nested():
                return cast("str", connection.exec_driver_sql(statements.LINEAGE).scalar_one())
        except DBAPIError:
            return None

    # --- reading and writing ---------------------------------------------------------------------------------

    def look(
        self,
        connection: Connection,
        domain: DomainName,
        keys: Sequence[Key],
        known: Mapping[Key, Stamped[Any]],
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
        """Whether nothing is taken, moved or deleted, and nothing must be absent that is not made.

        Nor may two requirements be of one record: the statement compares each record with one expectation.
        """
        puts = {put.key for put, _ in request.puts}
        absent = {one.key for one in request.requires if isinstance(one, Absent)}
        contested = len({one.key for one in request.requires}) < len(request.requires)
        return not (request.commit or request.swaps or request.deletes or absent - puts or contested)

    def at_once(
        self, connection: Connection, request: CheckedTransaction, written: Sequence[Mapping[str, Any]]
    ) -> Held:
        driver, domain = _driver(connection), request.domain
        driver.require_session()
        absent = {one.key for one in request.requires if isinstance(one, Absent)}
        rows_by_need = {
            "made": statements.listed_rows(row for row in written if _key(domain, row) in absent),
            "put": statements.listed_rows(row for row in written if _key(domain, row) not in absent),
        }
        pooled = self._address.pooled
        with driver.pipeline():  # one transaction by itself, of the isolation that the session was told
            if pooled:
                driver.execute(statements.BEGIN, prepare=False)
            self._share(driver)
            stamped = driver.execute(statements.AT_ONCE, statements.held(request) | rows_by_need)
            if pooled:
                driver.execute("COMMIT", prepare=False)
        return _held(request, stamped)

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

    @contextmanager
    def turn(self, domain: DomainName, patience: timedelta) -> Iterator[None]:
        """A lock that PostgreSQL hands on in the order in which it was asked for, in a transaction beside ours.

        Threads of one process queue in its memory, so that all of them together have one connection for it.
        """
        until, turns = monotonic() + patience.total_seconds(), self._shared.turns[domain]
        # Those who publish through a pooler need its sessions for that.
        if self._address.pooled or not turns.acquire(timeout=patience.total_seconds()):
            yield
            return
        try:
            with self._turn(domain, timedelta(seconds=max(0.0, until - monotonic()))):
                yield
        finally:
            turns.release()

    def _turn(self, domain: DomainName, patience: timedelta) -> ExitStack:
        """Return what gives the turn on at its end; nothing, and no connection, when it was not had in time."""
        with ExitStack() as stack, suppress(SQLAlchemyError, psycopg.Error):
            driver = _driver(stack.enter_context(self._engine.connect()))
            stack.callback(_end_turn, driver)
            driver.deadline = monotonic() + self.limits.read.total_seconds()
            driver.autocommit = True
            driver.execute(statements.taking_turn(domain, patience), prepare=False)
            return stack.pop_all()
        return ExitStack()

    # --- errors and connections ------------------------------------------------------------------------------

    def is_transient(self, error: BaseException, *, committing: bool) -> bool:
        return outcomes.is_transient(error, committing=committing, answered=self._shared.answered)

    def translated(self, error: Exception, *, committing: bool) -> EpochError:
        return outcomes.translated(error, self.location, committing=committing)

    def patience(self) -> timedelta:
        return self._patience

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
    """Change the schema or the store's identity, once all transactions that were decided under it have ended.

    It may take as long as it takes; only locks are not waited for.
    """
    driver.deadline = None
    driver.execute("SET LOCAL statement_timeout = 0")
    driver.execute(statements.LOCK_SCHEMA)
    driver.execute(statements.LOCK_HEADS)
    driver.execute(statements.LOCK_STORE)
    yield


def _end_turn(driver: BoundedConnection) -> None:
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
