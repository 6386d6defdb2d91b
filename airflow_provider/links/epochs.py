"""Link from a task to its epochs on the page of tables and epochs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import attrs
from airflow.sdk import BaseOperatorLink

from airflow_provider.hooks.compat import conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

    from airflow_provider.hooks.compat import TaskInstanceKey

PAGE = "/plugin/epochs"


@attrs.define()
class EpochGridLink(BaseOperatorLink):
    """Open the page at the domain, tables and time that the task works on.

    Airflow asks for the link in the task's own process, after the task has ended; operators keep the query in their
    attribute ``grid_query``.
    """

    @property
    def name(self) -> str:
        return "Epochs"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """Return the page's address below Airflow's own, without asking the store."""
        return grid_link(getattr(operator, "grid_query", None) or {})


def grid_link(query: Mapping[str, str]) -> str:
    """Return the address of the page that shows *query* (``conn_id``, ``domain``, ``from``, ``to``, ``job``)."""
    base = conf.get("api", "base_url", fallback="") or ""
    shown = urlencode({name: value for name, value in query.items() if value})
    return f"{base.rstrip('/')}{PAGE}" + (f"?{shown}" if shown else "")


def tables_query(conn_id: str, domain: str, tables: Iterable[str], barrier: datetime) -> dict[str, str]:
    """Return the query with which the page shows *tables* up to *barrier*."""
    return {"conn_id": conn_id, "domain": domain, "to": barrier.isoformat(), "table": ",".join(tables)}
