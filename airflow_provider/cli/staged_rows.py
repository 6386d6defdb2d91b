"""Rows of a difference, as ``airflow epochs diff`` and ``restate diff`` print them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from airflow_provider.cli.answer import block, text
from airflow_provider.coordination.reading.differences import Difference
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.tables.base import EPOCH_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_ROWS = 1_000


def row_number(text: str) -> int:
    """Parse the option ``--rows``.

    :raises InvalidInput: it is not a number from 0 to 1,000.
    """
    if not re.fullmatch(r"[0-9]{1,4}", text) or int(text) > _MOST_ROWS:
        raise InvalidInput(field="--rows", value=text, expected=f"a number from 0 to {_MOST_ROWS}")
    return int(text)


def difference_facts(found: Difference, number: int) -> dict[str, Any]:
    """Return the numbers of rows, and the first *number* of those added and of those removed."""
    return {
        "table": found.table,
        "added": found.added.num_rows,
        "removed": found.removed.num_rows,
        "rows_added": _rows(found.added, number),
        "rows_removed": _rows(found.removed, number),
    }


def difference_block(found: dict[str, Any], number: int) -> RenderableType:
    """Lay out sample rows: rows that differ in their last columns only stand below each other."""
    rows = [("-", row) for row in found["rows_removed"]] + [("+", row) for row in found["rows_added"]]
    rows.sort(key=lambda signed: [_key(value) for value in signed[1].values()])
    left = max(found["added"], found["removed"]) > number
    title = f"{found['table']}, the first rows of each kind" if left else found["table"]
    return block(title, *(text(f"{sign} {_line(row)}") for sign, row in rows))


def _rows(table: pa.Table, number: int) -> list[dict[str, Any]]:
    """Return the first rows of *table*, sorted by epoch, then by its columns in their order."""
    import pyarrow as pa

    names = [EPOCH_COLUMN, *(name for name in table.column_names if name != EPOCH_COLUMN)]
    table = table.select([name for name in names if name in table.column_names])
    sortable = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    if sortable and table.num_rows:
        table = table.sort_by([(name, "ascending") for name in sortable])
    first = table.slice(0, number)
    columns = {name: _values(first[name]) for name in first.column_names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return values that JSON has, or their text; strings of Spark may be no UTF-8."""
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        raw = column.cast(pa.large_binary()).to_pylist()
        return [None if value is None else value.decode(errors="backslashreplace") for value in raw]
    return [_plain(value) for value in column.to_pylist()]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _key(value: Any) -> tuple[int, Any]:
    """Return a key by which values of one column sort: missing ones first, texts after numbers."""
    if value is None:
        return 0, 0
    return (1, value) if isinstance(value, int | float) else (2, str(value))


def _line(row: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {'null' if value is None else value}" for name, value in row.items())
