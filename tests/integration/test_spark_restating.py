"""Restatements in Spark: members read each other's staged rows, by files and by SQL statements (R28)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.coordination.upkeep.audit import missing_files, stale_reads
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table, previous
from airflow_provider.spark.attempt_run import EpochRun
from airflow_provider.spark.computed import AlreadyComputed
from airflow_provider.spark.epoch_run import epoch_run, epoch_runs
from tests.services import iceberg_runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOOKINGS, ACCOUNTS = Table("bookings"), Table("accounts", kind="full")
MIDNIGHT = datetime(2013, 2, 8, tzinfo=UTC)
HOURS = Interval(MIDNIGHT, MIDNIGHT + timedelta(hours=3))
BOOK = Job("book", outputs=[BOOKINGS], cadence="@hourly", origin=MIDNIGHT)
KEEP = Job(
    "keep", inputs=[BOOKINGS, previous(ACCOUNTS)], outputs=[ACCOUNTS], cadence="@hourly", origin=MIDNIGHT
)
ADD = (
    "MERGE INTO {accounts} a USING booked b ON a.id = b.id "
    "WHEN MATCHED THEN UPDATE SET a.amount = a.amount + b.amount "
    "WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (b.id, b.amount)"
)


def book(epoch: EpochRun, amount: int) -> None:
    epoch.write(BOOKINGS, epoch.spark.range(2).selectExpr("id", f"{amount}L as amount"))


def keep_by_rows(epoch: EpochRun) -> None:
    rows = epoch.read(BOOKINGS).select("id", "amount")
    if epoch.interval.start > MIDNIGHT:
        rows = rows.union(epoch.read(ACCOUNTS).select("id", "amount"))
    epoch.write(ACCOUNTS, rows.groupBy("id").sum("amount").withColumnRenamed("sum(amount)", "amount"))


def keep_by_statements(epoch: EpochRun) -> None:
    epoch.read(BOOKINGS).createOrReplaceTempView("booked")
    with epoch.draft(ACCOUNTS, schema="id bigint, amount bigint") as accounts:
        epoch.spark.sql(ADD.format(accounts=accounts))


def amounts(service: EpochService, cut: Any = None) -> list[dict[str, Any]]:
    found = service.cuts.read(cut or service.cuts.cut("default", ["accounts"]), "accounts", ["id", "amount"])
    return sorted(found.to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("keep", [keep_by_rows, keep_by_statements])
def test_a_corrected_hour_goes_through_its_readers(
    spark: SparkSession, settings: Settings, service: EpochService, keep: Any
) -> None:
    """R28: accounts that add to their own past, of which each hour begins with the staged hour before."""
    if keep is keep_by_statements and iceberg_runtime.jar() is None:
        pytest.skip("Iceberg's Spark runtime cannot be had: Maven Central, or its mirror, does not answer")
    options: dict[str, Any] = {"spark": spark, "settings": settings}
    for hour, epoch in enumerate(epoch_runs(BOOK, HOURS, **options)):
        with epoch:
            book(epoch, 10**hour)
    for epoch in epoch_runs(KEEP, HOURS, **options):
        with epoch:
            keep(epoch)
    assert amounts(service) == [{"id": 0, "amount": 111}, {"id": 1, "amount": 111}]
    operations = service.restatements
    operations.open("default", ["bookings"], "2013-02-08T00", name="fix", reason="wrong amounts", by="me")
    within = {**options, "restatement": "fix", "owner": Owner(dag_id="fix", run_id="run")}
    with epoch_run(BOOK, "2013-02-08T00", **within) as run:
        book(run, 5)
    assert run.published is None
    with pytest.raises(AlreadyComputed, match="staged"), epoch_run(BOOK, "2013-02-08T00", **within):
        pass
    for epoch in epoch_runs(KEEP, HOURS, **within):
        with epoch:
            keep(epoch)
    assert amounts(service) == [{"id": 0, "amount": 111}, {"id": 1, "amount": 111}]
    after = [{"id": 0, "amount": 115}, {"id": 1, "amount": 115}]
    assert amounts(service, operations.cut("default", "fix", ["accounts"])) == after
    operations.publish("default", "fix")
    assert amounts(service) == after
    first = service.cuts.cut("default", ["accounts"], at=MIDNIGHT + timedelta(hours=1))
    assert amounts(service, first) == [{"id": 0, "amount": 5}, {"id": 1, "amount": 5}]
    assert [
        *stale_reads(service.store, BOOK.domain),
        *missing_files(service.store, service.formats, BOOK.domain),
    ] == []
