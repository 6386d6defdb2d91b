"""Access to the page: a user sees the epochs of the DAGs that Airflow lets the user read.

See docs/decisions/page-access.md.
"""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails, DagDetails
from airflow.configuration import conf
from airflow.models.connection import Connection
from airflow.models.dag import DagModel

from airflow_provider.hooks.epochs import DEFAULT_CONN_ID


def allowed_connections() -> list[str]:
    """Return the connections in ``[epochs] connections``."""
    listed = str(conf.get("epochs", "connections", fallback=DEFAULT_CONN_ID))
    return [name for name in map(str.strip, listed.split(",")) if name] or [DEFAULT_CONN_ID]


def may_read_connection(conn_id: str, user: Any) -> bool:
    """Return whether the user may read the connection's fields."""
    details = ConnectionDetails(conn_id=conn_id, team_name=Connection.get_team_name(conn_id))
    return get_auth_manager().is_authorized_connection(method="GET", details=details, user=user)


class DagAccess:
    """Permissions of one user in one request; asks Airflow's auth manager once for each DAG."""

    def __init__(self, user: Any) -> None:
        self._user = user
        self._known: dict[str | None, bool] = {}

    def may_read(self, dag_id: str | None) -> bool:
        """Return whether the user may read *dag_id*; None stands for all DAGs.

        A program outside Airflow has its own name in the place of a DAG's id, and is treated as a DAG of that id.
        """
        if dag_id not in self._known:
            details = None
            if dag_id is not None:
                details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
            self._known[dag_id] = get_auth_manager().is_authorized_dag(
                method="GET", details=details, user=self._user
            )
        return self._known[dag_id]
