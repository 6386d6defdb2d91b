"""The naive twin's downstream DAG: it waits for the report of its day, then reads all tables up to that day."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.standard.sensors.external_task import ExternalTaskSensor
from airflow.sdk import DAG, CronDataIntervalTimetable, task

with DAG(
    "twin_reader",
    # "Timetables: CronDataIntervalTimetable", as in twin_pipeline.py.
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    end_date=datetime(2013, 12, 31, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2},
    tags=["nyc", "twin"],
):
    # "Cross-Dag Dependencies: ExternalTaskSensor", as in twin_pipeline.py.
    report_is_there = ExternalTaskSensor(
        task_id="wait_for_report",
        external_dag_id="twin_report",
        external_task_id="job",
        poke_interval=5,
        failed_states=["failed"],
    )

    @task
    def read_all_tables(data_interval_end: datetime | None = None) -> None:
        """Read and judge, as the ad-hoc reader does, at this run's day."""
        from demo.readers.twin import read_at_run

        read_at_run(data_interval_end)

    report_is_there >> read_all_tables()
