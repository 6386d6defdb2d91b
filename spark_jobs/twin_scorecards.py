"""The naive twin: a day's scorecards, two tables by one job."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from spark_jobs import nyc_transforms, twin_tables


def main(argv: Sequence[str]) -> None:
    """Write one day of ``carrier_daily`` and of ``route_daily``."""
    given = twin_tables.arguments(argv)
    spark = twin_tables.session("twin_scorecards")
    flights = spark.read.parquet(f"{given.warehouse}/flights").where(F.col("day") == F.lit(given.day))
    twin_tables.overwrite_day(nyc_transforms.carrier_daily(flights), given.warehouse, "carrier_daily")
    twin_tables.overwrite_day(nyc_transforms.route_daily(flights), given.warehouse, "route_daily")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
