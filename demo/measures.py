"""What a reader measures of the rows that it read: the integers that :mod:`demo.totals` has the right values of."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from demo.totals import FLIGHT_MEASURES, LOW_VISIBILITY_MILES, TABLES, Measures

COLUMNS: dict[str, list[str]] = {
    "weather": ["visibility_mi"],
    "flights": ["cancelled", "distance_mi"],
    "carrier_daily": list(FLIGHT_MEASURES),
    "route_daily": list(FLIGHT_MEASURES),
    "delay_by_weather": [*FLIGHT_MEASURES, "visibility"],
    "daily_report": list(TABLES["daily_report"]),
}
"""The columns that a measure needs, by table."""


def measure(table: str, rows: pa.Table) -> Measures:
    """Measure a table's rows.

    :param table: a name of :data:`demo.totals.TABLES`.
    :param rows: with at least the columns of :data:`COLUMNS`.
    """
    return _MEASURED[table](rows)


def _weather(rows: pa.Table) -> Measures:
    low = pc.less(rows["visibility_mi"], LOW_VISIBILITY_MILES)
    return {"reports": rows.num_rows, "low_visibility_reports": _sum(low)}


def _flights(rows: pa.Table) -> Measures:
    return {
        "flights": rows.num_rows,
        "cancelled": _sum(rows["cancelled"]),
        "distance": _sum(rows["distance_mi"]),
    }


def _flight_totals(rows: pa.Table) -> Measures:
    return {name: _sum(rows[name]) for name in FLIGHT_MEASURES}


def _delay_by_weather(rows: pa.Table) -> Measures:
    def flights_of(band: str) -> int:
        return _sum(rows.filter(pc.equal(rows["visibility"], band))["flights"])

    return {
        **_flight_totals(rows),
        "low_visibility": flights_of("low"),
        "without_weather": flights_of("unknown"),
    }


def _daily_report(rows: pa.Table) -> Measures:
    return {name: _sum(rows[name]) for name in TABLES["daily_report"]}


def _sum(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)


_MEASURED: dict[str, Callable[[pa.Table], Measures]] = {
    "weather": _weather,
    "flights": _flights,
    "carrier_daily": _flight_totals,
    "route_daily": _flight_totals,
    "delay_by_weather": _delay_by_weather,
    "daily_report": _daily_report,
}
