"""``python -m demo.scheduler``: Airflow's scheduler, which has imported what its tasks need.

Its LocalExecutor forks a process for each task. Each has at once what is imported here, instead of spending a second or
two of the processor's time on it. Nothing of Airflow is among it: Airflow imports that itself, in an order of its own.
"""

from __future__ import annotations

import importlib
import sys

NEEDED = (
    "pandas",
    "pyiceberg.catalog.sql",
    "pyspark.sql.connect.session",
    "airflow_provider.coordination.service",
    "airflow_provider.spark.epoch_run",
    "airflow_provider.stores.sql.sqlite",
    "airflow_provider.tables.iceberg.format",
)


def main() -> None:
    """Import, then be ``airflow scheduler`` with the arguments that were given."""
    for name in NEEDED:
        importlib.import_module(name)
    sys.argv = ["airflow", "scheduler", *sys.argv[1:]]
    run = importlib.import_module("airflow.__main__").main
    run()


if __name__ == "__main__":
    main()
