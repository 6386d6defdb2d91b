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
"""With it ``pyspark.sql.functions`` makes Spark Connect's columns; sessions made through ``pyspark.sql`` set it."""


@contextmanager
def connected(url: str) -> Iterator[SparkSession]:
    """Open a session of this block's own, ready for epochs; the server goes on when it ends.

    :param url: ``sc://host:port/;parameters``; may hold a token, so it is not shown.
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
