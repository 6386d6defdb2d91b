"""Rows of the jobs of ``bench.airflow.epoch``, by this package and plain. It imports nothing: each task counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider import EpochRun

ROWS = 100_000
AGGREGATES = {
    "counted": ("kind", "count(*) AS rows", "sum(id) AS total"),
    "summed": ("kind % 10 AS kind", "sum(rows) AS rows", "sum(total) AS total"),
}
"""Of a job that reads: what it groups by, and its columns."""
BEFORE = {"counted": "made", "summed": "counted"}
"""Of a job: the job that writes what it reads."""


def _computed(spark: Any, step: str, before: Any) -> Any:
    if step == "made":
        return spark.range(ROWS).selectExpr("id", "id % 1000 AS kind")
    key, *columns = AGGREGATES[step]
    before.createOrReplaceTempView(f"before_{step}")
    return spark.sql(f"SELECT {key}, {', '.join(columns)} FROM before_{step} GROUP BY 1")  # noqa: S608 - our own words


def write_epoch(epoch: EpochRun, step: str) -> None:
    """Compute one epoch of a job."""
    (sink,) = epoch.job.outputs
    before = epoch.read(epoch.job.inputs[0].table) if step in BEFORE else None
    epoch.write(sink, _computed(epoch.spark, step, before))


def write_plain(spark: Any, step: str, folder: str, day: str) -> None:
    """Compute one day of a job as a folder of Parquet files."""
    before = spark.read.parquet(f"{folder}/{BEFORE[step]}/day={day}") if step in BEFORE else None
    _computed(spark, step, before).write.mode("overwrite").parquet(f"{folder}/{step}/day={day}")
