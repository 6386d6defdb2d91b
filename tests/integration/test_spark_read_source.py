"""Tables of others as sources, in Spark: an Iceberg table and a table in PostgreSQL, both real, written by others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pyarrow as pa
import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.errors import InvalidInput, Unavailable
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.source_bounds import (
    FileSource,
    IcebergSource,
    PostgresSource,
    SourceBounds,
    Span,
)
from airflow_provider.domain.topology import Job, Table
from airflow_provider.sources import postgresql as rows_of
from airflow_provider.sources.reader import IcebergRows
from airflow_provider.spark import reads, runtime
from airflow_provider.spark.epoch_run import epoch_run
from tests.contract.lakes import Lake, prices
from tests.servers.postgresql import PostgresqlServer
from tests.services import iceberg_runtime
from tests.services.postgresql import postgresql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["postgresql"]

MIDNIGHT = datetime(2024, 5, 1, tzinfo=UTC)
SOLD, QUOTED = Table("sold"), Table("quoted")
ORDERS = PostgresSource("orders", "orders", connection="shop", id_column="id", partitions=2)
on_connect = pytest.mark.parametrize("spark", ["connect"], indirect=True)
on_classic = pytest.mark.parametrize("spark", ["classic"], indirect=True)


def hour(number: int) -> Interval:
    return Interval(MIDNIGHT + timedelta(hours=number), MIDNIGHT + timedelta(hours=number + 1))


@pytest.fixture
def shop(postgresql: PostgresqlServer) -> Iterator[psycopg.Connection[Any]]:
    """A database of others; its URL is its ``info.dsn``'s."""
    url = postgresql.url(postgresql.create_database()).replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            'CREATE TABLE orders (id bigint PRIMARY KEY, "Amount" numeric(10,2), at timestamptz, naive timestamp)'
        )
        yield connection


def url_of(shop: psycopg.Connection[Any]) -> str:
    info = shop.info
    return f"postgresql+psycopg://{info.user}:{info.password}@{info.host}:{info.port}/{info.dbname}"


def order(shop: psycopg.Connection[Any], number: int) -> None:
    shop.execute("INSERT INTO orders VALUES (%s, 1.50, '2024-05-01 12:00+02', '2024-05-01 12:00')", (number,))


def rows(settings: Settings, table: str) -> list[dict[str, Any]]:
    with EpochService.open(settings) as service:
        found = service.cuts.read(service.cuts.cut("default", [table]), table)
    return sorted(found.to_pylist(), key=str)


@on_connect
def test_a_job_reads_two_sources_of_others(
    spark: SparkSession, settings: Settings, shop: psycopg.Connection[Any], tmp_path: Path
) -> None:
    """Each epoch has exactly the rows within its bounds, whatever is added while it computes."""
    lake = Lake(tmp_path / "others")
    job = Job("load", inputs=[ORDERS, prices()], outputs=[SOLD, QUOTED], cadence="@hourly")
    settings = replace(settings, connections={"shop": url_of(shop), "lake_db": lake.url})
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    for number in range(2):
        order(shop, 10 * number)
        order(shop, 10 * number + 3)
        lake.append(number)
        with epoch_run(job, hour(number), spark=spark, settings=settings) as epoch:
            order(shop, 10 * number + 5)
            lake.append(number + 100)
            epoch.write(SOLD, epoch.read_source("orders"))
            epoch.write(QUOTED, epoch.read_source("prices"))
    lake.close()
    sold = rows(settings, "sold")
    found = {(row["id"], row["_epoch"].hour) for row in sold}
    assert (len(sold), found) == (5, {(0, 1), (3, 1), (5, 2), (10, 2), (13, 2)})
    assert {(row["Amount"], row["at"], row["naive"]) for row in sold} == {
        (Decimal("1.50"), datetime(2024, 5, 1, 10, tzinfo=UTC), datetime.fromisoformat("2024-05-01T12:00"))
    }
    quoted = {(row["value"], row["_epoch"].hour) for row in rows(settings, "quoted")}
    assert quoted == {(0, 1), (1, 2), (100, 2)}


