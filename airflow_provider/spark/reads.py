"""A state of a table as a DataFrame: the files that the store recorded, their columns found by id."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_provider.spark.columns import columns_by_id, spark_columns
from airflow_provider.spark.sinks import quoted
from airflow_provider.tables.base import EPOCH_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider.domain.cut import State
    from airflow_provider.tables.base import TableFormat

_OPTIONS = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
}
_GLOB_CHARACTERS = re.compile(r"([\\{}\[\]*?])")


def dataframe(
    spark: SparkSession, table_format: TableFormat, state: State, schema: str, *, with_epoch: bool = False
) -> DataFrame:
    """Return the rows of *state*, all of them or an error when it is run (R22).

    :param schema: the table's columns as its format wrote them down.
    :param with_epoch: also return :data:`EPOCH_COLUMN`, the barrier of each row's epoch.
    """
    arrow = table_format.arrow_schema(schema)
    wanted = spark_columns(arrow)
    files = table_format.files(state)
    if files:
        by_id = columns_by_id(arrow)
        paths = [_GLOB_CHARACTERS.sub(r"\\\1", uri) for uri in files]
        found = spark.read.options(**_OPTIONS).schema(by_id).parquet(*paths)
        pairs = zip(by_id.fields, wanted.fields, strict=True)
        df = found.select(
            *(found[one.name].cast(named.dataType).alias(named.name, metadata={}) for one, named in pairs)
        )
    else:
        df = spark.createDataFrame([], wanted)
    return df if with_epoch else df.drop(df[quoted(EPOCH_COLUMN)])
