"""Tables that other programs have written go on as tables of the package: a folder of 1,000 files, and Iceberg's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.table import StaticTable

from airflow_provider import (
    FileSource,
    Interval,
    Job,
    Settings,
    Table,
    connect,
    epoch_run,
    none_needed,
    state,
)
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.compaction import CompactionUnit
from airflow_provider.stores.factory import upgrade_schema
from tests.services import iceberg_runtime
from tests.services.spark import UNCLOSED, classic_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider import EpochRun

pytestmark = pytest.mark.filterwarnings(UNCLOSED)

FIRST = datetime(2023, 1, 17, tzinfo=UTC)
"""The job writes the last five days of this month, and all of the next."""
DAY = timedelta(days=1)
TAKEN, MORE, FILES = 10, 33, 100
"""Days of before, days that the job writes, and files of a day of before."""
EVENTS = Table("events", partition_by=["region"])
READER = Job("reader", inputs=[state(EVENTS)], outputs=[Table("seen")], cadence="@daily")
COLUMNS = pa.schema([("id", pa.int64()), ("value", pa.float64())])

Model = dict[int, list[int]]
"""Ids of the rows of each day."""
Take = Callable[["EpochRun", int], None]


def day(number: int) -> Interval:
    return Interval(FIRST + number * DAY, FIRST + (number + 1) * DAY)


def ids_of(number: int) -> list[int]:
    return [1000 * number + file for file in range(FILES)]


def rows_of(ids: list[int]) -> pa.Table:
    return pa.table([ids, [float(each) for each in ids]], schema=COLUMNS)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    url = f"sqlite:///{tmp_path}/epochs.db"
    upgrade_schema(url)
    return Settings(store_url=url, warehouse=f"file://{tmp_path}/warehouse")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    if (jar := iceberg_runtime.jar()) is None:
        pytest.skip("Maven Central does not answer")
    with classic_spark("local[2]", {"spark.jars": str(jar)}) as session:
        yield session


def folder(tmp_path: Path) -> tuple[Job, Take]:
    """A folder of Hive's layout with one row in each of its files."""
    lake = tmp_path / "lake"
    for number in range(TAKEN):
        for row in ids_of(number):
            place = lake / f"day={day(number).start:%Y-%m-%d}" / f"region=r{row % 20}"
            place.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows_of([row]), place / f"{row}.parquet")
    pattern = f"{lake}/day={{start:%Y-%m-%d}}/region=*/*.parquet"
    old = FileSource("old", pattern, complete=none_needed())

    def take(epoch: EpochRun, _: int) -> None:
        epoch.add_files(EVENTS, epoch.source_files("old"), in_paths="region string")

    return job(old), take


def iceberg(tmp_path: Path) -> tuple[Job, Take]:
    """A table of another catalog, which pyiceberg has written: as many files, ten in each append."""
    catalog = SqlCatalog(
        "theirs", uri=f"sqlite:///{tmp_path}/theirs.db", warehouse=f"file://{tmp_path}/theirs"
    )
    catalog.create_namespace("lake")
    columns = pa.schema([*COLUMNS, ("region", pa.string()), ("day", pa.string())])
    theirs = catalog.create_table("lake.events", columns)
    with theirs.update_spec() as update:
        update.add_identity("day")
        update.add_identity("region")
    for number in range(TAKEN):
        for start in range(0, FILES, 20):
            ids = ids_of(number)[start : start + 20]
            regions = [f"r{row % 20}" for row in ids]
            rows = rows_of(ids).append_column("region", [regions])
            theirs.append(rows.append_column("day", [[f"{day(number).start:%Y-%m-%d}"] * len(ids)]))

    def take(epoch: EpochRun, number: int) -> None:
        scan = theirs.scan(row_filter=EqualTo("day", f"{day(number).start:%Y-%m-%d}"))
        epoch.add_files(EVENTS, scan)

    return job(), take


