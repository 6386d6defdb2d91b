"""R17: Spark's own procedures on a domain's tables: what compacts is fine, what deletes is refused."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider.coordination.reading.queries import queries
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.move import move_domain
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.errors import ForeignCommit, SchemaMismatch, Unavailable
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Job, Table, previous
from airflow_provider.spark.epoch_run import epoch_run
from airflow_provider.spark.views import cut_views
from airflow_provider.stores.factory import upgrade_schema
from tests.servers.postgresql import PostgresqlServer
from tests.services import iceberg_runtime
from tests.services.postgresql import postgresql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["postgresql"]  # a fixture of this module

START = datetime(2013, 2, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)
EVENTS = Table("events", domain="shop")
COUNTS = Table("counts", domain="shop", kind="full", partition_by=["bucket(2, k)"])
LOAD = Job("load", outputs=[EVENTS], cadence="@hourly", origin=START)
RELOAD = Job("load", outputs=[EVENTS], cadence="@hourly", origin=START, on_rerun="new_revision")
ADOPTED = Table("events", domain="shop", on_foreign_commit="adopt")
ADOPTING = Job("load", outputs=[ADOPTED], cadence="@hourly", origin=START)
COUNT = Job("count", inputs=[EVENTS, previous(COUNTS)], outputs=[COUNTS], cadence="@hourly", origin=START)
Rows = list[tuple[Any, ...]]


@pytest.fixture
def settings(postgresql: PostgresqlServer, tmp_path: Path) -> Settings:
    """A store on a server, so that Spark's JDBC catalog finds the tables where they are published."""
    if iceberg_runtime.jar() is None or iceberg_runtime.driver() is None:
        pytest.skip("Iceberg's Spark runtime or its driver cannot be had: Maven Central does not answer")
    url = postgresql.url(postgresql.create_database())
    upgrade_schema(url)
    return Settings(store_url=url, warehouse=f"{tmp_path}/warehouse")


@pytest.fixture
def spark(classic_session: SparkSession, settings: Settings) -> Iterator[SparkSession]:
    """A session of its own that has the catalog, as the reference tells other programs to set it up."""
    found = classic_session.newSession()
    address = urlsplit(settings.store_url)
    for name, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:postgresql://{address.hostname}:{address.port}{address.path}",
        ".jdbc.user": address.username,
        ".jdbc.password": address.password,
        ".warehouse": f"file://{settings.warehouse}",
        ".cache-enabled": "false",
    }.items():
        found.conf.set(f"spark.sql.catalog.epochs{name}", str(value))
    yield found
    for view in found.catalog.listTables():
        found.catalog.dropTempView(view.name)


def load(spark: SparkSession, settings: Settings, number: int) -> None:
    """An hour of 40 rows in four files."""
    with run(spark, settings, LOAD, number) as epoch:
        epoch.write(EVENTS, spark.range(40 * number, 40 * number + 40, 1, 4).selectExpr("id", "id % 3 AS k"))


def count(spark: SparkSession, settings: Settings, number: int) -> None:
    """Add the hour to the totals, by statements."""
    with run(spark, settings, COUNT, number) as epoch:
        epoch.read(EVENTS).groupBy("k").count().createOrReplaceTempView("hour")
        with epoch.draft(COUNTS, schema="k bigint, count bigint") as draft:
            spark.sql(
                f"MERGE INTO {draft} t USING hour s ON t.k = s.k "
                "WHEN MATCHED THEN UPDATE SET count = t.count + s.count WHEN NOT MATCHED THEN INSERT *"
            )
    spark.catalog.dropTempView("hour")


def run(spark: SparkSession, settings: Settings, job: Job, number: int) -> Any:
    start = START + number * HOUR
    return epoch_run(job, Interval(start, start + HOUR), spark=spark, settings=settings)


def call(spark: SparkSession, procedure: str, table: Table, options: str = "") -> Any:
    (answer,) = spark.sql(f"CALL epochs.system.{procedure}(table => 'shop.{table.name}'{options})").collect()
    return answer


