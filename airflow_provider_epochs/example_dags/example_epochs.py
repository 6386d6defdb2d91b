"""A cascade of three DAGs over a week of bicycle rides: one loads, one counts, one reads both tables in a cut.

They need the connections ``epochs_default`` (the metadata store and the warehouse) and ``spark_connect_default``.
Turn all three on, in any order: each day waits for what it reads. The week is over after seven runs.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, task

from airflow_provider import Job, Table, connect, state
from airflow_provider.sensors.epochs import EpochSensor

if TYPE_CHECKING:
    from airflow_provider import EpochRun

DOMAIN = "examples"
"""A domain of their own: their tables meet no table of yours."""

rides = Table("rides", DOMAIN)  # incremental: the sum of its days
totals = Table("station_totals", DOMAIN, kind="full")  # each day holds the whole state

MONDAY = datetime(2024, 5, 6, tzinfo=UTC)
load = Job("load_rides", outputs=[rides], cadence="@daily", origin=MONDAY)
count = Job("count_rides", inputs=[state(rides)], outputs=[totals], cadence="@daily", origin=MONDAY)

WEEK: dict[str, Any] = {
    "schedule": "@daily",
    "start_date": datetime(2024, 5, 7, tzinfo=UTC),  # a run computes the day that has just ended
    "end_date": datetime(2024, 5, 13, tzinfo=UTC),
    "catchup": True,
    "max_active_runs": 1,
    "default_args": {"retries": 2},
    "tags": ["example", "epochs"],
}

with DAG("example_epochs_load", **WEEK) as loading:

    @task.epoch(job=load)
    def load_rides(epoch: EpochRun) -> None:
        """Write the rides of the epoch's day; all rows become visible in one commit, or none."""
        day = epoch.interval.start.day
        rows = [("Harbour", 10 + day), ("Museum", 20 + day), ("Harbour", 7)]
        epoch.write(rides, epoch.spark.createDataFrame(rows, "station string, minutes int"))

    load_rides()

with DAG("example_epochs_count", **WEEK) as counting:

    @task.epoch(job=count)
    def count_rides(epoch: EpochRun) -> None:
        """Count all rides up to the end of the epoch's day."""
        epoch.write(totals, epoch.read(rides).groupBy("station").count())

    EpochSensor(task_id="rides_are_there", job=count, deferrable=True) >> count_rides()

with DAG("example_epochs_read", **WEEK) as reading:
    both = EpochSensor(task_id="both_are_there", tables=[rides, totals], deferrable=True)

    @task
    def read_cut(found: dict[str, Any]) -> dict[str, Any]:
        """Read both tables at the barrier of the run: the totals are those of exactly these rides."""
        with connect("epochs_default", domain=DOMAIN) as epochs:
            cut = epochs.cut([rides, totals], at=datetime.fromisoformat(found["barrier"]))
            return {
                "barrier": cut.barrier.isoformat(),
                "rides": cut[rides].to_arrow().num_rows,
                "counted": sum(cut[totals].to_arrow(["count"]).column("count").to_pylist()),
            }

    read_cut(both.output)
