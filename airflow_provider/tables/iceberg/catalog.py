"""Tables of one warehouse as a catalog names them: the files of their descriptions, and the pointers to them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata, new_table_metadata

from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.topology import Table
from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.tables import checks, storage
from airflow_provider.tables.iceberg.catalogs.base import Move, PointerCatalog
from airflow_provider.tables.iceberg.remembering import Remembered
from airflow_provider.tables.iceberg.schemas import partition_spec, sort_order
from airflow_provider.tables.locations import table_path
from airflow_provider.tables.projection import REMEMBERED

log = logging.getLogger(__name__)

KEPT_METADATA_FILES = REMEMBERED
"""Number of earlier metadata files that are kept for programs that still hold an earlier pointer."""

_NOBODY_COMMITS = NoopCatalog(CATALOG_NAME)
"""Catalog of loaded tables: it refuses commits, since only the store commits (R17)."""

REPLACES = "epochs.replaces"
"""Property of a table: identities of the unpublished tables that it replaced."""

_DOMAIN = "epochs.domain"
_PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": str(KEPT_METADATA_FILES),
    # Compactions of others count and bound all columns; without this, the first hundred.
    "write.metadata.metrics.default": "truncate(16)",
}

GC_ENABLED = "gc.enabled"
PROTECTED = {GC_ENABLED: "false"}
"""Property of every version: earlier cuts read files that no snapshot names, and no other program may expire them."""


class IcebergCatalog:
    """Tables of one warehouse.

    :param io: reads and writes the files of tables. :param pointers: where engines find them.
    :param warehouse: URI of the directory that holds all tables.
    """

    def __init__(self, io: FileIO, pointers: PointerCatalog, warehouse: str) -> None:
        self.warehouse = warehouse
        self._io = io
        self._pointers = pointers
        self._described = Remembered(io, _read_metadata)

    def load(self, table: Table) -> IcebergTable | None:
        """Return the table that the pointer names now, or None if the catalog lacks it.

        :raises Unavailable: the metadata file that the pointer names is missing.
        :raises StoreUnavailable: the catalog does not answer.
        """
        return self.load_all([table])[0]

    def load_all(self, tables: Sequence[Table]) -> list[IcebergTable | None]:
        """Return the result of :meth:`load` for each of *tables*, by one query where the catalog has it.

        :raises Unavailable: as in :meth:`load`. :raises StoreUnavailable: likewise.
        """
        named = zip(tables, self._pointers.pointers(tables), strict=True)
        return [None if pointer is None else self.named(table, pointer) for table, pointer in named]

    def named(self, table: Table, pointer: str) -> IcebergTable:
        """Return the table that the metadata file at *pointer* describes.

        :raises Unavailable: the file is missing.
        """
        with checks.translated(self.warehouse):
            try:
                return self.at(table, pointer)
            except FileNotFoundError as error:
                raise Unavailable(
                    f"the catalog's pointer of table {table.name!r} names a metadata file that is missing: {error}",
                    next_step="restore the file; if the store was restored from a backup, restore the warehouse too.",
                    tables=(table.name,),
                ) from error

    def at(self, table: Table, location: str) -> IcebergTable:
        """Return the table that the metadata file at *location* describes, wherever its pointer is.

        :raises FileNotFoundError: the file is missing.
        """
        metadata = self._described(location)
        return IcebergTable((table.domain, table.name), metadata, location, self._io, _NOBODY_COMMITS)

    def note(self, location: str, metadata: TableMetadata) -> None:
        """Remember *metadata*, which was just written to *location*."""
        self._described.keep(location, metadata)

    def move(self, table: Table, expected: str, pointer: str) -> bool:
        """Move the pointer of *table* from *expected* to *pointer* by compare-and-set; return whether it moved.

        :raises Unavailable: no metadata exists at *pointer*. :raises StoreUnavailable: the catalog does not answer.
        """
        return self._pointers.move(table, expected, pointer, lambda: self._description(pointer))

    def move_together(self, moves: Sequence[tuple[Table, str, str]]) -> bool:
        """Move the pointers of several tables at once, or none of them; return whether they moved.

        :param moves: each table, with the arguments of :meth:`move`.
        :raises Unavailable: as :meth:`move`. :raises StoreUnavailable: likewise.
        """
        return self._pointers.move_together(
            [
                Move(table=table, expected=expected, pointer=new, metadata=partial(self._description, new))
                for table, expected, new in moves
            ]
        )

    def replace(self, table: Table, schema: Schema, before: IcebergTable) -> None:
        """Replace *before* by an empty table, unless another program has moved its pointer."""
        replaced = " ".join((before.properties.get(REPLACES, ""), str(before.metadata.table_uuid))).strip()
        metadata = _empty(table, schema, before.location(), {REPLACES: replaced})
        self._pointers.move(table, before.metadata_location, self._written(metadata), lambda: metadata)

    def create(self, table: Table, schema: Schema) -> IcebergTable | None:
        """Create the table; return None if it exists, such as when another attempt was faster."""
        metadata = _empty(table, schema, f"{self.warehouse}/{table_path(table.domain, table.name)}")
        pointer = self._written(metadata)
        if self._pointers.insert(table, pointer, metadata) or self._pointers.pointers([table]) == [pointer]:
            return self.named(table, pointer)
        try:
            storage.remove(*storage.filesystem(pointer))
        except OSError as error:
            log.warning("A metadata file stays: %s (%s)", pointer, error, extra={"table": table.name})
        return None

    def register(self, table: Table, pointer: str) -> IcebergTable | None:
        """Register the table that *pointer* describes; return None if the catalog has a table of that name.

        :raises Unavailable: the metadata file is missing.
        """
        if self._pointers.insert(table, pointer, self._description(pointer)):
            return self.named(table, pointer)
        return None

    def mover(self, table: Table, pointer: str) -> Callable[[str], bool]:
        """Return :meth:`move` to *pointer*, as a function of the pointer that is expected."""
        return lambda expected: self.move(table, expected, pointer)

    def is_own(self, table: Table) -> bool:
        """Return whether the catalog's entry of *table*, if there is one, was made by this package."""
        loaded = self.load(table)
        return loaded is None or loaded.properties.get(_DOMAIN) == table.domain

    def remove(self, table: Table, pointer: str) -> bool:
        """Remove the entry of *table* if its pointer is *pointer*; return whether it was.

        :raises StoreUnavailable: the catalog does not answer.
        """
        return self._pointers.remove(table, pointer)

    def close(self) -> None:
        """Close connections; the next call opens them again."""
        self._pointers.close()

    def _description(self, pointer: str) -> TableMetadata:
        """:raises Unavailable: no metadata exists at *pointer*."""
        with checks.translated(self.warehouse):
            try:
                return self._described(pointer)
            except FileNotFoundError as error:
                raise checks.missing_file(pointer) from error

    def _written(self, metadata: TableMetadata) -> str:
        """Write *metadata* to a new file; return its URI."""
        provider = load_location_provider(metadata.location, metadata.properties)
        location = provider.new_table_metadata_file_location()
        with checks.translated(self.warehouse):
            ToOutputFile.table_metadata(metadata, self._io.new_output(location))
        self.note(location, metadata)
        return location


