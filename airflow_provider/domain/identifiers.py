"""Names and ids. A name is checked once, where it enters; its type says that it was checked."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NewType

from airflow_provider.domain.error_families import InvalidInput

DomainName = NewType("DomainName", str)
JobName = NewType("JobName", str)
TableName = NewType("TableName", str)
ChangeSetId = NewType("ChangeSetId", str)
LeaseId = NewType("LeaseId", str)
RestatementId = NewType("RestatementId", str)

MAX_NAME_BYTES = 255
MAX_TEXT_BYTES = 65_536
_MOST_OF_AN_ID = 1_000
_MOST_COUNTED = 2**31
_RESERVED = frozenset({".", "..", "zookeeper"})
_FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_FORBIDDEN_IN_COLUMNS = frozenset({"Cc", "Cs", "Zl", "Zp"})


def domain_name(value: object) -> DomainName:
    """Return *value* as a checked name.

    :raises InvalidInput: not a valid name; names the field ``domain``.
    """
    return DomainName(_checked(value, "domain"))


def job_name(value: object) -> JobName:
    """Return *value* as a checked name.

    :raises InvalidInput: not a valid name; names the field ``job``.
    """
    return JobName(_checked(value, "job"))


def table_name(value: object) -> TableName:
    """Return *value* as a checked name.

    :raises InvalidInput: not a valid name; names the field ``table``.
    """
    return TableName(_checked(value, "table"))


def lease_id(value: object) -> LeaseId:
    """Return *value* as a checked name.

    :raises InvalidInput: not a valid name; names the field ``lease``.
    """
    return LeaseId(_checked(value, "lease"))


def restatement_id(value: object) -> RestatementId:
    """Return *value* as a checked name.

    :raises InvalidInput: not a valid name; names the field ``restatement``.
    """
    return RestatementId(_checked(value, "restatement"))


def group_name(value: object) -> str:
    """Return *value* as a checked name of a commit group.

    :raises InvalidInput: not a valid name; names the field ``group``.
    """
    return _checked(value, "group")


def column_name(value: object) -> str:
    """Return *value* as a checked name of a table's column, which is part of no path: ``price/kg`` is one.

    :raises InvalidInput: not a valid name; names the field ``column``.
    """
    return _checked(value, "column", _problem_of_column)


def source_column_name(value: object) -> str:
    """Return *value* as a checked name of a column in another database.

    :raises InvalidInput: not a valid name; names the field ``column``.
    """
    return _checked(value, "column")


def format_name(value: object) -> str:
    """Return *value* as a checked name.

    :raises InvalidInput: not a valid name; names the field ``format``.
    """
    return _checked(value, "format")


def validate_text(value: object, field: str, *, limit: int = MAX_TEXT_BYTES) -> str:
    """Return *value*, free text that every store can keep: SQL, a reason, a location.

    :param limit: maximum length, in bytes of UTF-8.
    :raises InvalidInput: not such text; names *field*.
    """
    expected = f"text of at most {limit} bytes of UTF-8, without NUL and half surrogate pairs"
    if not isinstance(value, str) or "\0" in value:
        raise InvalidInput(field=field, value=value, expected=expected)
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(field=field, value=value, expected=expected) from error
    if size > limit:
        raise InvalidInput(field=field, value=value, expected=expected)
    return value


def validate_identity(texts: Mapping[str, object], numbers: Mapping[str, object]) -> None:
    """Check the parts of an identity, by field: *texts* must not be blank, *numbers* are counts.

    :raises InvalidInput: names the field.
    """
    for field, value in texts.items():
        if not validate_text(value, field, limit=_MOST_OF_AN_ID).strip():
            raise InvalidInput(field=field, value=value, expected="text that is not blank")
    for field, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or value not in range(_MOST_COUNTED):
            expected = f"a whole number from 0 to {_MOST_COUNTED - 1}"
            raise InvalidInput(field=field, value=value, expected=expected)


@lru_cache(maxsize=4096)
def _problem_of_column(value: str) -> str:
    """Return the rule that the name *value* of a column breaks; empty if it is valid."""
    if not value.strip():
        return "text that is not blank"
    if any(unicodedata.category(character) in _FORBIDDEN_IN_COLUMNS for character in value):
        return "one line of text without control and surrogate characters"
    if len(value.encode()) > MAX_NAME_BYTES:
        return f"at most {MAX_NAME_BYTES} bytes of UTF-8"
    return ""


@lru_cache(maxsize=4096)
def _problem(value: str) -> str:
    """Return the rule that the name *value* breaks; empty if it is valid."""
    if not value or value != value.strip():
        return "text that is not empty and has no spaces around it"
    if value in _RESERVED:
        return "a name other than '.', '..' and 'zookeeper'"
    if any(unicodedata.category(character) in _FORBIDDEN_CATEGORIES for character in value):
        return "text without control, format, surrogate or unassigned characters"
    if "/" in value or "\\" in value:
        return "a name without '/' and '\\'"
    if value != unicodedata.normalize("NFC", value):
        return "text in Unicode normal form C"
    if len(value.encode()) > MAX_NAME_BYTES:
        return f"at most {MAX_NAME_BYTES} bytes of UTF-8"
    return ""


def _checked(value: object, field: str, problem_of: Callable[[str], str] = _problem) -> str:
    problem = problem_of(value) if isinstance(value, str) else "text"
    if problem:
        raise InvalidInput(
            field=field,
            value=value,
            expected=problem,
            next_step=f"choose another {field} name; letters, digits, '_', '-' and '.' always work.",
        )
    return str(value)
