"""Hourly weather: an hourly job in a daily run. One task, 24 epochs, each published by itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow.sdk import DAG, task

from spark_jobs import nyc_tables

if TYPE_CHECKING:
    from airflow_provider import EpochRun

with DAG(
    "nyc_weather",
    schedule="@daily",
    start_date=datetime(2013, 1, 2, tzinfo=UTC),
    end_date=datetime(2014, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2},
    tags=["nyc", "epochs"],
):

    @task.epoch(job=nyc_tables.WEATHER_JOB, batch="@daily", spark_conn_id="spark_connect")
    def weather(epoch: EpochRun) -> None:
        """Write one hour of ``weather``."""
        from spark_jobs import nyc_landing, nyc_transforms

        landed = nyc_landing.weather(epoch.spark, epoch.source_files("landed_weather"))
        epoch.write("weather", nyc_transforms.weather(landed))

    weather()
