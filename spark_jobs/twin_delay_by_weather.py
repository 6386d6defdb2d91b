"""The naive twin: flights to date by the weather of their hour."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from spark_jobs import nyc_transforms, twin_tables


def main(argv: Sequence[str]) -> None:
    """Replace ``delay_by_weather`` with its state up to a day."""
    given = twin_tables.arguments(argv)
    spark = twin_tables.session("twin_delay_by_weather")
    flights = twin_tables.read_to_date(spark, given.warehouse, "flights", given.day)
    weather = twin_tables.read_to_date(spark, given.warehouse, "weather", given.day)
    joined = nyc_transforms.delay_by_weather(flights, weather, last_day=given.day)
    twin_tables.overwrite(joined, given.warehouse, "delay_by_weather")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
