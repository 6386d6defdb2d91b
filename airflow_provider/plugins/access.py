"""Access to the page and to the catalog: a user sees epochs and tables of the DAGs that Airflow lets the user read.

See docs/decisions/page-access.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    ConnectionDetails,
    DagAccessEntity,
    DagDetails,
)
from airflow.configuration import conf
from airflow.models.connection import Connection
from airflow.models.dag import DagModel

from airflow_provider.coordination.commits.places import WrongCatalog, WrongWarehouse
from airflow_provider.coordination.commits.sealed import DomainMoved, DomainMoving
from airflow_provider.domain.errors import (
    FinalError,
    InvalidInput,
    OutcomeUnknown,
    PackageTooOld,
    StoreIncompatible,
    StoreUnavailable,
    UnknownConnection,
    UnknownName,
)
from airflow_provider.hooks.epochs import DEFAULT_CONN_ID, EpochsHook

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod

log = logging.getLogger(__name__)


def allowed_connections() -> list[str]:
    """Return the connections in ``[epochs] connections``."""
    listed = str(conf.get("epochs", "connections", fallback=DEFAULT_CONN_ID))
    return [name for name in map(str.strip, listed.split(",")) if name] or [DEFAULT_CONN_ID]


def allowed_hook(conn_id: str | None) -> EpochsHook:
    """Return the hook of a connection, by default of the first one that is allowed.

    :raises UnknownName: the configuration does not list it: a user must not choose the address that the server
        connects to.
    """
    allowed = allowed_connections()
    chosen = conn_id or allowed[0]
    if chosen not in allowed:
        raise UnknownName(
            f"connection {chosen!r} is not shown here.",
            next_step="an administrator adds it to [epochs] connections.",
            conn_id=chosen,
        )
    return EpochsHook(chosen)


_ADDRESSED = (
    DomainMoved,
    DomainMoving,
    InvalidInput,
    OutcomeUnknown,
    PackageTooOld,
    StoreIncompatible,
    StoreUnavailable,
    UnknownConnection,
    WrongCatalog,
    WrongWarehouse,
)
"""Errors that may name the address of a store, a warehouse or a catalog."""


@contextmanager
def address_hidden(hook: EpochsHook, user: Any) -> Iterator[None]:
    """Let errors that name the store's address reach only users who may read the connection.

    For others they are replaced, and the log has the reason.
    """
    try:
        yield
    except _ADDRESSED as error:
        if isinstance(error, InvalidInput) and not (error.store or error.conn_id):
            raise
        log.warning("connection %s: %s", hook.epochs_conn_id, error)
        if _may_read_connection(hook.epochs_conn_id, user):
            raise
        raise replace(
            error,
            message=f"Connection {hook.epochs_conn_id!r} leads to no metadata store that can be read now.",
            next_step="ask an administrator of Airflow: the reason is in the API server's log.",
        ) from error


def _may_read_connection(conn_id: str, user: Any) -> bool:
    details = ConnectionDetails(conn_id=conn_id, team_name=Connection.get_team_name(conn_id))
    return get_auth_manager().is_authorized_connection(method="GET", details=details, user=user)


@dataclass(kw_only=True, eq=False, repr=False)
class NotAllowed(FinalError):
    """The user may see the object, and may not change it.

    :param dags: the DAGs that the user may read and whose runs the user may not change.
    """

    dags: tuple[str, ...] = ()


class DagAccess:
    """Permissions of one user in one request; asks Airflow's auth manager once for each DAG."""

    def __init__(self, user: Any) -> None:
        self._user = user
        self._known: dict[tuple[ResourceMethod, str | None], bool] = {}

    def may_read(self, dag_id: str | None) -> bool:
        """Return whether the user may read *dag_id*; None stands for all DAGs.

        A program outside Airflow has its own name in the place of a DAG's id, and is treated as a DAG of that id.
        """
        return self._may("GET", None, dag_id)

    def may_change_runs(self, dag_id: str | None) -> bool:
        """Return whether the user may change runs of *dag_id*, such as clear their tasks; None stands for all DAGs."""
        return self._may("PUT", DagAccessEntity.RUN, dag_id)

    def _may(self, method: ResourceMethod, entity: DagAccessEntity | None, dag_id: str | None) -> bool:
        question = (method, dag_id)
        if question not in self._known:
            details = None
            if dag_id is not None:
                details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
            self._known[question] = get_auth_manager().is_authorized_dag(
                method=method, access_entity=entity, details=details, user=self._user
            )
        return self._known[question]
