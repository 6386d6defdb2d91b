"""Staging of a DataFrame: write its rows into the place of an attempt, which no reader can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_provider.domain.errors import SchemaMismatch
from airflow_provider.domain.interval import EPOCH_ZERO
from airflow_provider.spark import refusals
from airflow_provider.spark.columns import arrow_columns
from airflow_provider.spark.shipping import FILE_COLUMNS, shipped, written_files
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.rows import fitted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_provider.domain.topology import Table
    from airflow_provider.tables.base import StagingLocation, TableFormat, TableInfo, WrittenFile


def check_dataframe(value: object) -> None:
    """Check the argument of a write.

    :raises InvalidInput: *value* is not a DataFrame.
    """
    from pyspark.sql import DataFrame

    if not isinstance(value, DataFrame):
        raise refusals.no_dataframe(value)


def target(
    df: DataFrame,
    table: Table,
    table_format: TableFormat,
    known: TableInfo | None = None,
    *,
    keep: bool = False,
) -> TableInfo:
    """Return the table that takes the rows of *df*; the first write creates it with the columns of *df*.

    A table without a published epoch has the columns of an earlier attempt, which may have been wrong: if *df* does not
    fit them, the table is created anew.

    Columns are matched by name, their order does not matter; a narrower number fits a wider column.

    :param known: the table with the columns that the rows are to have; by default the table as it is now.
    :param keep: never create it anew: another participant has staged rows for it that this attempt publishes, too.
    :raises SchemaMismatch: a column is missing, unknown or of a type that does not fit; names it.
    :raises InvalidInput: a column has a name or type that tables cannot have; names it.
    """
    columns = arrow_columns(df.schema, table.name)
    info = known or table_format.describe(table)
    if info is None:
        return table_format.create(table, columns)
    wanted = table_format.arrow_schema(info.schema)
    try:
        barrier = pa.scalar(EPOCH_ZERO, wanted.field(EPOCH_COLUMN).type)
        fitted(_no_rows(columns), wanted, barrier, table.name)
        if not info.version:  # create() compares the layout, too, which the declaration may have changed
            return table_format.create(table, wanted.remove(wanted.get_field_index(EPOCH_COLUMN)))
    except SchemaMismatch:
        if info.version or keep:
            raise
        return table_format.replace(table, info, columns)
    return info


def stage(
    df: DataFrame, place: StagingLocation, info: TableInfo, table_format: TableFormat
) -> list[WrittenFile]:
    """Run *df* and write its rows as files of *place*, in the layout that the table declares.

    :return: the files of successful tasks, with their statistics.
    """
    write = shipped(table_format.task_writer(place, info), df.columns)
    numbered = laid_out(df, place.table).toDF(*(f"c{index}" for index in range(len(df.columns))))
    return written_files(numbered.mapInArrow(write, FILE_COLUMNS).collect())


def laid_out(df: DataFrame, table: Table) -> DataFrame:
    """Bring rows of equal ``partition_by`` together and sort inside each task.

    Spark's rebalance keeps tasks of even size: a large partition is split, small ones share a task.
    """
    if table.partition_by:
        df = df.hint("rebalance", *(quoted(name) for name in table.partition_by))
    order = dict.fromkeys((*table.partition_by, *table.sort_by))
    return df.sortWithinPartitions(*(df[quoted(name)] for name in order)) if order else df


def quoted(name: str) -> str:
    """Return *name* quoted for Spark's parser, so that any characters in it stay one identifier."""
    return "`" + name.replace("`", "``") + "`"


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
