"""Locations within an epoch, for sources whose location is finer than their calendar (I11). Pure functions.

A daily epoch over ``{start:%Y-%m-%dT%H}`` reads the location of its first hour; no epoch reads those of the other 23.
The format alone does not decide: the one file of a day may have its hour in the name. So callers look for files there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import EPOCH_ZERO, Cadence, Interval
from airflow_provider.domain.source_declarations import unlike_intervals

MOST_PLACES = 100_000
"""Maximum number of moments within an epoch that are looked at; a day has 86,400 seconds."""
_DAY = timedelta(days=1)
_UNITS = (
    ("second", timedelta(seconds=1), (1, 30, 59)),
    ("minute", timedelta(minutes=1), (1, 30, 59)),
    ("hour", timedelta(hours=1), (1, 11, 12, 23)),
)
"""Parts of a time that a text may tell, and values at which it is tried: ``%p`` differs at noon only."""

_SPANS = (timedelta(hours=1), _DAY, timedelta(days=31), timedelta(days=366))
"""Lengths of time for which a location may stay the same; the formats of Python tell no others, but weeks."""
_SAMPLED = datetime(2024, 1, 1, tzinfo=UTC)

Text = Callable[[datetime], str]


def stays_same(location: str) -> timedelta | None:
    """Return how long *location* stays the same at most; None if it does forever, or returns to what it was.

    An hour, a day, 31 days or 366 days.
    """
    if unlike_intervals(location):
        return None
    with suppress(KeyError, IndexError, ValueError, AttributeError):  # told when it is used
        first = _place(location, _SAMPLED, _SAMPLED)
        for span in _SPANS:
            moment = _SAMPLED + span
            if _place(location, moment, moment) != first:
                return span
    return None


def places_between(location: str, interval: Interval, cadence: Cadence | None = None) -> tuple[str, ...]:
    """Return the locations that parts of *interval* have and neither it nor an epoch beside it, the earliest first.

    The result is empty, after a few formats, if *location* is no finer than the calendar. If it has both ends, the
    shortest parts come first. There are at most 100,000 locations: of a location that changes more often within the
    interval, those at each full minute or hour.

    :param location: may hold ``{start}`` and ``{end}``, formatted as Python does.
    :param cadence: calendar of the epoch; None if it is unknown.
    """
    starts = _changes(lambda moment: _place(location, moment, interval.end), interval, "{start" in location)
    ends = _changes(lambda moment: _place(location, interval.start, moment), interval, "{end" in location)
    if not starts and not ends:
        return ()
    epochs = (interval, *neighbours(cadence, interval))
    _leave_out(starts, {_place(location, epoch.start, interval.end) for epoch in epochs})
    _leave_out(ends, {_place(location, interval.start, epoch.end) for epoch in epochs})
    if not starts and not ends:
        return ()
    places: Iterable[str] = {**starts, **ends}.values()
    if "{start" in location and "{end" in location:
        moments = sorted({interval.start, interval.end, *starts, *ends})
        places = [_place(location, *part) for part in _parts(moments)]
    found = dict.fromkeys(places)
    for epoch in epochs:
        found.pop(_place(location, epoch.start, epoch.end), None)
    return tuple(found)


def neighbours(cadence: Cadence | None, interval: Interval) -> tuple[Interval, ...]:
    """Return the epochs before and after *interval*, where times reach so far; none for an unknown calendar."""
    if cadence is None:
        return ()
    found: list[Interval] = []
    with suppress(InvalidInput):  # the beginning of time
        found.append(Interval(cadence.last_before(interval.start), interval.start))
    with suppress(InvalidInput):  # its end
        found.append(Interval(interval.end, cadence.next_after(interval.end)))
    return tuple(found)


def _place(location: str, start: datetime, end: datetime) -> str:
    return location.format(start=start, end=end)


def _changes(text: Text, interval: Interval, is_said: bool) -> dict[datetime, str]:
    """Return the values that *text* takes within *interval*, by the moment of the change.

    :param is_said: the location has this end of the interval; without it *text* never changes.
    """
    found: dict[datetime, str] = {}
    if not is_said:
        return found
    last = text(interval.start)
    for moment in _moments(text, interval):
        now = text(moment)
        if now != last:
            found[moment] = now
        last = now
    return found


def _leave_out(changes: dict[datetime, str], texts: set[str]) -> None:
    """Remove the changes to one of *texts*: those of the epoch itself, and of the epochs beside it."""
    for moment in [moment for moment, text in changes.items() if text in texts]:
        del changes[moment]


def _moments(text: Text, interval: Interval) -> list[datetime]:
    """Return the full seconds, minutes, hours or days within *interval*: the finest unit that *text* shows.

    A coarser unit if there are more than :data:`MOST_PLACES` of the finest.
    """
    told = [_tells(text, interval.start, unit, values) for unit, _, values in _UNITS]
    finest = told.index(True) if True in told else len(_UNITS)
    steps = (*(step for _, step, _ in _UNITS[finest:]), _DAY)
    step = next((step for step in steps if (interval.end - interval.start) / step <= MOST_PLACES), _DAY)
    first = EPOCH_ZERO + ((interval.start - EPOCH_ZERO) // step + 1) * step
    count = -((first - interval.end) // step)
    return [first + number * step for number in range(count)]


def _tells(text: Text, moment: datetime, unit: str, values: Sequence[int]) -> bool:
    """Return True if *text* differs between *moment* and the same moment with other *values* of *unit*."""
    given = text(moment)
    others: list[dict[str, Any]] = [{unit: value} for value in values]
    return any(text(moment.replace(**other)) != given for other in others)


def _parts(moments: Sequence[datetime]) -> list[tuple[datetime, datetime]]:
    """Return the intervals between two of *moments*, the shortest first, at most :data:`MOST_PLACES`."""
    found: list[tuple[datetime, datetime]] = []
    for width in range(1, len(moments)):
        found += zip(moments, moments[width:], strict=False)
        if len(found) >= MOST_PLACES:
            break
    return found[:MOST_PLACES]
