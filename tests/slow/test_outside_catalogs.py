"""Tables in catalogs outside of the stores' databases: the table contract on each, the catalogs' on Glue."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider import Interval, Job, Table, epoch_run
from airflow_provider.coordination.service import Settings
from airflow_provider.stores.factory import upgrade_schema
from airflow_provider.testing.table_contract import ProjectedTableContract, TableBackend
from tests.contract.outside_backend import OutsideBackend
from tests.contract.outside_catalogs import GluePlace, HivePlace, RestPlace
from tests.contract.test_iceberg_catalogs import CatalogContract, RemarkCases
from tests.servers.aws import Emulator
from tests.servers.hive import HiveMetastore
from tests.servers.iceberg_rest import RestCatalogServer
from tests.services import iceberg_runtime
from tests.services.directories import quick_directory
from tests.services.spark import UNCLOSED, classic_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOAD = Job(
    "load",
    outputs=[Table("shop"), Table("totals", kind="full")],
    cadence="@hourly",
    origin=datetime(2024, 5, 1, tzinfo=UTC),
)


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    with HiveMetastore(tmp_path_factory.mktemp("hive")) as server:
        yield server


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalogServer]:
    if (jar := iceberg_runtime.jar()) is None:
        pytest.skip("Maven Central does not answer")
    with RestCatalogServer(jar, tmp_path_factory.mktemp("rest")) as server:
        yield server


@pytest.fixture(scope="module")
def glue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GluePlace]:
    """Glue; this process's environment leads to its emulator."""
    with pytest.MonkeyPatch.context() as patch, Emulator("glue", tmp_path_factory.mktemp("glue")) as server:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield GluePlace()


class TestTablesInHive(ProjectedTableContract):
    """Iceberg, its pointers in a Hive metastore."""

    examples = 3

    @pytest.fixture
    def backend(self, hive: HiveMetastore) -> Iterator[TableBackend]:
        hive.clear()
        with quick_directory("epochs-tables-") as folder, OutsideBackend(folder, HivePlace(hive)) as backend:
            yield backend


class TestTablesInGlue(ProjectedTableContract):
    """Iceberg, its pointers in Glue."""

    examples = 3

    @pytest.fixture
    def backend(self, glue: GluePlace) -> Iterator[TableBackend]:
        glue.clear()
        with quick_directory("epochs-tables-") as folder, OutsideBackend(folder, glue) as backend:
            yield backend


class TestTablesInRest(ProjectedTableContract):
    """Iceberg, its pointers in a REST catalog; also in one that keeps a file of its own from the beginning."""

    examples = 3

    @pytest.fixture(params=["lake", "copies"])
    def backend(self, request: pytest.FixtureRequest, rest: RestCatalogServer) -> Iterator[TableBackend]:
        place = RestPlace(rest, request.param)
        place.clear()
        with quick_directory("epochs-tables-") as folder, OutsideBackend(folder, place) as backend:
            yield backend


class TestGlue(RemarkCases, CatalogContract):
    """Glue as a catalog."""

    @pytest.fixture
    def place(self, glue: GluePlace) -> GluePlace:
        glue.clear()
        return glue


@pytest.mark.filterwarnings(UNCLOSED)
@pytest.mark.parametrize("kind", ["hive", "rest"])
def test_spark_reads_and_compacts_by_the_catalog(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """R17: epochs are published, Iceberg's own client loads and rewrites the tables, and epochs go on."""
    server = request.getfixturevalue(kind)
    if kind == "rest":
        RestPlace(server).clear()
        catalog_url, address = server.url(), server.uri
    else:
        server.clear()
        catalog_url, address = server.url, server.thrift
    if (jar := iceberg_runtime.jar()) is None:
        pytest.skip("Maven Central does not answer")
    url = f"sqlite:///{tmp_path}/epochs.db"
    upgrade_schema(url)
    settings = Settings(store_url=url, warehouse=f"file://{tmp_path}/warehouse", catalog_url=catalog_url)
    catalog = {
        "spark.jars": str(jar),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": kind,
        "spark.sql.catalog.lake.uri": address,
        "spark.sql.catalog.lake.warehouse": "lake" if kind == "rest" else f"{tmp_path}/unused",
        "spark.sql.catalog.lake.cache-enabled": "false",
        # A metastore that runs in a test refuses Iceberg's locks; this one compares pointers without them.
        "spark.hadoop.iceberg.engine.hive.lock-enabled": "false",
    }
    with classic_spark("local[2]", catalog) as spark:
        for hour in range(3):
            load(spark, settings, hour)
        for table in ("shop", "totals"):
            rows = spark.table(f"lake.default.{table}")
            (found,) = rows.selectExpr("count(*)", "count(DISTINCT _epoch)").collect()
            assert tuple(found) == {"shop": (300, 3), "totals": (1, 1)}[table]
        options = "options => map('rewrite-all', 'true')"
        spark.sql(f"CALL lake.system.rewrite_data_files(table => 'default.shop', {options})").collect()
        load(spark, settings, 3)
        assert spark.table("lake.default.shop").count() == 400
        (total,) = spark.table("lake.default.totals").select("rows").collect()
        assert total["rows"] == 400


def load(spark: SparkSession, settings: Settings, hour: int) -> None:
    """An hour of a hundred rows, and the number of all rows since."""
    start = datetime(2024, 5, 1, hour, tzinfo=UTC)
    with epoch_run(
        LOAD, Interval(start, start + timedelta(hours=1)), settings=settings, spark=spark
    ) as epoch:
        epoch.write("shop", spark.range(100 * hour, 100 * hour + 100, 1, 2).toDF("id"))
        epoch.write("totals", spark.range(1).selectExpr(f"{100 * hour + 100}L AS rows"))
