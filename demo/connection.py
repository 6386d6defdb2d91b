"""The one connection of the demo's Airflow: tasks get it from Airflow, readers and the demo itself from the same text.

It may hold passwords, so it is handed over in environments of processes only, as Airflow takes it: never in
arguments, files or logs.
"""

from __future__ import annotations

import json
import os
from typing import Any

from airflow_provider.coordination.service import Settings
from airflow_provider.hooks.connection import CONN_TYPE, ConnectionFields, place_of

CONN_ID = "epochs_default"
VARIABLE = f"AIRFLOW_CONN_{CONN_ID.upper()}"
"""The environment variable in which Airflow looks for it."""

Connection = dict[str, Any]
"""Fields of an Airflow connection."""


def connection(*, backend: str, warehouse: str, extra: Connection | None = None, **fields: Any) -> Connection:
    """Give the fields of a connection.

    :param backend: which store: the same DAGs run on each.
    :param warehouse: URI under which tables lie.
    :param extra: further extras.
    :param fields: host, port, schema, login, password: as the backend has them.
    """
    return {
        "conn_type": CONN_TYPE,
        **fields,
        "extra": {"backend": backend, "warehouse": warehouse, **(extra or {})},
    }


def as_text(given: Connection) -> str:
    """Give a connection as an environment variable holds it."""
    return json.dumps(given)


def settings_of(given: Connection) -> Settings:
    """Give what a connection leads to, as the hook does.

    :raises InvalidInput: naming the connection's field.
    """
    place = place_of(ConnectionFields(conn_id=CONN_ID, **given))
    return Settings(store_url=place.store_url, warehouse=place.warehouse)


def settings_from_environment() -> Settings:
    """Take the settings from this process's environment."""
    return settings_of(json.loads(os.environ[VARIABLE]))
