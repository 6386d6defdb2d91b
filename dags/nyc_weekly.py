"""The airports' week: seven daily epochs of one table and 168 hourly ones of another become one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, task

from airflow_provider.sensors.epochs import EpochSensor
from spark_jobs import nyc_tables

if TYPE_CHECKING:
    from airflow_provider import EpochRun

with DAG(
    "nyc_weekly",
    schedule="@weekly",
    start_date=datetime(2013, 1, 6, tzinfo=UTC),
    end_date=datetime(2014, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2},
    tags=["nyc", "epochs"],
):

    @task.epoch(job=nyc_tables.AIRPORT_WEEK_JOB, spark_conn_id="spark_connect")
    def airport_week(epoch: EpochRun) -> None:
        """Write the week of ``airport_weekly`` that ends at the barrier."""
        from spark_jobs import nyc_transforms

        week = nyc_transforms.airport_weekly(
            epoch.read("route_daily"),
            epoch.read("weather"),
            last_day=(epoch.interval.end - timedelta(days=1)).date(),
        )
        epoch.write("airport_weekly", week)

    EpochSensor(task_id="wait_for_the_week", job=nyc_tables.AIRPORT_WEEK_JOB) >> airport_week()
