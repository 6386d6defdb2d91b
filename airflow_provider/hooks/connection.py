"""Addresses of a store and its warehouse from the fields of an Airflow connection. Pure; opens nothing.

This module reads the fields that all connections have; each backend reads its own fields (``StoreConnection``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.stores.connecting import ConnectionFields

if TYPE_CHECKING:
    from airflow_provider.stores.base import StoreCapability
    from airflow_provider.stores.connecting import StoreConnection

__all__ = [
    "CONN_TYPE",
    "Addresses",
    "ConnectionFields",
    "catalog_url_of",
    "checked_conn_id",
    "database_url_of",
    "parsed_extra",
    "place_of",
]

CONN_TYPE = "epochs"
COMMON_EXTRAS = ("backend", "warehouse", "catalog", "require")
"""Extras of every connection; each backend adds its own."""

_CONN_ID = re.compile(r"[\w#!()\-.:/\\]{1,250}")
"""Pattern that Airflow itself requires of a connection's id."""

WAREHOUSE_SCHEMES = frozenset({"file", "s3", "gs"})
_OF_EVERY_STORE = frozenset({"server time"})
"""Capabilities that a connection of before may require: every store has them now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Addresses:
    """Addresses that a connection leads to.

    :param store_url: URL of the metadata store; may hold a password, hence never shown.
    :param warehouse: URI below which the tables are.
    :param catalog: id of the connection to the catalog with the tables' pointers; None for the store's own.
    :param require: capabilities that the store must have.
    """

    store_url: str = field(repr=False)
    warehouse: str
    catalog: str | None = None
    require: frozenset[StoreCapability] = frozenset()


def checked_conn_id(value: object, field: str = "conn_id") -> str:
    """Return *value* as the id of a connection; does not look it up.

    :raises InvalidInput: no connection can have this id; names *field*.
    """
    if isinstance(value, str) and _CONN_ID.fullmatch(value):
        return value
    raise InvalidInput(
        field=field,
        value=value,
        expected="the id of a connection: letters, digits and _#!()-.:/\\, at most 250",
        next_step="see `airflow connections list`; correct the id where it was given.",
    )


def parsed_extra(conn_id: str, text: str | None) -> dict[str, Any]:
    """Parse a connection's extra strictly: one JSON object, each key once; empty values count as absent.

    :raises InvalidInput: the text is something else; names the field ``extra``, never shows the text, which may hold
        secrets.
    """
    from airflow_provider.stores.connecting import ConnectionFields, refused

    try:
        extra = json.loads(text or "{}", object_pairs_hook=_each_key_once)
    except (ValueError, RecursionError) as error:
        raise refused(
            ConnectionFields(conn_id=conn_id), "extra", "(text)", "a JSON object, each key once"
        ) from error
    if not isinstance(extra, dict):
        raise refused(ConnectionFields(conn_id=conn_id), "extra", type(extra).__name__, "a JSON object")
    return {name: value for name, value in extra.items() if value not in (None, "")}


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    return found


def place_of(connection: ConnectionFields) -> Addresses:
    """Return the addresses that *connection* leads to.

    :raises InvalidInput: a field of the connection is wrong; names it. No message holds a password.
    """
    from airflow_provider.stores.factory import backends, catalog_holders

    store = _declaration(connection, backends())
    return Addresses(
        store_url=store.url_of(connection),
        warehouse=_warehouse(connection),
        catalog=_catalog(connection, needed=store.backend not in catalog_holders()),
        require=_require(connection),
    )


def catalog_url_of(connection: ConnectionFields) -> str:
    """Return the URL of a connection that another connection names as its ``catalog``.

    :raises InvalidInput: a field of the connection is wrong; names it.
    """
    from airflow_provider.tables.iceberg.catalogs.connecting import catalogs

    return _named_by_another(connection, catalogs(), "the catalog")


def database_url_of(connection: ConnectionFields) -> str:
    """Return the database URL of a connection that a source names as its source.

    The connection's type is that of this package, as for a catalog, or that of Airflow's own provider for the database.

    :raises InvalidInput: a field of the connection is wrong; names it.
    """
    from airflow_provider.stores.factory import backends, catalog_holders

    known = {
        backend.airflows_type: backend.backend for backend in backends().values() if backend.airflows_type
    }
    if connection.conn_type in known:
        extra = {**connection.extra, "backend": known[connection.conn_type]}
        connection = replace(connection, conn_type=CONN_TYPE, extra=extra)
    databases = {name: form for name, form in backends().items() if name in catalog_holders()}
    return _named_by_another(connection, databases, "a source")


def _named_by_another(connection: ConnectionFields, fitting: Mapping[str, StoreConnection], what: str) -> str:
    """Return the URL of a connection that is *what* of another one. :param fitting: the backends that it may have."""
    from airflow_provider.stores.connecting import refused
    from airflow_provider.stores.factory import backends

    found = _declaration(connection, backends() | dict(fitting))
    if found.backend not in fitting:
        expected = f"one of {list(fitting)}: the connection is {what} of another one"
        raise refused(connection, "backend", found.backend, expected)
    if "catalog" in connection.extra:
        raise refused(connection, "catalog", connection.extra["catalog"], f"nothing: it is {what} itself")
    return found.url_of(connection)


def _declaration(connection: ConnectionFields, known: Mapping[str, StoreConnection]) -> StoreConnection:
    """Return the reader of *connection*'s fields by its backend. :param known: the backends by their names.

    :raises InvalidInput: another type of connection, an unknown backend, or an extra that the backend does not have.
    """
    from airflow_provider.stores.connecting import refused, text_of
    from airflow_provider.stores.factory import backends

    if connection.conn_type not in (CONN_TYPE, None, ""):
        raise refused(connection, "conn_type", connection.conn_type, f"{CONN_TYPE!r}")
    for name in ("host", "schema", "login", "password"):
        given = getattr(connection, name)
        text_of(connection, name, "" if given is None else given)
    backend = connection.extra.get("backend", next(iter(backends())))
    if not isinstance(backend, str) or backend not in known:
        raise refused(connection, "backend", backend, f"one of {sorted(known)}")
    extras = {*COMMON_EXTRAS, *known[backend].extras}
    unknown = sorted(set(connection.extra) - extras)
    if unknown:
        raise refused(connection, "extra", unknown, f"for {backend} only {sorted(extras)}")
    return known[backend]


def _catalog(connection: ConnectionFields, *, needed: bool) -> str | None:
    from airflow_provider.stores.connecting import refused
    from airflow_provider.tables.iceberg.catalogs.connecting import catalog_names

    named = connection.extra.get("catalog")
    if named is None and not needed:
        return None
    if not isinstance(named, str) or not _CONN_ID.fullmatch(named) or named == connection.conn_id:
        known = " or ".join(catalog_names())
        expected = f"the id of a connection of type {CONN_TYPE} to {known}, for the tables' pointers"
        raise refused(connection, "catalog", named, expected)
    return named


def _require(connection: ConnectionFields) -> frozenset[StoreCapability]:
    from airflow_provider.stores.base import StoreCapability
    from airflow_provider.stores.connecting import refused

    named = connection.extra.get("require", [])
    known = [capability.value for capability in StoreCapability]
    if not isinstance(named, list) or not all(name in (*known, *_OF_EVERY_STORE) for name in named):
        raise refused(connection, "require", named, f"a list of some of {known}")
    return frozenset(StoreCapability(name) for name in named if name not in _OF_EVERY_STORE)


def _warehouse(connection: ConnectionFields) -> str:
    from airflow_provider.stores.connecting import refused
    from airflow_provider.tables.locations import checked_warehouse, not_yet

    given = connection.extra.get("warehouse")
    expected = "a URI with an absolute path, such as file:///srv/epochs/warehouse"
    if not isinstance(given, str):
        raise refused(connection, "warehouse", given, expected)
    scheme, _, rest = given.partition("://")
    if scheme not in WAREHOUSE_SCHEMES:  # what stands before "@" may be a password
        shown = f"{scheme}://…" if "@" in rest else given
        served = f"{expected}; schemes: {sorted(WAREHOUSE_SCHEMES)}{not_yet(scheme)}"
        raise refused(connection, "warehouse", shown, served)
    if "@" in rest.partition("/")[0]:
        raise refused(
            connection, "warehouse", "(a URI with credentials)", f"{expected}, without user and password"
        )
    try:
        return checked_warehouse(given)
    except InvalidInput as error:
        raise refused(connection, "warehouse", given, error.expected) from error
