"""The naive twin's tables: Parquet folders, written as Spark's documentation says.

Each construct names the page of the documentation that it follows (Spark 4.1, https://spark.apache.org/docs/latest/).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention


@dataclass(frozen=True, kw_only=True, slots=True)
class TwinArguments:
    """What Airflow passes to each of the twin's programs.

    :param landing: where files land.
    :param warehouse: folder of the tables.
    :param day: the day to compute.
    """

    landing: str
    warehouse: str
    day: date


def arguments(argv: Sequence[str]) -> TwinArguments:
    """Parse ``--landing --warehouse --day``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--landing", required=True)
    parser.add_argument("--warehouse", required=True)
    parser.add_argument("--day", required=True, type=date.fromisoformat)
    parsed = parser.parse_args(argv)
    return TwinArguments(landing=parsed.landing, warehouse=parsed.warehouse, day=parsed.day)


def session(name: str) -> SparkSession:
    """Open a session.

    "Getting Started: Starting Point: SparkSession" (sql-getting-started.html).
    """
    return SparkSession.builder.appName(name).getOrCreate()


def read_to_date(spark: SparkSession, warehouse: str, table: str, day: date) -> DataFrame:
    """Read the partitions up to a day.

    "Parquet Files: Partition Discovery" (sql-data-sources-parquet.html): the folder's ``day=`` becomes a column, and
    only the partitions that the filter admits are read.
    """
    return spark.read.parquet(f"{warehouse}/{table}").where(F.col("day") <= F.lit(day))


def overwrite_day(rows: DataFrame, warehouse: str, table: str) -> None:
    """Replace the partitions that rows belong to, so that a retry leaves no duplicates.

    "Generic Load/Save Functions: Save Modes" (sql-data-sources-load-save-functions.html) for overwrite;
    "Configuration: spark.sql.sources.partitionOverwriteMode" (configuration.html) for dynamic, which keeps the other
    days.
    """
    writer = rows.coalesce(1).write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy("day").parquet(f"{warehouse}/{table}")


def overwrite(rows: DataFrame, warehouse: str, table: str) -> None:
    """Replace a whole table: its rows are totals to date, not of one day.

    "Generic Load/Save Functions: Save Modes" (sql-data-sources-load-save-functions.html).
    """
    rows.coalesce(1).write.mode("overwrite").parquet(f"{warehouse}/{table}")
