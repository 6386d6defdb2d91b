"""Iceberg's Spark runtime: it opens tables by their metadata files, and skips files and row groups by filters."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.logger import PySparkLogger
from pyspark.sql.types import DataType, DoubleType, FloatType, StructType

from airflow_provider.spark import refusals
from airflow_provider.spark.columns import spark_columns
from airflow_provider.spark.sinks import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider.domain.source_bounds import Source
    from airflow_provider.sources.reader import IcebergRows
    from airflow_provider.tables.cut_files import CutFile

log = logging.getLogger(__name__)

RUNTIME = "iceberg"
"""The data source of Iceberg's runtime."""

_NO_RUNTIME = "DATA_SOURCE_NOT_FOUND"
_FILE_SYSTEM = "a file system of Hadoop for the table's files"
_MISSING = {
    _NO_RUNTIME: "Iceberg's runtime for its version",
    "No FileSystem for scheme": _FILE_SYSTEM,
    "Failed to get file system": _FILE_SYSTEM,  # Iceberg's own words: a Connect server does not tell the cause
    "ClassNotFoundException": _FILE_SYSTEM,
}
"""Parts that a session lacks, by the text of its error when it opens a table by Iceberg's runtime."""

_NO_TABLE = "Failed to open input stream"
_NOWHERE = "file:///epochs-look-for-the-runtime/metadata/v1.metadata.json"
_found: WeakKeyDictionary[SparkSession, dict[str, bool]] = WeakKeyDictionary()


def opens(spark: SparkSession, scheme: str) -> bool:
    """Return whether *spark* opens tables at URIs of *scheme* by Iceberg's runtime, as far as it is known.

    The session is asked once whether it has the runtime; :func:`cut_rows` notes a scheme without a file system.
    """
    known = _found.setdefault(spark, {})
    if RUNTIME not in known:
        known[RUNTIME] = _has_runtime(spark)
    return known[RUNTIME] and known.get(scheme, True)


def _has_runtime(spark: SparkSession) -> bool:
    """Ask for a table that is not there: a runtime for another version of Spark fails in other ways than this one."""
    try:
        with _unlogged():
            spark.read.format(RUNTIME).load(_NOWHERE).schema  # noqa: B018  (a Connect server is asked only now)
    except Exception as error:  # noqa: BLE001  (whatever a runtime that does not fit raises)
        if _NO_TABLE in str(error):
            return True
        if _NO_RUNTIME not in str(error):
            log.warning(
                "Iceberg's runtime does not work in this Spark session, so tables are read as plain files: %s",
                (str(error).strip().splitlines() or [""])[0],
            )
    return False


def cut_rows(spark: SparkSession, cut_file: CutFile, wanted: StructType) -> DataFrame | None:
    """Return the rows of *cut_file* with the columns *wanted*; None if the runtime reads them otherwise.

    That is a type it does not know or knows as another, or a session without a file system for the file's scheme.
    """
    scheme = cut_file.uri.partition("://")[0]
    # The file has one snapshot, and naming it changes no row: Spark 4.1 looks up a table without a named version anew
    # wherever a temporary view of it is used, and fails when that is in MERGE (apache/spark#56515).
    version = str(cut_file.snapshot_id)
    try:
        with _unlogged():
            found = spark.read.format(RUNTIME).option("versionAsOf", version).load(cut_file.uri)
            kinds = _kinds(found.schema)
    except Exception as error:
        if missing := _lacks(error):
            log.warning(
                "Iceberg's runtime cannot open tables at %s://: the session lacks %s. Tables there are read "
                "as plain files.",
                scheme,
                missing,
            )
            _found[spark][scheme] = False
            return None
        if _has_unknown_type(error):
            return None
        raise
    return _filtered_by_spark(found) if kinds == _kinds(wanted) else None


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep this thread's errors out of the log: Airflow turns on what pyspark leaves off, at ERROR, with a stack."""
    logger, own = PySparkLogger.getLogger("pyspark.sql.connect.logging"), threading.get_ident()

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != own

    logger.addFilter(is_of_others)
    try:
        yield
    finally:
        logger.removeFilter(is_of_others)


def _has_unknown_type(error: Exception) -> bool:
    """Return whether *error* is the runtime's for a column of a type that Spark does not have."""
    return "UnsupportedOperationException" in f"{type(error).__name__} {error}"


def source_rows(spark: SparkSession, source: Source, read: IcebergRows) -> DataFrame:
    """Return the rows of *source* that the runtime reads, with the names and types that plain files would have.

    :raises InvalidInput: the session lacks the runtime, or a file system that it needs; or a column has another type.
    """
    wanted = spark_columns(read.columns)
    try:
        found = spark.read.format(RUNTIME).options(**_span(read)).load(read.metadata)
        kinds = dict(_kinds(found.schema))
    except Exception as error:
        if missing := _lacks(error):
            raise refusals.needs_runtime(source, read.why, missing) from error
        raise
    for name, field in zip(read.names, wanted.fields, strict=True):
        expected = field.dataType.simpleString()
        if kinds[name] != expected:
            raise refusals.other_type(source, field.name, expected, kinds[name])
    pairs = zip(read.names, wanted.names, strict=True)
    return _filtered_by_spark(
        found.select(*(found[quoted(name)].alias(called, metadata={}) for name, called in pairs))
    )


def _span(read: IcebergRows) -> Mapping[str, str]:
    if read.low is None:
        return {"versionAsOf": str(read.high)}
    return {"start-snapshot-id": str(read.low), "end-snapshot-id": str(read.high)}


def _filtered_by_spark(df: DataFrame) -> DataFrame:
    """Return *df* with floating point numbers behind expressions without effect: no filter on them reaches Iceberg.

    Its answers differ from Spark's. In Spark NaN is the greatest number and -0.0 equals 0.0; Iceberg leaves NaN out of
    a file's bounds, skips files and answers ``max`` by them, and looks for 0.0 itself among a row group's values.
    """
    if not any(_has_floats(field.dataType) for field in df.schema.fields):
        return df
    return df.selectExpr(*(_behind(quoted(field.name), field.dataType) for field in df.schema.fields))


def _behind(name: str, kind: DataType) -> str:
    """Return the column *name* as an expression; a struct with such numbers is hidden as a whole."""
    if isinstance(kind, FloatType | DoubleType):
        return f"nanvl({name}, {name}) AS {name}"
    return f"if({name} IS NULL, NULL, {name}) AS {name}" if _has_floats(kind) else name


def _has_floats(kind: DataType) -> bool:
    """Return whether a filter can name a floating point number in *kind*: nothing is pushed into arrays and maps."""
    if isinstance(kind, StructType):
        return any(_has_floats(field.dataType) for field in kind.fields)
    return isinstance(kind, FloatType | DoubleType)


def _kinds(columns: StructType) -> list[tuple[str, str]]:
    """Return names and types of *columns*; not whether they may be null, which the runtime knows of the epoch."""
    return [(field.name, field.dataType.simpleString()) for field in columns.fields]


def _lacks(error: Exception) -> str | None:
    """Return what the session lacks, if *error* says so."""
    return next((missing for text, missing in _MISSING.items() if text in str(error)), None)
