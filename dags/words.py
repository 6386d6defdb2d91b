"""The words of the books of a day: eight epochs of each of three jobs, each published by itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow.sdk import DAG, chain, task

from spark_jobs import word_tables

if TYPE_CHECKING:
    from airflow.sdk.definitions.xcom_arg import XComArg

    from airflow_provider import EpochRun, Job

with DAG(
    "words",
    schedule="@daily",
    start_date=datetime(2013, 1, 2, tzinfo=UTC),
    end_date=datetime(2014, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2},
    tags=["words", "epochs"],
):

    def task_of(job: Job) -> XComArg:
        """Make the task that computes a job's epochs."""

        @task.epoch(task_id=str(job.name), job=job, batch="@daily", spark_conn_id="spark_connect")
        def compute(epoch: EpochRun) -> None:
            from spark_jobs import word_epochs

            word_epochs.COMPUTE[job.name](epoch)

        return compute()

    chain(*[task_of(job) for job in word_tables.JOBS])
