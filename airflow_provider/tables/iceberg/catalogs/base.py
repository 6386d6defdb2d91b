"""Contract of a catalog: for each table the URI of the metadata file by which engines load it, its pointer (R17).

A catalog decides nothing. Either the store's transaction moves its pointers, where both are in one database, or they
follow the store's commits. See docs/decisions/projection.md.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.table.metadata import TableMetadata

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import Table

POINTER, BEFORE = "metadata_location", "previous_metadata_location"
"""Parameters of an entry in Hive and Glue: its pointer, and the pointer before."""
_TYPE, _ICEBERG = "table_type", "ICEBERG"
_NAME = re.compile(r"[a-z0-9_]{1,128}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """Arguments of :meth:`PointerCatalog.move`."""

    table: Table
    expected: str
    pointer: str
    metadata: Callable[[], TableMetadata]


class PointerCatalog(ABC):
    """Catalog of tables, each in the namespace of its domain. Opens its connections on first use.

    All methods raise :class:`~airflow_provider.domain.errors.StoreUnavailable` if the catalog does not answer, or
    refuses the request; nothing has changed then, or what a repeated call finds done.
    """

    moves_together: bool = False
    """Whether :meth:`move_together` may move pointers."""

    @abstractmethod
    def pointers(self, tables: Sequence[Table]) -> list[str | None]:
        """Return the pointers of *tables* in their order; None for a table that the catalog lacks.

        :raises InvalidInput: the catalog can have no table of that name, or has another kind of table under it.
        """

    @abstractmethod
    def insert(self, table: Table, pointer: str, metadata: TableMetadata) -> bool:
        """Make an entry for *table*, and its namespace; return False if there is an entry, whatever its pointer.

        It may be the entry of this call, where a request was repeated because its reply was lost.

        :param metadata: content of the file at *pointer*.
        :raises InvalidInput: the catalog refuses the columns.
        """

    @abstractmethod
    def move(self, table: Table, expected: str, pointer: str, metadata: Callable[[], TableMetadata]) -> bool:
        """Move the pointer from *expected* to *pointer* by compare-and-set; return whether this call moved it.

        False also where a repeated request of this call found the pointer moved by the first.

        :param metadata: returns the content of the file at *pointer*.
        """

    def move_together(self, moves: Sequence[Move]) -> bool:  # noqa: ARG002 - the arguments are of those that can
        """Move all pointers of *moves* at once, or none of them; return whether it moved them.

        False also where the catalog cannot: then each is moved alone.
        """
        return False

    @abstractmethod
    def remove(self, table: Table, expected: str) -> bool:
        """Remove the entry of *table* if its pointer is *expected*; return whether this call removed it.

        Files stay. Glue compares before it removes, and a REST catalog renames the entry in between; the other catalogs
        do both at once.
        """

    @abstractmethod
    def is_ready(self) -> bool:
        """Return whether the catalog can take tables; read-only."""

    def make(self) -> None:
        """Make what :meth:`is_ready` asks for; idempotent. A server of its own has only to answer."""
        self.is_ready()

    @abstractmethod
    def close(self) -> None:
        """Close connections; the next call opens them again. May be called twice."""


def refuse_name(table: Table, catalog: str) -> None:
    """Refuse a name that a catalog which folds names to lower case would give to two tables.

    :param catalog: name of the catalog within a sentence.
    :raises InvalidInput: names the field ``domain`` or ``table``.
    """
    for field, name in (("domain", table.domain), ("table", table.name)):
        if not _NAME.fullmatch(name):
            raise InvalidInput(
                field=field,
                value=name,
                expected=f"a name that {catalog} keeps as it is: 1 to 128 of a-z, 0-9 and _",
                next_step=f"choose another name for the {field}, or a SQL catalog.",
            )


def new_parameters(pointer: str) -> dict[str, str]:
    """Return the parameters by which clients of Hive and Glue know an entry for an Iceberg table."""
    return {_TYPE: _ICEBERG, POINTER: pointer}


def pointer_in(table: Table, catalog: str, parameters: Mapping[str, str], kind: str) -> str:
    """Return the pointer that an entry's *parameters* hold.

    :param catalog: name of the catalog within a sentence. :param kind: the catalog's word for such an entry.
    :raises InvalidInput: the entry is no Iceberg table.
    """
    said = parameters.get(_TYPE, "")
    if said.upper() == _ICEBERG and POINTER in parameters:
        return parameters[POINTER]
    raise InvalidInput(
        field="table",
        value=f"{table.domain}.{table.name}",
        expected=f"a name that {catalog} does not have yet, or an Iceberg table; found: {f'{kind} {said}'.strip()}",
        next_step="choose another name, or move the table that is there.",
    )
