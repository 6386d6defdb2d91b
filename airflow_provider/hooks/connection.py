"""From the fields of an Airflow connection to where a store and its warehouse are. Pure; opens nothing."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, urlencode

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.stores.base import StoreCapability
from airflow_provider.stores.hosts import is_this_host
from airflow_provider.tables.locations import checked_warehouse

CONN_TYPE = "epochs"
TLS_EXTRAS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
"""How the way to PostgreSQL is encrypted, and whom it trusts; libpq's own names."""

ZOOKEEPER_EXTRAS = ("auth", "tls", "ca", "cert", "key", "session_timeout")
"""How ZooKeeper is spoken to; the names of its URL's options."""

_ALL = ("backend", "warehouse", "catalog", "require")
EXTRAS = {"sqlite": _ALL, "postgresql": (*_ALL, *TLS_EXTRAS), "zookeeper": (*_ALL, *ZOOKEEPER_EXTRAS)}
"""Every extra that a connection may have: an unknown one is a misspelt one, and is refused by name."""

CATALOG_BACKENDS = ("sqlite", "postgresql")
"""Databases that can hold an Iceberg catalog."""

POSTGRESQL_PORT = 5432
ZOOKEEPER_PORT = 2181
WAREHOUSE_SCHEMES = frozenset({"file", "s3"})
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_CHROOT = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_FORM = (
    "correct it in the UI under Admin > Connections, or with `airflow connections`; "
    "docs/reference/connection.md lists the fields."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionFields:
    """A connection as Airflow keeps it, whatever class it comes in."""

    conn_id: str
    conn_type: str | None = None
    host: str | None = None
    port: int | None = None
    schema: str | None = None
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a connection leads.

    :param store_url: of the metadata store; may hold a password, hence never shown.
    :param warehouse: URI under which tables lie.
    :param catalog: id of the connection to the database that holds the tables' pointers; None for the store's own.
    :param require: what the store must offer.
    """

    store_url: str = field(repr=False)
    warehouse: str
    catalog: str | None = None
    require: frozenset[StoreCapability] = frozenset()


def parsed_extra(conn_id: str, text: str | None) -> dict[str, Any]:
    """Read a connection's extra strictly: one JSON object, each key once; empty values count as absent.

    :raises InvalidInput: naming the field ``extra``; never shows its text, which may hold secrets.
    """
    try:
        extra = json.loads(text or "{}", object_pairs_hook=_each_key_once)
    except (ValueError, RecursionError) as error:
        raise _refused(
            ConnectionFields(conn_id=conn_id), "extra", "(text)", "a JSON object, each key once"
        ) from error
    if not isinstance(extra, dict):
        raise _refused(ConnectionFields(conn_id=conn_id), "extra", type(extra).__name__, "a JSON object")
    return {name: value for name, value in extra.items() if value not in (None, "")}


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    return found


def place_of(connection: ConnectionFields) -> Place:
    """Return where *connection* leads.

    :raises InvalidInput: naming the connection's field; no message holds a password.
    """
    backend = _backend(connection)
    return Place(
        store_url=_BACKENDS[backend](connection),
        warehouse=_warehouse(connection),
        catalog=_catalog(connection, needed=backend not in CATALOG_BACKENDS),
        require=_require(connection),
    )


def catalog_url_of(connection: ConnectionFields) -> str:
    """Return the database to which the connection leads that another one names as its ``catalog``.

    :raises InvalidInput: naming the connection's field.
    """
    backend = _backend(connection)
    if backend not in CATALOG_BACKENDS:
        expected = f"one of {list(CATALOG_BACKENDS)}: the connection is the catalog of another one"
        raise _refused(connection, "backend", backend, expected)
    if "catalog" in connection.extra:
        raise _refused(connection, "catalog", connection.extra["catalog"], "nothing: it is a catalog itself")
    return _BACKENDS[backend](connection)


def _backend(connection: ConnectionFields) -> str:
    if connection.conn_type not in (CONN_TYPE, None, ""):
        raise _refused(connection, "conn_type", connection.conn_type, f"{CONN_TYPE!r}")
    backend = connection.extra.get("backend") or "sqlite"
    if not isinstance(backend, str) or backend not in _BACKENDS:
        raise _refused(connection, "backend", backend, f"one of {sorted(_BACKENDS)}")
    unknown = sorted(set(connection.extra) - set(EXTRAS[backend]))
    if unknown:
        raise _refused(connection, "extra", unknown, f"for {backend} only {sorted(EXTRAS[backend])}")
    return backend


def _catalog(connection: ConnectionFields, *, needed: bool) -> str | None:
    named = connection.extra.get("catalog")
    if named is None and not needed:
        return None
    if not isinstance(named, str) or named == connection.conn_id:
        expected = (
            f"the id of a connection of type {CONN_TYPE} to SQLite or PostgreSQL, for the tables' pointers"
        )
        raise _refused(connection, "catalog", named, expected)
    return named


def _require(connection: ConnectionFields) -> frozenset[StoreCapability]:
    named = connection.extra.get("require", [])
    known = [one.value for one in StoreCapability]
    if not isinstance(named, list) or not all(one in known for one in named):
        raise _refused(connection, "require", named, f"a list of some of {known}")
    return frozenset(map(StoreCapability, named))


def _sqlite(connection: ConnectionFields) -> str:
    path = connection.host or ""
    parts = PurePosixPath(path)
    if (
        not parts.is_absolute()
        or ".." in parts.parts
        or not parts.name
        or any(one in path for one in "?#%\0")
    ):
        expected = "the absolute path of the database file, such as /srv/epochs/epochs.db, without '..', '?', '#', '%'"
        raise _refused(connection, "host", path, expected)
    for name in ("login", "password", "port", "schema"):
        if getattr(connection, name):
            raise _refused(connection, name, "(given)", "nothing: a SQLite file has no server")
    return f"sqlite:///{path}"


def _postgresql(connection: ConnectionFields) -> str:
    host = _host(connection)
    database = connection.schema or ""
    if not database:
        raise _refused(connection, "schema", database, "the name of the database")
    if connection.password and not connection.login:
        raise _refused(connection, "login", connection.login, "a user, since there is a password")
    user = quote(connection.login or "", safe="")
    secret = f":{quote(connection.password, safe='')}" if connection.password else ""
    at = "@" if user else ""
    address = f"{host}:{_port(connection)}/{quote(database, safe='')}"
    return f"postgresql+psycopg://{user}{secret}{at}{address}{_tls(connection)}"


def _tls(connection: ConnectionFields) -> str:
    options = {name: connection.extra[name] for name in TLS_EXTRAS if name in connection.extra}
    for name, value in options.items():
        if not isinstance(value, str):
            raise _refused(connection, name, type(value).__name__, "text, as libpq has it")
    return f"?{urlencode(options)}" if options else ""


def _zookeeper(connection: ConnectionFields) -> str:
    hosts = [_server(connection, one.strip()) for one in (connection.host or "").split(",")]
    chroot = (connection.schema or "").strip("/")
    if not _CHROOT.fullmatch(chroot) or {".", "..", "zookeeper"} & set(chroot.split("/")):
        expected = "the path of the node under which everything lies, such as epochs or services/epochs"
        raise _refused(connection, "schema", connection.schema, expected)
    if bool(connection.login) != bool(connection.password):
        name = "password" if connection.login else "login"
        raise _refused(connection, name, None, "user and password, or neither")
    at = ""
    if connection.login and connection.password:
        at = f"{quote(connection.login, safe='')}:{quote(connection.password, safe='')}@"
    options = {name: connection.extra[name] for name in ZOOKEEPER_EXTRAS if name in connection.extra}
    for name, value in options.items():
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise _refused(connection, name, type(value).__name__, "text or a number")
    if at and not options.keys() & {"tls", "ca", "cert", "key"}:
        _refuse_open_login(connection, hosts)
    query = f"?{urlencode(options)}" if options else ""
    return f"zookeeper://{at}{','.join(hosts)}/{chroot}{query}"


def _refuse_open_login(connection: ConnectionFields, hosts: Sequence[str]) -> None:
    """A password goes over a network only where somebody has said how."""
    if not all(is_this_host(host.rpartition(":")[0]) for host in hosts):
        expected = (
            "'verify-full' (with ca and the secure port), since there is a login; 'off' on a trusted network"
        )
        raise _refused(connection, "tls", None, expected)


def _server(connection: ConnectionFields, text: str) -> str:
    found = _SERVER.fullmatch(text)
    default = ZOOKEEPER_PORT if connection.port is None else connection.port
    port = int(found[2]) if found and found[2] else default
    if not found or not 1 <= port <= 65_535:
        expected = "servers as host or host:port, separated by commas; IPv6 in brackets"
        raise _refused(connection, "host" if not found or found[2] else "port", text or port, expected)
    return f"{found[1]}:{port}"


_BACKENDS: dict[str, Callable[[ConnectionFields], str]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "zookeeper": _zookeeper,
}


def _host(connection: ConnectionFields) -> str:
    """The host as a URL writes it: a name, an IPv4 address, or an IPv6 address in brackets."""
    given = connection.host or ""
    bare = given[1:-1] if given.startswith("[") and given.endswith("]") else given
    if ":" in bare:
        try:
            return f"[{ipaddress.IPv6Address(bare)}]"
        except ValueError as error:
            raise _refused(
                connection, "host", given, "one host without scheme or port, or an IPv6 address"
            ) from error
    if not _HOST_NAME.fullmatch(bare):
        raise _refused(connection, "host", given, "the name or address of one host")
    return bare


def _port(connection: ConnectionFields) -> int:
    port = connection.port if connection.port is not None else POSTGRESQL_PORT
    if not 1 <= port <= 65_535:
        raise _refused(connection, "port", port, "a number from 1 to 65535")
    return port


def _warehouse(connection: ConnectionFields) -> str:
    given = connection.extra.get("warehouse")
    expected = "a URI with an absolute path, such as file:///srv/epochs/warehouse"
    if not isinstance(given, str):
        raise _refused(connection, "warehouse", given, expected)
    scheme, _, rest = given.partition("://")
    if "@" in rest.partition("/")[0]:
        raise _refused(
            connection, "warehouse", "(a URI with credentials)", f"{expected}, without user and password"
        )
    if scheme not in WAREHOUSE_SCHEMES:
        raise _refused(connection, "warehouse", given, f"{expected}; schemes: {sorted(WAREHOUSE_SCHEMES)}")
    try:
        return checked_warehouse(given)
    except InvalidInput as error:
        raise _refused(connection, "warehouse", given, error.expected) from error


def _refused(connection: ConnectionFields, name: str, value: object, expected: str) -> InvalidInput:
    shown = repr(value)
    return InvalidInput(
        f"connection {connection.conn_id!r}, field {name}: {shown[:200]} is not accepted; expected {expected}.",
        next_step=_FORM,
        field=name,
        value=value,
        expected=expected,
        conn_id=connection.conn_id,
    )