def compact(spark: SparkSession, table: Table) -> None:
    found = call(spark, "rewrite_data_files", table, ", options => map('rewrite-all', 'true')")
    assert found.rewritten_data_files_count > 0


def changelog(spark: SparkSession, table: Table, since: int, column: str) -> Rows:
    """Return the changes of *table* after the version *since*, by Iceberg's changelog: type and *column*, sorted."""
    options = f", options => map('start-snapshot-id', '{since}'), changelog_view => 'told'"
    call(spark, "create_changelog_view", table, options)
    return sorted(map(tuple, spark.table("told").select("_change_type", column).collect()))


def version(service: EpochService, table: Table) -> int:
    ref = service.cuts.cut("shop", [table.name]).states[table.name].ref
    assert ref is not None
    return ref.version


def every_way(spark: SparkSession, service: EpochService, cut: Cut) -> dict[str, Rows]:
    """The rows of each table of *cut*, as each reader gets them; equal, or the test ends here."""
    columns = {"events": ["id", "k"], "counts": ["k", "count"]}
    texts = queries(service.cuts, cut, "duckdb")
    found: dict[str, Rows] = {}
    with cut_views(service.cuts, cut, spark, prefix="cut_"):
        for table in cut.states:
            named = columns[table]
            arrow = service.cuts.read(cut, table, named).to_pylist()
            found[table] = sorted(tuple(row[name] for name in named) for row in arrow)
            assert found[table] == sorted(map(tuple, spark.table(f"cut_{table}").select(*named).collect()))
            with duckdb.connect() as other:
                assert found[table] == sorted(other.sql(texts[table]).select(*named).fetchall())
    return found


