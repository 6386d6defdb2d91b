"""Changes of a table's columns, as an author declares them and as a table's record keeps them (R32).

A table's list of changes only grows, as the migrations of a database do. So the length of a declaration's list says
which columns its rows have: an older declaration lacks the later changes, and the table keeps the schema from before
each of them. See docs/decisions/changing-columns.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from airflow_provider.domain.errors import Conflict, InvalidInput, SchemaMismatch
from airflow_provider.domain.identifiers import column_name, validate_text

_SCALARS = {
    "boolean": "boolean",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "string": "string",
    "binary": "binary",
}
_WIDER = frozenset({"bigint", "double", "decimal"})
_MOST_DIGITS = 38
_LONGEST_TYPE = 1_000
_TOKEN = re.compile(r"\s*(\w+|[<>(),:])\s*")


class ChangeKind(StrEnum):
    """The kinds of changes."""

    ADD = "add"
    RENAME = "rename"
    DROP = "drop"
    WIDEN = "widen"


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """One change of one column; use :func:`add`, :func:`rename`, :func:`drop`, :func:`widen`.

    :param to: the type of an added or widened column, the new name of a renamed one.
    """

    kind: ChangeKind
    column: str
    to: str = ""

    def __post_init__(self) -> None:
        column_name(self.column)

    @property
    def takes_away(self) -> bool:
        """True if the change removes a column name that programs may use."""
        return self.kind in (ChangeKind.RENAME, ChangeKind.DROP)

    def __str__(self) -> str:
        given = (self.column, self.to) if self.to else (self.column,)
        return f"{self.kind.value}({', '.join(map(repr, given))})"


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """A change that was made to a table.

    :param before: id of the table's schema before the change; None if the table was created with it.
    """

    change: ColumnChange
    before: int | None = None


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column, in Spark's words.

    :param digits: precision and scale of a decimal.
    :param parts: type of an array's elements, of a map's keys and values, or of a struct's fields.
    :param names: names of a struct's fields.
    """

    word: str
    digits: tuple[int, ...] = ()
    parts: tuple[ColumnType, ...] = ()
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.digits:
            return f"{self.word}({','.join(map(str, self.digits))})"
        fields = [f"{name}:{part}" for name, part in zip(self.names, self.parts, strict=False)]
        inner = ",".join(fields or map(str, self.parts))
        return f"{self.word}<{inner}>" if inner else self.word


def add(column: str, kind: str) -> ColumnChange:
    """Add a column; it is null in earlier rows.

    :param kind: its type in Spark's words, such as ``double``, ``decimal(10,2)`` or ``array<string>``.
    :raises InvalidInput: the name or the type is not valid for a column.
    """
    return ColumnChange(ChangeKind.ADD, column_name(column), str(column_type(kind)))


def rename(column: str, new: str) -> ColumnChange:
    """Rename a column; its values stay, those of earlier epochs too.

    :raises InvalidInput: a name is not valid for a column, or both are equal.
    """
    if column == new:
        raise InvalidInput(field="column", value=new, expected="another name than it has")
    return ColumnChange(ChangeKind.RENAME, column_name(column), column_name(new))


def drop(column: str) -> ColumnChange:
    """Drop a column. A column of the same name that is added later is another one: old values never come back.

    :raises InvalidInput: the name is not valid for a column.
    """
    return ColumnChange(ChangeKind.DROP, column_name(column))


def widen(column: str, kind: str) -> ColumnChange:
    """Widen the type of a column: ``bigint`` for an int, ``double`` for a float, a decimal of more digits.

    :raises InvalidInput: any other type.
    """
    wanted = column_type(kind)
    if wanted.word not in _WIDER:
        raise InvalidInput(
            field="type",
            value=kind,
            expected="bigint (of an int), double (of a float), or a decimal of more digits",
            next_step="add a column of that type under another name.",
            column=column,
        )
    return ColumnChange(ChangeKind.WIDEN, column_name(column), str(wanted))


def checked_changes(value: object) -> tuple[ColumnChange, ...]:
    """Return *value* as a tuple.

    :raises InvalidInput: not a list of changes.
    """
    if not isinstance(value, list | tuple) or not all(isinstance(change, ColumnChange) for change in value):
        raise InvalidInput(
            field="column_changes",
            value=value,
            expected="a list of add(…), rename(…), drop(…) and widen(…)",
        )
    return tuple(value)


