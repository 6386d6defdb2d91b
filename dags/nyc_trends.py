"""Daily trends of the carriers: totals to date, made of those of the day before, and of the last three days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, task

from airflow_provider.sensors.epochs import EpochSensor
from spark_jobs import nyc_tables

if TYPE_CHECKING:
    from airflow_provider import EpochRun

with DAG(
    "nyc_trends",
    schedule="@daily",
    start_date=datetime(2013, 1, 2, tzinfo=UTC),
    end_date=datetime(2014, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2},
    tags=["nyc", "epochs"],
):

    @task.epoch(job=nyc_tables.CARRIER_TRENDS_JOB, spark_conn_id="spark_connect")
    def carrier_trends(epoch: EpochRun) -> None:
        """Write the states of ``carrier_to_date`` and ``carrier_three_days`` at the barrier."""
        from spark_jobs import nyc_statements, nyc_transforms

        last_day = (epoch.interval.end - timedelta(days=1)).date()
        recent = epoch.read("carrier_daily")
        today = recent.where(recent["day"] == last_day)
        if nyc_statements.HAS_RUNTIME:
            nyc_statements.write_carrier_to_date(epoch, today)
        else:
            before = epoch.read("carrier_to_date", schema=nyc_transforms.CARRIER_TO_DATE)
            epoch.write("carrier_to_date", nyc_transforms.carrier_to_date(before, today))
        epoch.write("carrier_three_days", nyc_transforms.carrier_three_days(recent, last_day=last_day))

    EpochSensor(task_id="wait_for_carriers", job=nyc_tables.CARRIER_TRENDS_JOB) >> carrier_trends()
