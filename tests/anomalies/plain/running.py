"""Which schedule is which function, which has no counterpart, and one Spark session to run them in."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.anomalies.plain import (
    attempts,
    changes,
    derivation,
    endurance,
    engines,
    isolation,
    restating,
    retention,
    sources,
)
from tests.anomalies.plain.cascade import Cascade
from tests.anomalies.plain.tables import CATALOG, IcebergTables, ParquetTables, Tables
from tests.anomalies.schedules import SUITE
from tests.anomalies.verdicts import Observed
from tests.services.iceberg_runtime import jar
from tests.services.spark import classic_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS: Mapping[str, type[Tables]] = {"parquet": ParquetTables, "iceberg": IcebergTables}
NO_TERM = "Parquet has nothing that a reader could hold and that would end: no lease, no tag, no version."
AIRFLOWS_OWN = (
    "It is Airflow's scheduler that fails the wait. Without this package the wait is the same, and its retry costs "
    "the same; no rows are concerned."
)
NO_STORE = (
    "There is no store that says who may write: whichever process comes later writes, with a standby or without one. "
    "Airflow's own database is not asked by those who write."
)
NO_TOKENS = "There are no attempts and no tokens: both children write, as in ATT1."
NO_RECORD = "There is no lock and no record of one that could be damaged: any program may write, as in ATT2."
ONE_STATE = "It keeps no versions: the table has one state, of which nothing can go."
NO_INCARNATION = (
    "There is no store beside the tables that could come back older than they are. Tables that come back from a "
    "backup are older tables, and no reader is told."
)
NO_DATE = (
    "It is Airflow that says which day a run is of, and Spark is told. A run that an asset's event has started has "
    "neither a logical date nor a data interval, so that nothing says which day is meant, unless producer and consumer "
    "agree on a partition key."
)
_OF_STORES = {"DER2": NO_INCARNATION, "HA1": NO_STORE, "HA2": NO_STORE, "FORK1": NO_TOKENS}
ABSENT: Mapping[str, Mapping[str, str]] = {
    "parquet": {
        "ATT7": "Nothing is timed: there are no locks, no versions that age, and the epochs are Airflow's data "
        "intervals, not a worker's clock.",
        "ATT6": NO_RECORD,
        "ATT17": AIRFLOWS_OWN,
        "UND3": "There is no baseline: Parquet keeps no versions, and a retry reads what is there by then.",
        "LEA3": NO_TERM,
        "LEA4": NO_TERM,
        "LEA5": NO_TERM,
        "LEA8": ONE_STATE,
        "LEA9": ONE_STATE,
        "LEA10": NO_TERM,
        "LIV2": "It keeps no versions: nothing grows with commits, and there is nothing to clean up.",
        "AST1": NO_DATE,
        **_OF_STORES,
    },
    "iceberg": {"ATT6": NO_RECORD, "ATT17": AIRFLOWS_OWN, "AST1": NO_DATE, **_OF_STORES},
}
"""Why a schedule is not run in a column."""


def functions() -> dict[str, Callable[[Cascade], Observed]]:
    """The schedules that can be run, by id."""
    found = {}
    for module in (
        isolation,
        derivation,
        attempts,
        retention,
        engines,
        changes,
        sources,
        endurance,
        restating,
    ):
        found.update(
            {name.upper(): function for name, function in vars(module).items() if name.upper() in SUITE}
        )
    return found


def run(
    names: Sequence[str], session: SparkSession, folder: Path, formats: Sequence[str] = tuple(FORMATS)
) -> dict[str, dict[str, Observed]]:
    """Run schedules in each column, each with tables of its own; those without a counterpart say why."""
    known = functions()
    found: dict[str, dict[str, Observed]] = {}
    for name in names:
        found[name] = {}
        for column in formats:
            if why := ABSENT[column].get(name):
                found[name][column] = Observed(seen=why, holds=None)
                continue
            tables = FORMATS[column](session, folder / column / name.lower())
            found[name][column] = known[name](Cascade(tables))
    return found


@contextmanager
def session() -> Iterator[tuple[SparkSession, Path]]:
    """One local Spark with Iceberg's runtime, and a folder for the tables.

    :raises RuntimeError: the runtime's jar is not there and cannot be fetched.
    """
    runtime = jar()
    if runtime is None:
        raise RuntimeError("Iceberg's Spark runtime is missing: run scripts/prepare-iceberg")
    os.environ.update({"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"})
    with (
        tempfile.TemporaryDirectory(prefix="epochs-plain-") as directory,
        classic_spark("local[2]", _iceberg(runtime, Path(directory) / "iceberg")) as spark,
    ):
        yield spark, Path(directory)


def _iceberg(runtime: Path, warehouse: Path) -> dict[str, str]:
    catalog = f"spark.sql.catalog.{CATALOG}"
    return {
        "spark.jars": str(runtime),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": str(warehouse),
        f"{catalog}.cache-enabled": "false",
    }
