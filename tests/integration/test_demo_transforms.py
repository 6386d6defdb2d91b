"""The demo's transforms, in both kinds of Spark session, against totals of the source files."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from demo import landing, source
from demo.measures import COLUMNS, measure
from demo.source import Days
from demo.totals import SourceTotals
from spark_jobs import nyc_landing, nyc_transforms

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
    found = {
        "weather": weather,
        "flights": flights,
        "carrier_daily": carriers,
        "route_daily": routes,
        "delay_by_weather": delays,
        "daily_report": report,
    }
    assert {table: measured(table, rows) for table, rows in found.items()} == SourceTotals.of(DAYS).up_to(
        DAYS.end
    )


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
