"""Rows of Arrow as tables of DuckDB, whose conditions and joins mean what they mean in DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import duckdb


def give(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Let *connection* read *rows* under *name*.

    Conditions on a registered Arrow table are Arrow's: ``x > 100`` passes over NaN, DuckDB's greatest number, and a
    list or a join takes -0.0 for another number than 0.0. So DuckDB has a copy of rows with floating point numbers.
    """
    held, given = f"rows of {name}", f"rows of {name} in Arrow"
    connection.unregister(name)
    connection.execute(f"DROP VIEW IF EXISTS temp.{_quoted(name)}")  # of earlier rows, as those below
    if not any(_has_floats(field.type) for field in rows.schema):
        connection.register(name, rows)
        return
    connection.register(given, rows)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {_quoted(held)} AS FROM {_quoted(given)}")
    connection.unregister(given)
    connection.execute(f"CREATE TEMP VIEW {_quoted(name)} AS FROM temp.{_quoted(held)}")


def _has_floats(kind: pa.DataType) -> bool:
    """Return whether values of *kind* are floating point numbers, or have some in them."""
    if pa.types.is_nested(kind):
        return any(_has_floats(kind.field(index).type) for index in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
