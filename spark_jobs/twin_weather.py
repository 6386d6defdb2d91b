"""The naive twin: a day's weather."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from spark_jobs import nyc_landing, nyc_transforms, twin_tables


def main(argv: Sequence[str]) -> None:
    """Write one day of ``weather``."""
    given = twin_tables.arguments(argv)
    spark = twin_tables.session("twin_weather")
    landed = nyc_landing.weather_of_day(spark, given.landing, given.day)
    twin_tables.overwrite_day(nyc_transforms.weather(landed), given.warehouse, "weather")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
