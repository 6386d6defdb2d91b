"""Describe a kind of store to the factory: how its URLs look and how a store is opened. Imports no store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider.domain.errors import InvalidInput

if TYPE_CHECKING:
    from airflow_provider.stores.base import MetadataStore, StoreCapability
    from airflow_provider.stores.connecting import StoreConnection
    from airflow_provider.stores.schema_status import SchemaStatus

Now = Callable[[], datetime]


class UnopenedStore(Protocol):
    """A store that has not connected yet."""

    @property
    def capabilities(self) -> frozenset[StoreCapability]: ...

    def open(self, *, create: bool = True) -> MetadataStore:
        """Connect and check that the store fits this version; close it if it does not.

        :param create: create a store that is a file if it does not exist.
        """

    def schema_status(self) -> SchemaStatus | None:
        """Return the state of the schema, None if the store needs no schema. Read-only."""

    def upgrade_schema(self) -> SchemaStatus | None:
        """Create the schema, or bring it up to date; return its state."""

    def new_incarnation(self) -> str:
        """Give the store a new identity; return it."""

    def close(self) -> None: ...


class StoreOpener(ABC):
    """Description of one kind of store.

    :attr:`scheme` begins its URLs; :attr:`form` shows how they look. Its libraries are imported on demand.
    """

    scheme: str
    form: str
    name: str
    """Name of the store within a sentence."""

    local: bool = False
    """True if its URLs hold neither user nor password."""

    file: str = ""
    """Name of the store's file in a folder of its own; empty if the store is not a file."""

    connection: StoreConnection | None = None
    """Declaration of the Airflow connections that lead to it; None if no connection does."""

    holds_catalog: bool = False
    """True if it can hold an Iceberg catalog."""

    @abstractmethod
    def unopened(self, url: str, now: Now | None) -> UnopenedStore:
        """Return the store at *url*; connects to nothing.

        :param now: the store's clock, for stores that have none of their own.
        :raises InvalidInput: the address cannot be a store, or a library is not installed.
        """

    def catalog_properties(self, url: str) -> dict[str, str]:
        """Return the properties with which pyiceberg's SQL catalog finds the pointers in the database at *url*.

        :raises InvalidInput: such a store cannot hold an Iceberg catalog.
        """
        raise InvalidInput(
            field="store url",
            value=self.shown(url),
            expected="a database with an Iceberg catalog, such as sqlite:////absolute/path.db: "
            f"{self.name} has none",
            next_step="name a catalog in SQLite or PostgreSQL beside this store (the extra `catalog` of the "
            "connection), or declare the tables with format='memory'.",
        )

    def catalog_engine(self, url: str) -> Any:
        """Return a SQLAlchemy engine with which pyiceberg's SQL catalog uses the database at *url* as its store does.

        :raises InvalidInput: as :meth:`catalog_properties`.
        """
        return self.catalog_properties(url)

    def catalog_operation(self) -> AbstractContextManager[None]:
        """Return the context in which the catalog's database must be used; may be nested."""
        return nullcontext()

    def shown(self, url: object) -> str:
        """Return *url* without user, password and options, for messages."""
        return redacted(url, local=self.local)


def with_extra(name: str) -> str:
    """Return the next step for a user who lacks the libraries of the extra *name*, in a checkout or an installation."""
    return (
        f"install this package with its extra {name!r} on every host that uses the store; in a checkout: "
        f"pip install -c constraints.txt '.[{name}]'"
    )


def redacted(url: object, *, local: bool = False) -> str:
    """Return *url* without user, password and options, for messages.

    :param local: the URL can hold neither user nor password, so that an ``@`` is part of its path.
    """
    if not isinstance(url, str):
        return repr(url)
    scheme, separator, rest = url.partition("://")
    if not separator:
        return "(no URL)"
    if not local:
        rest = rest.rpartition("@")[2]
    return f"{scheme}://{rest.partition('?')[0]}"
