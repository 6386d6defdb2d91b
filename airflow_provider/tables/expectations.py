"""Column checks: proven by file statistics where these suffice, otherwise evaluated on the rows (R14)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.domain.checks import MOST_SAMPLED, Check, CheckKind, Finding, sampled
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.tables.statistics import Statistics


def proven(check: Check, statistics: Statistics, schema: pa.Schema) -> bool:
    """Return whether *statistics* alone prove that *check* holds. False proves nothing: evaluate the rows.

    Bounds of files may be wider than their values (long texts are truncated), and ignore NaN.

    :raises InvalidInput: the table lacks a column, or a limit cannot be compared with its type.
    """
    columns = [_field(schema, name) for name in check.columns]
    if statistics.rows == 0 or (check.kind is CheckKind.UNIQUE and statistics.rows == 1):
        return True
    known = [statistics.columns.get(field.name) for field in columns]
    if check.kind is CheckKind.NOT_NULL:
        return all(column is not None and column.nulls == 0 for column in known)
    bounds = known[0]
    if check.kind is not CheckKind.IN_RANGE or bounds is None or pa.types.is_floating(columns[0].type):
        return False
    low, high = _range(check, columns[0])
    if bounds.nulls == statistics.rows:
        return True
    return (low is None or _holds(pc.greater_equal, bounds.lower, low)) and (
        high is None or _holds(pc.less_equal, bounds.upper, high)
    )


def violated(check: Check, pieces: Iterable[pa.Table], schema: pa.Schema) -> Finding | None:
    """Evaluate *check* on the rows of *pieces*, each with the check's columns; return a finding, or None if it holds.

    :raises InvalidInput: the table lacks a column, or a value cannot be compared with its type.
    """
    fields = [_field(schema, name) for name in check.columns]
    if check.kind is CheckKind.UNIQUE:
        return _repeated(check, pieces, fields)
    rows = bad = 0
    sample: list[object] = []
    for piece in pieces:
        rows += piece.num_rows
        for column in check.columns:
            offending = piece.filter(pc.fill_null(_offends(check, piece.column(column), schema), False))
            bad += offending.num_rows
            if len(sample) < MOST_SAMPLED:
                sample += _plain(offending.slice(0, MOST_SAMPLED))
    if not bad:
        return None
    what = "nulls" if check.kind is CheckKind.NOT_NULL else "values"
    return Finding(
        check=check.name, table=check.table, figure=f"{bad} {what} in {rows} rows", sample=sampled(sample)
    )


def _offends(check: Check, column: pa.ChunkedArray, schema: pa.Schema) -> pa.ChunkedArray:
    """Return a mask of the values that *check* refuses; null where the check does not apply."""
    field = _field(schema, check.columns[0])
    if check.kind is CheckKind.NOT_NULL:
        return pc.is_null(column)
    if check.kind is CheckKind.ACCEPTED:
        values = _one_zero(pa.array([_literal(text, field).as_py() for text in check.values], field.type))
        return pc.and_(pc.is_valid(column), pc.invert(pc.is_in(_one_zero(column), value_set=values)))
    low, high = _range(check, field)
    masks = [
        *([pc.less(column, low)] if low is not None else []),
        *([pc.greater(column, high)] if high is not None else []),
        *([pc.is_nan(column)] if pa.types.is_floating(field.type) else []),
    ]
    offends = masks[0]
    for mask in masks[1:]:
        offends = pc.or_(offends, mask)
    return offends


def _repeated(check: Check, pieces: Iterable[pa.Table], fields: list[pa.Field]) -> Finding | None:
    """Find keys that occur more than once; memory holds each distinct key once or, for a while, twice.

    Keys of pieces are counted together once they are as many as those that are counted: to do so piece by piece takes
    the square of the time.
    """
    names = list(check.columns)
    for field in fields:
        if pa.types.is_nested(field.type):
            raise InvalidInput(
                field="checks", value=f"{check.name}: {field.name} is {field.type}", expected="plain columns"
            )
    counted: list[pa.Table] = []
    rows = later = 0
    for piece in pieces:
        rows += piece.num_rows
        own = pa.table([_one_zero(piece.column(name)) for name in names], names)
        counted.append(own.group_by(names).aggregate([([], "count_all")]))
        later += counted[-1].num_rows
        if later > counted[0].num_rows:
            counted, later = [_summed(counted, names)], 0
    if not counted:
        return None
    keys = _summed(counted, names)
    repeated = keys.filter(pc.greater(keys.column("count_all"), 1))
    if not repeated.num_rows:
        return None
    shown = repeated.slice(0, MOST_SAMPLED).select(names)
    return Finding(
        check=check.name,
        table=check.table,
        figure=f"{repeated.num_rows} keys of {rows} rows occur more than once",
        sample=sampled(_plain(shown)),
    )


def _summed(counted: Sequence[pa.Table], names: list[str]) -> pa.Table:
    both = pa.concat_tables(counted)
    return both.group_by(names).aggregate([("count_all", "sum")]).rename_columns([*names, "count_all"])


def _one_zero(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return *column* without minus zero: Arrow groups and looks up by bits, and in SQL it equals zero."""
    return pc.add(column, pa.scalar(0, column.type)) if pa.types.is_floating(column.type) else column


def _plain(rows: pa.Table) -> Iterator[dict[str, object]]:
    """Yield rows in plain Python values; those that Python does not have become text: times beyond it, no UTF-8."""
    for index in range(rows.num_rows):
        yield {name: _told(rows.column(name)[index]) for name in rows.column_names}


def _told(value: pa.Scalar) -> object:
    try:
        plain = value.as_py()
    except UnicodeDecodeError as error:
        return repr(error.object)
    except (ValueError, OverflowError):
        return str(value)
    return plain if isinstance(plain, str | int | float | bool | type(None)) else str(plain)


def _field(schema: pa.Schema, name: str) -> pa.Field:
    if name not in schema.names:
        raise InvalidInput(field="column", value=name, expected=f"one of {schema.names}")
    return schema.field(name)


def _range(check: Check, field: pa.Field) -> tuple[pa.Scalar | None, pa.Scalar | None]:
    low, high = (
        None if text is None else _literal(text, field, whole=False)
        for text in (check.at_least, check.at_most)
    )
    return low, high


def _literal(text: str, field: pa.Field, *, whole: bool = True) -> pa.Scalar:
    """Convert *text* to a value that can be compared with the column.

    :param whole: whether the value must be of the column's own type; False for limits of a range, which may lie
        between two values of it.
    """
    kind = field.type
    try:
        if pa.types.is_integer(kind) and not whole:
            number = Decimal(text)
            return pa.scalar(int(number), pa.int64()) if number == int(number) else pa.scalar(float(number))
        if pa.types.is_integer(kind):
            return pa.scalar(int(text), kind)
        if pa.types.is_decimal(kind):
            return pa.scalar(Decimal(text), kind if whole else None)
        if pa.types.is_floating(kind):
            return pa.scalar(float(text), kind)
        if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
            return pa.scalar(text.encode(), kind)
        return pa.scalar(text, pa.string()).cast(kind)
    except (pa.ArrowException, ValueError, InvalidOperation, OverflowError, TypeError) as error:
        raise InvalidInput(
            field="checks", value=text, expected=f"a value of column {field.name!r}, which is {kind}: {error}"
        ) from error


def _holds(compare: object, bound: pa.Scalar | None, limit: pa.Scalar) -> bool:
    return bound is not None and bool(compare(bound, limit).as_py())  # type: ignore[operator]
