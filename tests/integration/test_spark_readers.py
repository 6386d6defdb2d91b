"""Every reader gets every type as it was written: docs/reference/readers.md."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_provider import InvalidInput, Job, ReadableCut, Table, connect, epoch_run
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.spark import reads, runtime
from airflow_provider.testing.arrow_attempts import write_rows
from tests.integration.test_spark_rest_catalog import catalog
from tests.readers import PAGE, READERS, RECORDING, TIME, TYPES, page
from tests.services.catalog_server import application, served

VALUES, TIMES = Table("values"), Table("times")
DAY = Interval(datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 2, tzinfo=UTC))
JOB = Job("write", outputs=[VALUES], cadence="@daily", origin=DAY.start)
ARROW_JOB = Job("write_by_arrow", outputs=[TIMES], cadence="@daily", origin=DAY.start)
NOON = time(12, 0, 0, 1)


def plain(value: Any) -> Any:
    """Return *value* in a form in which equal values of all readers are equal, and no others."""
    match value:
        case datetime(tzinfo=None):
            return f"local {value.isoformat()}"
        case datetime():
            return value.astimezone(UTC).isoformat()
        case Decimal():
            return f"decimal {value:f}"
        case float():
            return repr(value)
        case dict():
            return {name: plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case _:
            return value


def row(table: pa.Table) -> list[Any]:
    (found,) = table.select([f"c{number}" for number in range(len(TYPES))]).to_pylist()
    return [plain(value) for value in found.values()]


SCANS = {
    "Spark, Iceberg's runtime": "BatchScan",
    "Spark, its own Parquet reader": "FileScan",
    "Spark, Python workers": "InArrow",
}


def by_view(reader: str, cut: ReadableCut, table: str, spark: SparkSession) -> pa.Table:
    with cut.views(spark) as session:
        found = session.table(table)
        assert SCANS[reader] in found._jdf.queryExecution().executedPlan().toString()
        return found.toArrow()


def found_by(reader: str, cut: ReadableCut, table: Table, spark: SparkSession, uri: str) -> pa.Table:
    name = str(table.name)
    ways: dict[str, Callable[[], pa.Table]] = {
        "Arrow": cut[name].to_arrow,
        "DuckDB": lambda: cut.sql(f'FROM "{name}"'),
        "pyiceberg, cut file": lambda: (
            StaticTable.from_metadata(cut[name].metadata_location()).scan().to_arrow()
        ),
        "pyiceberg, REST catalog": lambda: (
            load_catalog("cut", type="rest", uri=uri, warehouse="default")
            .load_table(("default", name))
            .scan()
            .to_arrow()
        ),
        "Spark, REST catalog": lambda: spark.table(f"readers.default.{name}").toArrow(),
    }
    return ways.get(reader, lambda: by_view(reader, cut, name, spark))()


def time_by(reader: str, cut: ReadableCut, spark: SparkSession, uri: str) -> str:
    """Return the cell of the type time; a reader either gets the value, or names the type in an error."""
    try:
        (found,) = found_by(reader, cut, TIMES, spark, uri).column("t").to_pylist()
    except PySparkException as error:
        if "type TIME is not supported" in str(error) or "does not support time" in str(error):
            return "refused"
        raise
    assert found == NOON, reader
    return "equal"


@pytest.mark.usefixtures("runtime_jar")
def test_every_reader_gets_every_type(
    classic_session: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R22, R32: the same value from all of them; the page has what was found."""
    spark = classic_session
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    values = [f"{value} AS c{number}" for number, value in enumerate(TYPES.values())]
    written = spark.sql(f"SELECT {', '.join(values)}")
    wanted = dict(zip(TYPES, row(written.toArrow()), strict=True))
    with epoch_run(JOB, DAY, settings=settings, spark=spark) as epoch:
        with pytest.raises(InvalidInput, match="cast it to a string"):
            epoch.write(VALUES, spark.sql("SELECT time'12:00:00' AS t"))
        epoch.write(VALUES, written)
    cells: dict[tuple[str, str], str] = {}
    with (
        connect(settings) as epochs,
        EpochService.open(settings) as service,
        served(application(service)) as uri,
        catalog(spark, "readers", uri=uri, warehouse="default"),
    ):
        attempt = service.begin(ARROW_JOB, DAY, Owner(dag_id="arrow", run_id="1"))
        assert isinstance(attempt, Attempt)
        write_rows(service, attempt, "times", pa.table({"t": pa.array([NOON], pa.time64("us"))}))
        service.publish(attempt)
        cut, times = epochs.cut([VALUES]), epochs.cut([TIMES])
        for reader in READERS:
            with monkeypatch.context() as patch:
                if reader in ("Spark, its own Parquet reader", "Spark, Python workers"):
                    patch.setattr(runtime, "opens", lambda *_: False)
                if reader == "Spark, Python workers":
                    patch.setattr(reads, "opens", lambda *_: False)
                got = dict(zip(TYPES, row(found_by(reader, cut, VALUES, spark, uri)), strict=True))
                cells[TIME, reader] = time_by(reader, times, spark, uri)
            assert got == wanted, reader
            cells |= {(name, reader): "equal" for name in TYPES if got[name] == wanted[name]}
    if RECORDING in os.environ:
        PAGE.write_text(page(cells))
    assert PAGE.read_text() == page(cells), "run: python -m tests.readers"
