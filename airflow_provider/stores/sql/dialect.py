"""What differs between SQL databases: everything that ``sql.store`` does not do itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Select, Table

from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.records import Key
from airflow_provider.stores.base import StoreCapability


class SqlDialect(ABC):
    """One database of one kind.

    :param location: its address for messages, without a password.
    """

    capabilities: frozenset[StoreCapability]
    embedded: bool
    """Whether an empty database gets its schema when it is opened."""
    location: str

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
    def begin(self, connection: Connection, *, write: bool) -> None:
        """Begin a transaction: reads see one moment, writes do not overtake each other."""

    @staticmethod
    @abstractmethod
    def upsert(table: Table) -> Any:
        """Return the database's own ``INSERT`` that knows ``on_conflict_do_update``."""

    @staticmethod
    @abstractmethod
    def wanted() -> Select[Any]:
        """Select kind, partition and item of each address in the parameter ``keys``."""

    @abstractmethod
    def addresses(self, keys: Iterable[Key]) -> Any:
        """Return *keys* as a value of that parameter."""

    @abstractmethod
    def holding(self, select: Select[Any]) -> Select[Any]:
        """Return *select* such that what it found stays so until the transaction ends."""

    @abstractmethod
    def now_us(self, connection: Connection) -> int:
        """Return the database's time, microseconds since 1970."""

    @abstractmethod
    def next_version(self, connection: Connection) -> int:
        """Return a number that was never returned before, also if an earlier transaction was rolled back."""

    @abstractmethod
    def wait(self, head: Callable[[], int], after: int, timeout: timedelta) -> int:
        """Wait until *head* returns more than *after* or *timeout* has passed; return what it said last."""

    @abstractmethod
    def is_transient(self, error: BaseException) -> bool:
        """Whether the transaction was rolled back and sending it again soon is likely to succeed."""

    @abstractmethod
    def translated(self, error: Exception, *, committing: bool) -> EpochError:
        """Return what *error* of the driver means to a caller.

        :param committing: it came from the commit itself, so that the outcome may be unknown.
        """

    @abstractmethod
    def patience(self) -> timedelta:
        """How long a transaction is sent again while its errors are transient."""
