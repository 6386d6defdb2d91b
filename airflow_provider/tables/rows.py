"""Fit a job's rows to a table's columns. Runs inside Spark's workers: needs pyarrow only."""

from __future__ import annotations

import pyarrow as pa

from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.columns import mismatch, refuse_other_names


def fitted(
    batch: pa.RecordBatch, schema: pa.Schema, epoch: pa.Scalar, table: str, *, cause: str = ""
) -> pa.RecordBatch:
    """Return *batch* with the columns of *schema*, and :data:`EPOCH_COLUMN` filled with *epoch*.

    :param table: name of the table, for messages. :param cause: as for :func:`~.columns.refuse_difference`.
    :raises SchemaMismatch: a column is missing, unknown or there twice, or its type cannot be cast without loss.
    """
    columns = [name for name in schema.names if name != EPOCH_COLUMN]
    refuse_other_names(table, columns, batch.schema.names, cause=cause)
    arrays = [
        pa.repeat(epoch, batch.num_rows)
        if field.name == EPOCH_COLUMN
        else _fitted_column(batch.column(field.name), field, table)
        for field in schema
    ]
    return pa.record_batch(arrays, schema=schema)


def _fitted_column(array: pa.Array, field: pa.Field, table: str) -> pa.Array:
    if array.type == field.type:
        return array
    if not _fits(array.type, field.type):
        raise mismatch(table, field.name, expected=field.type, found=array.type)
    try:
        return array.cast(field.type)
    except pa.ArrowInvalid as error:
        found = f"{array.type} with a value that does not fit: {error}"
        raise mismatch(table, field.name, expected=field.type, found=found) from error


def _fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether every value of type *given* is also a value of type *wanted*, with the same meaning."""
    if given == wanted or pa.types.is_null(given):
        return True
    if pa.types.is_dictionary(given):
        return _fits(given.value_type, wanted)
    if pa.types.is_timestamp(wanted):
        return pa.types.is_timestamp(given) and (given.tz is None) == (wanted.tz is None)
    if pa.types.is_decimal(wanted):
        return pa.types.is_decimal(given) and bool(given.scale <= wanted.scale)
    if pa.types.is_nested(wanted):
        return _nested_fits(given, wanted)
    if pa.types.is_integer(wanted) or pa.types.is_floating(wanted):
        same_kind = pa.types.is_integer(given) == pa.types.is_integer(wanted)
        numeric = pa.types.is_integer(given) or pa.types.is_floating(given)
        return bool(same_kind and numeric and given.bit_width <= wanted.bit_width)
    if pa.types.is_string(wanted):
        return bool(pa.types.is_large_string(given) or pa.types.is_string_view(given))
    if pa.types.is_binary(wanted):
        return bool(pa.types.is_large_binary(given) or pa.types.is_binary_view(given))
    return False


def _nested_fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_struct(wanted):
        return (
            pa.types.is_struct(given)
            and [field.name for field in given] == [field.name for field in wanted]
            and all(_fits(field.type, target.type) for field, target in zip(given, wanted, strict=True))
        )
    if pa.types.is_map(wanted):
        return (
            pa.types.is_map(given)
            and _fits(given.key_type, wanted.key_type)
            and _fits(given.item_type, wanted.item_type)
        )
    listed = pa.types.is_list(given) or pa.types.is_large_list(given)
    return listed and _fits(given.value_type, wanted.value_type)
