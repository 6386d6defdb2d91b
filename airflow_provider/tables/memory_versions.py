"""Versions of memory tables: their content, and the steps from one version to another."""

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
from airflow_provider.domain.foreign import Foreign
from airflow_provider.domain.version import Shown
from airflow_provider.tables import checks, projection
from airflow_provider.tables.base import Publication
from airflow_provider.tables.columns import field_id, known_ids
from airflow_provider.tables.evolving import evolved
from airflow_provider.tables.partitioning import columns_in, names_taken

SAME_ROWS = "replace"
"""Operation of a commit that only puts the same rows into other files; Iceberg's word for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """One version of one table: the target of a pointer."""

    table_uuid: str
    version: int
    schema_id: int
    schemas: tuple[str, ...]
    slices: tuple[tuple[datetime, str], ...] = ()
    """Barrier and URI of each file."""
    marks: checks.Marks | None = None
    earlier: tuple[str, ...] = ()
    """Locations of the versions that it was made from, newest first."""
    replaces: frozenset[str] = frozenset()
    operation: str = "append"
    """Operation that made it from the version before."""
    shows: Shown | None = None
    """Slices that engines without cuts see; None for all."""

    @property
    def shown(self) -> tuple[tuple[datetime, str], ...]:
        """Barrier and URI of each file that engines without cuts see."""
        return tuple(
            (barrier, uri) for barrier, uri in self.slices if self.shows is None or self.shows.has(barrier)
        )

    @property
    def hidden(self) -> tuple[tuple[datetime, str], ...]:
        """Barrier and URI of each file that only states contain."""
        return tuple(
            (barrier, uri)
            for barrier, uri in self.slices
            if self.shows is not None and not self.shows.has(barrier)
        )


def evolved_version(publication: Publication, head: Version) -> Version:
    """Return *head* with changed columns; ids of dropped columns are not used again (R32).

    :raises SchemaMismatch: a change is impossible for these columns; names the column.
    """
    known = [field for schema in head.schemas for field in unpacked(schema)]
    existing, partition_by = unpacked(head.schemas[head.schema_id]), publication.table.partition_by
    after = evolved(
        publication.table,
        existing,
        publication.changes,
        last_id=max(known_ids(known)),
        separating=columns_in(partition_by),
        sorting=publication.table.sort_by,
        taken=names_taken(partition_by, existing.names),
    )
    return replace(head, schema_id=len(head.schemas), schemas=(*head.schemas, packed(after)))


def packed(schema: pa.Schema) -> str:
    """Serialise *schema* to text."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def unpacked(schema: str) -> pa.Schema:
    """Return the schema that :func:`packed` serialised."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema)))


def projected(rows: object, target: pa.Schema) -> pa.Table:
    """Return *rows* with the columns of *target*, matched by id; a missing column becomes nulls."""
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
    """Return :attr:`Version.earlier` of a version that is made from *version* at *uri*."""
    return (uri, *version.earlier)[: projection.REMEMBERED]


def renamed(uri: str, version: Version, old: str, new: str) -> Version:
    """Return the version at *uri* with the column *old* renamed to *new*; its id stays."""
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
    """Return the version that another program makes from the one at *uri*; it sees only the shown slices.

    :param operation: ``append`` keeps the shown slices, any other operation replaces them.
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
    """Return the versions from *base* to the one at *pointer*, oldest first; None if it does not descend from *base*.

    Every version descends from the empty table (0); the result then has the versions that are still remembered.
    """
    head = look(pointer)
    versions: list[Version] = []
    for uri in ("", *head.earlier):
        try:
            version = look(uri) if uri else head
        except Unavailable:
            break
        # A renamed column makes a new description of the same version.
        if not versions or versions[0].version != version.version:
            versions.insert(0, version)
        if version.version == base:
            return versions
    return versions if base == 0 else None


def compaction(look: Callable[[str], Version], pointer: str) -> list[Version]:
    """Return the compactions that lead to *pointer*, oldest first, preceded by the version that they compact."""
    head = look(pointer)
    versions = [head]
    for uri in head.earlier:
        if versions[0].marks is not None or versions[0].operation != SAME_ROWS:
            break
        versions.insert(0, look(uri))
    return versions


def steps(versions: Sequence[Version]) -> list[projection.Step]:
    """Return the steps after the first of *versions*."""
    return [
        projection.Step(version=version.version, operation=version.operation, marks=version.marks)
        for version in versions[1:]
    ]


def changed(versions: Sequence[Version], objects: Mapping[str, Any]) -> Foreign:
    """Compare the rows of *versions* step by step; *objects* holds the rows of each file by URI."""
    touched: set[datetime] = set()
    operations = tuple(version.operation for version in versions[1:])
    # Compactions of compactions promise the rows of the first base.
    for before, after in pairwise(
        [versions[0], versions[-1]] if set(operations) == {SAME_ROWS} else versions
    ):
        gone, come = set(before.shown) - set(after.shown), set(after.shown) - set(before.shown)
        if after.operation == SAME_ROWS:
            # The operation's name is a promise of another program: count the rows of each epoch.
            rows = _counted(come, objects)
            rows.subtract(_counted(gone, objects))
            touched |= {barrier for barrier, number in rows.items() if number}
        else:
            touched |= {barrier for barrier, _ in gone | come}
    return Foreign(operations=operations, epochs=tuple(sorted(touched)))


def _counted(slices: Iterable[tuple[datetime, str]], objects: Mapping[str, Any]) -> Counter[datetime]:
    rows: Counter[datetime] = Counter()
    for barrier, uri in slices:
        rows[barrier] += objects[uri].num_rows
    return rows
