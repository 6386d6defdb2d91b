"""Operator for a monthly task: common files for the epochs of a month."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider.domain.compaction import CompactionUnit
from airflow_provider.domain.errors import InvalidInput, choice
from airflow_provider.domain.identifiers import domain_name, table_name
from airflow_provider.domain.schedule import run_barrier
from airflow_provider.hooks.arguments import is_parsed, refuse_connections
from airflow_provider.hooks.compat import Stats
from airflow_provider.hooks.epochs import DEFAULT_CONN_ID, EpochsHook
from airflow_provider.hooks.task_run import final_errors_end_retries, task_owner

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider.coordination.upkeep.compact import CompactedUnit

_TOLD = 5


class EpochCompactOperator(BaseOperator):
    """Bring the epochs of each month of incremental Iceberg tables into common files; return the numbers of files.

    One for each value of ``partition_by``. Runs beside jobs and readers: no row changes, and no job waits. The former
    files go with ``EpochRetentionOperator``, once no reader needs them. A retry goes on where a try was interrupted.

    :param tables: names of the tables. :param domain: their domain (templated).
    :param before: barrier (templated); months that end later are left alone. None for all months that have ended.
    :param unit: month, or day or year. :param epochs_conn_id: connection of the metadata store.
    """

    template_fields: Sequence[str] = ("domain", "before")
    ui_color = "#d7ebe6"

    def __init__(
        self,
        *,
        tables: str | Iterable[str],
        domain: str = "default",
        before: datetime | str | None = None,
        unit: CompactionUnit | str = CompactionUnit.MONTH,
        epochs_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.tables = [tables] if isinstance(tables, str) else list(tables)
        self.domain = domain
        self.before = before
        self.unit = unit
        self.epochs_conn_id = epochs_conn_id
        if is_parsed(self):
            choice(CompactionUnit, unit, "unit")
            for name in self.tables:
                table_name(name)
            if not self.tables:
                raise InvalidInput(field="tables", value=self.tables, expected="the name of a table at least")
            refuse_connections(epochs_conn_id=epochs_conn_id)

    def execute(self, context: Context) -> dict[str, int]:
        """Compact.

        :return: numbers of ``units`` compacted, of their ``rows``, of the files ``before`` and ``after``, and of units
            that are ``left`` as they are.
        :raises AirflowFailException: for an error that no retry can cure, such as an unknown table.
        """
        with final_errors_end_retries(), EpochsHook(self.epochs_conn_id).get_conn(create=False) as service:
            domain = domain_name(self.domain)
            before = None if self.before is None else run_barrier(explicit=self.before)
            run = task_owner(context)
            by = f"run {run.run_id} of DAG {run.dag_id}"
            found = [
                (name, part)
                for name in self.tables
                for part in service.retention.compact(
                    domain, name, before=before, unit=self.unit, by=by, told=partial(self._tell, name)
                )
            ]
        left = [(name, part) for name, part in found if part.why]
        for name, part in left[:_TOLD]:
            self.log.warning("Table %s, %s", name, part)
        done = [part for _, part in found if not part.why]
        told = {
            "units": len(done),
            "rows": sum(part.rows for part in done),
            "before": sum(part.before for part in done),
            "after": sum(part.after or 0 for part in done),
            "left": len(left),
        }
        self.log.info("Domain %s: %s", domain, ", ".join(f"{number} {name}" for name, number in told.items()))
        Stats.gauge("epochs.compaction.left", told["left"], tags={"domain": str(domain)})
        return told

    def _tell(self, name: str, part: CompactedUnit) -> None:
        self.log.info("Table %s, %s", name, part)
