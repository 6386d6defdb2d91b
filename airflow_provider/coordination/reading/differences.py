"""Differences between two cuts: rows, per table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider.coordination.reading.compared_rows import compared_rows
from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.domain.cut import Cut, State
from airflow_provider.domain.errors import InvalidInput, Unavailable
from airflow_provider.domain.identifiers import TableName
from airflow_provider.tables.added_values import OWN
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.statistics import SizedFiles

if TYPE_CHECKING:
    import pyarrow as pa


NO_FILES = SizedFiles(files=())


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Rows of one table that only one of two cuts has; equal rows count as often as they occur."""

    table: TableName
    added: pa.Table
    removed: pa.Table


def diff(
    cuts: Cuts, before: Cut, after: Cut, tables: Iterable[str] | None = None
) -> dict[TableName, Difference]:
    """Compare two cuts, both with the columns of the one of the later commit: older columns may hold less.

    Shared files are not read: of a table that only grew, only the new epochs are. Rows of a full table at two barriers
    are equal if all but their epoch is.

    :param tables: the tables to compare; None for all that both cuts have.
    :raises LeaseExpired: one of the cuts is over. :raises InvalidInput: one of the cuts lacks a table.
    :raises Unavailable: a table was dropped between the cuts, and the later one has another table of its name.
    """
    common = [table for table in before.states if table in after.states]
    wanted = common if tables is None else [TableName(table) for table in tables]
    missing = sorted(set(wanted) - set(common))
    if missing or before.domain != after.domain:
        raise InvalidInput(
            field="tables",
            value=missing or [before.domain, after.domain],
            expected=f"tables that both cuts have: {sorted(common)}, of one domain",
        )
    return {table: _difference(cuts, before, after, table) for table in wanted}


def _difference(cuts: Cuts, before: Cut, after: Cut, table: TableName) -> Difference:
    old, new = before.states[table], after.states[table]
    _refuse_another(old, new)
    cuts.check(before, [table])
    cuts.check(after, [table])
    later, earlier = (old, new) if old.csn > new.csn else (new, old)
    schema = cuts.schema(after.domain, later) or cuts.schema(after.domain, earlier)
    table_format = cuts.format_of(new if new.ref or new.staged else old)
    found = [table_format.sized(state) if state.ref or state.staged else NO_FILES for state in (old, new)]
    had, has = map(_contents, found)
    are_whole = all(side.clip is None for side in found)

    def rows(state: State) -> pa.Table:
        return table_format.read(state, schema)

    nothing = table_format.arrow_schema(schema).empty_table()
    if old.ref == new.ref and not (old.staged or new.staged) and _only_grew(old, new):
        added, removed = rows(replace(new, low=old.barrier)), nothing
    elif (
        not are_whole
    ):  # files have rows that one of the states lacks: which of them differ, only the rows tell
        added, removed = compared_rows(rows(old), rows(new))
    elif had == has:
        added, removed = nothing, nothing
    elif _only_grew(old, new) and had.items() < has.items():
        # New files may hold rows of earlier epochs, alone or with those of later ones: then all rows are compared.
        tail = replace(new, low=old.barrier)
        sized = table_format.sized(tail)
        grown = sized.clip is None and set(sized.files) == has.keys() - had.keys()
        added, removed = (rows(tail), nothing) if grown else compared_rows(rows(old), rows(new))
    else:
        # Each state of a full table has the epoch at which it was computed in all of its rows.
        leaves_out = EPOCH_COLUMN if not new.kind.accumulates and old.barrier != new.barrier else ""
        added, removed = compared_rows(rows(old), rows(new), leaves_out)
    cuts.check(before, [table])
    cuts.check(after, [table])
    return Difference(table=table, added=added, removed=removed)


def _contents(found: SizedFiles) -> dict[str, Mapping[int, Any]]:
    """Return the files of a state, each with the values of its rows that the file does not say itself.

    One of another program may be of one epoch in one state, and of another in the other one.
    """
    added = found.added or [OWN] * len(found.files)
    return {uri: others.constants for uri, others in zip(found.files, added, strict=True)}


def _refuse_another(old: State, new: State) -> None:
    """:raises Unavailable: the states are of two tables: columns of one do not say what files of the other have."""
    if old.ref is not None and new.ref is not None and old.ref.table_uuid != new.ref.table_uuid:
        raise Unavailable(
            f"table {old.table!r} was dropped between the two cuts: what has its name in one is another table.",
            next_step="read each cut for itself.",
            tables=(old.table,),
        )


def _only_grew(old: State, new: State) -> bool:
    same_kind = old.kind is new.kind and old.low == new.low
    return same_kind and new.kind.accumulates and old.barrier < new.barrier


def narrowed(cut: Cut, table: TableName, start: datetime, end: datetime) -> Cut:
    """Return *cut* of one table with the epochs from *start* to *end* only; the state of a full table is one epoch."""
    state = cut.states[table]
    if not state.kind.accumulates:
        return cut
    low = start if state.low is None else max(start, state.low)
    narrow = replace(state, low=low, barrier=max(low, min(state.barrier, end)))
    return replace(cut, states={table: narrow})
