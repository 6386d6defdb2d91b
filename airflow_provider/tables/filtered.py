"""Read those rows of a state that a reader's filters ask for."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from airflow_provider.domain.cut import State
from airflow_provider.tables import checks
from airflow_provider.tables.base import TableFormat
from airflow_provider.tables.columns import own_columns
from airflow_provider.tables.filters import FilterTuple, filters_on


def read(
    table_format: TableFormat,
    state: State,
    schema: str,
    columns: Sequence[str] | None,
    filters: Sequence[FilterTuple] | None,
) -> pa.Table:
    """Return the rows of *state* that meet all *filters*; all rows if *filters* is None.

    :param schema: of the state, in the format's own text. :param columns: to return; None for all.
    :raises InvalidInput: the table lacks a column, or a filter does not fit its column.
    :raises Unavailable: a file of the state is missing.
    """
    if filters is None:
        return table_format.read(state, schema, columns)
    every = table_format.arrow_schema(schema)
    wanted = checks.chosen(every, columns)
    conditions = filters_on(filters, own_columns(every), schema)
    names = [*dict.fromkeys((*wanted.names, *conditions.columns))]
    pieces = table_format.scan(state, schema, names, conditions)
    kept = (conditions.kept(rows).select(wanted.names) for rows in pieces)
    return pa.concat_tables([wanted.empty_table(), *kept])
