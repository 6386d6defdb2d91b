"""A cut as temporary views of a Spark session, and what is refused (R22)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from airflow_provider import connect
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.errors import InvalidInput, LeaseExpired
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Job, Table
from airflow_provider.spark.epoch_run import epoch_run
from airflow_provider.spark.views import cut_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIDNIGHT = datetime(2013, 2, 8, tzinfo=UTC)
JOB = Job("pair", outputs=[Table("events"), Table("odd-name.2")], cadence="@hourly")


def hour(number: int) -> Interval:
    return Interval(MIDNIGHT + timedelta(hours=number), MIDNIGHT + timedelta(hours=number + 1))


def commit(number: int, spark: SparkSession, settings: Settings) -> None:
    with epoch_run(JOB, hour(number), spark=spark, settings=settings) as epoch:
        for table in JOB.outputs:
            epoch.write(table, spark.range(number + 1))


def test_r22_views_of_a_leased_cut(spark: SparkSession, settings: Settings) -> None:
    """Joined by Spark itself; commits meanwhile change nothing; the views go with the block."""
    commit(0, spark, settings)
    query = (
        "SELECT count(*) AS n, max(_epoch) AS last FROM cut_events JOIN `cut_odd-name.2` USING (id, _epoch)"
    )
    with connect(settings) as epochs:
        with (
            epochs.lease(JOB.outputs, name="report") as lease,
            lease.cut.views(spark, prefix="cut_", with_epoch=True) as session,
        ):
            commit(1, spark, settings)
            assert session.sql(query).collect()[0].n == 1
            with pytest.raises(InvalidInput, match="cut_events"), lease.cut.views(spark, prefix="cut_"):
                pytest.fail("the views of the outer block were taken over")
            assert session.sql(query).collect()[0].n == 1, "a refused block leaves the views of others alone"
        assert not spark.catalog.tableExists("cut_events")
        with epochs.cut("events").views(spark) as session:
            assert session.sql("SELECT count(*) AS n FROM events").collect()[0].n == 3


@pytest.mark.parametrize("spark", ["connect"], indirect=True)
def test_lea4_block_with_an_ended_lease_fails_at_its_end(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R22: also when all rows were there; and before anything is read."""
    commit(0, spark, settings)
    lease = service.leases.cut("default", ["events"], name="report", owner="me")

    def block() -> None:
        with cut_views(service.cuts, lease.cut, spark) as session:
            assert session.sql("SELECT * FROM events").count() == 1
            service.leases.drop(lease)

    with pytest.raises(LeaseExpired, match="'report' has ended"):
        block()
    with pytest.raises(LeaseExpired), cut_views(service.cuts, lease.cut, spark):
        pytest.fail("the block was entered")
    assert not spark.catalog.tableExists("events")


@pytest.mark.parametrize("spark", ["classic", "connect"], indirect=True)
def test_r22_a_session_that_loses_rows_is_refused(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R22: when the block begins, and when it ends."""
    commit(0, spark, settings)
    cut = service.cuts.cut("default", ["events"])

    def block() -> None:
        with cut_views(service.cuts, cut, spark):
            spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")

    with pytest.raises(InvalidInput, match="ignoreMissingFiles"):
        block()
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "TRUE")  # which is the same to Spark
    with pytest.raises(InvalidInput, match="ignoreMissingFiles"), cut_views(service.cuts, cut, spark):
        pytest.fail("the block was entered")
