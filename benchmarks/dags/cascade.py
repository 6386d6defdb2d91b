"""A cascade of three jobs for one day, in four DAGs: by this package and plain, over spark-submit and over Connect.

Runs are started by hand. All four compute the same rows with the same settings of Spark.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, chain, task

from airflow_provider import Job, Table
from airflow_provider.operators.spark_submit import EpochSparkSubmitOperator

if TYPE_CHECKING:
    from airflow_provider import EpochRun

PROGRAMS = os.environ["BENCH_PROGRAMS"]
PLAIN = os.environ["BENCH_PLAIN_TABLES"]
ORIGIN = datetime(2013, 2, 1, tzinfo=UTC)
STEPS = ("made", "counted", "summed")


def jobs(prefix: str) -> list[Job]:
    """Declare a cascade whose tables belong to one DAG."""
    tables = [Table(f"{prefix}_{step}") for step in STEPS]
    inputs = [[], *([table] for table in tables[:-1])]
    return [
        Job(f"{prefix}_{step}", inputs=read, outputs=[table], cadence="@daily", origin=ORIGIN)
        for step, read, table in zip(STEPS, inputs, tables, strict=True)
    ]


with DAG("epochs_submit", schedule=None):
    chain(
        *(
            EpochSparkSubmitOperator(
                task_id=step, job=job, application=f"{PROGRAMS}/cascade_epoch.py", application_args=[step]
            )
            for step, job in zip(STEPS, jobs("submit"), strict=True)
        )
    )

with DAG("epochs_connect", schedule=None):

    def epoch_task(step: str, job: Job) -> Any:
        """Make the task of one job."""

        @task.epoch(task_id=step, job=job, spark_conn_id="spark_connect")
        def compute(epoch: EpochRun) -> None:
            from benchmarks.cascade_rows import write_epoch

            write_epoch(epoch, step)

        return compute()  # type: ignore[call-arg, misc]  # Airflow gives it

    chain(*(epoch_task(step, job) for step, job in zip(STEPS, jobs("connect"), strict=True)))

with DAG("plain_submit", schedule=None):
    chain(
        *(
            SparkSubmitOperator(
                task_id=step,
                application=f"{PROGRAMS}/cascade_plain.py",
                application_args=[step, f"{PLAIN}/submit", "{{ ds }}"],
            )
            for step in STEPS
        )
    )

with DAG("plain_connect", schedule=None):

    def plain_task(step: str) -> Any:
        """Make the task of one job."""

        @task(task_id=step)
        def compute(ds: str) -> None:
            from airflow.sdk import BaseHook
            from pyspark.sql.connect.session import SparkSession

            from benchmarks.cascade_rows import write_plain

            where = BaseHook.get_connection("spark_connect")
            spark = SparkSession.builder.remote(f"sc://{where.host}:{where.port}").getOrCreate()
            write_plain(spark, step, f"{PLAIN}/connect", ds)
            spark.stop()

        return compute()  # type: ignore[call-arg, misc]  # Airflow gives it

    chain(*(plain_task(step) for step in STEPS))
