"""Columns that change between epochs, from Spark's side: DataFrames in, DataFrames and drafts out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.columns import ColumnChange, add, drop, rename, widen
from airflow_provider.domain.errors import SchemaMismatch
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table, previous, state
from airflow_provider.spark.epoch_run import epoch_run
from tests.services import iceberg_runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIDNIGHT = datetime(2013, 2, 8, tzinfo=UTC)
RIDES = Table("rides")
SEEN = Job("seen", inputs=[state(RIDES)], outputs=[Table("seen")], cadence="@hourly")
OLD = (
    "cast(id as int) as id",
    "concat('cab ', id) as cab",
    "cast(id / 2 as float) as miles",
    "id * 1.0 as meter",
    "cast(id as decimal(9,2)) as fare",
)
NEW = (
    "id + 5000000000 as id",
    "concat('cab ', id) as vehicle",
    "cast(id as double) as miles",
    "cast(id as decimal(38,2)) as fare",
    "array(named_struct('a', cast(id as int))) as tags",
    "-id as meter",
)
CHANGES = (
    rename("cab", "vehicle"),
    widen("id", "bigint"),
    widen("miles", "double"),
    widen("fare", "decimal(38,2)"),
    drop("meter"),
    add("tags", "array<struct<a:int>>"),
    add("meter", "bigint"),
)


def hour(number: int) -> Interval:
    return Interval(MIDNIGHT + timedelta(hours=number), MIDNIGHT + timedelta(hours=number + 1))


def writer(*changes: ColumnChange) -> Job:
    return Job("rides", outputs=[Table("rides", column_changes=changes)], cadence="@hourly")


OPENING = "INSERT INTO {accounts} VALUES (1, 10), (2, 20)"
VISIT = "INSERT INTO {accounts} VALUES (3, 30, 1)"


def test_rows_of_before_and_after_a_change_are_one_table(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R32: renamed, widened, dropped, added and added again, in one declaration; an older one writes on."""
    with epoch_run(writer(), hour(0), spark=spark, settings=settings) as epoch:
        epoch.write(RIDES, spark.range(10).selectExpr(*OLD))
    with (
        pytest.raises(SchemaMismatch, match="'cab', 'meter'"),
        epoch_run(writer(), hour(1), spark=spark, settings=settings) as epoch,
    ):
        epoch.write(RIDES, spark.range(10).selectExpr("cast(id as int) as id", *OLD[2:3], OLD[4]))
    with epoch_run(writer(*CHANGES), hour(1), spark=spark, settings=settings) as epoch:
        epoch.write(RIDES, spark.range(10).selectExpr(*NEW))
    with epoch_run(writer(), hour(2), spark=spark, settings=settings) as epoch:
        epoch.write(RIDES, spark.range(10).selectExpr(*OLD))
    with epoch_run(SEEN, hour(2), spark=spark, settings=settings) as epoch:
        df = epoch.read(RIDES)
        assert dict(df.dtypes) == {
            "id": "bigint",
            "vehicle": "string",
            "miles": "double",
            "fare": "decimal(38,2)",
            "tags": "array<struct<a:int>>",
            "meter": "bigint",
        }
        expected = {
            "true": 30,
            "vehicle = 'cab 3'": 3,
            "id = 3": 2,
            "id > 5000000000": 9,
            "miles = 1.5": 2,
            "fare = 3": 3,
            "meter is null": 20,
            "meter = -3": 1,
            "tags is null": 20,
            "tags[0].a = 3": 1,
        }
        assert {condition: df.where(condition).count() for condition in expected} == expected
        epoch.write("seen", df.selectExpr("count(*) as rows"))
    rows = service.cuts.read(service.cuts.cut("default", ["rides"]), "rides")
    assert rows.num_rows == 30
    assert sorted(set(rows.column("vehicle").to_pylist())) == [f"cab {number}" for number in range(10)]


@pytest.mark.parametrize("spark", ["classic"], indirect=True)
def test_statements_see_the_new_columns_in_rows_of_before(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R32: on files that the draft shares with the slice before; an older program would lose what it does not know."""
    if iceberg_runtime.jar() is None:
        pytest.skip("Iceberg's Spark runtime cannot be had: Maven Central, or its mirror, does not answer")
    before = Table("accounts", kind="full")
    after = Table(
        "accounts",
        kind="full",
        column_changes=[rename("sum", "amount"), widen("amount", "decimal(12,2)"), add("visits", "int")],
    )
    jobs = [
        Job("keep", inputs=[previous(declared)], outputs=[declared], cadence="@hourly", origin=MIDNIGHT)
        for declared in (before, after)
    ]
    with (
        epoch_run(jobs[0], hour(0), spark=spark, settings=settings) as epoch,
        epoch.draft(before, schema="id bigint, sum decimal(10,2)") as accounts,
    ):
        spark.sql(OPENING.format(accounts=accounts))
    with epoch_run(jobs[1], hour(1), spark=spark, settings=settings) as epoch:
        assert epoch.read(after).columns == ["id", "amount", "visits"]
        with epoch.draft(after) as accounts:
            spark.sql(VISIT.format(accounts=accounts))
            assert spark.table(accounts).where("visits is null").count() == 2
    older = Owner(dag_id="an older version", run_id="1")
    with (
        pytest.raises(SchemaMismatch, match="newest declaration"),
        epoch_run(jobs[0], hour(2), spark=spark, settings=settings, owner=older) as epoch,
        epoch.draft(before),
    ):
        pass
    wanted = {
        0: [(1, Decimal(10), None), (2, Decimal(20), None)],
        1: [(1, Decimal(10), None), (2, Decimal(20), None), (3, Decimal(30), 1)],
    }
    for number, rows in wanted.items():
        cut = service.cuts.cut("default", ["accounts"], at=hour(number).end)
        found = service.cuts.read(cut, "accounts", ["id", "amount", "visits"]).to_pylist()
        assert sorted(tuple(row.values()) for row in found) == rows
