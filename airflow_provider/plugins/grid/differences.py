"""Numbers of rows that a restatement adds and removes, counted in the API server within limits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider.coordination.restating.look import MOST_COMPARED, rows_to_compare
from airflow_provider.coordination.restating.next_steps import Commands
from airflow_provider.coordination.restating.restatements import RestatementStatus
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.members_now import job_of
from airflow_provider.domain.errors import NotReady
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.restatement import RestatementRecord
from airflow_provider.domain.topology import Table
from airflow_provider.plugins.recent import Recent

_recent = Recent(
    at_once=1, timeout_s=20.0, busy="wait until the rows of another restatement are counted, then ask again."
)
"""Separate from the other questions, which must not wait for rows; one restatement at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowCounts:
    """Counts rows of a restatement, of the tables of *jobs* only.

    :param commands: of its domain, for what is not counted here.
    """

    service: EpochService
    domain: DomainName
    name: RestatementId
    jobs: Collection[JobName]
    commands: Commands
    max_rows: int = MOST_COMPARED

    def answer(self) -> dict[str, Any]:
        """Return the digest of what is staged, and for each table the number of rows added and removed.

        A table with more than *max_rows* rows in the restatement's time has no numbers, but the command that counts
        them.

        :raises NotReady: members are not staged. :raises InvalidInput: the restatement is over.
        """
        # The digest is read before the rows: if a member is computed again meanwhile, an approval of it is refused.
        status = self.service.restatements.status(self.domain, self.name)
        head = self.service.store.read(self.domain, []).head
        question = (self.commands, head.incarnation, self.name, status.output, frozenset(self.jobs))
        tables = _recent.answer(question, head.csn, lambda: list(self._tables(status))).value
        hidden = sum(epochs.job not in self.jobs for epochs in status.record.members)
        return {"output": status.output, "tables": tables, "jobs_hidden": hidden}

    def _tables(self, status: RestatementStatus) -> Iterator[dict[str, Any]]:
        for epochs in status.record.members:
            if epochs.job in self.jobs:
                for table in job_of(self.service.store, self.domain, epochs.job).outputs:
                    if not status.output:
                        self._refuse(status.record, table)
                    yield self._counted(table, epochs.intervals)

    def _refuse(self, record: RestatementRecord, table: Table) -> None:
        """Say which members are missing, or that the restatement is over, as its differences do; reads no row.

        :raises NotReady: without the names of members, where the user may not see all of them.
        """
        try:
            self.service.restatements.differences(self.domain, self.name, [table.name])
        except NotReady as error:
            if all(epochs.job in self.jobs for epochs in record.members):
                raise
            message = f"restatement {self.name!r}: not all of its {record.size} epochs are computed."
            raise NotReady(message, next_step=error.next_step, missing=()) from None

    def _counted(self, table: Table, intervals: Sequence[Interval]) -> dict[str, Any]:
        rows = rows_to_compare(self.service.store, self.domain, table, intervals)
        if rows > self.max_rows:
            command = self.commands("diff", self.name, "--table", table.name)
            return {"table": table.name, "rows": rows, "added": None, "removed": None, "command": command}
        # One table at a time, so that the rows of one only are held.
        found = self.service.restatements.differences(self.domain, self.name, [table.name])[table.name]
        added, removed = found.added.num_rows, found.removed.num_rows
        return {"table": table.name, "rows": rows, "added": added, "removed": removed}
