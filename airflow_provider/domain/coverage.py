"""Check that the runs of a schedule compute every epoch of a job, and each once (R38). Pure decisions.

The check takes a sample of consecutive runs, and resolves the interval of each run as its task will do. The interval
of a run must end where that of the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, cast

import pendulum
from croniter import croniter

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Cadence, Interval, as_utc
from airflow_provider.domain.schedule import run_interval

FROM = datetime.fromisoformat("2024-01-08T00:00:00+00:00")
_DAY = timedelta(days=1)
_YEAR = 366 * _DAY
_FREQUENT, _SELDOM, _RARE = 30, 45, 12
"""Number of sampled runs: a day of hours, six weeks of days, a year of months."""
_MOST = 300
"""Number of sampled runs after which a day of minutes is not sampled to its end."""
_FRIDAY, _EVENING = 4, timedelta(hours=20)
_BESIDE_CHANGE = 2 * _DAY
_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduledRun:
    """A run of the schedule: its date, data interval and partition key."""

    date: datetime
    data_interval: tuple[datetime, datetime] | None = None
    partition_key: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """A schedule and the job whose epochs its runs should compute, each once.

    :param schedule: name of the schedule in messages. :param zone: time zone of the schedule.
    :param cadence: of the job. :param batch: the ``batch`` of the task.
    """

    job: str
    schedule: str
    cadence: Cadence
    batch: Cadence | None = None
    zone: str = "UTC"

    def refuse_gaps(self, runs: Callable[[datetime], Iterable[ScheduledRun]]) -> None:
        """Refuse a schedule whose runs miss epochs or compute them twice.

        The runs of a day or six weeks are sampled, those about the begin of a weekend and, where these matter, those
        beside a year's clock changes.

        :param runs: returns consecutive runs from a time on, without end.
        :raises InvalidInput: names both calendars, and how many epochs a run computes and misses, or computes again.
        """
        for low, length in self._windows():
            before: Interval | None = None
            for number, run in enumerate(runs(low)):
                found = self._computed(run)
                if before is not None and before.end != found.start:
                    raise self._refusal(run, _difference(self.cadence, before, found))
                before = found
                if number >= 2 and _is_enough(number, run.date - low, length):
                    break

    def _windows(self) -> list[tuple[datetime, timedelta]]:
        """Return the start and length of each sample; length zero stands for a number of runs, or a day of them."""
        start = max([FROM, *self.cadence.changes, *(self.batch.changes if self.batch else ())])
        runs = self.batch or self.cadence
        zones = {self.zone, runs.timezone}
        changes = _clock_changes(zones, start) if len(zones) > 1 or not runs_at_barriers(runs) else []
        friday = start.replace(hour=0, minute=0, second=0) + (_FRIDAY - start.weekday()) % 7 * _DAY
        weekend = max(start, friday + _EVENING), _DAY - _EVENING
        return [
            (start, timedelta()),
            weekend,
            *((day - _BESIDE_CHANGE, 2 * _BESIDE_CHANGE) for day in changes),
        ]

    def _computed(self, run: ScheduledRun) -> Interval:
        """Return the interval that the task computes in *run*, by the task's own rule."""
        try:
            return run_interval(
                self.cadence,
                partition_key=run.partition_key,
                data_interval=run.data_interval,
                run_date=run.date,
                batch=self.batch,
            )
        except InvalidInput as error:
            raise self._refusal(run, f"cannot say what it computes ({error.message.rstrip('.')})") from error

    def _refusal(self, run: ScheduledRun, what: str) -> InvalidInput:
        by_batch = "" if self.batch is None else f" with batch {self.batch}"
        return InvalidInput(
            f"the DAG's schedule {self.schedule} does not fit the cadence {self.cadence} of job {self.job!r}{by_batch}"
            f": the run of {run.date.isoformat()} {what}.",
            next_step="give the task batch= (the calendar of the DAG's runs, such as batch='@daily': one run "
            "computes all epochs of its day), or run the DAG by the job's cadence, or pass interval= to the task. "
            "Where runs fit but beside clock changes: let the schedule be in UTC, of every hour, or of one hour.",
            field="schedule",
            value=self.schedule,
            expected=f"runs that compute each epoch of {self.cadence} once",
        )


