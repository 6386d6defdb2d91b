"""The table that the demo writes by a statement on S3 is the one that it writes by DataFrames elsewhere."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider import Job, Table, epoch_run, previous, state
from airflow_provider.testing.local_epochs import LocalEpochs
from spark_jobs import nyc_statements, nyc_transforms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TODAY = Table("carrier_daily")
BY_MERGE, BY_ROWS = Table("carrier_to_date", kind="full"), Table("by_rows", kind="full")
ORIGIN = datetime(2013, 2, 8, tzinfo=UTC)
SCORECARDS = Job("scorecards", outputs=[TODAY], cadence="@daily", origin=ORIGIN)
TRENDS = Job(
    "carrier_trends",
    inputs=[state(TODAY), previous(BY_MERGE), previous(BY_ROWS)],
    outputs=[BY_MERGE, BY_ROWS],
    cadence="@daily",
    origin=ORIGIN,
)
DAYS: dict[date, list[tuple[Any, ...]]] = {
    date(2013, 2, 8): [("EV", 10, 2, 900, 5.0), ("HA", 1, 0, 4983, None), ("B6", 4, 4, 40, None)],
    date(2013, 2, 9): [("EV", 3, 3, 300, None), ("B6", 1, 0, 10, 2.5), ("AS", 1, 0, 2402, -3.0)],
}
SUMS = {
    "AS": (1, 0, 2402, -3.0),
    "B6": (5, 4, 50, 2.5),
    "EV": (13, 5, 1200, 5.0),
    "HA": (1, 0, 4983, None),
}


@pytest.mark.usefixtures("runtime_jar")
def test_merge_adds_a_day_as_the_transform_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Carriers of both days, of one, and those without a departure."""
    if "connect" in type(spark).__module__:
        monkeypatch.setenv(
            "SPARK_CONNECT_MODE_ENABLED", "1"
        )  # for pyspark.sql.functions, as in a task of its own
    else:
        monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
    schema = nyc_transforms.CARRIER_TO_DATE
    names = [column.split()[0] for column in schema.split(", ")]
    with LocalEpochs(tmp_path) as local:
        for day, rows in DAYS.items():
            dated = [{"day": day, **dict(zip(names, row, strict=True))} for row in rows]
            local.commit(SCORECARDS, day.isoformat(), {TODAY: dated})
            with epoch_run(TRENDS, day.isoformat(), local=local, spark=spark) as epoch:
                both = epoch.read(TODAY)
                today = both.where(both["day"] == day)
                nyc_statements.write_carrier_to_date(epoch, today)
                before = epoch.read(BY_ROWS, schema=schema)
                epoch.write(BY_ROWS, nyc_transforms.carrier_to_date(before, today))
            assert nyc_statements.TODAY not in {view.name for view in spark.catalog.listTables()}
        for table in (BY_MERGE, BY_ROWS):
            found = {row["carrier"]: tuple(row[name] for name in names[1:]) for row in local.rows(table)}
            assert found == SUMS, table
