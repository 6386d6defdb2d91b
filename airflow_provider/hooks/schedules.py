"""Check of a DAG's schedule against a job's cadence, when the DAG is parsed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Cadence, as_utc
from airflow_provider.domain.topology import Job

_NOTHING = timedelta()


def refuse_schedule(operator: Any, job: Job, batch: Cadence | None, interval: object) -> None:
    """Refuse a task whose DAG's schedule leaves epochs of *job* out, or computes them again and again (R38).

    Passes if *interval* fixes what a run computes, if the DAG is not known yet (the run checks again), and for
    timetables other than cron expressions and periods.

    :raises InvalidInput: the schedule does not fit; names schedule and cadence.
    """
    if interval not in (None, "") or not operator.has_dag():
        return
    timetable = operator.dag.timetable
    timetable = getattr(timetable, "timetable", timetable)  # the clock of a schedule by clock and assets
    crons = _said(timetable, "timetables") or [timetable]  # a run by each of several cron expressions
    timetable = crons[0]
    expression, delta = _said(timetable, "expression"), _said(timetable, "delta")
    trigger, length = _is_trigger(timetable), _said(timetable, "interval") or _NOTHING
    if expression is not None:
        try:
            calendars = tuple(map(_calendar, crons))
        except InvalidInput:
            return  # a cron expression with seconds, or a fixed offset, which a Cadence cannot be
        own = _Cron(calendars, length if trigger else None, _said(timetable, "key_format"))
        if not own.is_of(job.cadence, batch):
            _refuse_cron(own, job.name, job.cadence, batch)
    elif delta is not None:
        from airflow_provider.domain.coverage import Coverage, by_delta

        start = operator.dag.start_date
        anchor = None if start is None else as_utc(start)
        asked = Coverage(job=job.name, schedule=f"every {delta}", cadence=job.cadence, batch=batch)
        asked.refuse_gaps(lambda low: by_delta(anchor or low, low, delta, length if trigger else None))


@dataclass(frozen=True, slots=True)
class _Cron:
    """A cron schedule. :param calendars, length, key: as of :func:`~.coverage.by_cron`."""

    calendars: tuple[Cadence, ...]
    length: Any
    key: str | None

    def is_of(self, cadence: Cadence, batch: Cadence | None) -> bool:
        """Return True if each run surely computes one epoch of *cadence*: to sample it takes longer than all else."""
        from airflow_provider.domain.coverage import runs_at_barriers

        is_plain = batch is None and self.key is None and not self.length
        return is_plain and self.calendars == (cadence,) and runs_at_barriers(cadence)


@lru_cache(maxsize=256)
def _refuse_cron(cron: _Cron, job: JobName, cadence: Cadence, batch: Cadence | None) -> None:
    """Refuse gaps of a cron schedule; remembers what passed, since all tasks of a process have the same few calendars.

    :raises InvalidInput: the schedule does not fit.
    """
    from airflow_provider.domain.coverage import Coverage, by_cron

    name, zone = " and ".join(map(str, cron.calendars)), cron.calendars[0].timezone
    asked = Coverage(job=job, schedule=name, cadence=cadence, batch=batch, zone=zone)
    asked.refuse_gaps(lambda low: by_cron(cron.calendars, low, cron.length, cron.key))


def _calendar(timetable: Any) -> Cadence:
    zone = _said(timetable, "timezone")
    return Cadence(str(_said(timetable, "expression")), str(getattr(zone, "name", zone)))


def _said(timetable: Any, name: str) -> Any:
    """Return a timetable's field; the scheduler's own timetables, which a DAG may have too, keep it private."""
    return getattr(timetable, name, getattr(timetable, f"_{name}", None))


def _is_trigger(timetable: Any) -> bool:
    """Return whether runs start at the named time, instead of at the end of a data interval that begins there."""
    return _said(timetable, "interval") is not None