def by_cron(
    calendars: Sequence[Cadence], low: datetime, length: Any, key: str | None
) -> Iterator[ScheduledRun]:
    """Yield the runs of a schedule by *calendars*, one or several of the same zone, after *low*.

    :param length: length of the data interval that ends at a run; None if the data interval begins there and lasts
        until the next run.
    :param key: format of the runs' partition keys; None if they have none.
    """
    zone = cast("Any", pendulum.timezone(calendars[0].timezone))
    for tick, after in pairwise(_ticks(calendars, low)):
        if key is not None:
            yield ScheduledRun(date=tick, partition_key=tick.astimezone(zone).strftime(key))
        else:
            yield _run(tick, after, length)


def by_delta(anchor: datetime, low: datetime, delta: Any, length: Any) -> Iterator[ScheduledRun]:
    """Yield the runs every *delta* from *anchor* on, those before *low* left out."""
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


def _ticks(calendars: Sequence[Cadence], start: datetime) -> Iterator[datetime]:
    while True:
        start = min(_next_run(calendar, start) for calendar in calendars)
        yield start


def runs_at_barriers(calendar: Cadence) -> bool:
    """Return True if a schedule by *calendar* surely has a run for each of its barriers, also where clocks change.

    That is so without clock changes, and for every hour or one hour of a day.
    """
    hours = calendar.expression.split()[1]
    return calendar.timezone == "UTC" or hours == "*" or hours.isdecimal()


def _next_run(calendar: Cadence, moment: datetime) -> datetime:
    """Return the time of the next run of a schedule by *calendar*, by the rule of Airflow's timetables.

    It is not always the next barrier. Of a local time that occurs twice Airflow takes the second one, and in place of a
    local time that is skipped the moment after the change; a schedule of every hour goes on by the clock.
    """
    if runs_at_barriers(calendar):
        return calendar.next_after(moment)
    minute, _, *days = calendar.expression.split()
    zone = cast("Any", pendulum.timezone(calendar.timezone))
    cron = croniter(calendar.expression, start_time=moment.astimezone(zone).replace(tzinfo=None))
    if cron.expanded[1] == ["*"]:  # 0-23, or */1
        return Cadence(" ".join((minute, "*", *days)), calendar.timezone).next_after(moment)
    local = cast(datetime, cron.get_next(datetime))
    return max(as_utc(zone.convert(local.replace(fold=1))), moment + _MOMENT)


def _is_enough(number: int, span: timedelta, length: timedelta) -> bool:
    if length:
        return span > length
    if span < number * _DAY / 2:
        return number >= _FREQUENT and (span > _DAY or number >= _MOST)
    return number >= (_RARE if span > _YEAR else _SELDOM)


def _clock_changes(zones: Collection[str], start: datetime) -> list[datetime]:
    """Return the days of a year on which clocks change in any of *zones*."""
    known = [cast("Any", pendulum.timezone(zone)) for zone in zones]
    days = [start + number * _DAY for number in range(_YEAR // _DAY)]
    offsets = [[day.astimezone(zone).utcoffset() for zone in known] for day in days]
    return [day for day, before, after in zip(days, offsets, offsets[1:], strict=False) if before != after]


def _difference(cadence: Cadence, before: Interval, found: Interval) -> str:
    computed = len(cadence.split(found))
    if before.end < found.start:
        missed = len(cadence.split(Interval(before.end, found.start)))
        return f"computes {_epochs(computed)} and misses {missed} since the run before"
    again = len(cadence.split(Interval(max(before.start, found.start), min(before.end, found.end))))
    return f"computes {_epochs(computed)}, of which the run before has computed {again}"


def _epochs(number: int) -> str:
    return f"{number} epoch" if number == 1 else f"{number} epochs"
