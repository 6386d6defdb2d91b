"""Filters of a reader in Spark's SQL, where they mean what they mean in Arrow: NaN is no number that compares."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

from airflow_provider.domain.interval import micros
from airflow_provider.spark.sinks import quoted
from airflow_provider.tables.filters import Condition, Filters


def sql_of(filters: Filters) -> str:
    """Return *filters* as a condition."""
    return " AND ".join(f"({_condition(condition)})" for condition in filters.conditions)


def _condition(condition: Condition) -> str:
    column = quoted(condition.column)
    if condition.operator == "in":
        return f"{column} IN ({', '.join(_literal(value, condition.kind) for value in condition.value)})"
    compared = f"{column} {condition.operator} {_literal(condition.value, condition.kind)}"
    if pa.types.is_floating(condition.kind) and condition.operator in (">", ">="):
        return f"{compared} AND NOT isnan({column})"  # Spark takes NaN for the greatest number
    return compared


def _literal(value: object, kind: pa.DataType) -> str:
    match value:
        case bool():
            return str(value).upper()
        case datetime() if value.tzinfo is None:
            return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
        case datetime():
            return f"timestamp_micros({micros(value)}L)"
        case date():
            return f"DATE '{value.isoformat()}'"
        case str():
            return _text(value)
        case Decimal():
            return f"CAST('{value}' AS DECIMAL({kind.precision}, {kind.scale}))"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
    return f"CAST({value} AS BIGINT)"


def _text(value: str) -> str:
    """Return a literal of *value* that Spark reads whatever its settings for escapes are."""
    return f"decode(X'{value.encode().hex()}', 'UTF-8')"
