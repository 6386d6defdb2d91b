"""``bench.read``: reading a table by ``epoch.read`` over Iceberg's own runtime on the same table, by turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.topology import Table
from airflow_provider.spark import reads
from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.stores.factory import catalog_properties
from airflow_provider.testing.arrow_attempts import write_rows
from benchmarks.figures import figure, progress
from benchmarks.files import write_files
from benchmarks.iceberg_job import DOMAIN, IcebergJob, iceberg_coordinator
from benchmarks.sizes import Size
from benchmarks.stores import directory
from tests.servers.aws import S3Emulator
from tests.services import iceberg_runtime
from tests.services.spark import classic_spark, hadoop_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EPOCHS = 24
ROWS = 200_000
"""Of each epoch."""
ROUNDS = 7
FILES = 10_000
FILTERS = {
    "sorted": "id between 1000000 and 1000100",
    "partition": "day = 3",
    "nested": "st.x = 1000100",
}
FILE_IO = "airflow_provider.tables.iceberg.file_io.DurableFileIO"
"""It finds S3 as this package does."""
WIDE = "sum(hash(id, day, st, text))"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A warehouse elsewhere, and what Spark needs to open it."""

    warehouse: str = ""
    jars: Sequence[Path] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Readers:
    """Two ways to the newest state of the table *name*."""

    spark: SparkSession
    service: EpochService
    catalog: SqlCatalog
    name: str

    def ours(self) -> DataFrame:
        """Read as jobs and views do, the cut included."""
        cuts = self.service.cuts
        cut = cuts.cut(DOMAIN, [self.name])
        state = cut.states[Table(self.name).name]
        return reads.dataframe(self.spark, cuts.format_of(state), state, cuts.schema(cut.domain, state))

    def icebergs(self) -> DataFrame:
        """Read the same table by the metadata file that the catalog names."""
        found = self.catalog.load_table((DOMAIN, self.name)).metadata_location
        return self.spark.read.format("iceberg").load(found)


def measure(size: Size = Size.FULL, spark: SparkSession | None = None) -> None:
    """Print the ratios of whole reads and of the rows that filters leave out.

    :param spark: session with Iceberg's runtime; None for a new one.
    """
    with _table(spark, "rows", ["day"]) as (job, readers):
        _write_epochs(job, readers, size)
        whole = _by_turns(readers, lambda df: df.selectExpr(WIDE).collect(), size)
        figure("bench.read.full", whole)
        for name, condition in FILTERS.items():
            left, wanted = (_left_out(df(), condition) for df in (readers.ours, readers.icebergs))
            figure(f"bench.read.skipped.{name}", left / wanted)


def measure_object_store(size: Size = Size.FULL) -> None:
    """Print the ratio of whole reads from an S3 emulator, through the session's own file system for S3.

    :raises FileNotFoundError: jars cannot be had.
    """
    jars = iceberg_runtime.s3()
    if jars is None:
        raise FileNotFoundError("hadoop-aws cannot be had: Maven Central does not answer")
    with directory("s3") as home, S3Emulator(home) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():  # by which Arrow finds the store
            patch.setenv(name, value)
        server.make_bucket("bench")
        place = Place(warehouse="s3://bench/warehouse", jars=jars, settings=hadoop_settings(server))
        with _table(None, "rows", ["day"], place) as (job, readers):
            _write_epochs(job, readers, size)
            whole = _by_turns(readers, lambda df: df.selectExpr(WIDE).collect(), size)
            figure("bench.read.object_store.ratio", whole)


def _write_epochs(job: IcebergJob, readers: Readers, size: Size) -> None:
    for number in range(size.of(EPOCHS, 2)):
        attempt = job.begin(number)
        write_rows(readers.service, attempt, "rows", _epoch(number, size.of(ROWS, 100)))
        readers.service.publish(attempt)
    progress(f"read: {size.of(EPOCHS, 2)} epochs are written")


def measure_first_row(size: Size = Size.FULL, spark: SparkSession | None = None) -> None:
    """Print the ratio of times to the first row of a table of many files; each round has a new version of it.

    :param spark: as for :func:`measure`.
    """
    with _table(spark, "files", []) as (job, readers):
        attempt = job.begin(0)
        write_files(job, attempt, size.of(FILES, 3))
        readers.service.publish(attempt)
        progress(f"read: {size.of(FILES, 3)} files are written")

        def first_row(df: DataFrame) -> object:
            return df.limit(1).collect()

        def renew(number: int) -> None:
            readers.service.publish(job.written(number + 1))

        figure("bench.read.files_10000.ratio", _by_turns(readers, first_row, size, before=renew))


@contextmanager
def _table(
    spark: SparkSession | None, name: str, partition_by: list[str], place: Place | None = None
) -> Iterator[tuple[IcebergJob, Readers]]:
    """A job of one table, and its readers.

    :param place: of the files; None for a new folder.
    :raises FileNotFoundError: Iceberg's runtime cannot be had.
    """
    jar = iceberg_runtime.jar()
    if jar is None:
        raise FileNotFoundError("Iceberg's Spark runtime cannot be had: Maven Central does not answer")
    with ExitStack() as stack:
        path = stack.enter_context(directory(name))
        there = place or Place()
        settings = {
            "spark.jars": ",".join(map(str, (jar, *there.jars))),
            "spark.sql.warehouse.dir": f"{path}/spark",
            **there.settings,
        }
        ready = spark or stack.enter_context(classic_spark("local[2]", settings))
        service = stack.enter_context(iceberg_coordinator(path, there.warehouse))
        found = catalog_properties(f"sqlite:///{path}/store.db")
        catalog = SqlCatalog(CATALOG_NAME, **found, **{"py-io-impl": FILE_IO})
        stack.callback(catalog.engine.dispose)
        job = IcebergJob(service, name, partition_by=partition_by)
        yield job, Readers(spark=ready, service=service, catalog=catalog, name=name)


def _epoch(number: int, rows: int) -> pa.Table:
    """Return the rows of one epoch: ids that rise over all epochs, in four files."""
    ids = range(number * rows, (number + 1) * rows)
    columns = {
        "id": ids,
        "day": [4 * (row - ids.start) // rows for row in ids],
        "st": [{"x": row} for row in ids],
        "text": [f"row {row}" for row in ids],
    }
    return pa.table({name: list(values) for name, values in columns.items()})


def _by_turns(
    readers: Readers,
    run: Callable[[DataFrame], object],
    size: Size,
    *,
    before: Callable[[int], object] = lambda number: number,
) -> float:
    """Return the median time of :meth:`Readers.ours` over that of :meth:`Readers.icebergs`.

    :param before: called at the beginning of each round; the first round warms up.
    """
    times: dict[str, list[float]] = {"ours": [], "icebergs": []}
    for number in range(size.of(ROUNDS, 1) + 1):
        before(number)
        for name, read in (("ours", readers.ours), ("icebergs", readers.icebergs)):
            began = time.perf_counter()
            run(read())
            times[name].append(time.perf_counter() - began)
    ours, icebergs = (statistics.median(found[1:]) for found in times.values())
    progress(f"read of {readers.name}: {ours * 1000:.0f} ms, Iceberg's own {icebergs * 1000:.0f} ms")
    return ours / icebergs


def _left_out(df: DataFrame, condition: str) -> int:
    """Return how many rows of *df* the scan leaves out for *condition*."""
    found = df.where(condition)
    found.collect()
    plan = found._jdf.queryExecution().executedPlan()  # noqa: SLF001  (without an exchange, so not an adaptive one)
    scanned = plan.collectLeaves().head().metrics().apply("numOutputRows").value()
    return df.count() - int(scanned)
