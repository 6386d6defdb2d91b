"""Properties of table formats by which the package decides.

Further operations of a format are interfaces that it implements:
:class:`~airflow_provider.tables.drafts.DraftingFormat`, :class:`~airflow_provider.tables.relocating.Relocatable`.
What every format must do is the contract itself.
"""

from __future__ import annotations

from collections.abc import Set
from enum import StrEnum
from typing import Protocol

from airflow_provider.domain.errors import InvalidInput


class TableCapability(StrEnum):
    """Property that a format may lack; what needs it is refused by name then (protocol section 11)."""

    COLUMN_IDS = "column ids"
    """Columns are found by id, so that they can be renamed and dropped between epochs (R32)."""
    SHARED_FILES = "shared files"
    """Files are Parquet with column ids, and other processes open them by URI: Spark's workers, DuckDB."""
    CATALOG_SNAPSHOTS = "catalog snapshots"
    """Engines find versions as snapshots of a table in an Iceberg catalog, and travel to them."""
    CUT_FILES = "cut files"
    """Engines open a state as a table, by a metadata file of its own (:mod:`airflow_provider.tables.cut_files`)."""
    UNIT_FILES = "unit files"
    """One file may hold the rows of many epochs (:mod:`airflow_provider.tables.compacting`)."""


class Capable(Protocol):
    """A table format, by its name and its capabilities."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Set[TableCapability]: ...


_NEXT_STEPS = {
    TableCapability.COLUMN_IDS: "add a column of the new name.",
    TableCapability.SHARED_FILES: "declare a table in a format that has it, such as format='iceberg'; this process "
    "reads the rows with cut[table].to_arrow().",
    TableCapability.CATALOG_SNAPSHOTS: "read the table with cut[table].to_arrow().",
    TableCapability.CUT_FILES: "read the table with cut[table].to_arrow().",
    TableCapability.UNIT_FILES: "leave its files as they are: only tables of format='iceberg' are compacted.",
}


def refuse_without(
    capability: TableCapability,
    table_format: Capable,
    table: str,
    *,
    field: str = "format",
    value: object = None,
) -> None:
    """Refuse what needs *capability* of the format of *table*.

    :param field: what was asked for. :param value: likewise; by default the name of the format.
    :raises InvalidInput: *table_format* lacks it; names the format, the capability and what to do instead.
    """
    if capability in table_format.capabilities:
        return
    raise InvalidInput(
        f"table {table!r}: format {table_format.name!r} lacks the capability {capability.value!r}.",
        next_step=_NEXT_STEPS[capability],
        field=field,
        value=table_format.name if value is None else value,
        expected=f"a format with {capability.value}",
        table=table,
        missing=(capability,),
    )
