"""What the demo's tables must hold, computed from the source files alone.

Readers compare what they read with :meth:`SourceTotals.up_to`. A table's *measures* are integers, so that equality is
exact; the same measures appear in several tables, which ties the tables together.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path

from demo import source
from demo.source import WEEK, Days, Row

Measures = dict[str, int]
"""A table's totals by name."""

LOW_VISIBILITY_MILES = 3.0
FLIGHT_MEASURES = ("flights", "cancelled", "distance")
WEATHER_MEASURES = ("reports", "low_visibility_reports")

TABLES: dict[str, tuple[str, ...]] = {
    "weather": WEATHER_MEASURES,
    "flights": FLIGHT_MEASURES,
    "carrier_daily": FLIGHT_MEASURES,
    "route_daily": FLIGHT_MEASURES,
    "delay_by_weather": (*FLIGHT_MEASURES, "low_visibility", "without_weather"),
    "daily_report": (
        "flights_by_carrier",
        "flights_by_route",
        "flights_by_weather",
        "cancelled_by_carrier",
        "cancelled_by_route",
        "cancelled_by_weather",
    ),
    "carrier_to_date": FLIGHT_MEASURES,
    "carrier_three_days": FLIGHT_MEASURES,
    "airport_weekly": (*FLIGHT_MEASURES, *WEATHER_MEASURES),
}
"""Each table's measures."""

WEEKLY_TABLES = ("airport_weekly",)
"""Tables that have a barrier each week; the others have one a day, ``weather`` one an hour."""

SPANS = {"carrier_three_days": timedelta(days=3), "airport_weekly": WEEK}
"""How long before a barrier the rows of a table begin; those of the others begin with the source."""


class SourceTotals:
    """Totals of the rows before a barrier, for every table.

    :param by_hour: measures of the rows of each hour.
    """

    def __init__(self, by_hour: Mapping[datetime, Measures]) -> None:
        self._by_hour = dict(sorted(by_hour.items()))
        self._hours = list(self._by_hour)
        self._sums: list[Counter[str]] = [Counter()]
        for measures in self._by_hour.values():
            self._sums.append(self._sums[-1] + Counter(measures))

    @classmethod
    def of(cls, days: Days, *, corrected: Collection[date] = ()) -> SourceTotals:
        """Compute them from the source files.

        :param days: the days that the tables begin and end with. :param corrected: those whose flights were corrected.
        """
        by_hour: dict[datetime, Counter[str]] = defaultdict(Counter)
        visibility: dict[tuple[str, str], float | None] = {}
        for report in source.weather(days):
            visibility[report["origin"], report["time_hour"]] = _visibility(report)
            by_hour[source.hour_of(report)].update(_of_weather(report))
        for flight in source.flights(days, corrected=corrected):
            by_hour[source.hour_of(flight)].update(_of_flight(flight, visibility))
        return cls(by_hour)

    def save(self, path: Path) -> None:
        """Keep them in a file, for readers in other processes."""
        path.write_text(json.dumps({hour.isoformat(): measures for hour, measures in self._by_hour.items()}))

    @classmethod
    def load(cls, path: Path) -> SourceTotals:
        """Take them from a file that :meth:`save` wrote."""
        stored = json.loads(path.read_text())
        return cls({datetime.fromisoformat(hour): measures for hour, measures in stored.items()})

    def up_to(self, barrier: datetime) -> dict[str, Measures]:
        """Give every table's measures over the rows with an hour before a barrier: all, or those of its span.

        :param barrier: aware; the whole hour or midnight that an epoch ends at.
        """
        return {
            table: self._between(barrier - SPANS[table] if table in SPANS else None, barrier, names)
            for table, names in TABLES.items()
        }

    def _between(self, low: datetime | None, high: datetime, names: Iterable[str]) -> Measures:
        sums = self._sums[bisect_left(self._hours, high)]
        earlier = self._sums[0 if low is None else bisect_left(self._hours, low)]
        return {name: sums[_base(name)] - earlier[_base(name)] for name in names}


def _of_weather(report: Row) -> dict[str, int]:
    return {"reports": 1, "low_visibility_reports": int(_is_low(_visibility(report)))}


def _of_flight(flight: Row, visibility: dict[tuple[str, str], float | None]) -> dict[str, int]:
    seen = visibility.get((flight["origin"], flight["time_hour"]))
    return {
        "flights": 1,
        "cancelled": int(source.cancelled(flight)),
        "distance": int(flight["distance"]),
        "low_visibility": int(_is_low(seen)),
        "without_weather": int(seen is None),
    }


def _base(measure: str) -> str:
    """Give the source's measure that a report's column repeats: ``flights_by_route`` is ``flights``."""
    return measure.partition("_by_")[0]


def _is_low(visibility: float | None) -> bool:
    return visibility is not None and visibility < LOW_VISIBILITY_MILES


def _visibility(report: Row) -> float | None:
    return None if report["visib"] in ("", source.ABSENT) else float(report["visib"])
