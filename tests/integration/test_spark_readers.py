"""Every reader gets every type as it was written: docs/reference/readers.md."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from airflow_provider import Job, ReadableCut, Table, connect, epoch_run
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.spark import reads, runtime
from tests.integration.test_spark_rest_catalog import catalog
from tests.readers import PAGE, READERS, TYPES, page
from tests.services.catalog_server import application, served

VALUES = Table("values")
JOB = Job("write", outputs=[VALUES], cadence="@daily", origin=datetime(2024, 5, 1, tzinfo=UTC))


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


def by_view(reader: str, cut: ReadableCut, spark: SparkSession) -> pa.Table:
    with cut.views(spark) as session:
        found = session.table("values")
        assert SCANS[reader] in found._jdf.queryExecution().executedPlan().toString()
        return found.toArrow()


def found_by(reader: str, cut: ReadableCut, spark: SparkSession, uri: str) -> pa.Table:
    ways: dict[str, Callable[[], pa.Table]] = {
        "Arrow": cut["values"].to_arrow,
        "DuckDB": lambda: cut.sql('SELECT * FROM "values"'),
        "pyiceberg, cut file": lambda: (
            StaticTable.from_metadata(cut["values"].metadata_location()).scan().to_arrow()
        ),
        "pyiceberg, REST catalog": lambda: (
            load_catalog("cut", type="rest", uri=uri, warehouse="default")
            .load_table(("default", "values"))
            .scan()
            .to_arrow()
        ),
        "Spark, REST catalog": lambda: spark.table("readers.default.values").toArrow(),
    }
    return ways.get(reader, lambda: by_view(reader, cut, spark))()


@pytest.mark.usefixtures("runtime_jar")
def test_every_reader_gets_every_type(
    classic_session: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R22, R32: the same value from all of them."""
    assert PAGE.read_text() == page(), "run: python -m tests.readers"
    spark = classic_session
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    values = [f"{value} AS c{number}" for number, value in enumerate(TYPES.values())]
    written = spark.sql(f"SELECT {', '.join(values)}")
    wanted = dict(zip(TYPES, row(written.toArrow()), strict=True))
    with epoch_run(JOB, "2024-05-01", settings=settings, spark=spark) as epoch:
        epoch.write(VALUES, written)
    with (
        connect(settings) as epochs,
        EpochService.open(settings) as service,
        served(application(service)) as uri,
        catalog(spark, "readers", uri=uri, warehouse="default"),
    ):
        cut = epochs.cut([VALUES])
        for reader in READERS:
            with monkeypatch.context() as patch:
                if reader in ("Spark, its own Parquet reader", "Spark, Python workers"):
                    patch.setattr(runtime, "opens", lambda *_: False)
                if reader == "Spark, Python workers":
                    patch.setattr(reads, "opens", lambda *_: False)
                got = dict(zip(TYPES, row(found_by(reader, cut, spark, uri)), strict=True))
            assert got == wanted, reader
