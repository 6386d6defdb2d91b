"""Statements on drafts whose source has other rows each time that Spark runs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.source_declarations import PostgresSource
from airflow_provider.domain.topology import Job, previous
from airflow_provider.spark import drafts
from airflow_provider.spark.attempt_run import EpochRun
from airflow_provider.spark.epoch_run import epoch_run
from tests.integration.test_spark_drafts import (
    ACCOUNTS,
    BOOKINGS,
    KEEP,
    OPENING,
    begun,
    hour,
    keep,
    kept,
    owner,
)
from tests.services import iceberg_runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = PostgresSource("orders", "orders", connection="shop", id_column="id")
PUT = """
    MERGE INTO {accounts} AS t USING changing AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET amount = 0
    WHEN NOT MATCHED THEN INSERT (id, branch, amount) VALUES (s.id, 'new', 0)
"""


@pytest.fixture(autouse=True)
def _runtime() -> None:
    if iceberg_runtime.jar() is None:
        pytest.skip("Iceberg's Spark runtime cannot be had: Maven Central, or its mirror, does not answer")


def test_a_statement_runs_a_source_once_whose_rows_may_change(
    spark: SparkSession, settings: Settings, service: EpochService, tmp_path: Path
) -> None:
    """R2: a MERGE looks for matches in files that it has chosen by another run, and inserts a row beside its match."""
    with epoch_run(KEEP, hour(0), spark=spark, settings=settings) as epoch:
        keep(epoch, OPENING)
    runs = tmp_path / "runs"

    def changing(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            with runs.open("a") as said:
                said.write("x")
            yield type(batch).from_pydict({"id": [3 if runs.stat().st_size == 1 else 1]})

    spark.range(1, numPartitions=1).mapInArrow(changing, "id bigint").createOrReplaceTempView("changing")
    inputs, outputs = (previous(ACCOUNTS), ORDERS), [ACCOUNTS, BOOKINGS]
    job = Job("keep", inputs=inputs, outputs=outputs, cadence="@hourly", origin=hour(0).start)
    before = spark.conf.get(drafts.GROUP_FILTER)
    with EpochRun(service, job, begun(service, owner(1), hour(1)), spark=spark) as epoch:
        keep(epoch, PUT)
    assert [row[0] for row in kept(service, 1)] == [1, 2, 3]
    assert runs.read_text() == "x"
    assert spark.conf.get(drafts.GROUP_FILTER) == before == "true"
