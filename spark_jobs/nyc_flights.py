"""A day's flights, started by ``EpochSparkSubmitOperator``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from airflow_provider import epoch_run
from spark_jobs import nyc_landing, nyc_transforms


def main(argv: Sequence[str]) -> None:  # noqa: ARG001 - all that it needs is handed over
    """Write one epoch of ``flights``."""
    with epoch_run() as epoch:
        landed = nyc_landing.flights(epoch.spark, epoch.source_files("landed_flights"))
        epoch.write("flights", nyc_transforms.flights(landed))


if __name__ == "__main__":
    main(sys.argv[1:])
