"""What the New York pipeline computes: pure functions from DataFrames to DataFrames.

The same functions serve the pipeline that uses the package and the one that does not.
"""

from __future__ import annotations

from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

LOW_VISIBILITY_MILES = 3.0
CLEAR_VISIBILITY_MILES = 10.0
STATION_HOUR = ["origin", "time_hour"]
SUMS = ["flights", "cancelled", "distance", "dep_delay_min"]
CARRIER_TO_DATE = "carrier string, flights long, cancelled long, distance long, dep_delay_min double"
"""Columns of ``carrier_to_date``, for the day on which there is none yet."""


def weather(landed: DataFrame) -> DataFrame:
    """Give one row per station and hour: what is measured that can delay a flight."""
    return landed.select(
        F.to_date("time_hour").alias("day"),
        "time_hour",
        "origin",
        F.col("temp").alias("temperature_f"),
        F.col("wind_speed").alias("wind_mph"),
        F.col("precip").alias("rain_in"),
        F.col("visib").alias("visibility_mi"),
    )


def flights(landed: DataFrame) -> DataFrame:
    """Give one row per flight; one that never departed is cancelled."""
    return landed.select(
        F.to_date("time_hour").alias("day"),
        "time_hour",
        "carrier",
        F.col("flight").alias("flight_number"),
        "tailnum",
        "origin",
        "dest",
        F.col("dep_time").isNull().alias("cancelled"),
        F.col("dep_delay").alias("dep_delay_min"),
        F.col("distance").alias("distance_mi"),
    )


def carrier_daily(flights: DataFrame) -> DataFrame:
    """Give one row per day and carrier."""
    return flights.groupBy("day", "carrier").agg(*_flight_totals())


def route_daily(flights: DataFrame) -> DataFrame:
    """Give one row per day and route."""
    return flights.groupBy("day", "origin", "dest").agg(*_flight_totals())


def delay_by_weather(flights: DataFrame, weather: DataFrame, *, last_day: date) -> DataFrame:
    """Give flights to date per airport and visibility, the weather of the hour in which each was to depart.

    Flights without weather are kept, with the visibility ``unknown``.

    :param flights: all flights to date.
    :param weather: all weather to date.
    :param last_day: the last day that is in.
    """
    visibility = weather.select(*STATION_HOUR, "visibility_mi")
    joined = flights.join(visibility, on=STATION_HOUR, how="left")
    return (
        joined.withColumn("visibility", _visibility_band(F.col("visibility_mi")))
        .groupBy("origin", "visibility")
        .agg(*_flight_totals())
        .select(
            F.lit(last_day).alias("as_of"),
            "origin",
            "visibility",
            "flights",
            "cancelled",
            "distance",
            "dep_delay_min",
        )
    )


def daily_report(
    carrier_daily: DataFrame, route_daily: DataFrame, delay_by_weather: DataFrame, *, last_day: date
) -> DataFrame:
    """Give the totals to date, counted in three ways: by carrier, by route and by weather. One row.

    :param carrier_daily: all days to date.
    :param route_daily: all days to date.
    :param delay_by_weather: its newest state.
    :param last_day: the last day that is in.
    """
    ways = {"carrier": carrier_daily, "route": route_daily, "weather": delay_by_weather}
    totals = [_counted(way, counted) for way, counted in ways.items()]
    return (
        totals[0]
        .crossJoin(totals[1])
        .crossJoin(totals[2])
        .select(
            F.lit(last_day).alias("as_of"),
            *[f"flights_by_{way}" for way in ways],
            *[f"cancelled_by_{way}" for way in ways],
            F.round(F.col("cancelled_by_carrier") / F.col("flights_by_route"), 5).alias("cancellation_rate"),
        )
    )


def carrier_to_date(before: DataFrame, today: DataFrame) -> DataFrame:
    """Add a day to the totals of all days before it, per carrier.

    :param before: what this function gave for the day before.
    :param today: the day's ``carrier_daily``.
    """
    return _summed(before.unionByName(today.select(*before.columns)), "carrier")


def carrier_three_days(recent: DataFrame, *, last_day: date) -> DataFrame:
    """Give the totals of the last three days per carrier.

    :param recent: ``carrier_daily`` of these days.
    :param last_day: the last of them.
    """
    return _summed(recent, "carrier").withColumn("as_of", F.lit(last_day))


def airport_weekly(route_daily: DataFrame, weather: DataFrame, *, last_day: date) -> DataFrame:
    """Give a week's flights per airport beside its weather.

    :param route_daily: of the week's days.
    :param weather: of the week's hours.
    :param last_day: the week's last day.
    """
    is_low = F.col("visibility_mi") < LOW_VISIBILITY_MILES
    reports = weather.groupBy("origin").agg(
        F.count(F.lit(1)).alias("reports"), F.count_if(is_low).alias("low_visibility_reports")
    )
    joined = _summed(route_daily, "origin").join(reports, on="origin", how="full")
    return joined.na.fill(0).withColumn("as_of", F.lit(last_day))


def _summed(counted: DataFrame, by: str) -> DataFrame:
    return counted.groupBy(by).agg(*[F.sum(name).alias(name) for name in SUMS])


def _flight_totals() -> list[Column]:
    return [
        F.count(F.lit(1)).alias("flights"),
        F.count_if(F.col("cancelled")).alias("cancelled"),
        F.sum(F.col("distance_mi").cast("long")).alias("distance"),
        F.sum("dep_delay_min").alias("dep_delay_min"),
    ]


def _visibility_band(visibility: Column) -> Column:
    return (
        F.when(visibility.isNull(), F.lit("unknown"))
        .when(visibility < LOW_VISIBILITY_MILES, F.lit("low"))
        .when(visibility < CLEAR_VISIBILITY_MILES, F.lit("fair"))
        .otherwise(F.lit("clear"))
    )


def _counted(way: str, counted: DataFrame) -> DataFrame:
    """Sum a table's flights and cancelled flights into one row, named after the way of counting."""
    return counted.agg(
        F.coalesce(F.sum("flights"), F.lit(0)).alias(f"flights_by_{way}"),
        F.coalesce(F.sum("cancelled"), F.lit(0)).alias(f"cancelled_by_{way}"),
    )
