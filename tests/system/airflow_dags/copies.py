"""Two DAGs for the test of runs: one makes rows, the other waits for them and copies them."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_provider.domain.topology import EpochJob, EpochTable
from airflow_provider.operators.spark_submit import EpochSparkSubmitOperator
from airflow_provider.sensors.epochs import EpochSensor

ROWS, COPIES = EpochTable("rows"), EpochTable("copies")
ORIGIN = datetime(2013, 2, 7, tzinfo=UTC)
MAKE = EpochJob("make", outputs=[ROWS], cadence="@daily", origin=ORIGIN)
COPY = EpochJob("copy", inputs=[ROWS], outputs=[COPIES], cadence="@daily", origin=ORIGIN)
RUNS = {
    "schedule": "@daily",
    "start_date": datetime(2013, 2, 8, tzinfo=UTC),
    "end_date": datetime(2013, 2, 20, tzinfo=UTC),
    "catchup": False,
    "default_args": {"retries": 2, "retry_delay": timedelta(0)},
}
PROGRAM = os.environ["EPOCHS_TEST_PROGRAM"]

with DAG("make", **RUNS):
    EpochSparkSubmitOperator(
        task_id="make", job=MAKE, application=PROGRAM, application_args=["{{ ti.try_number }}"]
    )

with DAG("copy", **RUNS):
    wait = EpochSensor(task_id="wait", tables=[ROWS], cadence="@daily")
    wait >> EpochSparkSubmitOperator(
        task_id="copy", job=COPY, application=PROGRAM, application_args=["{{ ti.try_number }}"]
    )
