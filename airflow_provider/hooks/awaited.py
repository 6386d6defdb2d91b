"""Declaration of a sensor's wait; the context of a run turns it into barriers.

A value that Airflow's database can hold as JSON, so that a trigger which no worker has started finds out by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

import msgspec

from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.source_bounds import Source
from airflow_provider.domain.topology import Edge, EdgeKind, Job
from airflow_provider.hooks.task_run import is_set, task_barrier, task_interval

if TYPE_CHECKING:
    from airflow_provider.coordination.reading.wait import JobInputs

Barrier = Interval | datetime | str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadByJob:
    """The inputs of a job's epochs, whichever these are.

    :param own: the tables that it writes itself, whose past is empty at its *origin*.
    """

    edges: tuple[Edge, ...]
    sources: tuple[Source, ...]
    cadence: Cadence
    origin: datetime | None
    own: tuple[TableName, ...]

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return the inputs of *job*."""
        own = tuple(table.name for table in job.outputs)
        return cls(edges=job.edges, sources=job.sources, cadence=job.cadence, origin=job.origin, own=own)

    def within(self, interval: Interval) -> JobInputs:
        """Return the inputs for the epochs of *interval*, as :meth:`JobInputs.of`."""
        from airflow_provider.coordination.reading.wait import JobInputs

        own = self.own if self.origin == interval.start else ()
        edges = (edge for edge in self.edges if edge.kind is not EdgeKind.PREVIOUS or edge.table not in own)
        return JobInputs(edges=tuple(edges), interval=interval, sources=self.sources, cadence=self.cadence)


@dataclass(frozen=True, kw_only=True, slots=True)
class Awaited:
    """Tables or a job's inputs, before a run says up to when.

    :param at: explicit barrier, or the interval that it ends; None for that of the run.
    :param calendar: of the runs; None where a run's date alone is a barrier.
    :param job: None where tables are waited for at one barrier.
    """

    domain: DomainName
    tables: tuple[TableName, ...]
    at: Barrier | None = None
    calendar: Cadence | None = None
    job: ReadByJob | None = None

    def of_run(self, context: Mapping[str, Any]) -> datetime | JobInputs:
        """Return the barrier that a run waits for, or the inputs of its epochs.

        A run that assets have started, and that waits for a job's inputs, is not decided here.

        :raises InvalidInput: the run names no time, or one that is no barrier.
        :raises AirflowSkipException: as :func:`task_barrier`.
        """
        if self.job is None:
            return task_barrier(context, self.calendar, explicit=self.at, domain=self.domain)
        return self.job.within(self._interval(context, self.calendar or self.job.cadence))

    def _interval(self, context: Mapping[str, Any], calendar: Cadence) -> Interval:
        if isinstance(self.at, Interval):
            return self.at
        if not is_set(self.at):
            return task_interval(context, calendar)
        barrier = task_barrier(context, calendar, explicit=self.at)
        return Interval(calendar.last_before(barrier), barrier)

    def as_plain(self) -> dict[str, Any]:
        """Return this as JSON's own values; :meth:`of_plain` reads them."""
        at = self.at.isoformat() if isinstance(self.at, datetime) else self.at
        return {
            "domain": self.domain,
            "tables": list(self.tables),
            "at": msgspec.to_builtins(at),
            "calendar": msgspec.to_builtins(self.calendar),
            "job": msgspec.to_builtins(self.job),
        }

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return what :meth:`as_plain` has made plain."""
        at = plain["at"]
        return cls(
            domain=DomainName(plain["domain"]),
            tables=tuple(map(TableName, plain["tables"])),
            at=msgspec.convert(at, Interval, strict=False) if isinstance(at, Mapping) else at,
            calendar=msgspec.convert(plain["calendar"], Cadence | None, strict=False),
            job=msgspec.convert(plain["job"], ReadByJob | None, strict=False),
        )
