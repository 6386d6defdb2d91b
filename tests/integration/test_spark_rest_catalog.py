"""Spark reads cuts by its own client of Iceberg REST catalogs, without this package in the session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_provider import Job, Table
from airflow_provider.testing.local_epochs import LocalEpochs
from tests.services.catalog_server import application, served

TRIPS, TOTALS = Table("trips"), Table("totals", kind="full")
LOAD = Job("load", outputs=[TRIPS, TOTALS], cadence="@daily", on_rerun="new_revision")


def commit(local: LocalEpochs, day: int, n: int) -> None:
    rows: list[dict[str, Any]] = [{"n": n, "label": f"row {n}"}]
    local.commit(LOAD, f"2024-05-0{day}", {TRIPS: rows, TOTALS: rows})


@contextmanager
def catalog(spark: SparkSession, name: str, **options: str) -> Iterator[None]:
    """Declare a catalog in the session, as a user's configuration does."""
    settings = {
        f"spark.sql.catalog.{name}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{name}.type": "rest",
        f"spark.sql.catalog.{name}.token": "anything",
        f"spark.sql.catalog.{name}.token-refresh-enabled": "false",
        **{f"spark.sql.catalog.{name}.{option}": value for option, value in options.items()},
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)


def numbers(spark: SparkSession, query: str) -> list[tuple[int, ...]]:
    return sorted(tuple(row) for row in spark.sql(query).collect())


@pytest.mark.usefixtures("runtime_jar")
def test_spark_reads_a_held_cut_and_the_newest(classic_session: SparkSession, tmp_path: Path) -> None:
    """LEA1, R20: by its REST client; a warehouse stays one cut, a namespace moves."""
    spark = classic_session
    with LocalEpochs(tmp_path) as local:
        for day in (1, 2):
            commit(local, day, day)
        with (
            served(application(local.service)) as uri,
            catalog(spark, "held", uri=uri, warehouse="default?ttl=1h"),
            catalog(spark, "newest", uri=uri, **{"cache-enabled": "false"}),
        ):
            join = "SELECT trips.n, totals.n FROM {0}.trips CROSS JOIN {0}.totals"
            assert numbers(spark, join.format("held.default")) == [(1, 2), (2, 2)]
            commit(local, 3, 3)
            assert numbers(spark, join.format("held.default")) == [(1, 2), (2, 2)]
            assert numbers(spark, join.format("newest.default")) == [(1, 3), (2, 3), (3, 3)]
            then = "newest.`default?at=2024-05-02T00:00:00Z`"
            assert numbers(spark, join.format(then)) == [(1, 1)]
            assert numbers(spark, "SELECT n FROM held.default.trips WHERE label = 'row 2'") == [(2,)]
            assert numbers(spark, "SELECT count(*) FROM held.default.trips.files") == [(2,)]
            assert {row.tableName for row in spark.sql("SHOW TABLES IN held.default").collect()} == {
                "trips",
                "totals",
            }
            said: dict[str, str] = dict(spark.sql("DESCRIBE NAMESPACE EXTENDED held.default").collect())
            assert "(epochs.barrier,2024-05-03T00:00:00+00:00)" in said["Properties"]
            with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND|not found"):
                spark.sql("SELECT * FROM held.default.nothing").collect()
            for statement in (
                "INSERT INTO held.default.trips SELECT * FROM held.default.trips",
                "DROP TABLE held.default.trips",
                "CREATE TABLE held.default.mine (n INT)",
            ):
                with pytest.raises(Exception, match="(?i)not support|405|Method Not Allowed|cannot"):
                    spark.sql(statement).collect()
        assert sorted(row["n"] for row in local.rows(TRIPS)) == [1, 2, 3]