@on_classic
def test_rows_that_come_late_end_the_epoch(
    spark: SparkSession, settings: Settings, shop: psycopg.Connection[Any]
) -> None:
    """The count is looked at when they are read and when the block ends; nothing is published. As nothing stands on
    what was counted, the next try counts anew.
    """
    job = Job("load", inputs=[ORDERS], outputs=[SOLD], cadence="@hourly")
    settings = replace(settings, connections={"shop": url_of(shop)})
    order(shop, 4)

    def load(*, before: Sequence[int] = (), after: Sequence[int] = ()) -> None:
        with epoch_run(job, hour(0), spark=spark, settings=settings) as epoch:
            for late in before:
                order(shop, late)
            epoch.write(SOLD, epoch.read_source("orders"))
            for late in after:
                order(shop, late)

    with pytest.raises(Unavailable, match=r"2 rows with id in \(…, 4\], 1 rows"):
        load(after=[2])
    with pytest.raises(Unavailable, match=r"3 rows with id in \(…, 4\], 2 rows"):
        load(before=[1])
    load()
    assert [row["id"] for row in rows(settings, "sold")] == [1, 2, 4]


@on_classic
def test_each_kind_of_source_has_its_own_reader(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "others")
    lake.append(1)
    sources = [prices(), FileSource("landing", f"{tmp_path}/*.csv", late="ignore", complete=none_needed())]
    job = Job("load", inputs=sources, outputs=[QUOTED], cadence="@hourly")
    settings = replace(settings, connections={"lake_db": lake.url})
    with epoch_run(job, hour(0), spark=spark, settings=settings) as epoch:
        with pytest.raises(InvalidInput, match="epoch.read_source"):
            epoch.source_files("prices")
        with pytest.raises(InvalidInput, match="epoch.source_files"):
            epoch.read_source("landing")
        with pytest.raises(InvalidInput, match="declare FileSource"):
            epoch.read_source("nothing")
        epoch.write(QUOTED, epoch.read_source("prices"))
    lake.close()
    assert [row["value"] for row in rows(settings, "quoted")] == [1]


