"""The daily report: three tables of two jobs, read at one cut."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, task

from airflow_provider.sensors.epochs import EpochSensor
from spark_jobs import nyc_tables

if TYPE_CHECKING:
    from airflow_provider import EpochRun

with DAG(
    "nyc_report",
    schedule="@daily",
    start_date=datetime(2013, 1, 2, tzinfo=UTC),
    end_date=datetime(2014, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2},
    tags=["nyc", "epochs"],
):

    @task.epoch(job=nyc_tables.DAILY_REPORT_JOB, spark_conn_id="spark_connect")
    def daily_report(epoch: EpochRun) -> None:
        """Write the state of ``daily_report`` at the barrier."""
        from spark_jobs import nyc_transforms

        report = nyc_transforms.daily_report(
            epoch.read("carrier_daily"),
            epoch.read("route_daily"),
            epoch.read("delay_by_weather"),
            last_day=(epoch.interval.end - timedelta(days=1)).date(),
        )
        epoch.write("daily_report", report)

    EpochSensor(task_id="wait_for_its_inputs", job=nyc_tables.DAILY_REPORT_JOB) >> daily_report()
