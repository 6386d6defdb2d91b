"""Open stores by URL: the only module that knows their classes. A store's libraries are imported on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider.domain.errors import InvalidInput, StoreIncompatible
from airflow_provider.stores import opening
from airflow_provider.stores.memory_opening import MemoryOpener

if TYPE_CHECKING:
    from airflow_provider.stores.base import MetadataStore, StoreCapability
    from airflow_provider.stores.connecting import StoreConnection
    from airflow_provider.stores.opening import Now, StoreOpener, UnopenedStore
    from airflow_provider.stores.schema_status import SchemaStatus

__all__ = [
    "backends", "catalog_engine", "catalog_holders", "catalog_of", "catalog_operation", "catalog_properties",
    "check_schema", "local_url", "memory_name", "open_store", "redacted", "upgrade_schema",
]  # fmt: skip

_OPENERS = (
    "memory_opening:MemoryOpener",
    "sql.opening:SqliteOpener",
    "sql.opening:PostgresqlOpener",
    "zookeeper.opening:ZookeeperOpener",
)
"""Every kind of store: a module of this package, and its :class:`~airflow_provider.stores.opening.StoreOpener`.

The first one with a connection is the default of connections that name no backend.
"""


def _stores() -> dict[str, StoreOpener]:
    openers = []
    for line in _OPENERS:
        module, _, name = line.partition(":")
        openers.append(getattr(import_module(f"{__package__}.{module}"), name)())
    return {opener.scheme: opener for opener in openers}


_STORES: Mapping[str, StoreOpener] = _stores()
"""The opener of every kind of store, by the scheme of its URLs."""


def open_store(
    url: str,
    *,
    require: Collection[StoreCapability] = frozenset(),
    now: Now | None = None,
    create: bool = True,
) -> MetadataStore:
    """Open the metadata store at *url*.

    :param require: capabilities that the caller cannot do without.
    :param now: the store's clock, for stores that have none of their own (memory, SQLite).
    :param create: create a store that is a file if it does not exist; read-only callers pass False.
    :raises InvalidInput: unknown scheme, or an address that cannot be a store.
    :raises StoreIncompatible: the store lacks a required capability, or has another schema; says what to do.
    :raises StoreUnavailable: the store does not answer, or (with ``absent``) does not exist and *create* is False.
    """
    store = _opener(url).unopened(url, now)
    _check_fit(store, url, require)
    return store.open(create=create)


def check_schema(url: str) -> SchemaStatus | None:
    """Return the state of the schema of the store at *url*, None if the store needs no schema. Read-only."""
    return _with(url, lambda store: store.schema_status())


def upgrade_schema(url: str) -> SchemaStatus | None:
    """Create or upgrade the schema of the store at *url*, wholly or not at all; None if the store needs no schema.

    :raises StoreIncompatible: the schema is newer than this version of the package.
    """
    return _with(url, lambda store: store.upgrade_schema())


def new_incarnation(url: str) -> str:
    """Give the store at *url*, which was restored from a backup, a new identity; return it (R33).

    Attempts, sessions and cuts of the previous identity end: none of their requests changes anything any more.

    :raises StoreIncompatible: the store has another schema.
    :raises OutcomeUnknown: no answer came; call again, since a second new identity does no harm.
    """
    store = _opener(url).unopened(url, None)
    try:
        return store.new_incarnation()
    finally:
        store.close()


def catalog_of(store_url: str, catalog_url: str | None = None) -> tuple[str, bool]:
    """Return the URL of the catalog with the tables' pointers, and whether the store's transactions move them.

    :param catalog_url: the configured catalog; None for the one in the store's own database.
    """
    if catalog_url is None or catalog_url == store_url:
        return store_url, True
    return catalog_url, False


def memory_name(url: str) -> str | None:
    """Return the name of the store at *url* if it is in the memory of this process; None for other stores."""
    scheme, _, name = url.partition("://")
    return name if scheme == MemoryOpener.scheme else None


def catalog_properties(url: str) -> dict[str, str]:
    """Return the properties with which pyiceberg's SQL catalog finds the pointers in the database at *url*.

    They may hold a password: never log them.

    :raises InvalidInput: the store at *url* cannot hold an Iceberg catalog.
    """
    return _opener(url).catalog_properties(url)


def catalog_engine(url: str) -> Any:
    """Return a SQLAlchemy engine with which pyiceberg's SQL catalog uses the database at *url* as its store does.

    The engine survives forks, bounds the time of every call, and shares connections with the stores of this process
    where it can. The caller disposes of it; other users of a shared engine open their connections again.

    :raises InvalidInput: the store at *url* cannot hold an Iceberg catalog.
    """
    return _opener(url).catalog_engine(url)


def catalog_operation(url: str) -> AbstractContextManager[None]:
    """Return the context in which an engine of :func:`catalog_engine` for *url* must be used; may be nested."""
    return _opener(url).catalog_operation()


def backends() -> dict[str, StoreConnection]:
    """Return the connection declaration of each store, by backend; the first is the default backend."""
    forms = [opener.connection for opener in _STORES.values()]
    return {form.backend: form for form in forms if form is not None}


def catalog_holders() -> dict[str, str]:
    """Return the display name of each store that can hold an Iceberg catalog, by backend."""
    return {
        opener.connection.backend: opener.name
        for opener in _STORES.values()
        if opener.holds_catalog and opener.connection is not None
    }


def local_url(folder: Path) -> str:
    """Return the URL of the store in *folder*, an absolute path; its kind is the first one that is a file."""
    opener = next(opener for opener in _STORES.values() if opener.file)
    return f"{opener.scheme}:///{folder / opener.file}"


def folder_of(url: str) -> Path | None:
    """Return the folder of the store at *url*, the inverse of :func:`local_url`; None if the store is not a file.

    :raises InvalidInput: unknown scheme, or not an absolute path.
    """
    opener = _opener(url)
    if not opener.file:
        return None
    path = Path(url.removeprefix(f"{opener.scheme}:///"))
    if not path.is_absolute():
        raise InvalidInput(field="store url", value=redacted(url), expected=opener.form)
    return path.parent


def redacted(url: object) -> str:
    """Return *url* without user, password and options, for messages."""
    opener = _STORES.get(url.partition("://")[0]) if isinstance(url, str) else None
    return opening.redacted(url) if opener is None else opener.shown(url)


def _opener(url: str) -> StoreOpener:
    """Return the opener for the scheme of *url*.

    :raises InvalidInput: unknown scheme, or not a URL.
    """
    scheme, separator, _ = url.partition("://") if isinstance(url, str) else ("", "", "")
    if not separator or scheme not in _STORES:
        raise InvalidInput(
            field="store url",
            value=redacted(url),
            expected=f"one of {', '.join(opener.form for opener in _STORES.values())}",
            next_step="correct the store's URL; in Airflow the backend of its connection.",
        )
    return _STORES[scheme]


def _check_fit(store: UnopenedStore, url: str, require: Collection[StoreCapability]) -> None:
    missing = sorted(set(require) - store.capabilities)
    if missing:
        raise StoreIncompatible(
            f"the store {redacted(url)} is not {', not '.join(missing)}.",
            next_step="use a store that is (the docs' table of stores compares them), or drop what needs it.",
            store=redacted(url),
            missing=tuple(missing),
            expected=", ".join(sorted(require)),
            found=", ".join(sorted(store.capabilities)),
        )


def _with(url: str, ask: Callable[[UnopenedStore], SchemaStatus | None]) -> SchemaStatus | None:
    store = _opener(url).unopened(url, None)
    try:
        return ask(store)
    finally:
        store.close()
