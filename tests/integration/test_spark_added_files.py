"""Files of another program become slices as they are, and Spark reads them, with Iceberg's runtime and without."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider import (
    FileSource,
    Interval,
    InvalidInput,
    Job,
    Settings,
    Table,
    epoch_run,
    epoch_runs,
    none_needed,
    state,
)
from airflow_provider.coordination.service import EpochService
from airflow_provider.spark import runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = Table("events", partition_by=("region",))
FIRST = datetime(2024, 5, 1, tzinfo=UTC)
DAY = timedelta(days=1)
REGIONS = "region string"


def day(number: int) -> Interval:
    return Interval(FIRST + number * DAY, FIRST + (number + 1) * DAY)


def job(lake: Path) -> Job:
    files = FileSource("old", f"{lake}/day={{start:%Y-%m-%d}}/region=*/*.parquet", complete=none_needed())
    return Job("copy", inputs=[files], outputs=[EVENTS], cadence="@daily", origin=FIRST)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Path:
    """Three days of a table by Hive's layout, and a folder of files without column ids in it."""
    folder = tmp_path / "lake"
    rows = spark.range(30).selectExpr(
        "id",
        "named_struct('x', id, 'tags', array(concat('t', id))) AS point",
        "timestamp'2024-05-01 12:00:00' + make_interval(0, 0, 0, 0, id) AS at",
        "cast(id AS decimal(9, 2)) / 4 AS price",
        "date_format(date_add(date'2024-05-01', cast(id % 3 as int)), 'yyyy-MM-dd') AS day",
        "if(id % 2 = 0, 'eu/1', null) AS region",
    )
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    rows.write.partitionBy("day", "region").parquet(str(folder))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    return folder


def add_all(spark: SparkSession, settings: Settings, declared: Job) -> None:
    for epoch in epoch_runs(
        declared, Interval(FIRST, FIRST + 3 * DAY), spark=spark, settings=settings, commit="together"
    ):
        with epoch:
            epoch.add_files(EVENTS, epoch.source_files("old"), in_paths=REGIONS)


@pytest.mark.usefixtures("runtime_jar")
@pytest.mark.parametrize("way", ["runtime", "files"])
def test_files_of_a_folder_become_slices_and_the_job_goes_on(
    spark: SparkSession, settings: Settings, lake: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders of Hive's layout, a null in a folder's name, nested columns; then rows that the job writes."""
    if way == "files":
        monkeypatch.setattr(runtime, "opens", lambda *_: False)
    declared = job(lake)
    add_all(spark, settings, declared)
    with epoch_run(declared, day(3), spark=spark, settings=settings) as epoch:
        epoch.write(EVENTS, read(spark, lake).where("false").unionByName(one_row(spark)))
    reader = Job("reader", inputs=[state(EVENTS)], outputs=[Table("seen")], cadence="@daily")
    with epoch_run(reader, day(3), spark=spark, settings=settings) as epoch:
        found = epoch.read(EVENTS, with_epoch=True)
        assert found.where("_epoch = timestamp'2024-05-03 00:00:00+00:00'").count() == 10
        assert found.where("region = 'eu/1'").count() == 15
        assert found.where("region is null").selectExpr("sum(point.x)").first()[0] == 225 + 30
        assert found.where("_epoch is null").count() == 0
        assert found.where("price = 0.25").count() == 1
        rows = found.drop("_epoch").where("id < 30")
        old = read(spark, lake).select(rows.columns)
        assert rows.exceptAll(old).count() == 0
        assert old.exceptAll(rows).count() == 0
        epoch.write("seen", found.groupBy("region").count())


def read(spark: SparkSession, lake: Path) -> Any:
    return spark.read.parquet(str(lake)).drop("day")


def one_row(spark: SparkSession) -> Any:
    return spark.range(30, 31).selectExpr(
        "id",
        "named_struct('x', id, 'tags', array('new')) AS point",
        "timestamp'2024-05-04 12:00:00' AS at",
        "cast(id AS decimal(9, 2)) / 4 AS price",
        "cast(null AS string) AS region",
    )


def test_lists_of_sparks_legacy_form_are_refused(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """Readers of Iceberg tables take a list in such a list for another."""
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    folder = tmp_path / "lake" / "day=2024-05-01" / "region=eu"
    spark.range(1).selectExpr("array(array(id), array()) AS lists").write.parquet(str(folder))
    spark.conf.unset("spark.sql.parquet.writeLegacyFormat")
    with (
        pytest.raises(InvalidInput, match="three levels"),
        epoch_run(job(tmp_path / "lake"), day(0), spark=spark, settings=settings) as epoch,
    ):
        epoch.add_files(EVENTS, epoch.source_files("old"), in_paths=REGIONS)


def test_a_column_of_folders_has_to_partition_the_table(
    spark: SparkSession, settings: Settings, lake: Path, service: EpochService
) -> None:
    with (
        pytest.raises(InvalidInput, match="a column of partition_by of table 'events'"),
        epoch_run(job(lake), day(0), spark=spark, settings=settings) as epoch,
    ):
        epoch.add_files(EVENTS, epoch.source_files("old"), in_paths="day date")
    assert service.epoch("default", "copy", day(0)).record.attempt.aborted  # type: ignore[union-attr, arg-type]
