"""What a Spark program does with one epoch, without a Spark session: for tests that are about Airflow."""

from __future__ import annotations

import sys

import pyarrow as pa

from airflow_provider.coordination.service import EpochService
from airflow_provider.spark.launch_spec import received
from airflow_provider.testing.arrow_attempts import write_rows


def main(try_number: str) -> None:
    """Write the epoch's day, once for each revision; the first try of 8 February fails."""
    order = received()
    attempt = order.attempt
    if attempt.job == "make" and attempt.interval.start.day == 8 and try_number == "1":
        raise SystemExit("the first try of 8 February fails")
    with EpochService.open(order.settings) as service:
        (sink,) = attempt.sinks
        rows = pa.table({"day": pa.array([attempt.interval.start.day] * attempt.revision, pa.int64())})
        write_rows(service, attempt, sink.name, rows)
        service.complete(attempt)


if __name__ == "__main__":
    main(sys.argv[1])
