"""Daily flights, computed by a Spark program of its own that the operator submits."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider.operators.spark_submit import EpochSparkSubmitOperator
from spark_jobs import nyc_tables

with DAG(
    "nyc_flights",
    schedule="@daily",
    start_date=datetime(2013, 1, 2, tzinfo=UTC),
    end_date=datetime(2014, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2},
    tags=["nyc", "epochs"],
):
    EpochSparkSubmitOperator(
        task_id="flights",
        job=nyc_tables.FLIGHTS_JOB,
        application=str(Path(__file__).parent.parent / "spark_jobs" / "nyc_flights.py"),
    )