def job(*sources: Any) -> Job:
    return Job(
        "events",
        inputs=list(sources),
        outputs=[EVENTS],
        cadence="@daily",
        origin=FIRST,
        on_rerun="new_revision",
    )


def write(number: int, ids: list[int], declared: Job, settings: Settings, spark: SparkSession) -> None:
    with epoch_run(declared, day(number), settings=settings, spark=spark) as epoch:
        named = f"'{day(number).start:%Y-%m-%d}' AS day" if not declared.sources else "'' AS unused"
        rows = spark.createDataFrame([(row, float(row)) for row in ids], "id long, value double")
        rows = rows.selectExpr("id", "value", "concat('r', id % 20) AS region", named).drop("unused")
        epoch.write(EVENTS, rows)


def check(model: Model, settings: Settings) -> None:
    """Compare what Python and another engine read with *model*, row by row."""
    with connect(settings.store_url) as epochs:
        cut = epochs.cut(["events"])
        found = cut["events"].to_arrow(["id", "value", "region", "_epoch"]).to_pylist()
        of_engine = StaticTable.from_metadata(cut["events"].metadata_location()).scan().to_arrow()
    wanted = [
        (row, float(row), f"r{row % 20}", day(number).end) for number, ids in model.items() for row in ids
    ]
    assert sorted(tuple(row.values()) for row in found) == sorted(wanted)
    assert sorted(of_engine.column("id").to_pylist()) == sorted(row for row, *_ in wanted)


def contents(tmp_path: Path) -> dict[str, bytes]:
    """Return the content of each Parquet file of the table's former owner."""
    found = {
        str(file): file.read_bytes()
        for place in ("lake", "theirs")
        for file in (tmp_path / place).rglob("*.parquet")
    }
    assert len(found) == TAKEN * FILES
    return found


def compacted(settings: Settings) -> list[tuple[int, int | None]]:
    """Compact by the month; return the numbers of files before and after, and require that the taken month is left."""
    with EpochService.open(settings) as service:
        units = service.retention.compact("default", EVENTS, unit=CompactionUnit.MONTH)
    (left,) = [unit for unit in units if unit.why]
    assert left.low == day(0).end
    assert "rewrite_data_files" in left.next_step
    return [(unit.before, unit.after) for unit in units if not unit.why]


@pytest.mark.parametrize("source", [folder, iceberg])
def test_a_table_of_before_goes_on_as_an_incremental_table(
    settings: Settings, spark: SparkSession, tmp_path: Path, source: Callable[[Path], tuple[Job, Take]]
) -> None:
    """Ten days are taken, more written, three corrected, and a month is compacted, corrected and compacted again."""
    declared, take = source(tmp_path)
    model: Model = {}
    for number in range(TAKEN):
        with epoch_run(declared, day(number), settings=settings, spark=spark) as epoch:
            take(epoch, number)
        model[number] = ids_of(number)
    check(model, settings)
    owned = contents(tmp_path)
    for number in range(TAKEN, TAKEN + MORE):  # two files each
        write(number, model.setdefault(number, [20 * number, 20 * number + 1]), declared, settings, spark)
    check(model, settings)
    for number in (3, 12, 17):  # a taken day, a day beside taken ones, and a day of the other month
        model[number] = [20 * number + 1]
        write(number, model[number], declared, settings, spark)
    check(model, settings)
    assert compacted(settings) == [(2 * 28 - 1, 2)]
    check(model, settings)
    for number in (4, 11, 25):
        model[number] = [20 * number]
        write(number, model[number], declared, settings, spark)
    check(model, settings)
    assert compacted(settings) == [(2 + 1 + 2, 2)], "of both sides of day 25, and its own"
    check(model, settings)
    assert contents(tmp_path) == owned
    with epoch_run(READER, day(TAKEN + MORE - 1), settings=settings, spark=spark) as epoch:
        found = epoch.read(EVENTS)
        assert sorted(row.id for row in found.collect()) == sorted(
            row for ids in model.values() for row in ids
        )
        epoch.write("seen", found.groupBy("region").count())
