"""The interval that a run computes: explicit, else partition key, causing events, data interval, or the run's date.

Pure functions of Airflow's facts about a run. :func:`run_interval` returns the whole interval; ``cadence.split`` cuts
it into the job's epochs.

A partition key names the interval that *starts* there, as Airflow's ``StartOf…Mapper`` do. A key written as a
year, quarter, month, week or day names all of it, however many epochs it holds; a key with a time of day names
the one interval of the run's calendar that starts then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

import pendulum

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Cadence, Interval, as_utc

IntervalText = str
"""``start/end``, or one key: ``2013``, ``2013-Q1``, ``2013-02``, ``2013-W06``, ``2013-02-04 (W06)``,
``2013-02-07``, ``2013-02-07T05``, or any ISO 8601 time. Without an offset it is local time of the calendar."""

ExplicitInterval = Interval | Sequence[datetime | str] | IntervalText

_DAYS = Cadence("@daily")
_EXPECTED_TEXT = (
    "start/end, or the start of an interval, written like 2013-02-07, 2013-02, 2013-Q1, 2013-W06, "
    "2013-02-07T05 or 2013-02-07T05:00:00+00:00"
)
_EXPECTED_TIME = "a time, written like 2013-02-08 (its midnight), 2013-02-08T05 or 2013-02-08T05:00:00+00:00"


def run_interval(
    cadence: Cadence,
    *,
    explicit: ExplicitInterval | None = None,
    partition_key: str | None = None,
    data_interval: tuple[datetime, datetime] | None = None,
    run_date: datetime | None = None,
    batch: Cadence | None = None,
) -> Interval:
    """Return the interval that a run computes; both ends are barriers of *cadence*.

    The first that is given decides: *explicit*, *partition_key*, a *data_interval* that is not empty, *run_date*.

    :param cadence: the job's calendar.
    :param explicit: interval that the DAG's author wrote; empty text counts as none: a template may render to it.
    :param partition_key: of the run.
    :param data_interval: of the run; Airflow 3's cron schedules make it empty, which counts as none.
    :param run_date: logical date, or its substitute: the run computes the last interval that ended by then.
    :param batch: calendar of the runs, if one run computes several epochs (``@daily`` over an hourly job).
    :raises InvalidInput: names the value that cannot be parsed, or does not lie on the job's calendar.
    """
    runs = batch or cadence
    if explicit is not None and explicit != "":
        return on_calendar(cadence, _explicit(runs, explicit), "interval", explicit)
    if partition_key:
        return on_calendar(
            cadence, _keyed(runs, partition_key, "partition_key"), "partition_key", partition_key
        )
    if data_interval is not None and as_utc(data_interval[0], "start") != as_utc(data_interval[1], "end"):
        given = Interval(*data_interval)
        return on_calendar(cadence, given, "data_interval", str(given))
    if run_date is not None:
        moment = as_utc(run_date, "run_date")
        return on_calendar(cadence, runs.ended_by(moment), "batch", str(runs))
    raise InvalidInput(
        field="interval",
        value=None,
        expected="an explicit interval, a partition key, a data interval or a run's date",
        next_step="pass interval= to the task: runs without a date cannot say which epoch they mean.",
    )


def published_intervals(extra: Mapping[str, Any]) -> list[Interval]:
    """Return the epochs that the *extra* of an event names; none for an event that this package did not send."""
    entries = extra.get("epochs")
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return []
    try:
        ends = [
            (datetime.fromisoformat(entry["start"]), datetime.fromisoformat(entry["end"]))
            for entry in entries
        ]
        return [Interval(start, end) for start, end in ends]
    except (InvalidInput, KeyError, TypeError, ValueError):
        return []


def caused_intervals(runs: Cadence, events: Iterable[Interval]) -> list[Interval]:
    """Return the intervals of a run that assets' events have started (R37); intervals that touch are joined.

    An event of ``[start, end)`` causes the intervals of *runs* that end within ``(start, end]``: on the same calendar
    the same interval, on a finer one all intervals within it, on a coarser one the interval that it completes, if any.
    The result depends on the events alone, not on the clock or their order.

    :param runs: calendar of the runs: ``batch``, or the job's own.
    """
    ends: set[datetime] = set()
    for event in events:
        end = runs.next_after(event.start)
        while end <= event.end:
            ends.add(end)
            end = runs.next_after(end)
    joined: list[Interval] = []
    for end in sorted(ends):
        start = runs.last_before(end)
        if joined and joined[-1].end == start:
            start = joined.pop().start
        joined.append(Interval(start, end))
    return joined


def run_barrier(
    cadence: Cadence | None = None,
    *,
    explicit: Interval | datetime | str | None = None,
    partition_key: str | None = None,
    data_interval: tuple[datetime, datetime] | None = None,
    run_date: datetime | None = None,
) -> datetime:
    """Return the barrier at which a run reads: the end of what it would compute.

    :param cadence: calendar of the runs. Without one it is the end of the run's data interval, or the run's date
        itself; of an empty interval and a date the earlier one.
    :param explicit: a barrier, as a time or text (``2013-02-08`` is its midnight), or the interval that it ends.
    :raises InvalidInput: names the value that cannot be parsed.
    """
    if isinstance(explicit, Interval):
        return explicit.end
    if explicit is not None and explicit != "":
        return _end(cadence or _DAYS, explicit, "at", _EXPECTED_TIME)
    if cadence is not None:
        return run_interval(
            cadence, partition_key=partition_key, data_interval=data_interval, run_date=run_date
        ).end
    if partition_key:
        return _keyed(_DAYS, partition_key, "partition_key").end
    moment = data_interval[1] if data_interval is not None else run_date
    if data_interval is not None and run_date is not None and data_interval[0] == data_interval[1]:
        # `airflow dags trigger --logical-date` leaves an empty interval at the moment of the command.
        moment = min(as_utc(data_interval[1], "at"), as_utc(run_date, "run_date"))
    if moment is None:
        raise InvalidInput(
            field="at",
            value=None,
            expected="a barrier, a partition key, a data interval or a run's date",
            next_step="pass at= to the task: runs without a date cannot say up to when they read.",
        )
    return as_utc(moment, "at")


def on_calendar(cadence: Cadence, interval: Interval, field: str, value: object) -> Interval:
    """Return *interval*, whose ends lie on the job's calendar.

    :param field: name of the field in the error. :param value: value of the field in the error.
    :raises InvalidInput: an end lies within an epoch.
    """
    for moment in (interval.start, interval.end):
        if not cadence.is_barrier(moment):
            raise InvalidInput(
                field=field,
                value=value,
                expected=f"an interval whose ends lie on the job's cadence {cadence}; {moment.isoformat()} does not",
                next_step="choose an interval made of whole epochs, or correct the cadence, batch or schedule.",
            )
    return interval


def _explicit(runs: Cadence, given: ExplicitInterval) -> Interval:
    if isinstance(given, Interval):
        return given
    if isinstance(given, str):
        return _keyed(runs, given, "interval")
    if isinstance(given, Sequence) and len(given) == 2:
        start, end = (_end(runs, bound, "interval") for bound in given)
        return Interval(start, end)
    raise InvalidInput(
        field="interval", value=given, expected=f"an Interval, a pair (start, end), or text: {_EXPECTED_TEXT}"
    )


def _end(runs: Cadence, value: object, field: str, expected: str = _EXPECTED_TEXT) -> datetime:
    """Return one end of an interval, given as an aware datetime or as text."""
    if not isinstance(value, str):
        return as_utc(value, field)
    return _named(runs, value, field, expected).start


def _keyed(runs: Cadence, text: str, field: str) -> Interval:
    if text.count("/") == 1:
        start, end = (_end(runs, bound, field) for bound in text.split("/"))
        return Interval(start, end)
    named = _named(runs, text, field)
    if runs.is_barrier(named.start):
        end = runs.next_after(named.start)
        return Interval(named.start, end if named.end is None else max(named.end, end))
    if named.end is not None:
        return Interval(named.start, named.end)
    raise InvalidInput(
        field=field,
        value=text,
        expected=f"the start of an interval of {runs}, such as {runs.floor(named.start).isoformat()}",
        next_step="a key names the interval that starts there, not a time within it.",
    )


# --- text --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Named:
    """A moment, or a whole calendar period, that a text names.

    :param end: None for a moment.
    """

    start: datetime
    end: datetime | None = None


def _named(runs: Cadence, text: str, field: str, expected: str = _EXPECTED_TEXT) -> _Named:
    stripped = text.strip()
    try:
        for pattern, period in _PERIODS:
            if match := pattern.fullmatch(stripped):
                first, after = period(*match.groups())
                return _Named(_local_midnight(runs, first), _local_midnight(runs, after))
        return _Named(_moment(runs, stripped, field))
    except InvalidInput:
        raise
    except (ValueError, OverflowError) as error:
        raise InvalidInput(field=field, value=text, expected=expected) from error


def _moment(runs: Cadence, text: str, field: str) -> datetime:
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is not None:
        return as_utc(parsed)
    zone = cast("Any", pendulum.timezone(runs.timezone))
    early, late = (as_utc(parsed.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    if early != late:
        raise InvalidInput(
            field=field,
            value=text,
            expected=f"a time that exists once in {runs.timezone}; clocks change there then",
            next_step="write the offset, for example +00:00.",
        )
    return early


def _local_midnight(runs: Cadence, day: date) -> datetime:
    zone = cast("Any", pendulum.timezone(runs.timezone))
    return as_utc(datetime(day.year, day.month, day.day, tzinfo=UTC).replace(tzinfo=zone))


def _year(year: str) -> tuple[date, date]:
    return date(int(year), 1, 1), date(int(year) + 1, 1, 1)


def _quarter(year: str, quarter: str) -> tuple[date, date]:
    first = date(int(year), 3 * int(quarter) - 2, 1)
    return first, _month_after(date(int(year), 3 * int(quarter), 1))


def _month(year: str, month: str) -> tuple[date, date]:
    first = date(int(year), int(month), 1)
    return first, _month_after(first)


def _month_after(first: date) -> date:
    return date(first.year + first.month // 12, first.month % 12 + 1, 1)


def _iso_week(year: str, week: str) -> tuple[date, date]:
    monday = date.fromisocalendar(int(year), int(week), 1)
    return monday, monday + timedelta(weeks=1)


def _week_from(day: str, week: str) -> tuple[date, date]:
    first = date.fromisoformat(day)
    if first.isocalendar().week != int(week):
        raise ValueError(f"{day} is not in week {week}")
    return first, first + timedelta(weeks=1)


def _day(day: str) -> tuple[date, date]:
    first = date.fromisoformat(day)
    return first, first + timedelta(days=1)


_PERIODS: tuple[tuple[re.Pattern[str], Callable[..., tuple[date, date]]], ...] = (
    (re.compile(r"(\d{4})", re.ASCII), _year),
    (re.compile(r"(\d{4})-Q([1-4])", re.ASCII), _quarter),
    (re.compile(r"(\d{4})-(\d{2})", re.ASCII), _month),
    (re.compile(r"(\d{4})-W(\d{2})", re.ASCII), _iso_week),
    (re.compile(r"(\d{4}-\d{2}-\d{2}) \(W(\d{2})\)", re.ASCII), _week_from),
    (re.compile(r"(\d{4}-\d{2}-\d{2}|\d{8})", re.ASCII), _day),
)
