"""SQL over staged rows and inputs without Spark: DuckDB over Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from airflow_provider.domain.checks import MOST_SAMPLED
from airflow_provider.domain.cut import State
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.tables.base import EPOCH_COLUMN, TableFormat
from airflow_provider.tables.duckdb_tables import give


@dataclass(frozen=True, kw_only=True, slots=True)
class Readable:
    """Rows that a check reads, and the format that reads them."""

    format: TableFormat
    state: State
    schema: str


class QueryResult(NamedTuple):
    """Result of a query: the number of rows, and the first rows, each with its columns."""

    rows: int
    sample: tuple[dict[str, object], ...]


def named_row(columns: Iterable[str], values: Iterable[object]) -> dict[str, object]:
    """Return *values* by their columns; of columns with one name the later ones get a number, so that all are there."""
    row: dict[str, object] = {}
    for column, value in zip(columns, values, strict=True):
        name, number = column, 2
        while name in row:
            name, number = f"{column} ({number})", number + 1
        row[name] = value
    return row


def duckdb_result(sql: str, tables: Mapping[str, Readable]) -> QueryResult:
    """Run *sql* in DuckDB over *tables* only, in UTC; their rows are held in memory meanwhile.

    :raises InvalidInput: DuckDB is not installed, or does not understand *sql*.
    """
    try:
        import duckdb
    except ImportError as error:
        raise InvalidInput(
            field="checks",
            value=sql,
            expected="a Spark session, or DuckDB, which answers SQL where no Spark runs",
            next_step="install airflow-provider-epochs[duckdb].",
        ) from error
    with duckdb.connect() as connection:
        for name, table in tables.items():
            columns = [
                column for column in table.format.arrow_schema(table.schema).names if column != EPOCH_COLUMN
            ]
            give(connection, name, table.format.read(table.state, table.schema, columns))
        try:
            connection.execute("SET python_enable_replacements = false; SET enable_external_access = false")
            # The days and hours of an instant would be those of the host's time zone.
            connection.execute("SET TimeZone = 'UTC'")
            count = connection.execute(f"SELECT count(*) FROM ({sql}\n) AS found").fetchone()  # noqa: S608
            found = connection.execute(sql)
            rows = found.fetchmany(MOST_SAMPLED)
        except duckdb.Error as error:
            raise InvalidInput(
                field="checks", value=sql, expected=f"SQL that DuckDB runs: {error}"
            ) from error
        columns = [column[0] for column in found.description or ()]
        sample = tuple(named_row(columns, row) for row in rows)
        return QueryResult(count[0] if count else 0, sample)
