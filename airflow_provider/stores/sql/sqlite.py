"""SQLite: the embedded default, for one host and a local disk."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any, cast
from urllib.parse import quote

import msgspec
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import (
    EpochError,
    InvalidInput,
    OutcomeUnknown,
    StoreIncompatible,
    StoreUnavailable,
)
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import micros
from airflow_provider.domain.records import Key, Stamped
from airflow_provider.stores.base import Head, StoreCapability
from airflow_provider.stores.requests import CheckedTransaction
from airflow_provider.stores.sql import forks, rows, sqlite_statements
from airflow_provider.stores.sql.dialect import Held, Look, Purpose, SqlDialect, wanted_of
from airflow_provider.stores.sql.file_queue import file_queue
from airflow_provider.stores.sql.pool import StorePool

BUSY_TIMEOUT_MS = 20
"""Time that SQLite itself waits for a lock. Short, because its waiting is unfair: the store waits and tries again."""
POOLED_CONNECTIONS = 5
MOST_CONNECTIONS = 64
OLDEST_SQLITE = (3, 35, 0)
"""The first version with RETURNING."""

_TRANSIENT = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_ROLLED_BACK = _TRANSIENT | {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY}
"""Errors of a commit after which nothing was changed for certain."""
_NOT_A_STORE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})

_NEXT_STEPS = {
    sqlite3.SQLITE_BUSY: "look for a process that holds the file open in a transaction (`fuser FILE`); try again.",
    sqlite3.SQLITE_FULL: "make room on the disk; then try again.",
    sqlite3.SQLITE_READONLY: "let this user write the file and its directory (SQLite keeps two files beside it).",
    sqlite3.SQLITE_CANTOPEN: (
        "`airflow epochs db upgrade` makes a store that is not there yet; "
        "for one that is, let this user read and write the file and its directory."
    ),
}


def system_time() -> datetime:
    return datetime.now(UTC)


class SqliteDialect(SqlDialect):
    """Dialect for a SQLite file.

    :param path: absolute path of the file.
    :param now: the clock for stamps; all processes of one host share the host's clock.
    :param timeout: time to wait for other writers.
    """

    capabilities = frozenset(
        {StoreCapability.SNAPSHOT_READ, StoreCapability.CATALOG_SWAP, StoreCapability.LARGE_TRANSACTIONS}
    )

    embedded = True
    longest_pause_s = 0.02

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], datetime] = system_time,
        timeout: timedelta = DEFAULTS.store_timeout,
    ) -> None:
        self.path = path
        self.location = f"sqlite:///{path}"
        self._now = now
        self._timeout = timeout
        self._engine: Engine | None = None
        self._lock = Lock()

    def engine(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = self._new_engine()
            return self._engine

    def prepare(self, *, create: bool) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise StoreIncompatible(
                f"SQLite {sqlite3.sqlite_version} is too old; the store needs 3.35 or newer.",
                next_step="use a Python that was built with a newer SQLite.",
                found=sqlite3.sqlite_version,
                expected="3.35",
            )
        self._check_path()
        if create:
            self._create_file()

    def is_there(self) -> bool:
        return self.path.exists()

    def _create_file(self) -> None:
        try:
            self.path.touch(mode=0o600)
        except OSError as error:
            raise InvalidInput(
                field="store url",
                value=self.location,
                expected=f"a file that this user may write ({error.strerror})",
                next_step=_NEXT_STEPS[sqlite3.SQLITE_READONLY],
            ) from error

    def _check_path(self) -> None:
        directory = self.path.parent
        if not directory.is_dir():
            raise InvalidInput(
                field="store url",
                value=self.location,
                expected="a file in a directory that exists",
                next_step=f"make the directory: mkdir -p {directory}",
            )
        if self.path.exists() and not self.path.is_file():
            raise InvalidInput(field="store url", value=self.location, expected="a file")

    def operation(self) -> AbstractContextManager[None]:
        return forks.operation()

    @contextmanager
    def transaction(self, connection: Connection, purpose: Purpose) -> Iterator[None]:
        """Begin a read on one snapshot, or a write behind the write before it."""
        # IMMEDIATE takes the write lock first. A transaction that reads and then wants to write fails if another one
        # has committed in between.
        begin = "BEGIN" if purpose is Purpose.READ else "BEGIN IMMEDIATE"
        try:
            with connection.execution_options(epochs_begin=begin).begin():
                yield
        except sqlite3.Error as error:
            raise DBAPIError(None, None, error) from error

    def look(
        self,
        connection: Connection,
        domain: DomainName,
        keys: Sequence[Key[Any]],
        known: Mapping[Key[Any], Stamped[Any]],
        pointers: Sequence[str],
    ) -> Look:
        execute = _driver(connection).execute
        ((incarnation, csn),) = execute(sqlite_statements.HEAD, {"domain": domain}).fetchall()
        found = []
        for part in wanted_of(keys, known):
            stamps = (
                None if version is None else f"{version} {at}"
                for version, at in zip(part.versions, part.times, strict=True)
            )
            listed = _json(dict(zip(part.items, stamps, strict=True)))
            where = {"domain": domain, "kind": part.kind, "partition": part.partition, "keys": listed}
            found += execute(sqlite_statements.DIFFERING, where).fetchall()
        named = {}
        if pointers:
            where = {"namespace": domain, "keys": _json(pointers)}
            named = dict(execute(sqlite_statements.POINTERS, where).fetchall())
        return Look(head=Head(csn or 0, incarnation), now_us=micros(self._now()), rows=found, pointers=named)

    def hold(self, connection: Connection, request: CheckedTransaction) -> Held:
        execute, domain = _driver(connection).execute, request.domain
        csn, found = None, []
        if request.commit is not None:
            ((csn,),) = execute(sqlite_statements.TAKE_NUMBER, {"domain": domain}).fetchall()
        if request.requires:
            required = _addresses(requirement.key for requirement in request.requires)
            found = execute(sqlite_statements.VERSIONS, {"domain": domain, "keys": required}).fetchall()
        pointers = {}
        for swap in request.swaps:
            at = execute(sqlite_statements.POINTER, rows.of_swap(swap)).fetchone()
            pointers[swap.namespace, swap.table] = None if at is None else at[0]
        ((version, incarnation),) = execute(sqlite_statements.NEXT_VERSION).fetchall()
        return Held(
            csn=csn,
            versions={rows.key(domain, row): row[3] for row in found},
            pointers=pointers,
            incarnation=incarnation,
            version=version,
            at_us=micros(self._now()),
        )

    def write(
        self, connection: Connection, request: CheckedTransaction, written: Sequence[Mapping[str, Any]]
    ) -> None:
        driver = _driver(connection)
        for swap in request.swaps:
            driver.execute(sqlite_statements.SWAP_POINTER, rows.of_swap(swap))
        if written:
            driver.executemany(sqlite_statements.PUT, written)
        if request.deletes:
            where = {"domain": request.domain, "keys": _addresses(request.deletes)}
            driver.execute(sqlite_statements.REMOVAL, where)
        connection.commit()

    def wait(self, domain: DomainName, head: Callable[[], int], after: int, timeout: timedelta) -> int:  # noqa: ARG002
        deadline = time.monotonic() + timeout.total_seconds()
        pause_s = DEFAULTS.store_poll_shortest.total_seconds()
        while (csn := head()) <= after:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            time.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 1.2, DEFAULTS.store_poll_longest.total_seconds())
        return csn

    def publish_queue(self, domain: DomainName, timeout: timedelta) -> AbstractContextManager[None]:  # noqa: ARG002
        """Queue the publishers of all domains: a file has only one writer at a time."""
        return file_queue(self.path.with_name(f"{self.path.name}-turn"), timeout)

    def is_transient(self, error: BaseException, *, committing: bool) -> bool:  # noqa: ARG002 - rolled back
        return _code(error) in _TRANSIENT

    def translated(self, error: Exception, *, committing: bool) -> EpochError:
        code = _code(error)
        reason = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        next_step = _NEXT_STEPS.get(code, "check the file and its disk; then try again.")
        if committing and code not in _ROLLED_BACK:
            return OutcomeUnknown.of(self.location, "commit", reason)
        if code in _NOT_A_STORE:
            return StoreIncompatible(
                f"{self.location} cannot be used as a metadata store: {reason}.",
                next_step="run `airflow epochs db check`; a damaged file must be restored from a backup.",
                store=self.location,
                found=reason,
            )
        return StoreUnavailable(f"{self.location}: {reason}.", next_step=next_step, store=self.location)

    def timeout(self) -> timedelta:
        return self._timeout

    # --- connections -----------------------------------------------------------------------------------------

    def _new_engine(self) -> Engine:
        engine = create_engine(
            "sqlite://",
            creator=self._connect,
            poolclass=StorePool,
            pool_size=POOLED_CONNECTIONS,
            max_overflow=MOST_CONNECTIONS - POOLED_CONNECTIONS,
            pool_timeout=self._timeout.total_seconds(),
        )
        event.listen(engine, "begin", _emit_begin)
        event.listen(engine, "checkout", self._refuse_replaced_file)
        forks.close_before_forks(engine)
        return engine

    def _connect(self) -> sqlite3.Connection:
        """Open the file, which must exist: a store that vanished must not be replaced by an empty one silently."""
        connection = sqlite3.connect(
            f"file:{quote(str(self.path))}?mode=rw",
            uri=True,
            timeout=BUSY_TIMEOUT_MS / 1000,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        if mode != "wal":
            connection.close()
            raise StoreUnavailable(
                f"{self.location}: the file system does not let SQLite keep a write-ahead log (it said {mode!r}).",
                next_step="put the file on a local disk.",
                store=self.location,
            )
        return connection

    def _refuse_replaced_file(self, _connection: Any, record: Any, _proxy: Any) -> None:
        """Close a connection to a file that was deleted or replaced: its writes would be lost.

        :raises DisconnectionError: the pool then opens another connection.
        """
        try:
            found = self.path.stat()
        except FileNotFoundError:
            raise DisconnectionError from None
        identity = found.st_dev, found.st_ino
        if record.info.setdefault("file", identity) != identity:
            raise DisconnectionError


def _driver(connection: Connection) -> sqlite3.Connection:
    return cast("sqlite3.Connection", connection.connection.driver_connection)


def _emit_begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("epochs_begin", "BEGIN"))


def _addresses(keys: Iterable[Key[Any]]) -> str:
    """Return *keys* as the value of the parameter ``keys``."""
    return _json([(key.kind, key.partition, key.item) for key in keys])


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _code(error: BaseException) -> int:
    """Return SQLite's primary error code, or 0 for an error that is not SQLite's."""
    if isinstance(error, PoolTimeout):
        return sqlite3.SQLITE_BUSY
    original = error.orig if isinstance(error, DBAPIError) else error
    return int(getattr(original, "sqlite_errorcode", 0)) & 0xFF
