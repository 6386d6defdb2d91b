"""What differs between SQL databases: everything that ``sql.store`` does not do itself."""

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
    """What one look at a domain finds.

    :param rows: of the records that are not as the caller knows them; see :mod:`stores.sql.rows`. One that the
        caller knows and that is gone has no version.
    :param pointers: of the catalog tables that were looked for; those that exist.
    """

    head: Head
    now_us: int
    rows: Sequence[Any]
    pointers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """What a transaction decides on: it stays as it is until the transaction ends.

    :param csn: the number that the transaction takes; None when it takes none.
    :param versions: of those required records that exist.
    :param pointers: of the catalog tables to be moved, by namespace and table; those that exist.
    :param version: for all that is written; no transaction was ever given it before.
    :param at_us: the database's time, microseconds since 1970, read after everything else.
    """

    csn: int | None
    versions: Mapping[Key, int]
    incarnation: str
    version: int
    at_us: int
    pointers: Mapping[tuple[str, str], str | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Records of one partition that are looked for.

    :param versions: of those that the caller knows, as rows have them; None of the others.
    :param times: likewise.
    """

    kind: str
    partition: str
    items: list[str] = field(default_factory=list)
    versions: list[int | None] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)


def wanted_of(keys: Iterable[Key], known: Mapping[Key, Stamped[Any]]) -> list[Wanted]:
    """Return what to look for at *keys*, by partition: the tables of a wide cut are all in one."""
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
    """What a transaction is for."""

    READ = auto()
    WRITE = auto()
    """:meth:`SqlDialect.hold`, then :meth:`SqlDialect.write`."""
    AT_ONCE = auto()
    """:meth:`SqlDialect.at_once`."""
    UPGRADE = auto()
    """Changes the schema; one at a time."""


class SqlDialect(ABC):
    """One database of one kind.

    :param location: its address for messages, without a password.
    """

    capabilities: frozenset[StoreCapability]
    embedded: bool
    """Whether an empty database gets its schema when it is opened."""
    location: str
    longest_pause_s: float
    """The longest pause before a transaction is sent again."""

    def is_there(self) -> bool:
        """Whether there is something at the address that can be connected to; servers say so when they are asked."""
        return True

    @abstractmethod
    def engine(self) -> Engine:
        """Return the engine, made at the first call; opens no connection by itself."""

    @abstractmethod
    def prepare(self, *, create: bool) -> None:
        """Look at what can be seen before connecting.

        :param create: make an empty database where there is none.
        :raises InvalidInput: the address cannot be a database.
        :raises StoreIncompatible: the library that speaks to it is too old.
        """

    @abstractmethod
    def operation(self) -> AbstractContextManager[None]:
        """The context in which a connection is used."""

    @abstractmethod
    def transaction(self, connection: Connection, purpose: Purpose) -> AbstractContextManager[None]:
        """The context of one transaction on *connection*; what is not committed in it is rolled back.

        Of the driver's errors only SQLAlchemy's leave it.
        """

    @abstractmethod
    def look(
        self,
        connection: Connection,
        domain: DomainName,
        keys: Sequence[Key],
        known: Mapping[Key, Stamped[Any]],
        pointers: Sequence[str],
    ) -> Look:
        """Read the head, the time, what of *keys* is otherwise than *known*, and *pointers*, all of one moment."""

    @abstractmethod
    def hold(self, connection: Connection, request: CheckedTransaction) -> Held:
        """Take the number, if one is taken; then read what *request* requires, such that it stays so.

        The number comes first: its row is the queue of those who publish. Nothing is kept if nothing is written.
        """

    @abstractmethod
    def write(
        self, connection: Connection, request: CheckedTransaction, written: Sequence[Mapping[str, Any]]
    ) -> None:
        """Write the rows *written*, do the deletes and the swaps of *request*, and commit.

        It is done when the transaction's context ends.
        """

    def can_at_once(self, request: CheckedTransaction) -> bool:  # noqa: ARG002 - for dialects that can
        """Whether :meth:`at_once` can do *request*; it takes no number."""
        return False

    def at_once(
        self, connection: Connection, request: CheckedTransaction, written: Sequence[Mapping[str, Any]]
    ) -> Held:
        """Do :meth:`hold` and :meth:`write` in one message, the latter only if all requirements hold.

        :param written: rows without their stamp.
        """
        raise NotImplementedError

    def lineage(self, connection: Connection) -> str | None:  # noqa: ARG002 - of servers that have one
        """Return the history that the database is on; None where nothing tells one from another."""
        return None

    @abstractmethod
    def wait(self, domain: DomainName, head: Callable[[], int], after: int, timeout: timedelta) -> int:
        """Wait until *head* of *domain* returns more than *after* or *timeout* has passed; return its last."""

    @abstractmethod
    def turn(self, domain: DomainName, patience: timedelta) -> AbstractContextManager[None]:
        """As :meth:`~airflow_provider.stores.base.MetadataStore.turn`."""

    @abstractmethod
    def is_transient(self, error: BaseException, *, committing: bool) -> bool:
        """Whether nothing was changed and sending the transaction again soon is likely to succeed.

        :param committing: as in :meth:`translated`.
        """

    @abstractmethod
    def translated(self, error: Exception, *, committing: bool) -> EpochError:
        """Return what *error* of the driver means to a caller.

        :param committing: it came from :meth:`write` or a commit, so that the outcome may be unknown.
        """

    @abstractmethod
    def patience(self) -> timedelta:
        """How long a transaction is sent again while its errors are transient."""
