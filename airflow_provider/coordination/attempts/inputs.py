"""Inputs of an epoch that begins: those of an earlier attempt while they hold, otherwise resolved anew (section 5)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.coordination.attempts.missing_inputs import Resolving, refuse_missing
from airflow_provider.coordination.attempts.refusals import refuse_expired_inputs
from airflow_provider.coordination.attempts.validate import rewrite_logs
from airflow_provider.coordination.attempts.within import Within, rewritten_beside
from airflow_provider.coordination.commits.expired_states import expired_states
from airflow_provider.coordination.commits.staged import with_staged
from airflow_provider.coordination.context import Context
from airflow_provider.domain.beginning import altered, expired_inputs, inputs_behind, resolve_inputs
from airflow_provider.domain.epoch import AttemptRecord, EpochRecord, Provenance
from airflow_provider.domain.filling import inputs_of_fill, inputs_to_validate
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import table_key
from airflow_provider.domain.rewrites import invalidated
from airflow_provider.domain.topology import Edge, Job
from airflow_provider.stores.base import Reading


@dataclass(frozen=True, slots=True)
class Inputs:
    """Resolver of the inputs of one epoch. :param skips: the epoch is skipped, and copies its own tables."""

    context: Context
    job: Job
    interval: Interval
    edges: tuple[Edge, ...]
    within: Within
    skips: bool

    def resolved(
        self,
        reading: Reading,
        before: AttemptRecord | None,
        epoch: EpochRecord | None,
        fills: tuple[TableName, ...],
    ) -> tuple[list[Provenance] | None, bool]:
        """Return the inputs and whether they were resolved anew; None when the head is to be read again.

        :param before: the earlier attempt whose inputs are kept while they hold.
        """
        domain, members = self.job.domain, self.within.members(reading)
        behind = self.within.behind(reading)
        tables = {edge.table: reading.get(table_key(domain, edge.table)) for edge in self.edges}
        retention = expired_states(self.context.store, domain, reading)
        # A fill reads what the commit has read; output of another attempt is of what that has found itself.
        if before is not None and before.fills == fills:
            retention.load_inputs(before.inputs, tables)
            logs = rewrite_logs(reading, domain, before.inputs)
            over = invalidated(inputs_to_validate(before, epoch), logs, self.interval)
            gone = altered(before.inputs, tables) or expired_inputs(before.inputs, tables, retention)
            other = members is not None and (
                members.reread(before.inputs, tables) != before.inputs
                or rewritten_beside(before.inputs, logs)
            )
            if not (over or gone or other or inputs_behind(before.inputs, behind)):
                return list(before.inputs), False
        edges = [edge for edge in self.edges if not (self.skips and fills) or edge.table in fills]
        known = tables if members is None else with_staged(tables, members)
        found, missing, stale = resolve_inputs(
            edges, self.interval, known, reading.head.csn, copies=self.skips, behind=behind
        )
        if stale:
            return None, True
        job, interval, csn = self.job, self.interval, reading.head.csn
        epoch_of = Resolving(domain, job.name, interval, outputs=job.outputs, edges=edges, csn=csn)
        refuse_missing(self.context.store, epoch_of, missing, tables)
        if members is not None:
            found = list(members.read(job.epoch(interval), found, tables))
        if fills and epoch is not None and epoch.committed is not None:
            recorded = epoch.committed.inputs
            lost = [*expired_inputs(recorded, tables, retention), *altered(recorded, tables)]
            logs = rewrite_logs(reading, domain, found)
            found = inputs_of_fill(f"{job.name} {interval}", recorded, found, lost, logs)
        retention.load_inputs(found, tables)
        refuse_expired_inputs(job.name, interval, expired_inputs(found, tables, retention))
        return found, True
