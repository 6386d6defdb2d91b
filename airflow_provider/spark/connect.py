"""A session on a Spark Connect server that stays up: no JVM starts for an epoch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from airflow_provider.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""Environment variable that makes ``pyspark.sql.functions`` build Spark Connect's columns.

Sessions made through ``pyspark.sql`` set it; :func:`connected` does not use that way, and sets it itself.
"""


@contextmanager
def connected(url: str) -> Iterator[SparkSession]:
    """Open a session for this block, ready for epochs; the server keeps running after the block.

    :param url: ``sc://host:port/;parameters``; may hold a token, so no message shows it.
    :raises InvalidInput: the server's settings would make a read lose rows.
    """
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    before = os.environ.get(CONNECT_MODE)
    spark = cast("SparkSession", ConnectSession.builder.remote(url).create())
    os.environ[CONNECT_MODE] = "1"
    try:
        yield session(spark)
    finally:
        spark.stop()
        os.environ.pop(CONNECT_MODE, None)
        if before is not None:
            os.environ[CONNECT_MODE] = before
