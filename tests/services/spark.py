"""A Spark session in this process, with the demo's settings for cheap starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from demo.spark_connect import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def classic_spark(master: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Start Spark; stop it at the block's end."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("tests")
    for name, value in {**SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
