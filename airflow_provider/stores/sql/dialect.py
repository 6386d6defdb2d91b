"""Interface of ``sql.store`` to a SQL database: everything in which databases differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from typing import Any

from sqlalchemy import Connection, Engine

from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import micros
from airflow_provider.domain.records import Key, Stamped
from airflow_provider.stores.base import Head, StoreCapability
from airflow_provider.stores.requests import CheckedTransaction


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """Result of one look at a domain.

    :param rows: the records that differ from what the caller knows; see :mod:`stores.sql.rows`. The row of a known
        record that was deleted has no version.
    :param pointers: pointers of those wanted catalog tables that exist.
    """

    head: Head
    now_us: int
    rows: Sequence[Any]
    pointers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """State on which a transaction decides; it does not change until the transaction ends.

    :param csn: the number that the transaction takes; None if it takes none.
    :param versions: versions of those required records that exist.
    :param pointers: pointers of those catalog tables to be moved that exist, by namespace and table.
    :param version: version of all records that the transaction writes; never given to another transaction.
    :param at_us: the database's time, microseconds since 1970, read after everything else.
    """

    csn: int | None
    versions: Mapping[Key[Any], int]
    incarnation: str
    version: int
    at_us: int
    pointers: Mapping[tuple[str, str], str | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Items of one partition to look for.

    :param versions: the version at which the caller knows each item; None for an unknown item.
    :param times: the time of the write of that version, microseconds since 1970; None for an unknown item.
    """

    kind: str
    partition: str
    items: list[str] = field(default_factory=list)
    versions: list[int | None] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)


def wanted_of(keys: Iterable[Key[Any]], known: Mapping[Key[Any], Stamped[Any]]) -> list[Wanted]:
    """Group *keys* by partition: the tables of a wide cut are all in one."""
    found: dict[tuple[str, str], Wanted] = {}
    for key in keys:
        _, kind, partition, item = key
        group = found.get((kind, partition))
        if group is None:
            group = found[kind, partition] = Wanted(kind=kind.value, partition=partition)
        stamped = known.get(key)
        group.items.append(item)
        group.versions.append(None if stamped is None else stamped.version)
        group.times.append(None if stamped is None else micros(stamped.at))
    return list(found.values())


class Purpose(Enum):
    """Purpose of a transaction."""

    READ = auto()
    WRITE = auto()
    """:meth:`SqlDialect.hold`, then :meth:`SqlDialect.write`."""
    AT_ONCE = auto()
    """:meth:`SqlDialect.at_once`."""
    UPGRADE = auto()
    """Change of the schema or of the store's identity; one at a time."""


class SqlDialect(ABC):
    """Interface to one database.

    :param location: its address for messages, without a password.
    """

    capabilities: frozenset[StoreCapability]
    embedded: bool
    """True if an empty database gets its schema when it is opened."""
    location: str
    longest_pause_s: float
    """The longest pause before a transaction is sent again."""

    def is_there(self) -> bool:
        """Return whether the database exists; always True for a server, whose answer to a connection tells."""
        return True

    @abstractmethod
    def engine(self) -> Engine:
        """Return the engine, made at the first call; opens no connection by itself."""

    @abstractmethod
    def prepare(self, *, create: bool) -> None:
        """Check what can be checked before connecting.

        :param create: create an empty database if there is none.
        :raises InvalidInput: the address cannot be a database.
        :raises StoreIncompatible: the client library is too old.
        """

    @abstractmethod
    def operation(self) -> AbstractContextManager[None]:
        """Return the context in which a connection must be used."""

    @abstractmethod
    def transaction(self, connection: Connection, purpose: Purpose) -> AbstractContextManager[None]:
        """Return the context of one transaction on *connection*; its end rolls back what is not committed.

        Errors of the driver leave the context as SQLAlchemy's.
        """

    @abstractmethod
    def look(
        self,
        connection: Connection,
        domain: DomainName,
        keys: Sequence[Key[Any]],
        known: Mapping[Key[Any], Stamped[Any]],
        pointers: Sequence[str],
    ) -> Look:
        """Read the head, the time, the records at *keys* that differ from *known*, and *pointers*, in one snapshot."""

    @abstractmethod
    def hold(self, connection: Connection, request: CheckedTransaction) -> Held:
        """Take the number, if *request* takes one; then read the versions that it requires, and lock them.

        The number comes first: the row of the head is the queue of the publishers. If the transaction ends without
        :meth:`write`, the number is given back.
        """

    @abstractmethod
    def write(
        self, connection: Connection, request: CheckedTransaction, written: Sequence[Mapping[str, Any]]
    ) -> None:
        """Write the rows *written*, do the deletes and the swaps of *request*, and commit.

        All of it is done when the transaction's context ends.
        """

    def can_at_once(self, request: CheckedTransaction) -> bool:  # noqa: ARG002 - for dialects that can
        """Return whether :meth:`at_once` can do *request*; never for a transaction that takes a number."""
        return False

    def at_once(
        self, connection: Connection, request: CheckedTransaction, written: Sequence[Mapping[str, Any]]
    ) -> Held:
        """Do :meth:`hold` and :meth:`write` in one message, the latter only if all requirements hold.

        :param written: rows whose version and time the database fills in.
        """
        raise NotImplementedError

    def lineage(self, connection: Connection) -> str | None:  # noqa: ARG002 - of servers that have one
        """Return the history (server and timeline) that the database is on; None if it does not tell."""
        return None

    @abstractmethod
    def wait(self, domain: DomainName, head: Callable[[], int], after: int, timeout: timedelta) -> int:
        """Wait until *head*, which reads the CSN of *domain*, is above *after* or *timeout* has passed; return it."""

    @abstractmethod
    def publish_queue(self, domain: DomainName, timeout: timedelta) -> AbstractContextManager[None]:
        """Queue publishers; see :meth:`~airflow_provider.stores.base.MetadataStore.publish_queue`."""

    @abstractmethod
    def is_transient(self, error: BaseException, *, committing: bool) -> bool:
        """Return whether nothing was changed and another try is likely to succeed soon.

        :param committing: as in :meth:`translated`.
        """

    @abstractmethod
    def translated(self, error: Exception, *, committing: bool) -> EpochError:
        """Return the package's error for *error* of the driver.

        :param committing: *error* came from :meth:`write`, :meth:`at_once` or a commit: the outcome may be unknown.
        """

    @abstractmethod
    def timeout(self) -> timedelta:
        """Return for how long a transaction with transient errors is tried again."""
