"""Whole files of another Iceberg table, as a scan of pyiceberg's selects them."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import FileFormat

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import Table
from airflow_provider.tables.added_files import FileScan
from airflow_provider.tables.columns import plain_schema


def whole_files(scan: FileScan, table: Table) -> tuple[list[str], pa.Schema]:
    """Return the URIs of the files of *scan*, and the columns of the table that they are of, with their ids.

    :raises InvalidInput: the scan takes some rows of a file only, or the files have what plain files do not tell:
        rows deleted by delete files, another format, or a default for files that lack a column.
    """
    schema = scan.projection()
    defaults = [schema.find_column_name(number) for number in schema.field_ids]
    defaults = [name for name in defaults if name and schema.find_field(name).initial_default is not None]
    if defaults:
        raise _refused(table, f"a default of column {defaults[0]!r} for files that lack it")
    found = []
    for task in scan.plan_files():
        if task.delete_files:
            raise _refused(table, f"rows deleted by delete files, in {task.file.file_path}")
        if task.file.file_format is not FileFormat.PARQUET:
            raise _refused(table, f"a file that is not Parquet: {task.file.file_path}")
        if not isinstance(task.residual, AlwaysTrue):
            raise _refused(table, f"{task.residual}, which takes some rows only of {task.file.file_path}")
        found.append(task.file.file_path)
    return found, plain_schema(schema_to_pyarrow(schema))


def _refused(table: Table, found: str) -> InvalidInput:
    return InvalidInput(
        field="files",
        value=found,
        expected="whole Parquet files, by a filter on the partition of the table",
        next_step="let the owner of the table rewrite it (rewrite_data_files with rewrite-all), choose a filter on its "
        "partition, or copy the rows by a job: epoch.read_source and epoch.write.",
        table=table.name,
    )
