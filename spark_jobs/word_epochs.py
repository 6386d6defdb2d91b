"""What the word pipeline's jobs do with one epoch; the same under Airflow and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

if TYPE_CHECKING:
    from airflow_provider import EpochRun

WORDS = "word string, uses long"
"""Columns of ``word_counts``, for the first book."""


def words_of(lines: DataFrame) -> DataFrame:
    """Count each word of some lines of text."""
    found = F.regexp_extract_all(F.lower("value"), F.lit("[a-z']+"), F.lit(0))
    return lines.select(F.explode(found).alias("word")).groupBy("word").agg(F.count("word").alias("uses"))


def counted(before: DataFrame, book: DataFrame) -> DataFrame:
    """Add the words of a book to those of all books before it."""
    return before.unionByName(book).groupBy("word").agg(F.sum("uses").alias("uses"))


def count_of_counts(counts: DataFrame) -> DataFrame:
    """Say how many words are used so many times."""
    return counts.groupBy("uses").agg(F.count("word").alias("words"))


def book_words(epoch: EpochRun) -> None:
    """Write the words of one book."""
    epoch.write("book_words", words_of(epoch.spark.read.text(epoch.source_files("landed_books"))))


def word_counts(epoch: EpochRun) -> None:
    """Write the state of ``word_counts`` after one book more."""
    epoch.write("word_counts", counted(epoch.read("word_counts", schema=WORDS), epoch.read("book_words")))


def write_count_of_counts(epoch: EpochRun) -> None:
    """Write the state of ``count_of_counts`` after one book more."""
    epoch.write("count_of_counts", count_of_counts(epoch.read("word_counts")))


COMPUTE: dict[str, Callable[[EpochRun], None]] = {
    "book_words": book_words,
    "word_counts": word_counts,
    "count_of_counts": write_count_of_counts,
}
"""By the job's name."""
