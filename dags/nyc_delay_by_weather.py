"""Daily flights joined with hourly weather, both up to the run's barrier."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, task

from airflow_provider.sensors.epochs import EpochSensor
from spark_jobs import nyc_tables

if TYPE_CHECKING:
    from airflow_provider import EpochRun

with DAG(
    "nyc_delay_by_weather",
    schedule="@daily",
    start_date=datetime(2013, 1, 2, tzinfo=UTC),
    end_date=datetime(2014, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2},
    tags=["nyc", "epochs"],
):

    @task.epoch(job=nyc_tables.DELAY_BY_WEATHER_JOB, spark_conn_id="spark_connect")
    def delay_by_weather(epoch: EpochRun) -> None:
        """Write the state of ``delay_by_weather`` at the barrier."""
        from spark_jobs import nyc_transforms

        last_day = (epoch.interval.end - timedelta(days=1)).date()
        joined = nyc_transforms.delay_by_weather(
            epoch.read("flights"), epoch.read("weather"), last_day=last_day
        )
        epoch.write("delay_by_weather", joined)

    EpochSensor(task_id="wait_for_both", job=nyc_tables.DELAY_BY_WEATHER_JOB) >> delay_by_weather()
