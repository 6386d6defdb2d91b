"""Columns between Spark and Arrow: the types that a table takes from a DataFrame, and those that it is read as."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import __version__ as spark_version
from pyspark.sql import types as T  # noqa: N812  (Spark's own documentation names it so)
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

from airflow_provider.domain.errors import InvalidInput, MissingLibrary
from airflow_provider.domain.identifiers import validate_text
from airflow_provider.spark import refusals
from airflow_provider.tables.base import EPOCH_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def refuse_old(version: str) -> None:
    """Refuse a pyspark that lacks types which a DataFrame must be told apart by; its cluster is of the same version.

    :raises MissingLibrary: *version* is older than 4.1.
    """
    if tuple(int(part) for part in version.split(".")[:2]) < (4, 1):
        raise MissingLibrary(
            f"pyspark {version} is too old: epochs are computed by pyspark 4.1, and a cluster of Spark 4.1.",
            next_step="pip install pyspark==4.1.3 pyspark-client==4.1.3, or compute on a cluster of Spark 4.1.",
            library="pyspark",
        )


refuse_old(spark_version)

_FIELD_ID = b"PARQUET:field_id"
_UNSUPPORTED: dict[type[T.DataType], str] = {
    T.NullType: "give it a type, for example F.lit(None).cast('string')",
    T.CalendarIntervalType: "cast it to a number of days or microseconds",
    T.DayTimeIntervalType: "cast it to a number of microseconds",
    T.YearMonthIntervalType: "cast it to a number of months",
    T.VariantType: "write it as text with F.to_json, or take its fields out",
    T.TimeType: "cast it to a string",
    T.UserDefinedType: "take its parts out into columns of Spark's own types",
    T.GeometryType: "write it as binary",
    T.GeographyType: "write it as binary",
}


def arrow_columns(schema: T.StructType, table: str) -> pa.Schema:
    """Return the columns of a DataFrame as an Arrow schema.

    :raises InvalidInput: a column has a type that tables do not have; names the column.
    """
    for field in schema.fields:
        for path, kind in _leaves(field.name, field.dataType):
            advice = _advice(kind)
            if advice:
                raise InvalidInput(
                    field=f"column {path}",
                    value=kind.simpleString(),
                    expected=f"a type that a column of table {table!r} can have",
                    next_step=f"{advice} before epoch.write.",
                    table=table,
                    column=path,
                )
    return to_arrow_schema(schema)


def with_number(schema: T.StructType, name: str) -> T.StructType:
    """Return *schema* with one more column *name*, a whole number of 32 bits."""
    return T.StructType([*schema.fields, T.StructField(name, T.IntegerType())])


def no_rows(spark: SparkSession, ddl: object, *, and_epoch: bool = False) -> DataFrame:
    """Return an empty DataFrame with the columns of *ddl*.

    :param and_epoch: append :data:`~airflow_provider.tables.base.EPOCH_COLUMN`.
    :raises InvalidInput: *ddl* is not text, or Spark cannot parse it as columns.
    """
    from pyspark.errors import PySparkException

    try:
        text = validate_text(ddl, "schema")
        df = spark.createDataFrame([], f"{text}, {EPOCH_COLUMN} timestamp" if and_epoch else text)
        empty = not df.schema.fields
    except InvalidInput as error:
        raise refusals.no_columns(ddl) from error
    except PySparkException as error:
        first_line = (str(error).strip().splitlines() or [""])[0]
        raise refusals.no_columns(ddl, first_line[:200]) from error
    if empty:
        raise refusals.no_columns(ddl)
    return df


def _advice(kind: T.DataType) -> str:
    if isinstance(kind, T.StringType) and kind.collation != "UTF8_BINARY":
        return "a collation is not kept: cast it to string"
    return next((advice for unsupported, advice in _UNSUPPORTED.items() if isinstance(kind, unsupported)), "")


def _leaves(path: str, kind: T.DataType) -> Iterator[tuple[str, T.DataType]]:
    if isinstance(kind, T.StructType):
        for field in kind.fields:
            yield from _leaves(f"{path}.{field.name}", field.dataType)
    elif isinstance(kind, T.ArrayType):
        yield from _leaves(f"{path}.element", kind.elementType)
    elif isinstance(kind, T.MapType):
        yield from _leaves(f"{path}.key", kind.keyType)
        yield from _leaves(f"{path}.value", kind.valueType)
    else:
        yield path, kind


def spark_columns(schema: pa.Schema) -> T.StructType:
    """Return a table's columns as a reader sees them: names and types, no ids."""
    return T.StructType([T.StructField(field.name, _spark_type(field.type)) for field in schema])


def columns_by_id(schema: pa.Schema) -> T.StructType:
    """Return a table's columns named after their ids; each field's metadata has the id, too.

    Spark matches Parquet columns by id, but pushes filters down, and looks types up, by name. If a column has the
    name that another column had before it was renamed, a filter by that name would lose rows. A name made of the id
    is in no file.
    """
    return T.StructType([_by_id(field) for field in schema])


def named_by_id(schema: pa.Schema) -> pa.Schema:
    """Return :func:`columns_by_id` as an Arrow schema; fields keep their ids."""
    return pa.schema([_renamed(field) for field in schema])


def _renamed(field: pa.Field) -> pa.Field:
    """Return *field* named after its id, with the fields of nested structs renamed likewise."""
    kind = _parts_renamed(field.type)
    return pa.field(f"_{int((field.metadata or {})[_FIELD_ID])}", kind, field.nullable, field.metadata)


def _parts_renamed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_renamed(part) for part in kind])
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_parts_renamed(key.type)), item.with_type(_parts_renamed(item.type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_parts_renamed(kind.value_type)))
    return kind


def _by_id(field: pa.Field) -> T.StructField:
    number = int((field.metadata or {})[_FIELD_ID])
    return T.StructField(
        f"_{number}", _spark_type(field.type, by_id=True), True, {"parquet.field.id": number}
    )


def _spark_type(kind: pa.DataType, *, by_id: bool = False) -> T.DataType:
    if pa.types.is_struct(kind):
        fields = [
            _by_id(part) if by_id else T.StructField(part.name, _spark_type(part.type)) for part in kind
        ]
        return T.StructType(fields)
    if pa.types.is_map(kind):
        key, value = _spark_type(kind.key_type, by_id=by_id), _spark_type(kind.item_type, by_id=by_id)
        return T.MapType(key, value)
    if pa.types.is_list(kind):
        return T.ArrayType(_spark_type(kind.value_type, by_id=by_id))
    return from_arrow_type(kind, prefer_timestamp_ntz=True)
