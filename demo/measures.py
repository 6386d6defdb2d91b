"""What a reader measures of the rows that it read: the integers that are known from the source."""

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
    "carrier_to_date": list(FLIGHT_MEASURES),
    "carrier_three_days": list(FLIGHT_MEASURES),
    "airport_weekly": list(TABLES["airport_weekly"]),
    "book_words": ["uses"],
    "word_counts": ["uses"],
    "count_of_counts": ["uses", "words"],
}
"""The columns that a measure needs, by table."""


def measure(table: str, rows: pa.Table) -> Measures:
    """Measure a table's rows.

    :param table: a name of :data:`demo.totals.TABLES` or :data:`demo.books.TABLES`.
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


def _summed(*names: str) -> Callable[[pa.Table], Measures]:
    """Measure a table whose columns are the measures."""
    return lambda rows: {name: _sum(rows[name]) for name in names}


_flight_totals = _summed(*FLIGHT_MEASURES)


def _delay_by_weather(rows: pa.Table) -> Measures:
    def flights_of(band: str) -> int:
        return _sum(rows.filter(pc.equal(rows["visibility"], band))["flights"])

    return {
        **_flight_totals(rows),
        "low_visibility": flights_of("low"),
        "without_weather": flights_of("unknown"),
    }


def _book_words(rows: pa.Table) -> Measures:
    return {"words": _sum(rows["uses"])}


def _word_counts(rows: pa.Table) -> Measures:
    return {"words": _sum(rows["uses"]), "different": rows.num_rows}


def _count_of_counts(rows: pa.Table) -> Measures:
    return {
        "words": _sum(pc.multiply(rows["uses"], rows["words"])),
        "different": _sum(rows["words"]),
        "seen_once": _sum(rows.filter(pc.equal(rows["uses"], 1))["words"]),
    }


def _sum(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)


_MEASURED: dict[str, Callable[[pa.Table], Measures]] = {
    "weather": _weather,
    "flights": _flights,
    "carrier_daily": _flight_totals,
    "route_daily": _flight_totals,
    "delay_by_weather": _delay_by_weather,
    "daily_report": _summed(*TABLES["daily_report"]),
    "carrier_to_date": _flight_totals,
    "carrier_three_days": _flight_totals,
    "airport_weekly": _summed(*TABLES["airport_weekly"]),
    "book_words": _book_words,
    "word_counts": _word_counts,
    "count_of_counts": _count_of_counts,
}
