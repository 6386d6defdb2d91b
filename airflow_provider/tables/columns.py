"""Columns of a table as Arrow: supported types, column ids, and differences of two schemas."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

import pyarrow as pa

from airflow_provider.domain.errors import InvalidInput, SchemaMismatch
from airflow_provider.domain.identifiers import column_name
from airflow_provider.domain.topology import Table
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.partitioning import DAY, FORMS, HOUR, MOST_BUCKETS, PartitionField, fields_of

FIELD_ID = b"PARQUET:field_id"
EPOCH_TYPE = pa.timestamp("us", "UTC")

_OF_ICEBERG = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)
"""Columns that Iceberg's readers add to each table."""

_SCALARS = {
    pa.bool_(): pa.bool_(),
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.int32(): pa.int32(),
    pa.int64(): pa.int64(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float32(): pa.float32(),
    pa.float64(): pa.float64(),
    pa.date32(): pa.date32(),
    pa.time64("us"): pa.time64("us"),
    pa.string(): pa.string(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.binary(): pa.binary(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


def own_columns(schema: pa.Schema) -> pa.Schema:
    """Return *schema* without the epoch column."""
    return pa.schema([field for field in schema if field.name != EPOCH_COLUMN])


def table_schema(table: Table, schema: pa.Schema, *, kept_ids: int = 0) -> pa.Schema:
    """Return the columns, with ids, of *table* when it is created for rows of *schema*.

    All columns are nullable, since a slice may lack one; :data:`EPOCH_COLUMN` comes last. It is never null, yet the
    schema does not require it: files that drafts or other programs wrote lack it, and readers take the partition's
    value.

    :param kept_ids: the columns of *schema* keep their ids, which are those of files that are there; new ids begin
        after this one. 0 numbers all columns.

    :raises InvalidInput: a column's name or type is not supported, or a declared column is missing.
    """
    check_names(table, schema.names)
    fields = [_plain_field(field, field.name) for field in schema]
    complete = pa.schema([*fields, pa.field(EPOCH_COLUMN, EPOCH_TYPE)])
    check_paths(table, complete)
    _check_layout(table, complete)
    if not kept_ids:
        return numbered(complete)
    return pa.schema([*fields, _with_id(complete.field(EPOCH_COLUMN), kept_ids + 1)])


def plain_type(kind: pa.DataType, column: str) -> pa.DataType:
    """Return the one Arrow type that this package uses for all representations of *kind*, its parts nullable.

    :raises InvalidInput: unsupported type; names *column*.
    """
    if kind in _SCALARS:
        return _SCALARS[kind]
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type, column)
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_decimal128(kind) or pa.types.is_fixed_size_binary(kind):
        return kind
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(field, f"{column}.{field.name}") for field in kind])
    if pa.types.is_map(kind):
        key = _plain_field(kind.key_field, f"{column}.key", "key", nullable=False)
        return pa.map_(key, _plain_field(kind.item_field, f"{column}.value", "value"))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(_plain_field(kind.value_field, f"{column}.element", "element"))
    raise InvalidInput(
        field=f"column {column}",
        value=str(kind),
        expected="a type that tables can have: boolean, integers of up to 64 bits, float, double, decimal of up to 38 "
        "digits, date, time or timestamp in microseconds, string, binary, and struct, list and map of them",
        next_step=f"cast the column {column!r} in the job.",
    )


def _plain_field(field: pa.Field, column: str, name: str | None = None, *, nullable: bool = True) -> pa.Field:
    """Return *field* in its plain type, with its id as its only metadata."""
    kept = {FIELD_ID: field.metadata[FIELD_ID]} if field.metadata and FIELD_ID in field.metadata else None
    return pa.field(name or field.name, plain_type(field.type, column), nullable=nullable, metadata=kept)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return *schema* in plain types, with its column ids."""
    return pa.schema(
        [
            _plain_field(field, field.name, nullable=field.nullable or field.name != EPOCH_COLUMN)
            for field in schema
        ]
    )


def numbered(schema: pa.Schema) -> pa.Schema:
    """Number all fields: the columns first, then their parts."""
    ids = count(1)
    outer = [(field, next(ids)) for field in schema]
    return pa.schema(
        [_with_id(field, number).with_type(_with_ids(field.type, ids)) for field, number in outer]
    )


def _with_ids(kind: pa.DataType, ids: Iterator[int]) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([identified(field, ids) for field in kind])
    if pa.types.is_map(kind):
        key = identified(kind.key_field, ids)
        return pa.map_(key, identified(kind.item_field, ids))
    if pa.types.is_list(kind):
        return pa.list_(identified(kind.value_field, ids))
    return kind


def identified(field: pa.Field, ids: Iterator[int]) -> pa.Field:
    """Return *field* and its parts with the next *ids*, its own first."""
    number = next(ids)
    return _with_id(field, number).with_type(_with_ids(field.type, ids))


def _with_id(field: pa.Field, number: int) -> pa.Field:
    return field.with_metadata({FIELD_ID: str(number).encode()})


def field_id(field: pa.Field) -> int | None:
    """Return the id of *field*, or None if it has none."""
    number = (field.metadata or {}).get(FIELD_ID)
    return None if number is None else int(number)


def with_ids_of(found: pa.Schema, named: pa.Schema) -> pa.Schema:
    """Return *found*, columns without ids, with the ids of the columns of *named* that have their names."""
    return pa.schema([_named_field(field, _by_name(named, field.name)) for field in found])


def _named_field(field: pa.Field, named: pa.Field | None) -> pa.Field:
    if named is None:
        return field
    kind, other = field.type, named.type
    if pa.types.is_struct(kind) and pa.types.is_struct(other):
        kind = pa.struct([_named_field(part, _by_name(other, part.name)) for part in kind])
    elif pa.types.is_map(kind) and pa.types.is_map(other):
        key = _named_field(kind.key_field, other.key_field)
        kind = pa.map_(key, _named_field(kind.item_field, other.item_field))
    elif pa.types.is_list(kind) and pa.types.is_list(other):
        kind = pa.list_(_named_field(kind.value_field, other.value_field))
    return field.with_type(kind).with_metadata(named.metadata)


def _by_name(fields: Iterable[pa.Field], name: str) -> pa.Field | None:
    return next((field for field in fields if field.name == name), None)


def known_ids(fields: Iterable[pa.Field]) -> Iterator[int]:
    """Yield the ids of *fields* and of their parts."""
    for field in fields:
        number = field_id(field)
        if number is not None:
            yield number
        yield from known_ids(_parts(field.type))


def refuse_difference(table: Table, existing: pa.Schema, given: pa.Schema, *, cause: str = "") -> None:
    """Compare columns by name and type; order and ids do not matter.

    :param cause: what is known of the reason for a difference in names, as a sentence.
    :raises SchemaMismatch: names the first column that differs.
    """
    refuse_other_names(table.name, existing.names, given.names, cause=cause)
    for field in existing:
        offered = given.field(field.name).type
        if field.type != offered:
            raise mismatch(table.name, field.name, expected=field.type, found=offered)


def refuse_other_names(table: str, existing: Sequence[str], given: Sequence[str], *, cause: str = "") -> None:
    """Compare the names of a table's columns with those of rows; order does not matter.

    :param cause: as for :func:`refuse_difference`.
    :raises SchemaMismatch: names every column that is missing, unknown or there twice.
    """
    missing = [name for name in existing if name not in given]
    unknown = [name for name in dict.fromkeys(given) if name not in existing]
    twice = [name for name in dict.fromkeys(given) if given.count(name) > 1]
    wrong = [*missing, *unknown, *twice]
    if not wrong:
        return
    problems = {
        "the table's {0} is not among the rows' columns": missing,
        "the rows have {0}, which the table has not": unknown,
        "the rows have {0} twice": twice,
    }
    if missing and unknown:
        advice = f"rename {_listed(unknown)} if {_listed(missing)} is meant"
    elif missing:
        advice = f"select {_listed(missing)} too, as null where there is no value"
    else:
        advice = f"drop {_listed(unknown or twice)}" + ("" if unknown else " once")
    found = "; ".join(text.format(_listed(names)) for text, names in problems.items() if names)
    raise SchemaMismatch(
        " ".join(filter(None, (f"table {table!r}: {found}.", cause))),
        next_step=f"{advice}; columns change by column_changes in the table's declaration.",
        table=table,
        column=wrong[0],
        expected=", ".join(existing),
        found=", ".join(given),
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def mismatch(
    table: str, column: str, *, expected: object, found: object, next_step: str = ""
) -> SchemaMismatch:
    """Build the error for rows whose *column* has another type than the table's.

    :param next_step: by default, to cast or to widen the column.
    """
    return SchemaMismatch(
        f"table {table!r}, column {column!r}: the table has {expected}, the rows have {found}.",
        next_step=next_step
        or f"cast {column!r} before it is written, or declare a wider type in column_changes of the table.",
        table=table,
        column=column,
        expected=str(expected),
        found=str(found),
    )


def check_names(table: Table, names: list[str]) -> None:
    """Check that *names* has at least one column, and that each is a valid column name.

    :raises InvalidInput: names the first invalid one.
    """
    for name in names:
        column_name(name)
        if name.casefold() == EPOCH_COLUMN:
            raise InvalidInput(
                field="column",
                value=name,
                expected=f"another name: {EPOCH_COLUMN} is the table's own column for the epoch of a row",
                next_step="drop or rename the column before it is written.",
                table=table.name,
            )
    if not names:
        raise InvalidInput(
            field="columns", value=[], expected=f"at least one column for table {table.name!r}"
        )


def refuse_reserved(table: Table, names: Iterable[str]) -> None:
    """Refuse new columns of a table that have the *names* of columns which Iceberg's readers add.

    :raises InvalidInput: names the first one.
    """
    for name in names:
        if name.casefold() in _OF_ICEBERG:
            raise InvalidInput(
                field="column",
                value=name,
                expected=f"another name: Iceberg's readers have columns of their own {sorted(_OF_ICEBERG)}",
                next_step="rename the column before it is written.",
                table=table.name,
            )


def check_paths(table: Table, schema: pa.Schema) -> None:
    """Check that the dotted paths of columns and their parts are unique: Spark ignores case, Parquet merges dots.

    Two Unicode forms of one text look alike, too.

    :raises InvalidInput: names a path that occurs twice.
    """
    seen: dict[str, str] = {}
    for path in _paths(schema):
        other = seen.setdefault(unicodedata.normalize("NFC", path).casefold(), path)
        if other is not path:
            raise InvalidInput(
                field="column",
                value=path,
                expected=f"names that differ by more than case, dots and Unicode form; there is also {other!r}",
                next_step="rename one of them.",
                table=table.name,
            )


def _paths(fields: Iterable[pa.Field], prefix: str = "") -> Iterator[str]:
    """Yield the dotted path of each column and of each of its parts."""
    for field in fields:
        yield f"{prefix}{field.name}"
        yield from _paths(_parts(field.type), f"{prefix}{field.name}.")


def _parts(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.value_field] if pa.types.is_list(kind) else []


def _check_layout(table: Table, schema: pa.Schema) -> None:
    """Check the declaration's partition_by and sort_by columns."""
    names = schema.names
    separating = fields_of(table.partition_by, names)
    for text, field in zip(table.partition_by, separating, strict=True):
        if field.column not in names or field.column == EPOCH_COLUMN:
            raise _unknown("partition_by", text, table, names, f", or one of {FORMS}")
        _refuse_unsuited(text, field, schema)
    _refuse_alike(table, separating)
    for column in table.sort_by:
        if column not in names or column == EPOCH_COLUMN or table.sort_by.count(column) > 1:
            raise _unknown("sort_by", column, table, names)
        if pa.types.is_nested(schema.field(column).type):
            raise _unsuited("sort_by", column, schema, "a column that has an order: no struct, list or map")


def _refuse_alike(table: Table, fields: Sequence[PartitionField]) -> None:
    """:raises InvalidInput: two fields say one thing of a column; readers refuse an hour beside a day, too."""
    said = [(field.column, "time" if field.transform in (DAY, HOUR) else field.spelling) for field in fields]
    for text, what in zip(table.partition_by, said, strict=True):
        if said.count(what) > 1:
            raise InvalidInput(
                field="partition_by",
                value=text,
                expected="of one column each transform once, and either its day or its hour",
                next_step="correct partition_by in the declaration of the table.",
            )


def _unknown(option: str, text: str, table: Table, names: Sequence[str], otherwise: str = "") -> InvalidInput:
    return InvalidInput(
        field=option,
        value=text,
        expected=f"each a column of table {table.name!r}, once: {list(names[:-1])}{otherwise}",
        next_step=f"correct {option} in the declaration of the table.",
    )


def _refuse_unsuited(text: str, field: PartitionField, schema: pa.Schema) -> None:
    """:raises InvalidInput: the field is not computed from such a column, or has the name of another one."""
    if not field.suits(schema.field(field.column).type):
        raise _unsuited(
            "partition_by",
            text,
            schema,
            "a column of a type with few exact values: no float, double, binary, struct, list or map; bucket (at most "
            f"{MOST_BUCKETS}) and truncate of int, bigint or string, bucket also of date and timestamp, day of date "
            "and timestamp, hour of timestamp",
            schema.field(field.column).type,
        )
    if field.name != field.column and field.name.casefold() in map(str.casefold, schema.names):
        raise _unsuited(
            "partition_by", text, schema, f"a table without a column {field.name!r}: the field's name"
        )


def _unsuited(
    option: str, text: str, schema: pa.Schema, expected: str, kind: pa.DataType | None = None
) -> InvalidInput:
    found = kind if text not in schema.names else schema.field(text).type
    return InvalidInput(
        field=option,
        value=text if found is None else f"{text} ({found})",
        expected=expected,
        next_step=f"choose another column for {option}.",
    )
