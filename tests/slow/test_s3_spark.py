"""Spark on S3 by Hadoop's own file system: reads through Iceberg's runtime, and statements on drafts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider import Job, Table, connect, epoch_run, previous
from airflow_provider.coordination.service import Settings
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.stores.factory import upgrade_schema
from benchmarks import read
from benchmarks.sizes import Size
from tests.servers.aws import S3Emulator
from tests.services import iceberg_runtime
from tests.services.spark import UNCLOSED, classic_spark, hadoop_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings(UNCLOSED)

ACCOUNTS, LOG = Table("accounts", kind="full"), Table("log")
KEEP = Job(
    "keep",
    inputs=[previous(ACCOUNTS)],
    outputs=[ACCOUNTS, LOG],
    cadence="@daily",
    origin=datetime(2024, 5, 1, tzinfo=UTC),
)
INSERT = "INSERT INTO {} VALUES (1, 1D), (2, 2D)"
MERGE = """MERGE INTO {} t USING (SELECT {} id, {}.5D v) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"""


@pytest.fixture
def settings(s3: S3Emulator, tmp_path: Path) -> Settings:
    bucket = f"epochs-{uuid.uuid4().hex[:12]}"
    s3.make_bucket(bucket)
    url = f"sqlite:///{tmp_path}/epochs.db"
    upgrade_schema(url)
    return Settings(store_url=url, warehouse=f"s3://{bucket}/ware house")


@pytest.fixture
def spark(s3: S3Emulator, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session with Iceberg's runtime, and with Hadoop's S3 where the parameter says so."""
    jars = [iceberg_runtime.jar(), *(iceberg_runtime.s3() or [None])]
    if not all(jars):
        pytest.skip("Maven Central does not answer")
    settings = hadoop_settings(s3)
    chosen = jars if request.param else jars[:1]
    named = {"spark.jars": ",".join(map(str, chosen))}
    with classic_spark("local[2]", {**(settings if request.param else {}), **named}) as session:
        yield session


@pytest.mark.parametrize("spark", [True], indirect=True, ids=["hadoop-aws"])
def test_statements_and_filtered_reads_go_through_the_jvm(spark: SparkSession, settings: Settings) -> None:
    """R22: rows of drafts and of written files, both read by Iceberg's runtime with the filter in its scan."""
    for day in (1, 2, 3):
        with epoch_run(KEEP, f"2024-05-0{day}", settings=settings, spark=spark) as epoch:
            with epoch.draft(ACCOUNTS, schema="id bigint, v double" if day == 1 else None) as accounts:
                spark.sql((INSERT if day == 1 else MERGE).format(accounts, day, day))
            epoch.write(LOG, spark.createDataFrame([(day, f"day {day}")], "n bigint, s string"))
    with connect(settings) as epochs:
        cut = epochs.cut([ACCOUNTS, LOG])
        with cut.views(spark):
            found = spark.table("log").where("n = 2")
            assert [row.s for row in found.collect()] == ["day 2"]
            plan = found._jdf.queryExecution().executedPlan().toString()
            assert "IcebergScan" in plan
            assert "n = 2" in plan
            rows = sorted((row.id, row.v) for row in spark.table("accounts").collect())
        assert rows == [(1, 1.0), (2, 2.5), (3, 3.5)]
        again = cut["accounts"].to_arrow(["id", "v"]).to_pylist()
        assert sorted((row["id"], row["v"]) for row in again) == rows


def test_reads_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """The benchmark in its smallest size; its figure means nothing."""
    if iceberg_runtime.s3() is None:
        pytest.skip("Maven Central does not answer")
    read.measure_object_store(Size.SMALLEST)
    assert "figure bench.read.object_store.ratio" in capsys.readouterr().out


@pytest.mark.parametrize("spark", [False], indirect=True, ids=["no file system"])
def test_a_session_without_the_file_system_refuses_statements(
    spark: SparkSession, settings: Settings, s3: S3Emulator
) -> None:
    """A draft is refused by the name of what is missing, and nothing is left of the attempt."""

    def compute() -> None:
        with epoch_run(KEEP, "2024-05-01", settings=settings, spark=spark) as epoch:
            epoch.write(LOG, spark.createDataFrame([(1, "day 1")], "n bigint, s string"))
            with epoch.draft(ACCOUNTS, schema="id bigint, v double"):
                raise AssertionError("the draft was opened")

    with pytest.raises(InvalidInput, match="hadoop-aws"):
        compute()
    assert not [key for key in s3.keys(settings.warehouse.split("/")[2]) if key.endswith(".parquet")]
