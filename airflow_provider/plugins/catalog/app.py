"""The catalog below ``/epochs/catalog/CONNECTION``: what the page may show to a user, an engine of the user may open.

See docs/decisions/rest-catalog.md and docs/decisions/page-access.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Request

from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.dags import dags_of_tables
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.plugins.access import DagAccess, address_hidden, allowed_hook
from airflow_provider.plugins.recent import Recent
from airflow_provider.rest_catalog.app import Open
from airflow_provider.rest_catalog.app import create_app as catalog_app
from airflow_provider.rest_catalog.catalog import Catalog

_recent = Recent()


def create_app() -> FastAPI:
    """Build the application."""
    return catalog_app(_opened, prefix="/{conn_id}")


def _opened(
    request: Request,
    conn_id: str,
    user: GetUserDep,
    _viewer: Annotated[None, Depends(requires_access_view(AccessView.PLUGINS))],
) -> Open:
    """Return how to open the catalog of *conn_id* for *user*.

    A browser sends its cookie with a request that another site has made, and a request may take a lease: only a token
    that the client itself has put into its header counts.
    """
    scheme, *token = request.headers.get("authorization", "").split(maxsplit=1) or [""]
    if scheme.lower() != "bearer" or not token:
        raise HTTPException(
            401, "give the engine a token of Airflow (POST /auth/token), as its property token."
        )
    hook = allowed_hook(conn_id)
    access = DagAccess(user)

    def may_read(
        service: EpochService, domain: DomainName, names: Sequence[TableName]
    ) -> Collection[TableName]:
        if access.may_read(None):
            return names
        dags = _dags(conn_id, service, domain, names)
        return [name for name in names if name in dags and access.may_read(dags[name])]

    @contextmanager
    def opened() -> Iterator[Catalog]:
        with address_hidden(hook, user), hook.get_conn(create=False) as service:
            yield Catalog(service, user=user.get_name(), may_read=may_read)

    return opened


def _dags(
    conn_id: str, service: EpochService, domain: DomainName, names: Sequence[TableName]
) -> Mapping[TableName, str]:
    """Return the DAGs of *names*; of several as of up to a minute ago, since each of their jobs is looked up."""
    reader = service.cuts.reader
    if len(names) == 1:
        return dags_of_tables(reader, domain, names)
    head = reader.read(domain, []).head
    question = (conn_id, domain, head.incarnation, tuple(names))
    found: Mapping[TableName, str] = _recent.answer(
        question, head.csn, lambda: dags_of_tables(reader, domain, names)
    ).value
    return found
