"""Operator that measures how far tables are behind, and fails where one is late: Airflow's own alerts tell of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import TableName, domain_name, table_name
from airflow_provider.domain.topology import Table
from airflow_provider.hooks.arguments import is_left_to_the_run, is_parsed, refuse_connections
from airflow_provider.hooks.compat import AirflowFailException, Stats
from airflow_provider.hooks.epochs import DEFAULT_CONN_ID, EpochsHook
from airflow_provider.hooks.task_run import final_errors_end_retries

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider.coordination.reading.lag import DomainLag
    from airflow_provider.domain.lag import Holder, TableLag

_TOLD = 20
"""Number of late tables that an error names, the latest first."""


class EpochLagOperator(BaseOperator):
    """Measure the tables of a domain, and fail if one has lacked a due epoch for too long; return the late tables.

    Sends to Airflow's metrics, with the tags ``domain`` and, where it says *of a table*, ``table``:

    - gauges of a table: ``epochs.table.overdue_seconds`` (since its first missing epoch was due, 0 without one),
      ``epochs.table.lacking_epochs``, ``epochs.table.end_to_end_seconds`` (age of the oldest data of a source);
    - gauges: ``epochs.attempts.open``, ``epochs.attempts.silent`` (whose lock has expired), ``epochs.csn``.

    It reads no history and asks no source. A table that is retired, or whose job is inactive, is never late.

    :param tables: names, or tables; empty for all of the domain. :param domain: their domain (templated).
    :param at_most: time for which a table may lack an epoch that is due; None never fails.
    :param epochs_conn_id: connection of the metadata store.
    """

    template_fields: Sequence[str] = ("domain",)
    ui_color = "#d7ebe6"

    def __init__(
        self,
        *,
        tables: Iterable[str | Table] = (),
        domain: str = "default",
        at_most: timedelta | None = None,
        epochs_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.tables = [tables] if isinstance(tables, str | Table) else list(tables)
        self.domain = domain
        self.at_most = at_most
        self.epochs_conn_id = epochs_conn_id
        if is_parsed(self):
            _refuse(at_most)
            _names(self.tables, domain)
            refuse_connections(epochs_conn_id=epochs_conn_id)

    def execute(self, context: Context) -> list[str]:  # noqa: ARG002
        """Measure; return the names of late tables, which is empty unless ``at_most`` is None.

        :raises AirflowFailException: tables are late; names each with the epoch that holds it back. Or an error that no
            retry can cure.
        """
        from airflow_provider.coordination.reading.lag import lag
        from airflow_provider.coordination.reading.open_attempts import open_attempts

        with final_errors_end_retries(), EpochsHook(self.epochs_conn_id).get_reader() as reader:
            found = lag(reader, domain_name(self.domain), _names(self.tables, self.domain))
            _, attempts = open_attempts(reader, self.domain)
        _measure(found, len(attempts), sum(attempt.is_silent for attempt in attempts))
        late = [row for row in found.tables if self._is_late(row)]
        self.log.info(
            "Domain %s at CSN %d: %d tables, %d late", found.domain, found.csn, len(found.tables), len(late)
        )
        if late and self.at_most is not None:
            raise AirflowFailException(_told(found, late, self.at_most))
        return [str(row.table) for row in late]

    def _is_late(self, row: TableLag) -> bool:
        allowed = self.at_most or timedelta(0)
        return row.inactive is None and row.overdue is not None and row.overdue > allowed


def _refuse(at_most: timedelta | None) -> None:
    if at_most is not None and not (isinstance(at_most, timedelta) and at_most >= timedelta(0)):
        raise InvalidInput(
            field="at_most",
            value=at_most,
            expected="a timedelta, such as timedelta(hours=2), or None to measure only",
        )


def _names(tables: Sequence[str | Table], domain: str) -> list[TableName]:
    """:raises InvalidInput: no name, or a table of another domain."""
    for table in tables:
        if isinstance(table, Table) and not is_left_to_the_run(domain) and table.domain != domain:
            raise InvalidInput(
                field="domain",
                value=domain,
                expected=f"{table.domain!r}, the domain of table {table.name!r}",
                next_step="give domain=, and the tables of one domain to one task.",
            )
    return [table.name if isinstance(table, Table) else table_name(table) for table in tables]


def _measure(found: DomainLag, attempts: int, silent: int) -> None:
    domain = {"domain": str(found.domain)}
    Stats.gauge("epochs.csn", found.csn, tags=domain)
    Stats.gauge("epochs.attempts.open", attempts, tags=domain)
    Stats.gauge("epochs.attempts.silent", silent, tags=domain)
    for row in found.tables:
        tags = {**domain, "table": str(row.table)}
        for name, value in (
            ("overdue_seconds", _seconds(row.overdue)),
            ("lacking_epochs", row.lacking),
            ("end_to_end_seconds", _seconds(row.end_to_end)),
        ):
            if value is not None:
                Stats.gauge(f"epochs.table.{name}", value, tags=tags)


def _told(found: DomainLag, late: Sequence[TableLag], at_most: timedelta) -> str:
    """Return the error's text: one line for each table, the latest first."""
    by_time = sorted(late, key=lambda row: row.overdue or timedelta(0), reverse=True)
    lines = [
        f"- {row.table}: complete to {row.watermark.isoformat() if row.watermark else 'nothing'}, overdue for "
        f"{_whole_seconds(row.overdue)}{_held(row.held_by)}"
        for row in by_time[:_TOLD]
    ]
    if len(late) > _TOLD:
        lines.append(f"- and {len(late) - _TOLD} more")
    return (
        f"{len(late)} of {len(found.tables)} tables of domain {found.domain} have lacked a due epoch for more than "
        f"{_whole_seconds(at_most)}:\n"
        + "\n".join(lines)
        + "\nNext step: `airflow epochs lag` names what holds them "
        "back, and the command for each."
    )


def _held(holder: Holder | None) -> str:
    if holder is None:
        return ""
    because = f": {holder.because}" if holder.because else ""
    return f"; held back by {holder.job} {holder.interval}, {holder.state.value}{because}"


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


def _whole_seconds(span: timedelta | None) -> timedelta:
    return timedelta(seconds=round((span or timedelta(0)).total_seconds()))
