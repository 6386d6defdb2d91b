"""Half-open intervals of event time, and the calendars that cut time into them.

All times are aware and in UTC, with microseconds. A *barrier* is the end of an interval.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, cast

import pendulum
from croniter import croniter
from croniter.croniter import CroniterError

from airflow_provider.domain.error_families import InvalidInput

EPOCH_ZERO = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
MOST_AT_ONCE = 100_000
"""Maximum number of epochs in one interval, eleven years of hours: a mistyped year is refused, and fills no memory."""
_SAMPLED = datetime(2023, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
_SAMPLES, _HOURS, _DAYS = 60, 25, 32
_YEARS = range(_SAMPLED[0].year, _SAMPLED[1].year)
_SUMMER_TIME = timedelta(hours=2)
"""Time by which an epoch may be longer than the sampled ones, where clocks change."""
_LARGEST_CLOCK_CHANGE = timedelta(hours=26)
_ZONE = "an IANA time zone such as Europe/Berlin"
_PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}
_FIXED_PERIODS = {
    "0 * * * *": (timedelta(hours=1), EPOCH_ZERO),
    "0 0 * * *": (timedelta(days=1), EPOCH_ZERO),
    "0 0 * * 0": (timedelta(weeks=1), EPOCH_ZERO + timedelta(days=3)),
}
"""Calendars whose epochs all last equally long in UTC: their length and a barrier. The first Sunday was 4 January."""


def as_utc(value: object, field: str = "time") -> datetime:
    """Return *value* as an aware UTC datetime.

    :raises InvalidInput: not a datetime, or without a time zone.
    """
    if not isinstance(value, datetime) or value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput(
            field=field,
            value=value,
            expected="a datetime with a time zone",
            next_step="pass an aware datetime, for example datetime(2013, 2, 8, tzinfo=UTC).",
        )
    try:
        moved = value.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(field=field, value=value, expected="a time that UTC can express") from error
    return datetime(*moved.timetuple()[:6], moved.microsecond, tzinfo=UTC)


@lru_cache(maxsize=16_384)
def micros(value: datetime) -> int:
    """Return microseconds since 1970 in UTC, the stored form of times.

    Cached: every cut calls it for every table.
    """
    return (value - EPOCH_ZERO) // _MICROSECOND


def from_micros(value: int) -> datetime:
    """Return the time of *value* microseconds since 1970: the inverse of :func:`micros`."""
    return EPOCH_ZERO + value * _MICROSECOND


@lru_cache(maxsize=4096)
def shifted(moment: datetime, by: timedelta) -> datetime:
    """Return *moment* plus *by*, at most the last and at least the first time that a datetime can have."""
    try:
        return moment + by
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if by > timedelta(0) else datetime.min.replace(tzinfo=UTC)


@lru_cache(maxsize=16_384)
def time_key(value: datetime) -> str:
    """Return text that sorts like the times, for store keys and paths.

    Cached: a publish makes some twenty keys of two times.
    """
    return f"{value.year:04d}{value:%m%dT%H%M%S}.{value.microsecond:06d}Z"


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """``[start, end)`` in UTC; never empty."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.__class__ is not datetime or self.start.tzinfo is not UTC:
            object.__setattr__(self, "start", as_utc(self.start, "start"))
        if self.end.__class__ is not datetime or self.end.tzinfo is not UTC:
            object.__setattr__(self, "end", as_utc(self.end, "end"))
        if self.start >= self.end:
            raise InvalidInput(
                field="interval",
                value=f"[{self.start.isoformat()}, {self.end.isoformat()})",
                expected="a start before its end",
                next_step="write the earlier time first, and as the end, which is not part of it, a later one; a run's "
                "data interval of length zero needs a cadence.",
            )

    def __str__(self) -> str:
        return f"[{self.start.isoformat()}, {self.end.isoformat()})"

    def meets(self, low: datetime | None, high: datetime) -> bool:
        """Return True if it shares a moment with ``[low, high)``; ``low=None`` is the beginning of time."""
        return self.start < high and (low is None or low < self.end)

    def overlaps(self, other: Interval) -> bool:
        return self.meets(other.start, other.end)


