"""Which store is in use: the only place that knows their classes. A store's libraries are imported on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider.domain.errors import InvalidInput, StoreIncompatible
from airflow_provider.stores import opening

if TYPE_CHECKING:
    from airflow_provider.stores.base import MetadataStore, StoreCapability
    from airflow_provider.stores.connecting import StoreConnection
    from airflow_provider.stores.opening import Now, StoreOpener, UnopenedStore
    from airflow_provider.stores.schema_status import SchemaStatus

__all__ = [
    "backends", "catalog_engine", "catalog_holders", "catalog_of", "catalog_operation", "catalog_properties",
    "check_schema", "local_url", "open_store", "redacted", "upgrade_schema",
]  # fmt: skip

_OPENERS = (
    "memory_opening:MemoryOpener",
    "sql.opening:SqliteOpener",
    "sql.opening:PostgresqlOpener",
    "zookeeper.opening:ZookeeperOpener",
)
"""Every store: a module below this room, and its :class:`~airflow_provider.stores.opening.StoreOpener`.

The first one to which a connection can lead is that of connections that name none.
"""


def _stores() -> dict[str, StoreOpener]:
    openers = []
    for line in _OPENERS:
        module, _, name = line.partition(":")
        openers.append(getattr(import_module(f"{__package__}.{module}"), name)())
    return {opener.scheme: opener for opener in openers}


_STORES: Mapping[str, StoreOpener] = _stores()
"""Every store, by the scheme of its URLs."""


def open_store(
    url: str,
    *,
    require: Collection[StoreCapability] = frozenset(),
    now: Now | None = None,
    create: bool = True,
) -> MetadataStore:
    """Open the metadata store at *url*.

    :param require: what the caller cannot do without.
    :param now: the store's clock, for stores that have none of their own (memory, SQLite).
    :param create: make a store that is a file where there is none. Who only looks makes nothing.
    :raises InvalidInput: an unknown scheme, or an address that cannot be a store.
    :raises StoreIncompatible: the store lacks something required, or has another schema; says what to do.
    :raises StoreUnavailable: it does not answer, or (with ``absent``) is not there and was not to be made.
    """
    store = _opener(url).unopened(url, now)
    _check_fit(store, url, require)
    return store.open(create=create)


def check_schema(url: str) -> SchemaStatus | None:
    """Return how the schema of the store at *url* stands, None when it needs none; changes nothing."""
    return _with(url, lambda store: store.schema_status())


def upgrade_schema(url: str) -> SchemaStatus | None:
    """Make or upgrade the schema of the store at *url*, wholly or not at all; None when it needs none.

    :raises StoreIncompatible: the schema is newer than this version of the package.
    """
    return _with(url, lambda store: store.upgrade_schema())


def new_incarnation(url: str) -> str:
    """Give the store at *url*, which was restored from a backup, another identity; return it (R33).

    Attempts, sessions and cuts of before are over from then on: none of their requests changes anything.

    :raises StoreIncompatible: it has another schema. :raises OutcomeUnknown: do it again.
    """
    store = _opener(url).unopened(url, None)
    try:
        return store.new_incarnation()
    finally:
        store.close()


def catalog_of(store_url: str, catalog_url: str | None = None) -> tuple[str, bool]:
    """Return where the pointers of tables lie, and whether the store's transactions move them.

    :param catalog_url: the catalog that was named; None for the one in the store's own database.
    """
    if catalog_url is None or catalog_url == store_url:
        return store_url, True
    return catalog_url, False


def catalog_properties(url: str) -> dict[str, str]:
    """Return the properties with which pyiceberg's SQL catalog finds the pointers in the database at *url*.

    They may hold a password: never log them.

    :raises InvalidInput: no database that can hold an Iceberg catalog.
    """
    return _opener(url).catalog_properties(url)


def catalog_engine(url: str) -> Any:
    """Return a SQLAlchemy engine with which pyiceberg's SQL catalog uses the database at *url* as its store does.

    It survives forks, no call of it lasts for ever, and it shares connections with the stores of this process where it
    can. Dispose of it: others open their connections again.

    :raises InvalidInput: no database that can hold an Iceberg catalog.
    """
    return _opener(url).catalog_engine(url)


def catalog_operation(url: str) -> AbstractContextManager[None]:
    """A context in which the database at *url* is used through an engine of :func:`catalog_engine`; may be nested."""
    return _opener(url).catalog_operation()


def backends() -> dict[str, StoreConnection]:
    """Return how a connection leads to each store, by its backend; the first is that of connections without one."""
    forms = [opener.connection for opener in _STORES.values()]
    return {form.backend: form for form in forms if form is not None}


def catalog_holders() -> dict[str, str]:
    """Return the backends of the stores in which an Iceberg catalog can lie, and how they are called."""
    return {
        opener.connection.backend: opener.name
        for opener in _STORES.values()
        if opener.holds_catalog and opener.connection is not None
    }


def local_url(folder: Path) -> str:
    """Return the URL of the store that lies in *folder*, an absolute path: the first one that is a file."""
    opener = next(opener for opener in _STORES.values() if opener.file)
    return f"{opener.scheme}:///{folder / opener.file}"


def folder_of(url: str) -> Path | None:
    """Return the folder in which the store at *url* lies, as :func:`local_url` has it; None for one that is no file.

    :raises InvalidInput: an unknown scheme, or no absolute path.
    """
    opener = _opener(url)
    if not opener.file:
        return None
    path = Path(url.removeprefix(f"{opener.scheme}:///"))
    if not path.is_absolute():
        raise InvalidInput(field="store url", value=redacted(url), expected=opener.form)
    return path.parent


def redacted(url: object) -> str:
    """Return *url* such that it may be shown: without user, password and options."""
    opener = _STORES.get(url.partition("://")[0]) if isinstance(url, str) else None
    return opening.redacted(url) if opener is None else opener.shown(url)


def _opener(url: str) -> StoreOpener:
    """:raises InvalidInput: no store has such URLs, or it is no URL at all."""
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
            next_step="use a store that is, or do without what asks for it; the docs' table of stores compares them.",
            store=redacted(url),
            missing=tuple(missing),
            expected=tuple(sorted(require)),
            found=tuple(sorted(store.capabilities)),
        )


def _with(url: str, ask: Callable[[UnopenedStore], SchemaStatus | None]) -> SchemaStatus | None:
    store = _opener(url).unopened(url, None)
    try:
        return ask(store)
    finally:
        store.close()
