"""Versions of memory tables: what a pointer names, and how one version became another."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa

from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.version import Shown
from airflow_provider.tables import checks, projection
from airflow_provider.tables.base import Publication
from airflow_provider.tables.columns import field_id, known_ids
from airflow_provider.tables.evolving import evolved
from airflow_provider.tables.standing import Foreign

SAME_ROWS = "replace"
"""What a program calls a commit that only puts the same rows into other files, as Iceberg does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """What a pointer names: one version of one table."""

    table_uuid: str
    version: int
    schema_id: int
    schemas: tuple[str, ...]
    slices: tuple[tuple[datetime, str], ...] = ()
    """Barrier and URI of each file."""
    marks: checks.Marks | None = None
    earlier: tuple[str, ...] = ()
    """Locations that it was made from, newest first."""
    replaces: frozenset[str] = frozenset()
    operation: str = "append"
    """What made it of the one before."""
    shows: Shown | None = None
    """Which slices engines without cuts see; None for all."""

    @property
    def shown(self) -> tuple[tuple[datetime, str], ...]:
        """Barrier and URI of each file that engines without cuts see."""
        return tuple(one for one in self.slices if self.shows is None or self.shows.has(one[0]))

    @property
    def hidden(self) -> tuple[tuple[datetime, str], ...]:
        """Barrier and URI of each file that only states lead to."""
        return tuple(one for one in self.slices if self.shows is not None and not self.shows.has(one[0]))


def evolved_version(publication: Publication, head: Version) -> Version:
    """Return *head* with changed columns; ids of columns that it had once are not given again (R32).

    :raises SchemaMismatch: they cannot be changed so; names the column.
    """
    known = [field for schema in head.schemas for field in unpacked(schema)]
    after = evolved(
        publication.table,
        unpacked(head.schemas[head.schema_id]),
        publication.changes,
        last_id=max(known_ids(known)),
        separating=publication.table.partition_by,
        sorting=publication.table.sort_by,
    )
    return replace(head, schema_id=len(head.schemas), schemas=(*head.schemas, packed(after)))


def packed(schema: pa.Schema) -> str:
    """Return *schema* as text."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def unpacked(schema: str) -> pa.Schema:
    """Return what :func:`packed` made text of."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema)))


def projected(rows: object, target: pa.Schema) -> pa.Table:
    """Return *rows* with the columns of *target*, matched by id; nulls where they lack one."""
    if not isinstance(rows, pa.Table):
        raise Unavailable("a file of the state holds no rows.")
    by_id = {field_id(field): index for index, field in enumerate(rows.schema)}
    columns = [
        rows.column(by_id[field_id(field)]).cast(field.type)
        if field_id(field) in by_id
        else pa.nulls(rows.num_rows, field.type)
        for field in target
    ]
    return pa.table(columns, schema=target)


def followed(uri: str, version: Version) -> tuple[str, ...]:
    """What a version that is made from the one at *uri* has before it."""
    return (uri, *version.earlier)[: projection.REMEMBERED]


def renamed(uri: str, version: Version, old: str, new: str) -> Version:
    """Return the version at *uri* with the column *old* called *new*: the same one, with the same id."""
    schema = unpacked(version.schemas[version.schema_id])
    changed = schema.set(schema.get_field_index(old), schema.field(old).with_name(new))
    return replace(
        version,
        schema_id=len(version.schemas),
        schemas=(*version.schemas, packed(changed)),
        earlier=followed(uri, version),
    )


def foreign(
    uri: str, version: Version, number: int, operation: str, added: Sequence[tuple[datetime, str]]
) -> Version:
    """Return what another program makes of the version at *uri*, which sees of it what is shown.

    :param operation: ``append`` keeps what is there, any other replaces all of it.
    """
    return replace(
        version,
        version=number,
        slices=(*(version.shown if operation == "append" else ()), *added),
        shows=None,
        marks=None,
        earlier=followed(uri, version),
        operation=operation,
    )


def way(look: Callable[[str], Version], pointer: str, base: int) -> list[Version] | None:
    """The versions from *base* to what *pointer* names, oldest first; None when it does not come from there.

    From the empty table (0) there always is one, of which as much is told as is remembered.
    """
    head = look(pointer)
    found: list[Version] = []
    for uri in ("", *head.earlier):
        try:
            one = look(uri) if uri else head
        except Unavailable:
            break
        if not found or found[0].version != one.version:  # a changed column is no version
            found.insert(0, one)
        if one.version == base:
            return found
    return found if base == 0 else None


def compaction(look: Callable[[str], Version], pointer: str) -> list[Version]:
    """The compactions on top of the version that *pointer* comes from, that version first; oldest first."""
    head = look(pointer)
    found = [head]
    for uri in head.earlier:
        if found[0].marks is not None or found[0].operation != SAME_ROWS:
            break
        found.insert(0, look(uri))
    return found


def steps(versions: Sequence[Version]) -> list[projection.Step]:
    """What came after the first of *versions*."""
    return [
        projection.Step(version=one.version, operation=one.operation, marks=one.marks) for one in versions[1:]
    ]


def changed(versions: Sequence[Version], objects: Mapping[str, Any]) -> Foreign:
    """What came after the first of *versions* did to the rows; *objects* are those of each file."""
    touched: set[datetime] = set()
    for before, after in pairwise(versions):
        gone, come = set(before.shown) - set(after.shown), set(after.shown) - set(before.shown)
        if after.operation == SAME_ROWS:
            rows = _counted(come, objects)
            rows.subtract(_counted(gone, objects))
            touched |= {barrier for barrier, number in rows.items() if number}
        else:
            touched |= {barrier for barrier, _ in gone | come}
    operations = tuple(one.operation for one in versions[1:])
    return Foreign(operations=operations, epochs=tuple(sorted(touched)))


def _counted(slices: Iterable[tuple[datetime, str]], objects: Mapping[str, Any]) -> Counter[datetime]:
    found: Counter[datetime] = Counter()
    for barrier, uri in slices:
        found[barrier] += objects[uri].num_rows
    return found
