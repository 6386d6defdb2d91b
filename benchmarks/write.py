"""``bench.write``: writing an epoch by ``epoch.write`` over Spark's own Parquet writer; describing many wide files."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa

from airflow_provider.coordination.service import Settings
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Job, Table
from airflow_provider.spark.epoch_run import epoch_run
from benchmarks.figures import figure, progress
from benchmarks.files import write_files
from benchmarks.iceberg_job import IcebergJob, iceberg_coordinator
from benchmarks.job import HOUR, ORIGIN
from benchmarks.sizes import Size
from benchmarks.stores import directory
from tests.services.spark import classic_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 2_000_000
PARTITIONS = 4
"""Tasks of Spark that write."""
DAYS = 8
"""Values of the column that partitions."""
ROUNDS = 3
FILES = 10_000
COLUMNS = 200


def measure(size: Size = Size.FULL, spark: SparkSession | None = None) -> None:
    """Print the ratios of processor time and of wall time, for a table as it comes and for a partitioned one.

    :param spark: the session; None for a new one.
    """
    with ExitStack() as stack:
        path = stack.enter_context(directory("write"))
        ready = spark or stack.enter_context(
            classic_spark("local[2]", {"spark.sql.warehouse.dir": f"{path}/spark"})
        )
        settings = Settings(store_url=f"sqlite:///{path}/store.db", warehouse=f"file://{path}/warehouse")
        rows = _rows(ready, size.of(ROWS, 100)).persist()
        stack.callback(rows.unpersist)
        rows.count()
        for name, columns in (("ratio", []), ("partitioned", ["day"])):
            _measure(name, columns, _Writers(ready, settings, path), rows, size.of(ROUNDS, 1))


def measure_describe(size: Size = Size.FULL) -> None:
    """Print how long an attempt's WRITTEN takes that lists many files of many columns."""
    files, columns = size.of(FILES, 3), size.of(COLUMNS, 3)
    rows = pa.table({f"value_{number:03d}": [1.0, 2.0, 3.0] for number in range(columns)})
    with directory("describe") as path, iceberg_coordinator(path) as coordinator:
        job = IcebergJob(coordinator, "wide")
        spent = write_files(job, job.begin(0), files, rows)
    figure("bench.describe.files_10000_columns_200", spent)


class _Writers:
    """Two ways to write the same rows, each to a new place."""

    def __init__(self, spark: SparkSession, settings: Settings, path: Path) -> None:
        self._spark, self._settings, self._path = spark, settings, path
        self._epochs = 0

    def ours(self, rows: DataFrame, columns: Sequence[str]) -> None:
        """Write an epoch of a table as a job does, up to its commit."""
        name = f"rows_{len(columns)}"
        job = Job(
            f"{name}_job", outputs=[Table(name, partition_by=columns)], cadence="@hourly", origin=ORIGIN
        )
        start = ORIGIN + self._epochs * HOUR
        self._epochs += 1
        with epoch_run(
            job, Interval(start, start + HOUR), settings=self._settings, spark=self._spark
        ) as epoch:
            epoch.write(name, rows)

    def sparks(self, rows: DataFrame, columns: Sequence[str]) -> None:
        """Write Parquet files with the same compression."""
        place = self._path / "plain"
        shutil.rmtree(place, ignore_errors=True)
        rows.write.option("compression", "zstd").partitionBy(*columns).parquet(str(place))


def _measure(name: str, columns: Sequence[str], writers: _Writers, rows: DataFrame, rounds: int) -> None:
    spent: dict[str, list[tuple[float, float]]] = {"ours": [], "sparks": []}
    for _ in range(rounds + 1):  # the first round warms up
        for who, write in (("ours", writers.ours), ("sparks", writers.sparks)):
            spent[who].append(_spent(lambda write=write: write(rows, columns)))  # type: ignore[misc]
    for kind, at in (("", 0), (".wall", 1)):
        ours, sparks = (statistics.median(found[at] for found in spent[who][1:]) for who in spent)
        progress(f"write {name}{kind}: {ours:.2f} s, Spark's own {sparks:.2f} s")
        figure(f"bench.write.{name}{kind}", ours / sparks)


def _rows(spark: SparkSession, number: int) -> DataFrame:
    """Return rows of eight columns; equal values of ``day`` lie together, as in most data that comes by time."""
    return spark.range(0, number, 1, PARTITIONS).selectExpr(
        "id",
        f"cast(id * {DAYS} div {number} as int) as day",
        "concat('row ', id) as text",
        "concat('place ', id % 200) as place",
        "hash(id) as number",
        "rand(1) as value",
        "rand(2) as other",
        "timestamp_micros(id * 1000) as at",
    )


def _spent(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of processor time, of this process and all that it has started, and of wall time."""
    before, began = _processor_s(), time.perf_counter()
    work()
    return _processor_s() - before, time.perf_counter() - began


def _processor_s() -> float:
    this = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in (this, *this.children(recursive=True)))
