"""The demo's transforms, in both kinds of Spark session, against totals of the source files."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from demo import books, landing, source
from demo.books import BookTotals
from demo.measures import COLUMNS, measure
from demo.source import Days
from demo.totals import SourceTotals
from spark_jobs import nyc_landing, nyc_transforms, word_epochs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAYS = Days(first=source.BLIZZARD, count=2)


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("landing")
    assert landing.land(folder, DAYS) == 2 + 48
    return folder


@pytest.fixture(autouse=True)
def functions_of_the_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """``pyspark.sql.functions`` makes columns for the session in use, as in a task of its own."""
    if "connect" in type(spark).__module__:
        monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    else:
        monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)


def measured(table: str, rows: DataFrame) -> dict[str, int]:
    return measure(table, rows.select(*COLUMNS[table]).toArrow())


@pytest.mark.slow
def test_all_tables_agree_with_the_source(spark: SparkSession, landed: Path) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    flight_files = [str(path) for path in sorted((landed / "flights").iterdir())]
    weather_files = [str(path) for path in sorted((landed / "weather").iterdir())]
    flights = nyc_transforms.flights(nyc_landing.flights(spark, flight_files))
    weather = nyc_transforms.weather(nyc_landing.weather(spark, weather_files))
    carriers = nyc_transforms.carrier_daily(flights)
    routes = nyc_transforms.route_daily(flights)
    delays = nyc_transforms.delay_by_weather(flights, weather, last_day=DAYS.last)
    report = nyc_transforms.daily_report(carriers, routes, delays, last_day=DAYS.last)
    none_yet = spark.createDataFrame([], nyc_transforms.CARRIER_TO_DATE)
    first_day = nyc_transforms.carrier_to_date(none_yet, carriers.where(carriers["day"] == DAYS.first))
    to_date = nyc_transforms.carrier_to_date(first_day, carriers.where(carriers["day"] == DAYS.last))
    found = {
        "weather": weather,
        "flights": flights,
        "carrier_daily": carriers,
        "route_daily": routes,
        "delay_by_weather": delays,
        "daily_report": report,
        "carrier_to_date": to_date,
        "carrier_three_days": nyc_transforms.carrier_three_days(carriers, last_day=DAYS.last),
        "airport_weekly": nyc_transforms.airport_weekly(routes, weather, last_day=DAYS.last),
    }
    assert {table: measured(table, rows) for table, rows in found.items()} == SourceTotals.of(DAYS).up_to(
        DAYS.end
    )


def test_a_day_is_added_to_each_carrier_and_no_carrier_is_lost(spark: SparkSession) -> None:
    schema = nyc_transforms.CARRIER_TO_DATE
    before = spark.createDataFrame([("EV", 10, 2, 900, 5.0), ("HA", 1, 0, 4983, None)], schema)
    today = spark.createDataFrame([("2013-02-09", "EV", 3, 3, 300, None)], "day string, " + schema)
    found = nyc_transforms.carrier_to_date(before, today).collect()
    assert sorted(tuple(row) for row in found) == [("EV", 13, 5, 1200, 5.0), ("HA", 1, 0, 4983, None)]


def test_an_airport_without_weather_or_without_flights_stays_in_its_week(spark: SparkSession) -> None:
    routes = spark.createDataFrame(
        [("EWR", "SFO", 2, 1, 10, 1.0), ("EWR", "BOS", 3, 0, 20, 2.0)],
        "origin string, dest string, flights long, cancelled long, distance long, dep_delay_min double",
    )
    weather = spark.createDataFrame(
        [("JFK", 0.5), ("JFK", 10.0), ("JFK", None)], "origin string, visibility_mi double"
    )
    week = nyc_transforms.airport_weekly(routes, weather, last_day=DAYS.last)
    found = week.select("origin", "flights", "cancelled", "distance", "reports", "low_visibility_reports")
    assert sorted(tuple(row) for row in found.collect()) == [("EWR", 5, 1, 30, 0, 0), ("JFK", 0, 0, 0, 3, 1)]


@pytest.mark.slow
def test_the_word_tables_of_two_books_agree_with_the_text(spark: SparkSession, tmp_path: Path) -> None:
    day = Days(first=DAYS.first, count=1)
    books.land(tmp_path, day)
    genesis, exodus = sorted((tmp_path / "books").iterdir())[:2]
    counts = spark.createDataFrame([], word_epochs.WORDS)
    for number, book in enumerate((genesis, exodus), start=1):
        of_book = word_epochs.words_of(spark.read.text(str(book)))
        counts = word_epochs.counted(counts, of_book)
        found = {
            "word_counts": measured("word_counts", counts),
            "count_of_counts": measured("count_of_counts", word_epochs.count_of_counts(counts)),
        }
        expected = BookTotals.of(day).up_to(day.start + number * books.EVERY)
        assert found == {table: expected[table] for table in found}
    assert counts.where(counts["word"] == "the").collect() == [("the", 5571)]


def test_the_blizzard_is_in_the_source() -> None:
    totals = SourceTotals.of(DAYS)
    first_day = totals.up_to(DAYS.start + timedelta(days=1))["flights"]
    both_days = totals.up_to(DAYS.end)["flights"]
    assert (first_day["flights"], first_day["cancelled"]) == (929, 332)
    assert (both_days["flights"], both_days["cancelled"]) == (1677, 852)


def test_flights_without_weather_are_kept(spark: SparkSession, landed: Path) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    flights = nyc_transforms.flights(nyc_landing.flights_of_day(spark, str(landed), DAYS.first))
    weather = nyc_transforms.weather(nyc_landing.weather_of_day(spark, str(landed), DAYS.last))
    seen = measured(
        "delay_by_weather", nyc_transforms.delay_by_weather(flights, weather, last_day=DAYS.first)
    )
    assert seen["without_weather"] == seen["flights"] == 929
