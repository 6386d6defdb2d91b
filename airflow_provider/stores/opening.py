"""How a store is opened by its URL: what each store's folder says about itself to the factory. Imports no store."""

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
        """Connect, and make sure that the store fits; closes it when it does not.

        :param create: make a store that is a file where there is none.
        """

    def schema_status(self) -> SchemaStatus | None:
        """Look at the schema, None when it needs none; changes nothing."""

    def upgrade_schema(self) -> SchemaStatus | None:
        """Make the schema, or bring it up to date."""

    def new_incarnation(self) -> str:
        """Give the store another identity than it had; return it."""

    def close(self) -> None: ...


class StoreOpener(ABC):
    """One kind of store.

    :attr:`scheme` begins its URLs, :attr:`form` is what they look like. Its libraries are imported on demand.
    """

    scheme: str
    form: str
    name: str
    """The store in a sentence."""

    local: bool = False
    """Whether its URLs hold neither user nor password."""

    file: str = ""
    """What it is called in a folder of its own; empty for a store that is no file."""

    connection: StoreConnection | None = None
    """How an Airflow connection leads to it; None when none does."""

    holds_catalog: bool = False
    """Whether an Iceberg catalog can lie in it."""

    @abstractmethod
    def unopened(self, url: str, now: Now | None) -> UnopenedStore:
        """Return the store at *url*; connects to nothing.

        :param now: the store's clock, for stores that have none of their own.
        :raises InvalidInput: an address that cannot be a store, or a library is not installed.
        """

    def catalog_properties(self, url: str) -> dict[str, str]:
        """Return the properties with which pyiceberg's SQL catalog finds the pointers in the database at *url*.

        :raises InvalidInput: no database that can hold an Iceberg catalog.
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
        """A context in which the catalog's database is used, as the store itself uses it; may be nested."""
        return nullcontext()

    def shown(self, url: object) -> str:
        """Return *url* such that it may be shown: without user, password and options."""
        return redacted(url, local=self.local)


def with_extra(name: str) -> str:
    """The next step for who lacks the libraries of an extra; as true of a checkout as of a released package."""
    return (
        f"install this package with its extra {name!r} on every host that uses the store; in a checkout: "
        f"pip install -c constraints.txt '.[{name}]'"
    )


def redacted(url: object, *, local: bool = False) -> str:
    """Return *url* such that it may be shown: without user, password and options.

    :param local: it can hold neither user nor password, so that an ``@`` is part of its path.
    """
    if not isinstance(url, str):
        return repr(url)
    scheme, separator, rest = url.partition("://")
    if not separator:
        return "(no URL)"
    if not local:
        rest = rest.rpartition("@")[2]
    return f"{scheme}://{rest.partition('?')[0]}"
