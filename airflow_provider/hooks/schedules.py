"""Check of a DAG's schedule against a job's cadence, when the DAG is parsed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

import pendulum

from airflow_provider.domain.coverage import Coverage, ScheduledRun
from airflow_provider.domain.errors import InvalidInput
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
    expression, delta = _said(timetable, "expression"), _said(timetable, "delta")
    trigger, length = _is_trigger(timetable), _said(timetable, "interval") or _NOTHING
    if expression is not None:
        zone = _said(timetable, "timezone")
        try:
            calendar = Cadence(str(expression), str(getattr(zone, "name", zone)))
        except InvalidInput:
            return  # a cron expression with seconds, or a fixed offset, which a Cadence cannot be
        _refuse_cron(
            Coverage(
                job=job.name,
                schedule=str(calendar),
                cadence=job.cadence,
                batch=batch,
                zone=calendar.timezone,
            ),
            calendar,
            length if trigger else None,
            _said(timetable, "key_format"),
        )
    elif delta is not None:
        start = operator.dag.start_date
        anchor = None if start is None else as_utc(start)
        asked = Coverage(job=job.name, schedule=f"every {delta}", cadence=job.cadence, batch=batch)
        asked.refuse_gaps(lambda low: _by_delta(anchor or low, low, delta, length if trigger else None))


def _said(timetable: Any, name: str) -> Any:
    """Return a timetable's field; the scheduler's own timetables, which a DAG may have too, keep it private."""
    return getattr(timetable, name, getattr(timetable, f"_{name}", None))


def _is_trigger(timetable: Any) -> bool:
    """Return whether runs start at the named time, instead of at the end of a data interval that begins there."""
    return _said(timetable, "interval") is not None


@lru_cache(maxsize=256)
def _refuse_cron(asked: Coverage, calendar: Cadence, length: Any, key: str | None) -> None:
    """Refuse gaps of a cron schedule; remembers what passed, since all tasks of a process have the same few calendars.

    :raises InvalidInput: the schedule does not fit.
    """
    asked.refuse_gaps(lambda low: _by_cron(calendar, low, length, key))


def _by_cron(calendar: Cadence, low: datetime, length: Any, key: str | None) -> Iterator[ScheduledRun]:
    """Yield the runs of *calendar* after *low*.

    :param length: length of the data interval that ends at a run; None if the data interval begins there and lasts
        until the next run.
    :param key: format of the runs' partition keys; None if they have none.
    """
    zone = cast("Any", pendulum.timezone(calendar.timezone))
    for tick, after in pairwise(_ticks(calendar, low)):
        if key is not None:
            yield ScheduledRun(date=tick, partition_key=tick.astimezone(zone).strftime(key))
        else:
            yield _run(tick, after, length)


def _by_delta(anchor: datetime, low: datetime, delta: Any, length: Any) -> Iterator[ScheduledRun]:
    tick = anchor
    if tick < low and isinstance(delta, timedelta):
        tick += ((low - tick) // delta) * delta
    while True:
        after = as_utc(tick + delta)
        yield _run(tick, after, length)
        tick = after


def _run(tick: datetime, after: datetime, length: Any) -> ScheduledRun:
    if length is None:
        return ScheduledRun(date=tick, data_interval=(tick, after))
    return ScheduledRun(date=tick, data_interval=(as_utc(tick - length), tick))


def _ticks(calendar: Cadence, start: datetime) -> Iterator[datetime]:
    while True:
        start = calendar.next_after(start)
        yield start
