"""Tag the Spark jobs of one attempt, and cancel the tagged jobs from any thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT = "pyspark.sql.connect"


@contextmanager
def marked(spark: SparkSession, tag: str) -> Iterator[None]:
    """Tag the Spark jobs that this thread starts in the block with *tag*.

    A classic session keeps its own tags per thread: ``interruptTag`` silently finds none of another thread's jobs.
    All threads see the tags of its context, hence ``addJobTag``.

    :param tag: text without a comma.
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
    """Cancel the running jobs with *tag*; jobs that start later are not affected.

    Spark kills the Python workers of cancelled tasks after ``spark.python.task.killTimeout`` (2 s).
    """
    if is_connect(spark):
        spark.interruptTag(tag)
    else:
        spark.sparkContext.cancelJobsWithTag(tag)


def is_connect(spark: SparkSession) -> bool:
    """Return whether *spark* is a session on a Spark Connect server."""
    return type(spark).__module__.startswith(_CONNECT)
