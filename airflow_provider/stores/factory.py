"""Which store is in use: the only place that knows their classes. A store's libraries are imported on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider.domain.errors import InvalidInput, StoreIncompatible
from airflow_provider.stores.base import MetadataStore, StoreCapability

if TYPE_CHECKING:
    from airflow_provider.stores.schema_status import SchemaStatus
    from airflow_provider.stores.sql.dialect import SqlDialect
    from airflow_provider.stores.sql.store import SqlStore
    from airflow_provider.stores.zookeeper.store import ZookeeperStore

Now = Callable[[], datetime]

MEMORY = "memory"
SQLITE = "sqlite"
POSTGRESQL = "postgresql+psycopg"
ZOOKEEPER = "zookeeper"
SCHEMES = {
    MEMORY: "memory://NAME",
    SQLITE: "sqlite:////absolute/path/of/the/file.db",
    POSTGRESQL: "postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE",
    ZOOKEEPER: "zookeeper://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...]/CHROOT",
}
"""What a store's URL looks like, by scheme."""

_WITHOUT_CATALOG = {MEMORY: "a store in memory", ZOOKEEPER: "ZooKeeper"}
"""Stores beside which an Iceberg catalog needs a database of its own."""


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
    if scheme_of(url) == MEMORY:
        from airflow_provider.stores.memory import MemoryStore, system_time

        return _fitting(MemoryStore(_memory_name(url), now=now or system_time), url, require)
    store = _server_store(url, now)
    _fitting(store, url, require)
    return store.open()


def check_schema(url: str) -> SchemaStatus | None:
    """Return how the schema of the store at *url* stands, None when it needs none; changes nothing."""
    return None if scheme_of(url) == MEMORY else _with(url, upgrade=False)


def upgrade_schema(url: str) -> SchemaStatus | None:
    """Make or upgrade the schema of the store at *url*, wholly or not at all; None when it needs none.

    :raises StoreIncompatible: the schema is newer than this version of the package.
    """
    return None if scheme_of(url) == MEMORY else _with(url, upgrade=True)


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
    if scheme_of(url) in _WITHOUT_CATALOG:
        raise InvalidInput(
            field="store url",
            value=redacted(url),
            expected="a database with an Iceberg catalog, such as sqlite:////absolute/path.db: "
            f"{_WITHOUT_CATALOG[scheme_of(url)]} has none",
            next_step="name a catalog in SQLite or PostgreSQL beside this store (the extra `catalog` of the "
            "connection), or declare the tables with format='memory'.",
        )
    _dialect(url)
    properties = {"type": "sql", "uri": url, "init_catalog_tables": "false"}
    if scheme_of(url) == POSTGRESQL:  # a connection may have been lost since it was used
        properties["pool_pre_ping"] = "true"
    return properties


def adopt_catalog(url: str, engine: Any) -> None:
    """Give the SQLAlchemy *engine* that pyiceberg's SQL catalog made for *url* the habits of the store's own.

    It survives forks then, and no call of it lasts for ever.
    """
    _dialect(url).adopt(engine)


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
            next_step="correct the backend of the Airflow connection epochs_default.",
        )
    return scheme


def redacted(url: object) -> str:
    """Return *url* such that it may be shown: without user, password and options."""
    if not isinstance(url, str):
        return repr(url)
    scheme, separator, rest = url.partition("://")
    if not separator:
        return "(no URL)"
    if scheme not in (MEMORY, SQLITE):  # these have neither user nor password
        rest = rest.rpartition("@")[2]
    return f"{scheme}://{rest.partition('?')[0]}"


def _fitting(store: MetadataStore, url: str, require: Collection[StoreCapability]) -> MetadataStore:
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
    return store


def _with(url: str, *, upgrade: bool) -> SchemaStatus:
    store = _server_store(url)
    try:
        if upgrade:
            return store.upgrade_schema()
        return store.schema_status()
    finally:
        store.close()


def _server_store(url: str, now: Now | None = None) -> SqlStore | ZookeeperStore:
    if scheme_of(url) == ZOOKEEPER:
        from airflow_provider.stores.zookeeper.address import parsed
        from airflow_provider.stores.zookeeper.store import ZookeeperStore

        return ZookeeperStore(parsed(url))
    return _sql_store(url, now)


def _sql_store(url: str, now: Now | None = None) -> SqlStore:
    from airflow_provider.stores.sql.store import SqlStore

    return SqlStore(_dialect(url, now))


def _dialect(url: str, now: Now | None = None) -> SqlDialect:
    if scheme_of(url) == POSTGRESQL:
        return _postgresql_dialect(url)
    from airflow_provider.stores.sql.sqlite import SqliteDialect, system_time

    return SqliteDialect(_sqlite_path(url), now=now or system_time)


def _postgresql_dialect(url: str) -> SqlDialect:
    """:raises InvalidInput: no address of a database, or the driver is not installed."""
    try:
        from airflow_provider.stores.sql.postgresql.address import parsed
        from airflow_provider.stores.sql.postgresql.dialect import PostgresqlDialect
    except ImportError as error:
        raise InvalidInput(
            field="store url",
            value=redacted(url),
            expected=f"an installed driver ({error})",
            next_step="pip install 'airflow-provider-epochs[postgres]' on every host that uses the store.",
        ) from error
    return PostgresqlDialect(parsed(url))


def _memory_name(url: str) -> str:
    name = url.partition("://")[2]
    if not name or "/" in name:
        raise InvalidInput(
            field="store url",
            value=redacted(url),
            expected="memory://NAME",
            next_step="give the store a name without '/': stores of one name share everything.",
        )
    return name


def _sqlite_path(url: str) -> Path:
    """:raises InvalidInput: no absolute path of a file."""
    rest = url.partition("://")[2]
    path = rest[1:]
    if not rest.startswith("//") or "?" in path or "\0" in path or path.endswith("/"):
        raise InvalidInput(
            field="store url",
            value=redacted(url),
            expected=f"{SCHEMES[SQLITE]}, without options",
            next_step="give the absolute path of a file on a local disk: every process of the host opens it, "
            "so neither ':memory:' nor a relative path can work.",
        )
    return Path(path)