def test_a_session_without_the_driver_is_told_where_to_find_it(
    spark: SparkSession,
    settings: Settings,
    shop: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anything is computed; on a Connect server, too."""
    job = Job("load", inputs=[ORDERS], outputs=[SOLD], cadence="@hourly")
    settings = replace(settings, connections={"shop": url_of(shop)})
    monkeypatch.setattr(rows_of, "DRIVER", "org.nowhere.Driver")
    with (
        pytest.raises(InvalidInput, match="finds org.nowhere.Driver") as refused,
        epoch_run(job, hour(0), spark=spark, settings=settings) as epoch,
    ):
        epoch.read_source("orders")
    assert rows_of.PACKAGE in str(refused.value)
    assert str(shop.info.password) not in str(refused.value)


def values_of(
    spark: SparkSession,
    settings: Settings,
    number: int,
    *,
    meanwhile: Callable[[], None] = lambda: None,
    **options: str,
) -> list[tuple[Any, ...]]:
    """The rows that the epoch of an hour reads, and writes; *meanwhile* runs between its begin and the read."""
    job = Job("load", inputs=[prices(**options)], outputs=[QUOTED], cadence="@hourly")
    with epoch_run(job, hour(number), spark=spark, settings=settings) as epoch:
        meanwhile()
        df = epoch.read_source("prices")
        epoch.write(QUOTED, df.select("value"))
        return sorted(tuple(row) for row in df.collect())


@pytest.mark.usefixtures("runtime_jar")
def test_rows_that_files_do_not_tell_are_read_by_icebergs_runtime(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """Files without column ids, a column's default, and a column that only a file's partition tells; by increments, and
    under the names of the increment's end.
    """
    lake = Lake(tmp_path / "others")
    settings = replace(settings, connections={"lake_db": lake.url})
    lake.append(1)
    assert values_of(spark, settings, 0) == [(1,)]
    lake.add_plain_file(2)
    lake.append(3)
    renamed = partial(lake.rename, "value", "price")
    assert values_of(spark, settings, 1, meanwhile=renamed) == [(2,), (3,)]
    lake.rename("price", "value")
    lake.separate_by("text")
    lake.append_separated(4, "a")
    lake.append_bare(5, "b")
    assert values_of(spark, settings, 2) == [(4, "a"), (5, "b")]
    lake.append_separated(6, "c")
    lake.add_default({"id": 50, "name": "c", "required": False, "type": "int", "initial-default": 5})
    assert values_of(spark, settings, 3) == [(6, "c", 5)]
    lake.close()
    assert [row["value"] for row in rows(settings, "quoted")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.usefixtures("runtime_jar")
@on_classic
def test_the_state_of_a_table_with_delete_files(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column that the runtime gives another type than its files have would change the job's tables: it is named."""
    lake = Lake(tmp_path / "others")
    settings = replace(settings, connections={"lake_db": lake.url})
    theirs = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": f"{tmp_path}/theirs",
    }
    for name, value in theirs.items():
        spark.conf.set(f"spark.sql.catalog.merging{name}", value)
    spark.sql(
        "CREATE TABLE merging.market.prices (value bigint, c int) USING iceberg "
        "TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    )
    spark.sql("INSERT INTO merging.market.prices SELECT /*+ COALESCE(1) */ id, 7 FROM range(4)")
    spark.sql("DELETE FROM merging.market.prices WHERE value = 2")
    newest = sorted((tmp_path / "theirs/market/prices/metadata").glob("v*.metadata.json"))[-1]
    lake.point_to(f"file://{newest}")
    assert values_of(spark, settings, 0, reads="state") == [(0, 7), (1, 7), (3, 7)]
    bounds = SourceBounds(
        source="prices",
        span=Span(low=None, high=lake.newest, identity=str(lake.table.metadata.table_uuid)),
    )
    source, sources = prices(reads="state"), lake.sources()
    read = sources.rows(source, bounds)
    assert isinstance(read, IcebergRows)
    other = replace(read, columns=read.columns.set(1, read.columns.field("c").with_type(pa.int64())))
    monkeypatch.setattr(sources, "rows", lambda *_: other)
    with pytest.raises(
        InvalidInput, match="column 'c' of lake.market.prices is int through .* bigint in its"
    ):
        reads.source_dataframe(spark, sources, source, bounds)
    lake.close()


def test_a_session_without_icebergs_runtime_is_told(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that plain files do not tell are never read from them."""
    lake = Lake(tmp_path / "others")
    settings = replace(settings, connections={"lake_db": lake.url})
    lake.append(1)
    lake.add_default({"id": 50, "name": "c", "required": False, "type": "int", "initial-default": 5})
    monkeypatch.setattr(runtime, "RUNTIME", "nowhere")
    with pytest.raises(InvalidInput, match="the default 5 of column c .*lacks Iceberg's runtime") as refused:
        values_of(spark, settings, 0)
    assert "iceberg-spark-runtime" in refused.value.next_step
    lake.close()


@pytest.mark.slow
@on_classic
def test_a_table_that_spark_writes(
    spark: SparkSession, settings: Settings, shop: psycopg.Connection[Any], tmp_path: Path
) -> None:
    """Written by Iceberg's own runtime, its catalog in PostgreSQL; a column is added, and files are compacted."""
    if iceberg_runtime.jar() is None or iceberg_runtime.driver() is None:
        pytest.skip(
            "Iceberg's Spark runtime and the JDBC driver cannot be had: Maven Central does not answer"
        )
    parts = urlsplit(url_of(shop))
    catalog = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}",
        ".jdbc.user": str(parts.username),
        ".jdbc.password": str(parts.password),
        ".jdbc.schema-version": "V1",
        ".warehouse": f"{tmp_path}/theirs",
        ".cache-enabled": "false",
    }
    for name, value in catalog.items():
        spark.conf.set(f"spark.sql.catalog.theirs{name}", value)
    spark.sql(
        "CREATE TABLE theirs.market.prices (id bigint, day date, old string) USING iceberg PARTITIONED BY (day)"
    )
    source = IcebergSource("prices", "theirs.market.prices", connection="shop")
    job = Job("load", inputs=[source], outputs=[QUOTED], cadence="@hourly")
    settings = replace(settings, connections={"shop": url_of(shop)})

    def load(number: int) -> list[tuple[Any, ...]]:
        with epoch_run(job, hour(number), spark=spark, settings=settings) as epoch:
            df = epoch.read_source("prices")
            epoch.write(QUOTED, df.select("id"))
            return sorted(tuple(row) for row in df.drop("day").collect())

    spark.sql(
        "INSERT INTO theirs.market.prices VALUES (1, DATE'2024-05-01', 'a'), (2, DATE'2024-05-02', 'b')"
    )
    assert load(0) == [(1, "a"), (2, "b")]
    spark.sql("INSERT INTO theirs.market.prices VALUES (3, DATE'2024-05-01', 'c')")
    spark.sql("ALTER TABLE theirs.market.prices RENAME COLUMN old TO text")
    spark.sql("ALTER TABLE theirs.market.prices ADD COLUMN more int")
    spark.sql("INSERT INTO theirs.market.prices VALUES (4, DATE'2024-05-01', 'd', 7)")
    spark.sql(
        "CALL theirs.system.rewrite_data_files(table => 'market.prices', options => map('rewrite-all', 'true'))"
    )
    assert load(1) == [(3, "c", None), (4, "d", 7)]
    spark.sql("DELETE FROM theirs.market.prices WHERE id = 1")
    with pytest.raises(Unavailable, match="operation '(overwrite|delete)', no append"):
        load(2)
    assert [row["id"] for row in rows(settings, "quoted")] == [1, 2, 3, 4]
