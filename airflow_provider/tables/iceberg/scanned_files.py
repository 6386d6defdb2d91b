"""Whole files of another Iceberg table, as a scan of pyiceberg's selects them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import FileFormat
from pyiceberg.transforms import IdentityTransform

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import Table
from airflow_provider.tables.added_files import FileScan
from airflow_provider.tables.columns import plain_schema


@dataclass(frozen=True, kw_only=True, slots=True)
class Scanned:
    """Files of an Iceberg table.

    :param columns: those of the table, with their ids.
    :param partitions: for each file the columns that partition it by their values, names by id.
    """

    uris: Sequence[str]
    columns: pa.Schema
    partitions: Sequence[Mapping[int, str]]


def whole_files(scan: FileScan, table: Table) -> Scanned:
    """Return the files of *scan*.

    :raises InvalidInput: the scan takes some rows or columns of a file only, or the files have what plain files do not
        tell: rows deleted by delete files, another format, or a default for files that lack a column.
    """
    schema = scan.projection()
    if getattr(scan, "limit", None) is not None or tuple(getattr(scan, "selected_fields", ("*",))) != ("*",):
        raise _refused(table, "a scan with a limit, or of some columns only")
    for number in schema.field_ids:
        if schema.find_field(number).initial_default is not None:
            name = schema.find_column_name(number)
            raise _refused(table, f"a default of column {name!r} for files that lack it")
    uris, partitions = [], []
    for task in scan.plan_files():
        if task.delete_files:
            raise _refused(table, f"rows deleted by delete files, in {task.file.file_path}")
        if task.file.file_format is not FileFormat.PARQUET:
            raise _refused(table, f"a file that is not Parquet: {task.file.file_path}")
        if not isinstance(task.residual, AlwaysTrue):
            raise _refused(table, f"{task.residual}, which takes some rows only of {task.file.file_path}")
        uris.append(task.file.file_path)
        partitions.append(_by_value(scan, task.file.spec_id, schema))
    return Scanned(uris=uris, columns=plain_schema(schema_to_pyarrow(schema)), partitions=partitions)


def _by_value(scan: FileScan, spec_id: int, schema: Any) -> dict[int, str]:
    """Return the columns of *schema* by whose values files of a partition spec are separated, names by id."""
    fields = scan.table_metadata.specs()[spec_id].fields
    sources = [field.source_id for field in fields if isinstance(field.transform, IdentityTransform)]
    return {number: str(schema.find_column_name(number)) for number in sources if number in schema.field_ids}


def _refused(table: Table, found: str) -> InvalidInput:
    return InvalidInput(
        field="files",
        value=found,
        expected="whole Parquet files, by a filter on the partition of the table",
        next_step="let the owner of the table rewrite it (rewrite_data_files with rewrite-all), choose a filter on its "
        "partition, or copy the rows by a job: epoch.read_source and epoch.write.",
        table=table.name,
    )
