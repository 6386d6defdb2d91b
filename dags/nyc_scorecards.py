"""Daily scorecards: one job writes two tables, which become visible together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow.sdk import DAG, task

from airflow_provider.sensors.epochs import EpochSensor
from spark_jobs import nyc_tables

if TYPE_CHECKING:
    from airflow_provider import EpochRun

with DAG(
    "nyc_scorecards",
    schedule="@daily",
    start_date=datetime(2013, 1, 2, tzinfo=UTC),
    end_date=datetime(2014, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2},
    tags=["nyc", "epochs"],
):

    @task.epoch(job=nyc_tables.SCORECARDS_JOB, spark_conn_id="spark_connect")
    def scorecards(epoch: EpochRun) -> None:
        """Write one day of ``carrier_daily`` and of ``route_daily``."""
        from spark_jobs import nyc_transforms

        flights = epoch.read("flights")
        epoch.write("carrier_daily", nyc_transforms.carrier_daily(flights))
        epoch.write("route_daily", nyc_transforms.route_daily(flights))

    EpochSensor(task_id="wait_for_flights", job=nyc_tables.SCORECARDS_JOB) >> scorecards()
