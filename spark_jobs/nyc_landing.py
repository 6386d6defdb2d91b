"""Reading the landing zone of the New York pipeline: CSV files, one a day for flights and one an hour for weather."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from pyspark.sql import DataFrame, SparkSession

FLIGHTS = """
    year INT, month INT, day INT, dep_time DOUBLE, sched_dep_time INT, dep_delay DOUBLE, arr_time DOUBLE,
    sched_arr_time INT, arr_delay DOUBLE, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
    air_time DOUBLE, distance INT, hour INT, minute INT, time_hour TIMESTAMP
"""
"""Columns of a flights file. Numbers that may be absent are written as ``517.0``, so they are DOUBLE."""

WEATHER = """
    origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE, wind_dir DOUBLE,
    wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE, time_hour TIMESTAMP
"""
"""Columns of a weather file."""


def flights(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Read flights files.

    :param files: paths or URIs.
    """
    return _read(spark, files, FLIGHTS)


def weather(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Read weather files.

    :param files: paths or URIs.
    """
    return _read(spark, files, WEATHER)


def flights_of_day(spark: SparkSession, landing: str, day: date) -> DataFrame:
    """Read the flights that landed for a day.

    :param landing: path or URI of the landing zone.
    """
    return _read(spark, [f"{landing}/flights/{day:%Y-%m-%d}.csv"], FLIGHTS)


def weather_of_day(spark: SparkSession, landing: str, day: date) -> DataFrame:
    """Read the weather that landed for all hours of a day.

    :param landing: path or URI of the landing zone.
    """
    return _read(spark, [f"{landing}/weather"], WEATHER, names=f"{day:%Y-%m-%d}T*.csv")


def _read(spark: SparkSession, files: Sequence[str], schema: str, *, names: str = "*.csv") -> DataFrame:
    return spark.read.csv(
        list(files), schema=schema, header=True, nullValue="NA", mode="FAILFAST", pathGlobFilter=names
    )
