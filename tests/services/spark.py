"""A Spark session in this process, with the demo's settings for cheap starts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from demo.spark_connect import SETTINGS, write_configuration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.aws import S3Emulator


UNCLOSED = "ignore:unclosed <socket:ResourceWarning"
"""A filter of warnings for tests that use Spark: py4j leaves it to the garbage collector to close its sockets."""


@contextmanager
def classic_spark(master: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Start Spark; end it at the block's end, and with it its JVM."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("tests")
    for name, value in {**SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    with _configured():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        _end(session)


def hadoop_settings(server: S3Emulator) -> dict[str, str]:
    """Return the settings by which Hadoop, with the jars of hadoop-aws, opens *server*."""
    given = server.environment
    return {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.s3a.endpoint": given["AWS_ENDPOINT_URL"],
        "spark.hadoop.fs.s3a.endpoint.region": given["AWS_REGION"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": given["AWS_ACCESS_KEY_ID"],
        "spark.hadoop.fs.s3a.secret.key": given["AWS_SECRET_ACCESS_KEY"],
    }


@contextmanager
def _configured() -> Iterator[None]:
    """Let a JVM that starts in the block log as the demo's does: what is worth a line, to no profile of Spark's."""
    with tempfile.TemporaryDirectory(prefix="epochs-spark-") as folder, pytest.MonkeyPatch.context() as patch:
        write_configuration(Path(folder))
        patch.setenv("SPARK_CONF_DIR", folder)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield


def _end(session: SparkSession) -> None:
    """Stop the session, unless another block that had the same one did, and close all that leads to its JVM.

    pyspark keeps the JVM and its connections for the next session. At the interpreter's end the connections would log
    that they close, to a stream that is closed already.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    session.stop()
    gateway.shutdown()
    gateway.close(keep_callback_server=True)
    SparkContext._gateway = SparkContext._jvm = None
    gateway.proc.stdin.close()
    gateway.proc.wait()
