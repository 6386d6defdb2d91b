"""The landing zone: the source's rows as files that arrive, one a day for flights and one an hour for weather."""

from __future__ import annotations

import csv
from datetime import timedelta
from pathlib import Path

from demo import source
from demo.source import Days, Row

FLIGHTS = "flights/{:%Y-%m-%d}.csv"
WEATHER = "weather/{:%Y-%m-%dT%H}.csv"


def land(folder: Path, days: Days) -> int:
    """Write the files of some days; an hour without weather gets a file without rows.

    :param folder: the landing zone.
    :returns: how many files there are.
    """
    by_day: dict[str, list[Row]] = {FLIGHTS.format(day): [] for day in days}
    for row in source.flights(days):
        by_day[FLIGHTS.format(source.hour_of(row))].append(row)
    hours = (days.start + timedelta(hours=hour) for hour in range(24 * days.count))
    by_hour: dict[str, list[Row]] = {WEATHER.format(hour): [] for hour in hours}
    for row in source.weather(days):
        by_hour[WEATHER.format(source.hour_of(row))].append(row)
    for files in (by_day, by_hour):
        _write(folder, files)
    return len(by_day) + len(by_hour)


def _write(folder: Path, files: dict[str, list[Row]]) -> None:
    header = list(next(row for rows in files.values() for row in rows))
    for name, rows in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", newline="") as lines:
            writer = csv.DictWriter(lines, header)
            writer.writeheader()
            writer.writerows(rows)