def _read_metadata(io: FileIO, location: str) -> TableMetadata:
    """:raises FileNotFoundError: the file is missing. :raises Unavailable: it is damaged."""
    try:
        return FromInputFile.table_metadata(io.new_input(location))
    except (ValueError, ValidationError) as error:
        raise Unavailable(
            f"{location} is damaged: the table that it describes can be neither read nor written by its description.",
            next_step="restore the file from a backup of the warehouse; cuts of the table can be read meanwhile.",
            uri=location,
        ) from error


def _empty(table: Table, schema: Schema, location: str, properties: dict[str, str] | None = None) -> Any:
    """Return the description of the empty *table*."""
    spec, order = partition_spec(table, schema), sort_order(table, schema)
    made = new_table_metadata(
        location=location,
        schema=schema,
        partition_spec=spec,
        sort_order=order,
        properties=_properties_of(table) | (properties or {}),
    )
    # It numbers the columns anew, but files that are there have the ids of *schema*.
    own = {"schemas": [schema], "last_column_id": schema.highest_field_id}
    return made.model_copy(update=own | {"partition_specs": [spec], "sort_orders": [order]})


def _properties_of(table: Table) -> dict[str, str]:
    return (
        _PROPERTIES
        | PROTECTED
        | {
            _DOMAIN: table.domain,
            "epochs.table": table.name,
            "epochs.kind": table.kind.value,
        }
    )
