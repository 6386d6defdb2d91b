"""What a DAG's timetable says of its runs, so far as a DAG file can tell: asked when the DAG is parsed."""

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
from airflow_provider.domain.topology import EpochJob

_NOTHING = timedelta()


def refuse_schedule(operator: Any, job: EpochJob, batch: Cadence | None, interval: object) -> None:
    """Refuse a task whose DAG's schedule leaves epochs of *job* out, or computes them again and again (R38).

    Nothing is refused where *interval* says what a run computes, where no DAG is known yet (the run asks again), and
    where the timetable is neither a cron expression's nor a period's.

    :raises InvalidInput: naming schedule and cadence.
    """
    if interval not in (None, "") or not operator.has_dag():
        return
    timetable = operator.dag.timetable
    timetable = getattr(timetable, "timetable", timetable)  # beside assets
    expression, delta = _said(timetable, "expression"), _said(timetable, "delta")
    trigger, length = _is_trigger(timetable), _said(timetable, "interval") or _NOTHING
    if expression is not None:
        zone = _said(timetable, "timezone")
        try:
            calendar = Cadence(str(expression), str(getattr(zone, "name", zone)))
        except InvalidInput:
            return  # one with seconds, or a fixed offset
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
    """A field of a timetable; the scheduler's own ones, which a DAG may have too, keep them private."""
    return getattr(timetable, name, getattr(timetable, f"_{name}", None))


def _is_trigger(timetable: Any) -> bool:
    """Whether its runs begin at the time that it names, instead of when a data interval from there has ended."""
    return _said(timetable, "interval") is not None


@lru_cache(maxsize=256)
def _refuse_cron(asked: Coverage, calendar: Cadence, length: Any, key: str | None) -> None:
    """Remembered where nothing is refused: all tasks of a process have the same few calendars."""
    asked.refuse_gaps(lambda low: _by_cron(calendar, low, length, key))


def _by_cron(calendar: Cadence, low: datetime, length: Any, key: str | None) -> Iterator[ScheduledRun]:
    """The runs of *calendar*.

    :param length: of the data interval that ends at a run; None where it begins there and lasts until the next one.
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
