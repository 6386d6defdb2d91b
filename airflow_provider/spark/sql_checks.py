"""SQL checks of a job, run in its Spark session (R14)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider.coordination.attempts.sql_checks import QueryResult, Readable, named_row
from airflow_provider.domain.checks import MOST_SAMPLED
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.spark import reads, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_result(spark: SparkSession, sql: str, tables: Mapping[str, Readable]) -> QueryResult:
    """Run *sql* over *tables*, each a temporary view of its name meanwhile.

    :raises InvalidInput: Spark cannot parse *sql*, or cannot compute it over these rows.
    """
    from pyspark import errors

    session.check(spark)
    try:
        for name, table in tables.items():
            reads.dataframe(spark, table.format, table.state, table.schema).createOrReplaceTempView(name)
        found = spark.sql(sql)
        sample = tuple(named_row(found.columns, row) for row in found.limit(MOST_SAMPLED + 1).collect())
        rows = found.count() if len(sample) > MOST_SAMPLED else len(sample)
    except (
        errors.AnalysisException,
        errors.ParseException,
        errors.ArithmeticException,
        errors.ArrayIndexOutOfBoundsException,
        errors.DateTimeException,
        errors.NumberFormatException,
        errors.SparkNoSuchElementException,
        errors.SparkRuntimeException,
    ) as error:
        first_line = str(error).splitlines()[0]
        raise InvalidInput(
            field="checks", value=sql, expected=f"SQL that Spark runs: {first_line}"
        ) from error
    finally:
        for name in tables:
            spark.catalog.dropTempView(name)
    return QueryResult(rows, sample[:MOST_SAMPLED])
