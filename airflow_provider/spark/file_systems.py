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

_NO_PATH = "PATH_NOT_FOUND"
HADOOPS_OWN = frozenset({"file", "hdfs", "viewfs"})
"""Schemes of file systems that Spark can open without a setting or another jar."""

_found: WeakKeyDictionary[SparkSession, dict[str, bool]] = WeakKeyDictionary()


def opens(spark: SparkSession, scheme: str, uri: str, columns: StructType) -> bool:
    """Return whether *spark* has a file system for *scheme*; where it has none, one warning says what that costs.

    :param uri: a file there, with *columns*.
    """
    new = scheme not in _found.get(spark, {})
    found = has_file_system(spark, scheme, uri, columns)
    if new and not found:
        log.warning(
            "Spark has no file system for %s://: files are read in Python workers, whole and without filters. "
            "For large tables add its jar (hadoop-aws for S3, gcs-connector for gs://) and "
            "set spark.hadoop.fs.%s.impl.",
            scheme,
            scheme,
        )
    return found


def has_file_system(spark: SparkSession, scheme: str, uri: str, columns: StructType) -> bool:
    """Return whether *spark* has a file system for *scheme*. A session is asked once for each scheme.

    :param uri: a path there, of a file with *columns* or of nothing.
    """
    if scheme in HADOOPS_OWN:
        return True
    known = _found.setdefault(spark, {})
    if scheme not in known:
        known[scheme] = _asked(spark, scheme, uri, columns)
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
        if _NO_PATH not in str(error):
            raise
    return True
