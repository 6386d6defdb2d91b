"""Files of other programs as the slice of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import Table
from airflow_provider.spark.columns import arrow_columns, no_rows
from airflow_provider.stores.codec import older_store
from airflow_provider.tables.added_files import FileScan, with_added_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from airflow_provider.coordination.service import EpochService
    from airflow_provider.domain.epoch import Attempt
    from airflow_provider.domain.version import Committable
    from airflow_provider.tables.base import TableFormat


SINCE_FORMAT = 2
"""Programs that know older formats only read such files without their epochs."""


def path_columns(spark: SparkSession, ddl: str, table: Table) -> dict[str, pa.DataType]:
    """Return the types of columns whose values are in folders' names.

    :raises InvalidInput: no DDL of Spark's, or a column that does not partition *table*.
    """
    columns = arrow_columns(no_rows(spark, ddl).schema, table.name)
    others = [name for name in columns.names if name not in table.partition_by]
    if others:
        raise InvalidInput(
            field="in_paths",
            value=others[0],
            expected=f"a column of partition_by of table {table.name!r}: {list(table.partition_by)}",
            next_step="correct the name, or declare it there: its value is the same for all rows of a file.",
            table=table.name,
        )
    return {field.name: field.type for field in columns}


def add_files(
    service: EpochService,
    attempt: Attempt,
    sink: Table,
    table_format: TableFormat,
    files: Sequence[str] | FileScan,
    *,
    in_paths: Mapping[str, pa.DataType],
    keep: bool = False,
) -> Callable[[], Committable]:
    """Return a function that describes *files* as the output of *attempt* for *sink*.

    The first files create the table, with their columns.

    :param keep: never create the table anew: another participant has staged rows for it.
    :raises StoreIncompatible: an older version of the package may use the store, and would misread such files.
    :raises InvalidInput: see :meth:`~airflow_provider.spark.attempt_run.EpochRun.add_files`.
    :raises SchemaMismatch: the table has other columns.
    """
    adding = with_added_files(table_format, sink)
    if service.store.format < SINCE_FORMAT:
        raise older_store("files of other programs", service.store.format, SINCE_FORMAT)
    if isinstance(files, str) or not (
        hasattr(files, "plan_files")
        or (isinstance(files, Sequence) and all(isinstance(uri, str) for uri in files))
    ):
        raise InvalidInput(
            field="files",
            value=files,
            expected="a list of URIs, or a scan of an Iceberg table by pyiceberg",
            table=sink.name,
        )
    found = adding.look_at(sink, files, in_paths)
    info = service.columns(attempt, sink.name)
    if info is None or not info.version:
        info = adding.create_for(sink, found, keep=keep)
    return partial(adding.describe_added, service.place(attempt, sink.name), info, found)