def test_r17_spark_compacts_rows_of_epochs(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R17, R19, R24: files of DataFrames and of drafts, between epochs; cuts of before and after read the same."""
    for number in range(2):
        load(spark, settings, number)
        count(spark, settings, number)
    first = service.cuts.cut("shop", ["events", "counts"])
    before = every_way(spark, service, first)
    assert before["counts"] == [(0, 27), (1, 27), (2, 26)]
    for table in (EVENTS, COUNTS):
        compact(spark, table)
    call(spark, "rewrite_manifests", EVENTS)
    assert [table.problem for table in service.recover("shop").tables] == ["", ""]
    assert every_way(spark, service, service.cuts.cut("shop", ["events", "counts"])) == before
    load(spark, settings, 2)
    count(spark, settings, 2)
    newest = service.cuts.cut("shop", ["events", "counts"])
    after = every_way(spark, service, newest)
    assert after["events"] == [(number, number % 3) for number in range(120)]
    assert after["counts"] == [(0, 40), (1, 40), (2, 40)]
    assert len(service.cuts.files(newest, "events")) < 12, "the compacted files are read"
    service.retention.expire("shop", "counts", START + HOUR)
    service.retention.vacuum("shop")
    assert every_way(spark, service, newest) == after
    assert (
        every_way(spark, service, service.cuts.cut("shop", ["events", "counts"], at=first.barrier)) == before
    )


def test_r17_iceberg_changelog_tells_what_leaves_and_what_comes(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R17: a revision, and the next state of a full table that statements made."""
    load(spark, settings, 0)
    first = version(service, EVENTS)
    with run(spark, settings, RELOAD, 0) as epoch:
        epoch.write(EVENTS, spark.range(100, 103).selectExpr("id", "id % 3 AS k"))
    assert changelog(spark, EVENTS, first, "id") == [
        *(("DELETE", number) for number in range(40)),
        *(("INSERT", number) for number in (100, 101, 102)),
    ]
    count(spark, settings, 0)
    first = version(service, COUNTS)
    with run(spark, settings, RELOAD, 1) as epoch:
        epoch.write(EVENTS, spark.range(3, 9).selectExpr("id", "id % 3 AS k"))
    count(spark, settings, 1)
    assert spark.table("epochs.shop.counts").count() == 3
    assert changelog(spark, COUNTS, first, "count") == [*[("DELETE", 1)] * 3, *[("INSERT", 3)] * 3]


def test_r17_iceberg_changelog_tells_adopted_rows_once(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R17: Spark names its manifests ``file:/…``, and lists of later epochs name them likewise."""
    with run(spark, settings, ADOPTING, 0) as epoch:
        epoch.write(EVENTS, spark.range(3).selectExpr("id", "id % 3 AS k"))
    first = version(service, EVENTS)
    spark.sql("INSERT INTO epochs.shop.events SELECT 999, 0, TIMESTAMP '2013-02-08 01:00:00 UTC'")
    for number in (1, 2):
        with run(spark, settings, ADOPTING, number) as epoch:
            epoch.write(EVENTS, spark.range(10 * number, 10 * number + 2).selectExpr("id", "id % 3 AS k"))
    assert changelog(spark, EVENTS, first, "id") == [("INSERT", number) for number in (10, 11, 20, 21, 999)]
    spark.sql("DELETE FROM epochs.shop.events WHERE id IN (999, 1)")
    with run(spark, settings, ADOPTING, 3) as epoch:
        epoch.write(EVENTS, spark.range(30, 32).selectExpr("id", "id % 3 AS k"))
    told = changelog(spark, EVENTS, first, "id")
    assert [row for row in told if row[1] in {1, 999}] == [("DELETE", 1), ("DELETE", 999), ("INSERT", 999)]
    assert sum(1 if change == "INSERT" else -1 for change, _ in told) == 5
    assert service.cuts.read(service.cuts.cut("shop", ["events"]), "events").num_rows == 3 + 5


def test_r26_an_expiry_that_was_forced_ends_neither_the_newest_state_nor_publishes(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R26: older states are lost, with an error; the next publish forbids the expiry again."""
    job = Job("count", outputs=[COUNTS], cadence="@hourly", origin=START)

    def total(number: int) -> None:
        with run(spark, settings, job, number) as epoch:
            epoch.write(COUNTS, spark.range(2).selectExpr("id AS k", f"id + {number} AS count"))

    for number in range(3):
        total(number)
    spark.sql("ALTER TABLE epochs.shop.counts SET TBLPROPERTIES ('gc.enabled' = 'true')")
    (symptom,) = examine(service.store, service.formats, "shop").symptoms
    assert (symptom.subject, symptom.urgent) == ("settings of counts", False)
    assert "gc.enabled=true" in symptom.found
    options = ", retain_last => 1, older_than => TIMESTAMP '2100-01-01 00:00:00'"
    assert call(spark, "expire_snapshots", COUNTS, options).deleted_manifest_files_count > 0
    newest, older = (
        service.cuts.cut("shop", ["counts"], at=START + timedelta(hours=hour)) for hour in (3, 2)
    )
    assert every_way(spark, service, newest) == {"counts": [(0, 2), (1, 3)]}
    with pytest.raises(Unavailable, match="avro"):
        service.cuts.read(older, "counts")
    total(3)
    assert every_way(spark, service, service.cuts.cut("shop", ["counts"])) == {"counts": [(0, 3), (1, 4)]}
    with pytest.raises(Exception, match="GC is disabled"):
        call(spark, "expire_snapshots", COUNTS)
    lost = [
        symptom
        for symptom in examine(service.store, service.formats, "shop").symptoms
        if symptom.subject == "files of counts"
    ]
    assert len(lost) == 1


def test_r17_r26_spark_deletes_no_file_and_its_rows_stop_the_next_publish(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R17, R26: it deletes no file, and rows beside epochs stop the next publish; cuts read what was published."""
    load(spark, settings, 0)
    for procedure, options in (("expire_snapshots", ", retain_last => 1"), ("remove_orphan_files", "")):
        with pytest.raises(Exception, match="GC is disabled"):
            call(spark, procedure, EVENTS, options)
    spark.sql("INSERT INTO epochs.shop.events SELECT 999, 0, TIMESTAMP '2013-02-08 01:00:00 UTC'")
    with pytest.raises(ForeignCommit, match="append") as refused:
        load(spark, settings, 1)
    assert len(every_way(spark, service, service.cuts.cut("shop", ["events"]))["events"]) == 40
    statement = refused.value.next_step.split("`")[1]
    spark.sql(statement.replace("CATALOG", "epochs"))
    load(spark, settings, 1)
    assert len(every_way(spark, service, service.cuts.cut("shop", ["events"]))["events"]) == 80
    spark.sql("ALTER TABLE epochs.shop.events ADD COLUMN more string")
    with pytest.raises(SchemaMismatch, match=r"'more'.*Another program has changed"):
        load(spark, settings, 2)
    spark.sql("ALTER TABLE epochs.shop.events DROP COLUMN more")
    load(spark, settings, 2)
    assert len(every_way(spark, service, service.cuts.cut("shop", ["events"]))["events"]) == 120


@pytest.mark.slow
def test_r41_added_files_are_compacted_once_spark_has_rewritten_them(
    spark: SparkSession, settings: Settings, service: EpochService, tmp_path: Path
) -> None:
    """R41: a day with files of another program is left, and says the way out, which then leads to one file."""
    job = Job("load", outputs=[EVENTS], cadence="0 */8 * * *", origin=START, on_rerun="new_revision")
    thirds = [Interval(START + hour * HOUR, START + (hour + 8) * HOUR) for hour in (0, 8, 16)]
    for number, third in enumerate(thirds):
        ids = range(40 * number, 40 * number + 40)
        file = tmp_path / f"old-{number}.parquet"
        pq.write_table(pa.table({"id": ids, "k": pa.array([row % 3 for row in ids], pa.int64())}), file)
        with epoch_run(job, third, spark=spark, settings=settings) as epoch:
            if number == 1:
                epoch.write(EVENTS, spark.read.parquet(str(file)))
            else:
                epoch.add_files(EVENTS, [f"file://{file}"])
    (left,) = service.retention.compact("shop", EVENTS, unit="day")
    assert (left.before, left.after) == (3, None)
    assert "let Spark rewrite them (rewrite_data_files with rewrite-all)" in str(left)
    compact(spark, EVENTS)
    (done,) = service.retention.compact("shop", EVENTS, unit="day")
    assert (done.before, done.after, done.why) == (3, 1, "")
    rows = every_way(spark, service, service.cuts.cut("shop", ["events"]))["events"]
    assert rows == [(row, row % 3) for row in range(120)]
    with epoch_run(job, thirds[0], spark=spark, settings=settings) as epoch:
        epoch.write(EVENTS, spark.range(1).selectExpr("id", "id AS k"))
    corrected = service.cuts.read(service.cuts.cut("shop", ["events"]), "events", ["id"]).column("id")
    assert sorted(corrected.to_pylist()) == [0, *range(40, 120)]


@pytest.mark.slow
def test_r33_copy_of_compacted_tables_replaces_the_original(
    spark: SparkSession, settings: Settings, postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    """R33: manifests and metadata that Spark wrote name the copy's files, too; the original may go."""
    load(spark, settings, 0)
    count(spark, settings, 0)
    compact(spark, EVENTS)
    call(spark, "rewrite_manifests", EVENTS)
    load(spark, settings, 1)
    count(spark, settings, 1)
    url = postgresql.url(postgresql.create_database())
    upgrade_schema(url)
    elsewhere = Settings(store_url=url, warehouse=f"{tmp_path}/copy")
    shutil.copytree(settings.warehouse.removeprefix("file://"), elsewhere.warehouse.removeprefix("file://"))
    with EpochService.open(settings) as source, EpochService.open(elsewhere) as target:
        before = every_way(spark, source, source.cuts.cut("shop", ["events", "counts"]))
        places = {"source_place": "source", "target_place": "target"}
        move_domain(source.context, target.context, "shop", **places, warehouse=True)
    shutil.rmtree(settings.warehouse.removeprefix("file://"))
    with EpochService.open(elsewhere) as service:
        assert every_way(spark, service, service.cuts.cut("shop", ["events", "counts"])) == before
        load(spark, elsewhere, 2)
        assert len(every_way(spark, service, service.cuts.cut("shop", ["events"]))["events"]) == 120
