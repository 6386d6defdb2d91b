"""The downstream DAG: it waits for a cut of all daily tables at its run's barrier, then reads all of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, task

from airflow_provider.sensors.epochs import EpochSensor
from spark_jobs import nyc_tables

with DAG(
    "nyc_reader",
    schedule="@daily",
    start_date=datetime(2013, 1, 2, tzinfo=UTC),
    end_date=datetime(2014, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2},
    tags=["nyc", "epochs"],
):
    all_tables = EpochSensor(task_id="wait_for_all", tables=nyc_tables.DAILY_TABLES)

    @task
    def read_all_tables(cut: dict[str, Any]) -> None:
        """Read and judge, as the ad-hoc reader does, at this run's barrier."""
        from demo.readers.epochs import read_at_run

        read_at_run(datetime.fromisoformat(cut["barrier"]))

    read_all_tables(all_tables.output)
