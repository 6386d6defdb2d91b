"""Apply declared column changes to a table's columns (R32)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count

import pyarrow as pa

from airflow_provider.domain.columns import ChangeKind, ColumnChange, ColumnType, column_type
from airflow_provider.domain.errors import SchemaMismatch
from airflow_provider.domain.topology import Table
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.columns import (
    EPOCH_TYPE,
    check_names,
    check_paths,
    identified,
    refuse_reserved,
    table_schema,
)

_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": EPOCH_TYPE,
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
}
_WIDER = {pa.int32(): pa.int64(), pa.float32(): pa.float64()}


def evolved(
    table: Table,
    existing: pa.Schema,
    changes: Sequence[ColumnChange],
    *,
    last_id: int,
    separating: Collection[str],
    sorting: Collection[str],
    taken: Collection[str] = (),
) -> pa.Schema:
    """Return the columns that *table* has after *changes*: ids stay, new columns get new ones.

    :param existing: the present columns. :param last_id: the greatest column id that the table ever used.
    :param separating: columns that the table is partitioned by. :param sorting: columns that it is sorted by.
    :param taken: names of partition fields, which no column may get.
    :raises SchemaMismatch: a change is impossible for these columns; names the column.
    :raises InvalidInput: a new name is invalid for a column of this table.
    """
    fields = {field.name: field for field in existing if field.name != EPOCH_COLUMN}
    ids = count(last_id + 1)
    for change in changes:
        evolving = _Evolving(table.name, change, list(fields), taken)
        if change.kind is ChangeKind.ADD:
            evolving.refuse_taken(change.column)
            fields[change.column] = identified(
                pa.field(change.column, arrow_type(column_type(change.to))), ids
            )
            continue
        evolving.refuse_missing()
        evolving.refuse_layout(separating, sorting)
        field = fields[change.column]
        if change.kind is ChangeKind.DROP:
            del fields[change.column]
        elif change.kind is ChangeKind.RENAME:
            evolving.refuse_taken(change.to)
            # The dictionary is built anew, so that the column keeps its position.
            renamed = (
                column.with_name(change.to) if column.name == change.column else column
                for column in fields.values()
            )
            fields = {column.name: column for column in renamed}
        else:
            fields[change.column] = field.with_type(evolving.wider(field.type))
    check_names(table, list(fields))
    refuse_reserved(table, (name for name in fields if name not in existing.names))
    after = pa.schema([*fields.values(), existing.field(EPOCH_COLUMN)])
    check_paths(table, after)
    return after


def new_schema(table: Table, rows: pa.Schema) -> pa.Schema:
    """Return the columns, with ids, of a new table: those of its first *rows*, with the types that column_changes give.

    The first commit records all declared changes as made.

    :raises SchemaMismatch: the rows lack a column that a change gives, or have one that a change takes away.
    :raises InvalidInput: as :func:`~.columns.table_schema`.
    """
    types, gone = _outcome(table.column_changes)
    for name, change in gone.items():
        if name in rows.names:
            raise _unlike(table, name, change, f"the rows have {name!r}")
    for name, (change, _) in types.items():
        if name not in rows.names:
            raise _unlike(table, name, change, f"the rows lack {name!r}")
    given = {name: arrow_type(column_type(to)) for name, (_, to) in types.items() if to}
    fields = (field.with_type(given.get(field.name, field.type)) for field in rows)
    return table_schema(table, pa.schema(fields))


def _outcome(
    changes: Sequence[ColumnChange],
) -> tuple[dict[str, tuple[ColumnChange, str]], dict[str, ColumnChange]]:
    """Return the columns that *changes* leave, with the last change of each and its type; and those taken away."""
    types: dict[str, tuple[ColumnChange, str]] = {}
    gone: dict[str, ColumnChange] = {}
    for change in changes:
        known = types.pop(change.column, None)
        if change.takes_away:
            gone[change.column] = change
        if change.kind is ChangeKind.DROP:
            continue
        is_renamed = change.kind is ChangeKind.RENAME
        name = change.to if is_renamed else change.column
        types[name] = change, (known[1] if known else "") if is_renamed else change.to
        gone.pop(name, None)
    return types, gone


def _unlike(table: Table, column: str, change: ColumnChange, why: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"table {table.name!r} is new, and {why}, but column_changes has {change}.",
        next_step="write the columns that all of column_changes leave; delete the changes only where no environment "
        "has an older table.",
        table=table.name,
        column=column,
        expected=str(change),
        found=why,
    )


def arrow_type(kind: ColumnType) -> pa.DataType:
    """Return the Arrow type that *kind* names."""
    if kind.word == "decimal":
        return pa.decimal128(*kind.digits)
    parts = [arrow_type(part) for part in kind.parts]
    if kind.word == "array":
        return pa.list_(pa.field("element", parts[0]))
    if kind.word == "map":
        key, value = pa.field("key", parts[0], nullable=False), pa.field("value", parts[1])
        return pa.map_(key, value)
    if kind.word == "struct":
        return pa.struct([pa.field(name, part) for name, part in zip(kind.names, parts, strict=True)])
    return _TYPES[kind.word]


class _Evolving:
    """Check one change of a table with the columns *names*."""

    def __init__(self, table: str, change: ColumnChange, names: list[str], taken: Collection[str]) -> None:
        self._table = table
        self._change = change
        self._names = names
        self._taken = taken

    def refuse_missing(self) -> None:
        if self._change.column not in self._names:
            raise self._refused(
                f"there is no column {self._change.column!r}", expected=f"one of {self._names}"
            )

    def refuse_taken(self, name: str) -> None:
        if name in self._names:
            raise self._refused(f"there is a column {name!r} already", expected="a name that is free")
        if name.casefold() in map(str.casefold, self._taken):
            raise self._refused(
                f"a partition field (partition_by) has the name {name!r}", expected="a name that is free"
            )

    def refuse_layout(self, separating: Collection[str], sorting: Collection[str]) -> None:
        column, kind, to = self._change.column, self._change.kind, self._change.to
        if column in separating or (kind is ChangeKind.RENAME and to in separating):
            raise self._refused(
                "files are separated by it (partition_by)", expected="a column that is not in partition_by"
            )
        if column in sorting and kind is ChangeKind.DROP:
            raise self._refused("rows are sorted by it (sort_by)", expected="a column that is not in sort_by")

    def wider(self, found: pa.DataType) -> pa.DataType:
        wanted = arrow_type(column_type(self._change.to))
        if pa.types.is_decimal(found) and pa.types.is_decimal(wanted):
            fits = found.scale == wanted.scale and found.precision < wanted.precision
        else:
            fits = _WIDER.get(found) == wanted
        if not fits:
            raise self._refused(f"it is {found}", expected=f"a type that holds all of {found} and more")
        return wanted

    def _refused(self, why: str, *, expected: str) -> SchemaMismatch:
        return SchemaMismatch(
            f"table {self._table!r}: {self._change} cannot be made: {why}.",
            next_step="correct it in column_changes of the table's declaration; nothing was changed.",
            table=self._table,
            column=self._change.column,
            expected=expected,
            found=str(self._change),
        )
