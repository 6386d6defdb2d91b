"""The naive twin: the report to date."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from spark_jobs import nyc_transforms, twin_tables


def main(argv: Sequence[str]) -> None:
    """Replace ``daily_report`` with its state up to a day."""
    given = twin_tables.arguments(argv)
    spark = twin_tables.session("twin_report")
    report = nyc_transforms.daily_report(
        twin_tables.read_to_date(spark, given.warehouse, "carrier_daily", given.day),
        twin_tables.read_to_date(spark, given.warehouse, "route_daily", given.day),
        spark.read.parquet(f"{given.warehouse}/delay_by_weather"),
        last_day=given.day,
    )
    twin_tables.overwrite(report, given.warehouse, "daily_report")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
