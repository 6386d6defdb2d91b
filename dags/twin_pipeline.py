"""The naive twin of the New York pipeline: the same tables as documentation for Airflow and Spark would have them.

No part of this package is used. Each construct names the page that it follows (Airflow 3.3,
https://airflow.apache.org/docs/; the Spark side is in ``spark_jobs/twin_tables.py``). One submit a day and job; a job
whose inputs another DAG writes waits for that DAG's task of the same day.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.sensors.external_task import ExternalTaskSensor
from airflow.sdk import DAG, CronDataIntervalTimetable

JOBS = Path(__file__).parent.parent / "spark_jobs"

# "Best Practices: Creating a Task": read and write in a specific partition, named by the data interval's start.
# "Timetables: CronDataIntervalTimetable" is the one that gives a run such an interval.
EVERY_DAY = CronDataIntervalTimetable("@daily", timezone="UTC")


def one_job(dag_id: str, *, after: tuple[str, ...] = ()) -> DAG:
    """Make a DAG of one job.

    :param dag_id: of the DAG, and the name of its program.
    :param after: DAGs that write the job's inputs.
    """
    with DAG(
        dag_id,
        schedule=EVERY_DAY,
        start_date=datetime(2013, 1, 1, tzinfo=UTC),
        end_date=datetime(2013, 12, 31, tzinfo=UTC),
        catchup=False,
        # "FAQ: How to improve Dag performance?" has max_active_runs: one at a time, since two runs would overwrite
        # the same table.
        max_active_runs=1,
        # "Tutorial: Fundamental Concepts" has retries among the default arguments.
        default_args={"retries": 2},
        tags=["nyc", "twin"],
    ) as dag:
        # "Apache Spark Operators: SparkSubmitOperator" (apache-airflow-providers-apache-spark, operators.html).
        job = SparkSubmitOperator(
            task_id="job",
            application=str(JOBS / f"{dag_id}.py"),
            name=dag_id,
            application_args=[
                "--landing",
                "{{ var.value.nyc_landing }}",
                "--warehouse",
                "{{ var.value.nyc_twin_warehouse }}",
                "--day",
                "{{ data_interval_start | ds }}",
            ],
        )
        # "Cross-Dag Dependencies: ExternalTaskSensor" (apache-airflow-providers-standard,
        # sensors/external_task_sensor.html); poke_interval instead of its 60 s, so that the wait is short.
        for upstream in after:
            waits = ExternalTaskSensor(
                task_id=f"wait_for_{upstream}",
                external_dag_id=upstream,
                external_task_id="job",
                poke_interval=5,
                failed_states=["failed"],
            )
            waits >> job
    return dag


weather = one_job("twin_weather")
flights = one_job("twin_flights")
scorecards = one_job("twin_scorecards", after=("twin_flights",))
delay_by_weather = one_job("twin_delay_by_weather", after=("twin_flights", "twin_weather"))
report = one_job("twin_report", after=("twin_scorecards", "twin_delay_by_weather"))