@dataclass(frozen=True, slots=True)
class Cadence:
    """A calendar: the barriers of a job and of its tables.

    :param expression: a cron expression of five fields or one of ``@hourly``, ``@daily``, ``@weekly``,
        ``@monthly``, ``@quarterly``, ``@yearly``.
    :param timezone: IANA name of the zone in which the expression is meant; a daily cadence there has days
        of 23 and 25 hours.
    :param since: start of this calendar, if there was another one before: a barrier of both.
    :param before: the calendar until then, which may have one before it, too (R7).
    :raises InvalidInput: an expression or zone that cannot be parsed, or *since* is no barrier of both calendars.
    """

    expression: str
    timezone: str = "UTC"
    since: datetime | None = None
    before: Cadence | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise InvalidInput(field="cadence", value=self.expression, expected="a cron expression as text")
        expression = _PRESETS.get(self.expression.strip(), self.expression.strip())
        object.__setattr__(self, "expression", expression)
        if not isinstance(self.timezone, str):
            raise InvalidInput(field="timezone", value=self.timezone, expected=_ZONE)
        _check_calendar(self.expression, self.timezone)
        if isinstance(self.before, str):
            object.__setattr__(self, "before", Cadence(self.before))
        if self.since is not None or self.before is not None:
            self._check_change()

    def _check_change(self) -> None:
        if self.since is None or not isinstance(self.before, Cadence):
            raise InvalidInput(
                field="cadence", value=self.before, expected="both since and before, or neither"
            )
        since = as_utc(self.since, "since")
        object.__setattr__(self, "since", since)
        for cadence in (Cadence(self.expression, self.timezone), self.before):
            if not cadence.is_barrier(since):
                raise InvalidInput(
                    field="since", value=since.isoformat(), expected=f"a barrier of the cadence {cadence}"
                )
        if self.before.since is not None and self.before.since >= since:
            raise InvalidInput(
                field="since",
                value=since.isoformat(),
                expected=f"a time after {self.before.since.isoformat()}",
            )

    def __str__(self) -> str:
        now = f"{self.expression} {self.timezone}"
        if self.before is None or self.since is None:
            return now
        return f"{self.before} until {self.since.isoformat()}, then {now}"

    @property
    def changes(self) -> tuple[datetime, ...]:
        """Times at which the calendar changed, the latest first."""
        if self.before is None or self.since is None:
            return ()
        return (self.since, *self.before.changes)

    def until(self, other: Cadence) -> datetime | None:
        """Return the time until which the calendar was *other*; None if it never was, or still is."""
        if self.before is None:
            return None
        return self.since if self.before == other else self.before.until(other)

    @property
    def longest(self) -> timedelta:
        """Length of its longest epoch, also of earlier calendars; sampled over five years."""
        return _longest(self)

    def next_after(self, moment: datetime) -> datetime:
        """Return the first barrier later than *moment*."""
        return _neighbour(self, moment, forward=True)

    def last_before(self, moment: datetime) -> datetime:
        """Return the last barrier earlier than *moment*."""
        return _neighbour(self, moment, forward=False)

    def floor(self, moment: datetime) -> datetime:
        """Return the last barrier at or before *moment*."""
        return moment if self.is_barrier(moment) else self.last_before(moment)

    def is_barrier(self, moment: datetime) -> bool:
        return moment > _FIRST_MOMENT and self.next_after(moment - _MICROSECOND) == moment

    def ending_at(self, barrier: datetime) -> Interval:
        """Return the interval that ends at *barrier*.

        :raises InvalidInput: *barrier* is no barrier of this calendar.
        """
        if not self.is_barrier(barrier):
            raise InvalidInput(
                field="barrier",
                value=barrier.isoformat(),
                expected=f"a barrier of the cadence {self}, such as {self.floor(barrier).isoformat()}",
            )
        return Interval(self.last_before(barrier), barrier)

    def ended_by(self, moment: datetime) -> Interval:
        """Return the last interval that ended at or before *moment*: the one that a run of that date computes."""
        return self.ending_at(self.floor(moment))

    def split(self, interval: Interval) -> list[Interval]:
        """Return the epochs that fill *interval*.

        :raises InvalidInput: not an interval, an end is no barrier of this calendar, or it has more than
            :data:`MOST_AT_ONCE` epochs.
        """
        if not isinstance(interval, Interval):
            raise InvalidInput(field="interval", value=interval, expected="an Interval(start, end)")
        for field, moment in (("start", interval.start), ("end", interval.end)):
            if not self.is_barrier(moment):
                raise InvalidInput(
                    field=field,
                    value=moment.isoformat(),
                    expected=f"a barrier of the cadence {self}",
                    next_step="choose an interval whose ends lie on the job's cadence.",
                )
        epochs = [Interval(low, high) for low, high in islice(self._pairs(interval), MOST_AT_ONCE + 1)]
        if len(epochs) > MOST_AT_ONCE:
            raise InvalidInput(
                field="interval",
                value=str(interval),
                expected=f"at most {MOST_AT_ONCE} epochs of the cadence {self} at once",
                next_step="check its years; pass a longer interval in parts.",
            )
        return epochs

    def _pairs(self, interval: Interval) -> Iterator[tuple[datetime, datetime]]:
        low = interval.start
        while low < interval.end:
            high = self.next_after(low)
            yield low, high
            low = high


