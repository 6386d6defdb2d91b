"""Names of columns in files without column ids (docs/decisions/added-files.md).

They lie beside a table's metadata, one file for each of its schemas under which such files were added. A later one has
the names of those before, and more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.fs as pafs
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.types import NestedField

from airflow_provider.domain.errors import SchemaMismatch
from airflow_provider.domain.topology import Table
from airflow_provider.tables import checks, storage
from airflow_provider.tables.base import TableInfo
from airflow_provider.tables.iceberg import schemas


def read_names(io: FileIO, directory: str, table_uuid: str) -> Schema | None:
    """Return the columns by whose names those of files without ids are known; None if there are no such files.

    :param directory: URI of the table's metadata. :raises Unavailable: the names are damaged.
    """
    place = _place(directory, table_uuid)
    known = _schema_ids(place)
    return _read(io, f"{place}/{max(known)}.json") if known else None


def names_for(io: FileIO, table: Table, directory: str, info: TableInfo) -> pa.Schema:
    """Return the names for files that are added now, and keep them.

    :raises SchemaMismatch: a column has the name that another one had when files were added before.
    """
    place = _place(directory, info.table_uuid)
    known = _schema_ids(place)
    if info.schema_id in known:
        return schemas.to_arrow(_read(io, f"{place}/{info.schema_id}.json"))
    earlier = [number for number in known if number < info.schema_id]
    before = _read(io, f"{place}/{max(earlier)}.json").fields if earlier else ()
    ids = {field.field_id: field.name for field in before}
    new = [field for field in schemas.from_json(info.schema).fields if field.field_id not in ids]
    reused = sorted({field.name for field in new} & {*ids.values()})
    if reused:
        raise taken(table, reused[0])
    names = _together(table, [*before, *new])
    storage.write_whole(
        *storage.filesystem(f"{place}/{info.schema_id}.json"), names.model_dump_json().encode()
    )
    return schemas.to_arrow(names)


def ids_by_name(names: pa.Schema) -> dict[str, int]:
    """Return the ids of the top columns of *names*."""
    return {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in names}


def agree(names: Schema, used: Mapping[str, int]) -> bool:
    """Return whether *names* gives each column the id that it had when its file was described."""
    known = {field.name: field.field_id for field in names.fields}
    return all(known.get(name) == number for name, number in used.items())


def mapping(names: Schema) -> str:
    """Return *names* as the value of the table property ``schema.name-mapping.default``."""
    return create_mapping_from_schema(names).model_dump_json()


def _place(directory: str, table_uuid: str) -> str:
    return f"{directory}/names-{table_uuid}"


def _schema_ids(place: str) -> list[int]:
    filesystem, path = storage.filesystem(place)
    infos = filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True))
    stems = [info.base_name.removesuffix(".json") for info in infos if info.base_name.endswith(".json")]
    return [int(stem) for stem in stems if stem.isdecimal()]


def _read(io: FileIO, uri: str) -> Schema:
    """:raises Unavailable: the file is damaged."""
    with io.new_input(uri).open() as stream:
        content = stream.read()
    try:
        return Schema.model_validate_json(content)
    except ValueError as error:
        raise checks.damaged_file(uri, error) from error


def taken(table: Table, name: str) -> SchemaMismatch:
    """Return the error for a *name* that was one column's when files were added, and is another's now."""
    return SchemaMismatch(
        f"table {table.name!r}: a column was called {name!r} when files were added, and another one is called so "
        "now: files without column ids could not be told apart.",
        next_step="copy the rows by a job: epoch.write.",
        table=table.name,
        column=name,
        expected="a name that no column had when files were added",
        found=name,
    )


def _together(table: Table, fields: Sequence[NestedField]) -> Schema:
    """:raises SchemaMismatch: Iceberg cannot map the names, such as a column ``a.b`` beside a struct ``a`` of ``b``."""
    try:
        names = Schema(*fields)
        mapping(names)
        return Schema.model_validate_json(names.model_dump_json())
    except ValueError as error:
        raise SchemaMismatch(
            f"table {table.name!r}: its columns, those of earlier files included, have no name mapping: {error}.",
            next_step="copy the rows by a job: epoch.write.",
            table=table.name,
            column="",
            expected="names that Iceberg tells apart",
            found=", ".join(field.name for field in fields),
        ) from error
