"""Checks: the expectations on an epoch's rows that must hold before they are published (R14). Pure decisions.

A check is data, not code: it travels with the declaration, is the same where the DAG is parsed and where the epoch
is computed, and a changed check is a new revision of the job. Bounds and values are kept as text, and converted to the
type of the column when the check runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from string import Formatter
from typing import Protocol

from airflow_provider.domain.error_families import InvalidInput
from airflow_provider.domain.identifiers import TableName, column_name, table_name, validate_text

Value = str | bool | int | float | Decimal | date | datetime


class NamedTable(Protocol):
    """The part of an :class:`~airflow_provider.domain.topology.Table` that a check needs."""

    @property
    def name(self) -> TableName: ...


MOST_SAMPLED = 5
"""Maximum number of offending rows in a finding."""
_LONGEST_SAMPLE = 200


class CheckKind(StrEnum):
    """The kinds of checks."""

    ROW_COUNT = "row_count"
    NOT_NULL = "not_null"
    UNIQUE = "unique"
    IN_RANGE = "in_range"
    ACCEPTED = "accepted"
    NO_ROWS = "no_rows"
    IS_TRUE = "is_true"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One expectation; use :func:`row_count`, :func:`not_null`, :func:`unique` and so on.

    :param table: the output that is checked; empty for SQL, which names its tables itself.
    :param of: of a row count: the table whose number of rows the bounds are shares of.
    :param sql: query in which ``{name}`` stands for a table.
    :param name: name of the check in errors.
    """

    kind: CheckKind
    table: str = ""
    columns: tuple[str, ...] = ()
    at_least: str | None = None
    at_most: str | None = None
    of: str = ""
    values: tuple[str, ...] = ()
    sql: str = ""
    name: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def by_query(self) -> bool:
        """True if an SQL engine evaluates it."""
        return bool(self.sql)

    @property
    def tables(self) -> tuple[str, ...]:
        """Every table that the check reads."""
        named = (table for _, table, *_ in Formatter().parse(self.sql) if table is not None)
        return tuple(dict.fromkeys(table for table in (self.table, self.of, *named) if table))


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The reason why a check refused an epoch's output.

    :param check: name of the check. :param figure: the number that was found. :param sample: some offending rows.
    """

    check: str
    table: str
    figure: str
    sample: tuple[str, ...] = ()

    def __str__(self) -> str:
        such = f", such as {self.sample[0]}" if self.sample else ""
        return f"{self.check}: {self.figure}{such}"


# --- declaring -----------------------------------------------------------------------------------------------


def row_count(
    table: NamedTable | str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    of: NamedTable | str | None = None,
    name: str = "",
) -> Check:
    """Expect a number of rows of the epoch in *table*, between the bounds.

    :param of: another output or an input: the bounds are shares of its rows, as the job wrote or read them.
    :raises InvalidInput: no bound, a bound that is no number of zero or more, or a lower bound above the upper one.
    """
    low, high = (_bound(bound, field) for bound, field in ((at_least, "at_least"), (at_most, "at_most")))
    _refuse_bounds(at_least, at_most)
    subject, other = _table(table), "" if of is None else _table(of)
    shares = f" times those of {other}" if other else ""
    return Check(
        kind=CheckKind.ROW_COUNT,
        table=subject,
        at_least=low,
        at_most=high,
        of=other,
        name=_named(name) or f"rows of {subject} {_between(low, high)}{shares}",
    )


def not_null(table: NamedTable | str, *columns: str, name: str = "") -> Check:
    """Expect no null in *columns*."""
    return _of_columns(CheckKind.NOT_NULL, table, columns, name, "not null")


def unique(table: NamedTable | str, *columns: str, name: str = "") -> Check:
    """Expect that no two rows of the epoch are equal in all *columns*; nulls are equal to each other."""
    return _of_columns(CheckKind.UNIQUE, table, columns, name, "unique")


def in_range(
    table: NamedTable | str,
    column: str,
    *,
    at_least: Value | None = None,
    at_most: Value | None = None,
    name: str = "",
) -> Check:
    """Expect every value of *column* between the bounds, both included; nulls pass, NaN is outside.

    :raises InvalidInput: no bound, or a bound of a type that no column has.
    """
    subject, checked = _table(table), column_name(column)
    low, high = (
        None if bound is None else _text(bound, field)
        for bound, field in ((at_least, "at_least"), (at_most, "at_most"))
    )
    _refuse_bounds(at_least, at_most)
    return Check(
        kind=CheckKind.IN_RANGE,
        table=subject,
        columns=(checked,),
        at_least=low,
        at_most=high,
        name=_named(name) or f"{subject}.{checked} {_between(low, high)}",
    )


def accepted(table: NamedTable | str, column: str, values: Iterable[Value], *, name: str = "") -> Check:
    """Expect every value of *column* to be one of *values*; nulls pass.

    :raises InvalidInput: no value, or a value of a type that no column has.
    """
    subject, checked = _table(table), column_name(column)
    several = isinstance(values, Iterable) and not isinstance(values, str | bytes)
    texts = tuple(_text(value, "values") for value in values) if several else ()
    if not texts:
        raise InvalidInput(field="values", value=values, expected="a list of one value or more")
    return Check(
        kind=CheckKind.ACCEPTED,
        table=subject,
        columns=(checked,),
        values=texts,
        name=_named(name) or f"{subject}.{checked} one of {', '.join(texts)}",
    )


def no_rows(sql: str, *, name: str = "") -> Check:
    """Expect that *sql* returns no row.

    :param sql: ``SELECT * FROM {flights} WHERE arrival < departure``: ``{name}`` stands for an output of the job (the
        rows of this epoch) or an input (the rows that the epoch read); other braces are doubled.
    :raises InvalidInput: the text names no table.
    """
    return _of_sql(CheckKind.NO_ROWS, sql, name, "no rows from")


def is_true(sql: str, *, name: str = "") -> Check:
    """Expect that *sql*, written as for :func:`no_rows`, returns one row with one value, and that it is true."""
    return _of_sql(CheckKind.IS_TRUE, sql, name, "true:")


def _of_columns(
    kind: CheckKind, table: NamedTable | str, columns: Sequence[str], name: str, words: str
) -> Check:
    subject = _table(table)
    checked = tuple(dict.fromkeys(column_name(column) for column in columns))
    if not checked:
        raise InvalidInput(field="columns", value=[], expected="one column or more")
    return Check(
        kind=kind,
        table=subject,
        columns=checked,
        name=_named(name) or f"{subject}.{', '.join(checked)} {words}",
    )


def _of_sql(kind: CheckKind, sql: str, name: str, words: str) -> Check:
    query = validate_text(sql, "sql").strip().rstrip(";")
    try:
        named = [tuple(field[1:]) for field in Formatter().parse(query) if field[1] is not None]
    except ValueError as error:
        raise InvalidInput(
            field="sql",
            value=sql,
            expected=f"braces around tables only ({error})",
            next_step="double braces that are not meant for a table: {{ and }}.",
        ) from error
    if not named or any(spec or conversion for _, spec, conversion in named):
        raise InvalidInput(
            field="sql",
            value=sql,
            expected="text with tables in braces, and nothing but their names: SELECT … FROM {flights}",
        )
    for table, *_ in named:
        table_name(table)
    return Check(kind=kind, sql=query, name=_named(name) or f"{words} {' '.join(query.split())}")


def _named(name: str) -> str:
    """Return the name of a check; empty for a check that makes its own.

    :raises InvalidInput: not text that a store can keep; names ``name``.
    """
    return validate_text(name, "name").strip()


def _table(table: NamedTable | str) -> TableName:
    return table_name(table if isinstance(table, str) else getattr(table, "name", table))


def _bound(value: float | None, field: str) -> str | None:
    if value is None:
        return None
    if not _is_number(value) or value < 0:
        raise InvalidInput(field=field, value=value, expected="a number of zero or more")
    return str(value)


def _text(value: Value, field: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, str):
        return validate_text(value, field)
    if _is_number(value):
        return str(value)
    raise InvalidInput(
        field=field, value=value, expected="text, a finite number, a date, a datetime, True or False"
    )


def _is_number(value: object) -> bool:
    """Return True if *value* is a number that a column can hold."""
    try:
        return (
            isinstance(value, int | float | Decimal) and not isinstance(value, bool) and math.isfinite(value)
        )
    except (OverflowError, ValueError):  # beyond every type of a column; a signalling NaN
        return False


def _refuse_bounds(low: Value | None, high: Value | None) -> None:
    """Refuse a lower bound above the upper one; only numbers are compared: other bounds depend on the column."""
    if low is None and high is None:
        raise InvalidInput(field="at_least", value=None, expected="at_least, at_most or both")
    if _is_number(low) and _is_number(high) and Decimal(str(low)) > Decimal(str(high)):
        raise InvalidInput(field="at_most", value=high, expected=f"{low} or more, which is at_least")


def _between(low: str | None, high: str | None) -> str:
    return " and ".join(
        f"{word} {bound}" for word, bound in (("at least", low), ("at most", high)) if bound is not None
    )


# --- judging -------------------------------------------------------------------------------------------------


def refuse_unknown_tables(checks: Iterable[Check], outputs: Sequence[str], inputs: Sequence[str]) -> None:
    """Refuse checks that the job cannot run.

    :raises InvalidInput: a check names a table that the job neither writes nor reads, or a name is given twice.
    """
    seen: set[str] = set()
    for check in checks:
        if not isinstance(check, Check):
            raise InvalidInput(
                field="checks", value=check, expected="row_count(…), not_null(…), no_rows(…) and the like"
            )
        if check.name in seen:
            raise InvalidInput(field="checks", value=check.name, expected="each check and each name once")
        seen.add(check.name)
        if check.table and check.table not in outputs:
            raise InvalidInput(field="checks", value=check.name, expected=f"about one of {list(outputs)}")
        for table in check.tables:
            if table not in outputs and table not in inputs:
                raise InvalidInput(
                    field="checks",
                    value=f"{check.name}: {table}",
                    expected=f"tables that the job writes or reads: {[*outputs, *inputs]}",
                )


def judge_count(check: Check, rows: int, of_rows: int | None = None) -> Finding | None:
    """Return the finding of a row count; None if *rows* is within the bounds.

    :param of_rows: number of rows of the table whose shares the bounds are; None where they are absolute.
    """
    unit = Decimal(1) if of_rows is None else Decimal(of_rows)
    low = check.at_least is not None and rows < Decimal(check.at_least) * unit
    high = check.at_most is not None and rows > Decimal(check.at_most) * unit
    if not low and not high:
        return None
    compared = "" if of_rows is None else f", {check.of} has {of_rows}"
    return Finding(check=check.name, table=check.table, figure=f"{rows} rows{compared}")


def judge_result(check: Check, rows: int, sample: Sequence[Mapping[str, object]]) -> Finding | None:
    """Return the finding of a query that returned *rows* rows; None if the check has passed."""
    if check.kind is CheckKind.NO_ROWS:
        if not rows:
            return None
        return Finding(check=check.name, table=check.table, figure=f"{rows} rows", sample=sampled(sample))
    values = list(sample[0].values()) if rows == 1 else []
    if len(values) == 1 and values[0] is True:
        return None
    told = sampled(values) if len(values) == 1 else ()
    figure = told[0] if told else f"{rows} rows of {len(sample[0]) if sample else 0} columns"
    return Finding(check=check.name, table=check.table, figure=figure)


def sampled(rows: Iterable[object]) -> tuple[str, ...]:
    """Return the first of *rows* as text of bounded length, for messages."""
    texts = [str(row) for row in rows]
    return tuple(
        text if len(text) <= _LONGEST_SAMPLE else f"{text[:_LONGEST_SAMPLE]}…"
        for text in texts[:MOST_SAMPLED]
    )


def filled(sql: str, names: dict[str, str]) -> str:
    """Return *sql* with each ``{table}`` replaced by its name in *names*."""
    return "".join(
        literal + ("" if table is None else names[table]) for literal, table, *_ in Formatter().parse(sql)
    )