@lru_cache(maxsize=1_024)
def _check_calendar(expression: str, timezone: str) -> None:
    if len(expression.split()) != 5 or not croniter.is_valid(expression) or not _is_calendar(expression):
        raise InvalidInput(
            field="cadence",
            value=expression,
            expected="a cron expression of five fields that always names the same times, or @hourly, @daily, "
            "@weekly, @monthly, @quarterly, @yearly",
            next_step="correct the cadence of the job.",
        )
    try:
        pendulum.timezone(timezone)
    except Exception as error:  # pendulum raises its own and the standard library's errors here
        raise InvalidInput(field="timezone", value=timezone, expected=_ZONE) from error


def _is_calendar(expression: str) -> bool:
    """Return True if *expression* has times at all (31 February has none), and no random ones (croniter's ``R``)."""
    if re.search(r"(^|[ ,])[rh]\b", expression, re.IGNORECASE):
        return False
    try:
        croniter(expression, start_time=EPOCH_ZERO).get_next()
    except CroniterError:
        return False
    return True


@lru_cache(maxsize=65_536)
def _neighbour(cadence: Cadence, moment: datetime, *, forward: bool) -> datetime:
    """Return the barrier next to *moment*, never *moment* itself.

    An expression is in local time of its zone; where clocks change, see :func:`_moments`.
    """
    former, since = cadence.before, cadence.since
    # Both calendars have the barrier at which one follows the other: no epoch lies across it.
    if former and since and (moment < since or (moment == since and not forward)):
        return _neighbour(former, moment, forward=forward)
    fixed = _FIXED_PERIODS.get(cadence.expression)
    try:
        if fixed and cadence.timezone == "UTC":
            return _fixed_neighbour(*fixed, moment, forward=forward)
        return _cron_neighbour(cadence, moment, forward=forward)
    except (OverflowError, CroniterError, ValueError) as error:
        raise InvalidInput(
            field="time",
            value=moment.isoformat(),
            expected=f"a time that has neighbours in the cadence {cadence}",
        ) from error


