"""Which file systems Spark itself can open: Hadoop has a class for their scheme, and that class is there."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from airflow_provider.spark.interruption import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

_NO_CLASS = ("No FileSystem for scheme", "ClassNotFoundException", "UNSUPPORTED_FILE_SYSTEM")
"""Texts of Spark's errors for a scheme without a class."""

_found: WeakKeyDictionary[SparkSession, dict[str, bool]] = WeakKeyDictionary()


def opens(spark: SparkSession, scheme: str, uri: str, columns: StructType) -> bool:
    """Return whether *spark* has a file system for *scheme*; *uri* is a file there, with *columns*.

    Each session is asked once for each scheme. Where it has none, one warning says what that costs.
    """
    known = _found.setdefault(spark, {})
    if scheme not in known:
        known[scheme] = _asked(spark, scheme, uri, columns)
        if not known[scheme]:
            log.warning(
                "Spark has no file system for %s://: files are read in Python workers, whole and without filters. "
                "For large tables add its jar (hadoop-aws for S3) and set spark.hadoop.fs.%s.impl.",
                scheme,
                scheme,
            )
    return known[scheme]


def _asked(spark: SparkSession, scheme: str, uri: str, columns: StructType) -> bool:
    try:
        if is_connect(spark):
            # Looking for the file is all that a client can ask of the server's file systems.
            spark.read.schema(columns).parquet(uri).schema  # noqa: B018  (the server is asked only now)
        else:
            settings = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
            spark.sparkContext._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, settings)  # type: ignore[union-attr]  # noqa: SLF001
    except Exception as error:
        if any(words in str(error) for words in _NO_CLASS):
            return False
        raise
    return True
