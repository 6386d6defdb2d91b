"""The Spark session that an epoch runs in, and the settings without which its reads would be wrong."""

from __future__ import annotations

import atexit
import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.spark.interruption import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUIRED = {"spark.sql.parquet.fieldId.read.enabled": "true"}
"""Set on the session: columns are found by id, so that a rename is no null."""

REFUSED = {
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.ignoreCorruptFiles": "true",
}
"""Settings under which Spark returns fewer rows instead of an error (R22)."""

SUGGESTED = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "64"}
"""Set on the session unless the user did. Spark looks for each file of a read in a task of its own, and 10,000 tasks
take minutes (measured: 106 seconds before the first row, 4 with 64 tasks)."""

CLUSTER = "cluster"
"""The deploy mode in which the driver runs on a host of the cluster."""

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by ``spark-submit`` in the programs that it starts."""

_IN_PROCESS = re.compile(r"local(\[[^\]]+\])?")


def session(spark: SparkSession | None = None, *, master: str | None = None) -> SparkSession:
    """Return *spark*, else the running session, else a new one; ready for epochs.

    A new session is classic, or of Spark Connect if ``SPARK_REMOTE`` is set; it ends with the program.

    :param master: master of a new session; by default that of Spark's configuration.
    :raises InvalidInput: the session has a setting under which a read may lose rows.
    """
    if spark is None:
        from pyspark.sql import SparkSession

        # Spark's workers run the Python of this program, not the first one on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        running = SparkSession.getActiveSession()
        builder = SparkSession.builder if master is None else SparkSession.builder.master(master)
        spark = running or builder.getOrCreate()
        if running is None:
            atexit.register(spark.stop)
    found = _settings(spark)
    if not found.items() >= REQUIRED.items():
        unset = {name: value for name, value in SUGGESTED.items() if spark.conf.get(name, None) is None}
        for name, value in (REQUIRED | unset).items():
            spark.conf.set(name, value)
        found = _settings(spark)
    _refuse(found)
    return spark


def is_in_process(master: str | None) -> bool:
    """Return whether *master* runs Spark inside the calling program, as ``local[2]`` does."""
    return master is not None and _IN_PROCESS.fullmatch(master) is not None


def deploy_mode(spark: SparkSession | None = None) -> str:
    """Return the deploy mode of the session that :func:`session` would return: ``client`` or :data:`CLUSTER`.

    Starts a session only if ``spark-submit`` has started this program, and with it Spark.
    """
    from pyspark.sql import SparkSession

    if spark is None and _SUBMITTED not in os.environ and SparkSession.getActiveSession() is None:
        return "client"
    found = session(spark)
    if is_connect(found):  # the driver is the server's; this program runs where it was started
        return "client"
    in_driver_pod = found.conf.get("spark.kubernetes.submitInDriver", "false") == "true"
    mode = found.conf.get("spark.submit.deployMode", None) or "client"
    return CLUSTER if in_driver_pod else mode


def check(spark: SparkSession) -> None:
    """Refuse a session whose settings make a read wrong or incomplete; asked again after user code, which may set them.

    :raises InvalidInput: a setting of :data:`REQUIRED` or :data:`REFUSED` is wrong; names it.
    """
    _refuse(_settings(spark))


def _settings(spark: SparkSession) -> Mapping[str, str | None]:
    """Return at least the settings of :data:`REQUIRED` and :data:`REFUSED`.

    A session on a server returns all settings, because that takes one message.
    """
    if is_connect(spark):
        return dict(spark.conf.getAll)
    return {name: spark.conf.get(name, None) for name in (*REQUIRED, *REFUSED)}


def _refuse(found: Mapping[str, str | None]) -> None:
    for name, value in REQUIRED.items():
        if found.get(name) != value:
            raise _refusal(name, found.get(name), value)
    for name, value in REFUSED.items():
        if (found.get(name) or "").strip().lower() == value:  # Spark ignores case and spaces
            raise _refusal(name, found.get(name), "false")


def _refusal(name: str, found: str | None, expected: str) -> InvalidInput:
    return InvalidInput(
        field=name,
        value=found,
        expected=expected,
        next_step=f"leave {name} at {expected!r} in sessions that read or write epochs.",
    )
