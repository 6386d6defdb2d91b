"""Which store is in use: the only place that knows their classes. A store's libraries are imported on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider.domain.errors import InvalidInput, StoreIncompatible
from airflow_provider.stores.base import MetadataStore, StoreCapability
from airflow_provider.stores.memory_opening import MemoryOpener
from airflow_provider.stores.opening import Now, StoreOpener, UnopenedStore, redacted
from airflow_provider.stores.sql.opening import PostgresqlOpener, SqliteOpener
from airflow_provider.stores.zookeeper.opening import ZookeeperOpener

if TYPE_CHECKING:
    from airflow_provider.stores.schema_status import SchemaStatus

__all__ = [
    "POSTGRESQL", "SCHEMES", "SQLITE", "STORES", "adopt_catalog", "catalog_of", "catalog_properties", "check_schema",
    "open_store", "redacted", "scheme_of", "upgrade_schema",
]  # fmt: skip

STORES: Mapping[str, StoreOpener] = {
    opener.scheme: opener
    for opener in (MemoryOpener(), SqliteOpener(), PostgresqlOpener(), ZookeeperOpener())
}
"""Every store, by the scheme of its URLs."""

SCHEMES = {scheme: opener.form for scheme, opener in STORES.items()}
"""What a store's URL looks like, by scheme."""

SQLITE, POSTGRESQL = SqliteOpener.scheme, PostgresqlOpener.scheme


def open_store(
    url: str, *, require: Collection[StoreCapability] = frozenset(), now: Now | None = None
) -> MetadataStore:
    """Open the metadata store at *url*.

    :param require: what the caller cannot do without.
    :param now: the store's clock, for stores that have none of their own (memory, SQLite).
    :raises InvalidInput: an unknown scheme, or an address that cannot be a store.
    :raises StoreIncompatible: the store lacks something required, or has another schema; says what to do.
    :raises StoreUnavailable: it does not answer.
    """
    store = STORES[scheme_of(url)].unopened(url, now)
    _check_fit(store, url, require)
    return store.open()


def check_schema(url: str) -> SchemaStatus | None:
    """Return how the schema of the store at *url* stands, None when it needs none; changes nothing."""
    return _with(url, lambda store: store.schema_status())


def upgrade_schema(url: str) -> SchemaStatus | None:
    """Make or upgrade the schema of the store at *url*, wholly or not at all; None when it needs none.

    :raises StoreIncompatible: the schema is newer than this version of the package.
    """
    return _with(url, lambda store: store.upgrade_schema())


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
    return STORES[scheme_of(url)].catalog_properties(url)


def adopt_catalog(url: str, engine: Any) -> None:
    """Give the SQLAlchemy *engine* that pyiceberg's SQL catalog made for *url* the habits of the store's own.

    It survives forks then, and no call of it lasts for ever.
    """
    STORES[scheme_of(url)].adopt_catalog(url, engine)


def scheme_of(url: str) -> str:
    """Return the scheme of a store's URL.

    :raises InvalidInput: it is none of :data:`SCHEMES`, or no URL at all.
    """
    scheme, separator, _ = url.partition("://") if isinstance(url, str) else ("", "", "")
    if not separator or scheme not in SCHEMES:
        raise InvalidInput(
            field="store url",
            value=redacted(url),
            expected=f"one of {', '.join(SCHEMES.values())}",
            next_step="correct the store's URL; in Airflow the backend of its connection.",
        )
    return scheme


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
    store = STORES[scheme_of(url)].unopened(url, None)
    try:
        return ask(store)
    finally:
        store.close()
