"""The landing zone: the source's rows as files that arrive, one a day for flights and one an hour for weather.

The books of :mod:`demo.books` land beside them.

``python -m demo.landing FOLDER --days N`` writes it without a demo, for a deployment's example DAGs.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Collection, Sequence
from datetime import date, timedelta
from pathlib import Path

from demo import books, source
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


def replace(folder: Path, days: Days, replaced: Collection[date], *, corrected: bool) -> None:
    """Write the flights of some of *days* again.

    :param corrected: without those that were sent by mistake.
    """
    by_day: dict[str, list[Row]] = {FLIGHTS.format(day): [] for day in replaced}
    for row in source.flights(days, corrected=replaced if corrected else ()):
        if source.hour_of(row).date() in replaced:
            by_day[FLIGHTS.format(source.hour_of(row))].append(row)
    _write(folder, by_day)


def _write(folder: Path, files: dict[str, list[Row]]) -> None:
    header = list(next(row for rows in files.values() for row in rows))
    for name, rows in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", newline="") as lines:
            writer = csv.DictWriter(lines, header)
            writer.writeheader()
            writer.writerows(rows)


def arguments() -> argparse.ArgumentParser:
    """What the command takes."""
    parser = argparse.ArgumentParser(prog="python -m demo.landing", description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=int, default=7)
    return parser


def main(argv: Sequence[str]) -> None:
    """Write the files of the days that end with the blizzard."""
    given = arguments().parse_args(argv)
    days = Days.through_blizzard(given.days)
    count = land(given.folder, days) + books.land(given.folder, days)
    print(f"{count} files of {days.first} to {days.last} in {given.folder}")


if __name__ == "__main__":
    main(sys.argv[1:])
