"""Operator for a daily task: expire old states, delete what no reader can ask for any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import domain_name
from airflow_provider.domain.keep import Keep
from airflow_provider.hooks.arguments import is_parsed, refuse_connections
from airflow_provider.hooks.compat import Stats
from airflow_provider.hooks.epochs import DEFAULT_CONN_ID, EpochsHook
from airflow_provider.hooks.task_run import final_errors_end_retries

if TYPE_CHECKING:
    from airflow.sdk import Context

_TOLD = 5


class EpochRetentionOperator(BaseOperator):
    """Expire states of full tables that are not to be kept, and vacuum the domain; return the numbers of both.

    Runs beside jobs and readers. What a lease holds, what a job has yet to read, and every row of the newest states
    stay. A retry goes on where a try was interrupted.

    :param domain: the domain (templated). :param keep: states to keep; None expires none, and only deletes files of
        what was superseded or dropped.
    :param tables: full tables that *keep* is for, by name; by default all of the domain.
    :param epochs_conn_id: connection of the metadata store.
    """

    template_fields: Sequence[str] = ("domain",)
    ui_color = "#d7ebe6"

    def __init__(
        self,
        *,
        domain: str = "default",
        keep: Keep | None = None,
        tables: Iterable[str] = (),
        epochs_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.domain = domain
        self.keep = keep
        self.tables = [tables] if isinstance(tables, str) else list(tables)
        self.epochs_conn_id = epochs_conn_id
        if is_parsed(self):
            if keep is not None and not isinstance(keep, Keep):
                raise InvalidInput(
                    field="keep", value=keep, expected="Keep(newest=2, each={'@daily': 30}), or None"
                )
            refuse_connections(epochs_conn_id=epochs_conn_id)

    def execute(self, context: Context) -> dict[str, int]:  # noqa: ARG002
        """Expire and vacuum.

        :return: numbers of states ``expired``, ``needed`` (by a job that has yet to read them, or a restatement) and
            left for ``more`` runs, of ``files`` that were deleted and of ``claimed`` versions that leases keep.
        :raises AirflowFailException: for an error that no retry can cure, such as an unknown table.
        """
        with final_errors_end_retries(), EpochsHook(self.epochs_conn_id).get_conn(create=False) as service:
            domain = domain_name(self.domain)
            thinned = None if self.keep is None else service.retention.keep(domain, self.keep, self.tables)
            vacuumed = service.retention.vacuum(domain)
        for state in thinned.needed[:_TOLD] if thinned else ():
            self.log.info("Left: %s", state.why)
        found = {
            "expired": len(thinned.expired) if thinned else 0,
            "needed": len(thinned.needed) if thinned else 0,
            "more": thinned.more if thinned else 0,
            "files": len(vacuumed.deleted),
            "claimed": vacuumed.claimed,
        }
        self.log.info(
            "Domain %s: %s", domain, ", ".join(f"{number} {name}" for name, number in found.items())
        )
        for name in ("files", "claimed"):
            Stats.gauge(f"epochs.retention.{name}", found[name], tags={"domain": str(domain)})
        return found