@lru_cache(maxsize=1_024)
def _longest(cadence: Cadence) -> timedelta:
    """Return the length of the longest epoch among samples of five years.

    The samples are 60 months, weeks or hours in a row: the shorter the epochs, the sooner their lengths repeat. And, as
    the epochs over the hours, days and months that a calendar leaves out are longer, those that :func:`_openings` ends.
    """
    alone = replace(cadence, since=None, before=None)
    ends = [alone.next_after(_SAMPLED[0])]
    while len(ends) <= _SAMPLES and ends[-1] < _SAMPLED[1]:
        ends.append(alone.next_after(ends[-1]))
    own = max((end - start for start, end in pairwise(ends)), default=ends[0] - _SAMPLED[0])
    own = max([own, *(end - alone.last_before(end) for end in _openings(alone))])
    own += _SUMMER_TIME if cadence.timezone != "UTC" else timedelta(0)
    return own if cadence.before is None else max(own, _longest(cadence.before))


def _openings(cadence: Cadence) -> Iterator[datetime]:
    """Yield the first barriers of hours, of days and of months: of as many as it takes for those left out to repeat."""
    _, hour, day, month, weekday = cadence.expression.split()
    first = [0 if known[0] == "*" else min(known) for known in croniter.expand(cadence.expression)[0][:2]]
    if hour != "*":
        yield from _ends(cadence, f"{first[0]} {hour} {day} {month} {weekday}", _HOURS)
    if (day, month, weekday) != ("*", "*", "*"):
        yield from _ends(cadence, f"{first[0]} {first[1]} {day} {month} {weekday}", _DAYS)
    if (day, month) != ("*", "*"):
        months = (datetime(year, number, 1, tzinfo=UTC) for year in _YEARS for number in range(1, 13))
        yield from map(cadence.next_after, months)


def _ends(cadence: Cadence, expression: str, number: int) -> Iterator[datetime]:
    calendar, end = Cadence(expression, cadence.timezone), _SAMPLED[0]
    for _ in range(number):
        if end < _SAMPLED[1]:
            end = calendar.next_after(end)
            yield end


def _fixed_neighbour(period: timedelta, barrier: datetime, moment: datetime, *, forward: bool) -> datetime:
    elapsed = moment - barrier
    if forward:
        return barrier + (elapsed // period + 1) * period
    return barrier + ((elapsed - _MICROSECOND) // period) * period


def _cron_neighbour(cadence: Cadence, moment: datetime, *, forward: bool) -> datetime:
    """Return the next or previous moment whose local time matches the expression.

    Near a clock change the search starts beyond it and compares every match on both sides, so that the result depends
    on the set of matching moments alone, and both directions agree on neighbours.
    """
    zone = cast(Any, pendulum.timezone(cadence.timezone))
    slack = _LARGEST_CLOCK_CHANGE if _clock_changes_near(moment, zone) else timedelta(0)
    start = moment.astimezone(zone).replace(tzinfo=None) + (-slack if forward else slack)
    cron = croniter(cadence.expression, start_time=start)
    every_hour = cadence.expression.split()[1].startswith("*")
    best: datetime | None = None
    first_local: datetime | None = None
    while True:
        local = cast(datetime, cron.get_next(datetime) if forward else cron.get_prev(datetime))
        if first_local is not None and abs(local - first_local) > slack:
            break
        for found in _moments(local, zone, every_hour=every_hour):
            if (found > moment) if forward else (found < moment):
                first_local = first_local or local
                best = found if best is None else (min if forward else max)(best, found)
    return cast(datetime, best)


def _clock_changes_near(moment: datetime, zone: Any) -> bool:
    days = (moment - 2 * _DAY, moment, moment + 2 * _DAY)
    return len({day.astimezone(zone).utcoffset() for day in days}) > 1


def _moments(local: datetime, zone: Any, *, every_hour: bool) -> set[datetime]:
    """Return the moments at which clocks in *zone* show *local*.

    A local time that occurs twice gives both moments for an expression of every hour, and the first one for others. A
    local time that a clock change skips gives none for the former, and the moment after the change for the latter.
    """
    first = as_utc(local.replace(tzinfo=zone, fold=0))
    second = as_utc(local.replace(tzinfo=zone, fold=1))
    shown = first.astimezone(zone).replace(tzinfo=None) == local
    if not every_hour:
        return {first}
    return {first, second} if shown else set()