def pending_changes(
    table: str, applied: Sequence[AppliedChange], declared: Sequence[ColumnChange]
) -> tuple[ColumnChange, ...]:
    """Return the *declared* changes beyond those *applied*; none for an older declaration, which has fewer.

    :raises SchemaMismatch: a declared change differs from the one applied at the same place of the list.
    """
    for number, (made, wanted) in enumerate(zip(applied, declared, strict=False), start=1):
        if made.change != wanted:
            raise SchemaMismatch(
                f"table {table!r}: change {number} of its columns is declared as {wanted}, and was {made.change}.",
                next_step="put it back as it was, and append new changes at the end of column_changes.",
                table=table,
                column=wanted.column,
                expected=str(made.change),
                found=str(wanted),
            )
    return tuple(declared[len(applied) :])


def first_unknown(
    table: str, applied: Sequence[AppliedChange], declared: Sequence[ColumnChange]
) -> AppliedChange | None:
    """Return the first change of *table* beyond a declaration, whose rows have the columns from before it; else None.

    :raises SchemaMismatch: a declared change differs from the one applied at the same place of the list.
    :raises Conflict: the table lacks a declared change: a job with an older declaration published to it first.
    """
    ahead = pending_changes(table, applied, declared)
    if ahead:
        raise Conflict(
            f"table {table!r} was first published by an older declaration, without {ahead[0]}.",
            next_step="begin again: that changes the columns.",
            tables=(table,),
            column=ahead[0].column,
        )
    return applied[len(declared)] if len(declared) < len(applied) else None


def column_type(text: object) -> ColumnType:
    """Parse a type in Spark's words.

    :raises InvalidInput: not a type that a column can have.
    """
    words = validate_text(text, "type", limit=_LONGEST_TYPE)
    tokens = _TOKEN.findall(words)
    parser = _TypeParser(words, tokens if "".join(tokens) == "".join(words.split()) else [])
    found = parser.type()
    return found if parser.ended else parser.refuse()


class _TypeParser:
    """Parser of one type, from its tokens from left to right."""

    def __init__(self, text: str, tokens: Sequence[str]) -> None:
        self._text = text
        self._left = list(reversed(tokens))

    @property
    def ended(self) -> bool:
        return not self._left

    def type(self) -> ColumnType:
        word = self._next().lower()
        if word in _SCALARS:
            return ColumnType(_SCALARS[word])
        if word == "decimal":
            return self._decimal()
        readers = {"array": 1, "map": 2}
        if word in readers:
            self._expect("<")
            parts = [self.type()]
            for _ in range(readers[word] - 1):
                self._expect(",")
                parts.append(self.type())
            self._expect(">")
            return ColumnType(word, parts=tuple(parts))
        return self._struct() if word == "struct" else self.refuse()

    def _decimal(self) -> ColumnType:
        self._expect("(")
        digits = self._number()
        self._expect(",")
        behind = self._number()
        self._expect(")")
        if not 0 < digits <= _MOST_DIGITS or behind > digits:
            self.refuse()
        return ColumnType("decimal", digits=(digits, behind))

    def _struct(self) -> ColumnType:
        names, parts = [], []
        self._expect("<")
        while True:
            names.append(column_name(self._next()))
            self._expect(":")
            parts.append(self.type())
            mark = self._next()
            if mark == ">":
                return ColumnType("struct", parts=tuple(parts), names=tuple(names))
            if mark != ",":
                self.refuse()

    def _number(self) -> int:
        found = self._next()
        return int(found) if found.isascii() and found.isdecimal() else self.refuse()

    def _next(self) -> str:
        return self._left.pop() if self._left else self.refuse()

    def _expect(self, token: str) -> None:
        if self._next() != token:
            self.refuse()

    def refuse(self) -> NoReturn:
        raise InvalidInput(
            field="type",
            value=self._text,
            expected=f"one of {', '.join(dict.fromkeys(_SCALARS.values()))}, decimal(digits,behind), array<type>, "
            "map<type,type>, struct<name:type,…>",
        )
