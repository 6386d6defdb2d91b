"""Staging of a DataFrame: write its rows into the place of an attempt, which no reader can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812  (Spark's own documentation names it so)

from airflow_provider.domain.errors import SchemaMismatch
from airflow_provider.domain.interval import EPOCH_ZERO
from airflow_provider.spark import refusals
from airflow_provider.spark.columns import arrow_columns, with_number
from airflow_provider.spark.shipping import FILE_COLUMNS, shipped, shipped_keys, written_files
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.partitioning import BUCKET, IDENTITY, MICROS, PartitionField, fields_of
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
    info = known or table_format.describe(table) or table_format.create(table, columns)
    try:
        wanted = _refuse_unfit(columns, table, table_format, info)
        if not info.version:  # create() compares the layout, too, which the declaration may have changed
            return table_format.create(table, wanted.remove(wanted.get_field_index(EPOCH_COLUMN)))
    except SchemaMismatch:
        if info.version or keep:
            raise
        info = table_format.replace(table, info, columns)
        _refuse_unfit(columns, table, table_format, info)
    return info


def _refuse_unfit(columns: pa.Schema, table: Table, table_format: TableFormat, info: TableInfo) -> pa.Schema:
    """Return the table's columns. :raises SchemaMismatch: rows with *columns* do not fit them."""
    wanted = table_format.arrow_schema(info.schema)
    barrier = pa.scalar(EPOCH_ZERO, wanted.field(EPOCH_COLUMN).type)
    fitted(_no_rows(columns), wanted, barrier, table.name, cause=info.altered)
    return wanted


def stage(
    df: DataFrame, place: StagingLocation, info: TableInfo, table_format: TableFormat
) -> list[WrittenFile]:
    """Run *df* and write its rows as files of *place*, in the layout that the table declares.

    :return: the files of successful tasks, with their statistics.
    """
    write = shipped(table_format.task_writer(place, info), df.columns)
    return written_files(laid_out(df, place.table).mapInArrow(write, FILE_COLUMNS).collect())


def laid_out(df: DataFrame, table: Table) -> DataFrame:
    """Return *df*, its columns numbered, with rows of equal ``partition_by`` together and sorted inside each task.

    Spark's rebalance keeps tasks of even size: a large partition is split, small ones share a task. The writer computes
    the partition values itself: what Spark computes here only brings rows together.

    :raises InvalidInput: ``sort_by`` names a column that the rows lack, such as one that was renamed since.
    """
    numbers = {name: f"c{index}" for index, name in enumerate(df.columns)}
    if not set(table.sort_by) <= numbers.keys():
        raise refusals.unsorted(table, df.columns)
    fields = fields_of(table.partition_by, df.columns)
    keys = [
        numbers[field.column] if field.transform == IDENTITY else f"k{index}"
        for index, field in enumerate(fields)
    ]
    numbered = df.toDF(*numbers.values())
    for key, field in zip(keys, fields, strict=True):
        if field.transform != IDENTITY:
            numbered = _with_key(numbered, key, field, numbers[field.column])
    if keys:
        numbered = numbered.hint("rebalance", *keys)
    order = dict.fromkeys((*keys, *(numbers[name] for name in table.sort_by)))
    return numbered.sortWithinPartitions(*order).select(*numbers.values()) if order else numbered


def _with_key(df: DataFrame, key: str, field: PartitionField, column: str) -> DataFrame:
    """Return *df* with one more column, which tells the values of *field* apart."""
    expression = _expression(field, df.schema[column].dataType, column)
    if expression is None:
        return df.mapInArrow(shipped_keys(field, df.columns.index(column), key), with_number(df.schema, key))
    return df.selectExpr("*", f"{expression} AS {key}")


def _expression(field: PartitionField, kind: T.DataType, column: str) -> str | None:
    """Return the values of *field* as Spark computes them; None where it does not: buckets, and wall clocks' hours.

    Spark takes wall clocks for instants of the session's time zone, whose hours are others where its clock is set back.
    """
    if field.transform == BUCKET or isinstance(kind, T.TimestampNTZType):
        return None
    if isinstance(kind, T.DateType):
        return column
    if isinstance(kind, T.TimestampType):
        return _floor(f"unix_micros({column})", MICROS[field.transform])
    return (
        _floor(column, field.width) if isinstance(kind, T.IntegralType) else f"left({column}, {field.width})"
    )


def _floor(number: str, width: int) -> str:
    return f"({number} DIV {width}) - if({number} % {width} < 0, 1, 0)"


def quoted(name: str) -> str:
    """Return *name* quoted for Spark's parser, so that any characters in it stay one identifier."""
    return "`" + name.replace("`", "``") + "`"


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
