"""What the New York pipeline writes by an SQL statement, where Spark has Iceberg's runtime, which runs them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spark_jobs.nyc_transforms import CARRIER_TO_DATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_provider import EpochRun

HAS_RUNTIME = os.environ.get("NYC_STATEMENTS") == "1"
"""Whether the pipeline's Spark has it: pyspark comes without."""

TODAY = "today"
ADD_TODAY = """
MERGE INTO {to_date} t USING {today} s ON t.carrier = s.carrier
WHEN MATCHED THEN UPDATE SET
    flights = t.flights + s.flights,
    cancelled = t.cancelled + s.cancelled,
    distance = t.distance + s.distance,
    dep_delay_min = coalesce(t.dep_delay_min + s.dep_delay_min, t.dep_delay_min, s.dep_delay_min)
WHEN NOT MATCHED THEN INSERT (carrier, flights, cancelled, distance, dep_delay_min)
    VALUES (s.carrier, s.flights, s.cancelled, s.distance, s.dep_delay_min)
"""
"""What :func:`spark_jobs.nyc_transforms.carrier_to_date` gives. A carrier without a departure has no delay."""


def write_carrier_to_date(epoch: EpochRun, today: DataFrame) -> None:
    """Merge a day into the totals of all days before it, which are the draft's rows when it begins.

    :param today: the day's ``carrier_daily``.
    """
    today.createOrReplaceTempView(TODAY)
    try:
        with epoch.draft("carrier_to_date", schema=CARRIER_TO_DATE) as to_date:
            epoch.spark.sql(ADD_TODAY.format(to_date=to_date, today=TODAY))
    finally:
        epoch.spark.catalog.dropTempView(TODAY)
