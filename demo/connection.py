"""The connections of the demo's Airflow: tasks get them from Airflow, readers and the demo itself from the same texts.

They may hold passwords, so they are handed over in environments of processes only, as Airflow takes them: never in
arguments, files or logs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from airflow_provider import Settings
from airflow_provider.hooks.connection import CONN_TYPE, ConnectionFields, catalog_url_of, place_of

CONN_ID = "epochs_default"
CATALOG_CONN_ID = "epochs_catalog"
"""Where the tables' pointers are, for a store that cannot hold them."""

Connection = dict[str, Any]
"""Fields of an Airflow connection."""
Connections = Mapping[str, Connection]
"""Connections by their ids, :data:`CONN_ID` among them."""


def connection(*, backend: str, extra: Mapping[str, str], **fields: Any) -> Connection:
    """Give the fields of a connection.

    :param backend: which store: the same DAGs run on each.
    :param extra: further extras.
    :param fields: host, port, schema, login, password: as the backend has them.
    """
    return {"conn_type": CONN_TYPE, **fields, "extra": {"backend": backend, **extra}}


def environment_of(connections: Connections) -> dict[str, str]:
    """Give the environment variables in which Airflow looks for *connections*."""
    return {_variable(conn_id): json.dumps(fields) for conn_id, fields in connections.items()}


def settings_of(connections: Connections) -> Settings:
    """Give what the connections lead to, as the hook does.

    :raises InvalidInput: naming the connection's field.
    """
    place = place_of(_fields(CONN_ID, connections[CONN_ID]))
    catalog = None if place.catalog is None else _fields(place.catalog, connections[place.catalog])
    return Settings(
        store_url=place.store_url,
        warehouse=place.warehouse,
        catalog_url=catalog_url_of(catalog) if catalog else None,
        require=place.require,
    )


def settings_from_environment() -> Settings:
    """Take the settings from this process's environment."""
    found = {conn_id: os.environ.get(_variable(conn_id)) for conn_id in (CONN_ID, CATALOG_CONN_ID)}
    return settings_of({conn_id: json.loads(text) for conn_id, text in found.items() if text})


def _variable(conn_id: str) -> str:
    return f"AIRFLOW_CONN_{conn_id.upper()}"


def _fields(conn_id: str, given: Connection) -> ConnectionFields:
    return ConnectionFields(conn_id=conn_id, **given)
