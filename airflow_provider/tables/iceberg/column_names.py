"""Names of columns in files without column ids (docs/decisions/added-files.md).

One file beside a table's metadata has them, once files of other programs were added. It only grows.
"""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import create_mapping_from_schema

from airflow_provider.domain.errors import SchemaMismatch
from airflow_provider.domain.topology import Table
from airflow_provider.tables import storage
from airflow_provider.tables.base import TableInfo
from airflow_provider.tables.iceberg import schemas


def names_uri(directory: str, table_uuid: str) -> str:
    """Return the URI of the names of a table's columns. :param directory: of its metadata."""
    return f"{directory}/names-{table_uuid}.json"


def read_names(io: FileIO, directory: str, table_uuid: str) -> Schema | None:
    """Return the columns by whose names those of files without ids are known; None if there are no such files."""
    try:
        with io.new_input(names_uri(directory, table_uuid)).open() as stream:
            return Schema.model_validate_json(stream.read())
    except FileNotFoundError:
        return None


def names_for(io: FileIO, table: Table, directory: str, info: TableInfo) -> pa.Schema:
    """Return the names for files that are added now, and keep them: once a name is a column's, it stays so.

    :raises SchemaMismatch: a column has the name that another one had when files were added before.
    """
    current = schemas.from_json(info.schema)
    known = read_names(io, directory, info.table_uuid)
    before = () if known is None else known.fields
    ids = {field.field_id for field in before}
    new = [field for field in current.fields if field.field_id not in ids]
    taken = sorted({field.name for field in new} & {field.name for field in before})
    if taken:
        raise SchemaMismatch(
            f"table {table.name!r}: a column was called {taken[0]!r} when files were added, and another one "
            "is called so now: files without column ids could not be told apart.",
            next_step="copy the rows by a job: epoch.write.",
            table=table.name,
            column=taken[0],
            expected="a name that no column had when files were added",
            found=taken[0],
        )
    names = Schema(*before, *new)
    if new:
        uri = names_uri(directory, info.table_uuid)
        storage.write_whole(*storage.filesystem(uri), names.model_dump_json().encode())
    return schemas.to_arrow(names)


def mapping(names: Schema) -> str:
    """Return *names* as the value of the table property ``schema.name-mapping.default``."""
    return create_mapping_from_schema(names).model_dump_json()
