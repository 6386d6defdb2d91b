"""Marks the Spark work of one attempt, and ends what is marked, from any thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT = "pyspark.sql.connect"


@contextmanager
def marked(spark: SparkSession, tag: str) -> Iterator[None]:
    """Mark with *tag* what this thread starts in Spark.

    A classic session's own tags are kept for each thread: ``interruptTag`` finds none of another thread, and says
    nothing. The tags of its context are known to all threads.

    :param tag: without a comma.
    """
    if is_connect(spark):
        spark.addTag(tag)
    else:
        spark.sparkContext.addJobTag(tag)
    try:
        yield
    finally:
        if is_connect(spark):
            spark.removeTag(tag)
        else:
            spark.sparkContext.removeJobTag(tag)


def interrupt(spark: SparkSession, tag: str) -> None:
    """End what runs and is marked with *tag*; what has not started yet is not affected.

    Spark kills the Python workers of the tasks that it ends, after ``spark.python.task.killTimeout`` (2 s).
    """
    if is_connect(spark):
        spark.interruptTag(tag)
    else:
        spark.sparkContext.cancelJobsWithTag(tag)


def is_connect(spark: SparkSession) -> bool:
    """Whether *spark* is a session on a Spark Connect server."""
    return type(spark).__module__.startswith(_CONNECT)
