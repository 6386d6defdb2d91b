"""The Spark session that an epoch runs in, and the settings without which its reads would be wrong."""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING

from airflow_provider.domain.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUIRED = {"spark.sql.parquet.fieldId.read.enabled": "true"}
"""Set on the session: columns are found by id, so that a rename is no null."""

REFUSED = {
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.ignoreCorruptFiles": "true",
}
"""Settings under which Spark returns fewer rows instead of an error (R22)."""


def session(spark: SparkSession | None = None) -> SparkSession:
    """Return *spark*, else the running session, else a new one; ready for epochs.

    A new one is classic, or of Spark Connect where ``SPARK_REMOTE`` says so; it ends with the program.

    :raises InvalidInput: the session has a setting under which a read may lose rows.
    """
    if spark is None:
        from pyspark.sql import SparkSession

        # Spark's workers run the Python of this program, not the first one on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        running = SparkSession.getActiveSession()
        spark = running or SparkSession.builder.getOrCreate()
        if running is None:
            atexit.register(spark.stop)
    for name, value in REQUIRED.items():
        spark.conf.set(name, value)
    check(spark)
    return spark


def check(spark: SparkSession) -> None:
    """Refuse a session whose settings make a read wrong or incomplete.

    :raises InvalidInput: naming the setting.
    """
    for name, value in REQUIRED.items():
        found = spark.conf.get(name, None)
        if found != value:
            raise _refusal(name, found, value)
    for name, value in REFUSED.items():
        found = spark.conf.get(name, None)
        if found == value:
            raise _refusal(name, found, "false")


def _refusal(name: str, found: str | None, expected: str) -> InvalidInput:
    return InvalidInput(
        field=name,
        value=found,
        expected=expected,
        next_step=f"leave {name} at {expected!r} in sessions that read or write epochs.",
    )
