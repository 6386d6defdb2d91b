"""Conditions under which a source is complete, so that an epoch may read it (protocol section 5).

A folder into which files land one by one looks the same when half of them are there. Its files count only once every
condition that the source declares is met; until then its epochs are not ready, and sensors wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import source_column_name, validate_text

_MOST_FILES = 1_000_000
_LONGEST_QUIET = timedelta(days=31)


class ConditionKind(StrEnum):
    """The kinds of conditions."""

    MARKER = "marker"
    MIN_FILES = "min_files"
    QUIET_FOR = "quiet_for"
    IDS_REACHED = "ids_reached"
    NONE_NEEDED = "none_needed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One condition: :func:`marker`, :func:`min_files`, :func:`quiet_for`, :func:`ids_reached` or :func:`none_needed`.

    :param location: of a marker. :param files: minimum number of files. :param quiet: time since the last change.
    :param column: name of a column with times that must reach the end of the interval.
    """

    kind: ConditionKind
    location: str = ""
    files: int = 0
    quiet: timedelta | None = None
    column: str = ""

    def __str__(self) -> str:
        said = self.location or self.column or self.quiet or self.files or ""
        return f"{self.kind}({said})"


def marker(location: str = "_SUCCESS") -> Condition:
    """Wait for an object that the source writes when all files of an interval are there.

    :param location: a name beside the files, an absolute path or a URI; may hold ``{start}``, ``{end}`` and wildcards.
    :raises InvalidInput: *location* is no text.
    """
    return Condition(kind=ConditionKind.MARKER, location=validate_text(location, "marker"))


def min_files(number: int) -> Condition:
    """Wait until at least *number* files are there.

    :raises InvalidInput: *number* is not between 1 and 1,000,000.
    """
    if type(number) is not int or not 1 <= number <= _MOST_FILES:
        raise InvalidInput(field="min_files", value=number, expected=f"a number from 1 to {_MOST_FILES}")
    return Condition(kind=ConditionKind.MIN_FILES, files=number)


def quiet_for(length: timedelta) -> Condition:
    """Wait until files are there, and both the interval's end and the last change of any of them are *length* ago.

    :raises InvalidInput: *length* is not above zero, or more than 31 days.
    """
    if not isinstance(length, timedelta) or not timedelta(0) < length <= _LONGEST_QUIET:
        raise InvalidInput(
            field="quiet_for",
            value=length,
            expected=f"a timedelta above zero, at most {_LONGEST_QUIET.days} days",
        )
    return Condition(kind=ConditionKind.QUIET_FOR, quiet=length)


def ids_reached(column: str) -> Condition:
    """Wait until a row of the PostgreSQL table has a time in *column* that is the interval's end or later.

    :raises InvalidInput: *column* is not a valid name of a column.
    """
    return Condition(kind=ConditionKind.IDS_REACHED, column=source_column_name(column))


def none_needed() -> Condition:
    """Declare that an epoch reads whatever is there when it begins."""
    return Condition(kind=ConditionKind.NONE_NEEDED)


FOR_FILES = frozenset(
    {ConditionKind.MARKER, ConditionKind.MIN_FILES, ConditionKind.QUIET_FOR, ConditionKind.NONE_NEEDED}
)
FOR_ROWS = frozenset({ConditionKind.IDS_REACHED, ConditionKind.NONE_NEEDED})
CHOICES = "marker('_SUCCESS'), min_files(…), quiet_for(timedelta(minutes=…))"


def checked_conditions(value: object, allowed: frozenset[ConditionKind]) -> tuple[Condition, ...]:
    """Return the conditions in *value*, one or several.

    :param allowed: the kinds of conditions that the source supports.
    :raises InvalidInput: a value that is no condition of these kinds, or ``none_needed()`` beside others.
    """
    given = (value,) if isinstance(value, Condition) else value
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidInput(field="complete", value=value, expected=f"conditions such as {CHOICES}")
    found = tuple(given)
    kinds = sorted(kind.value for kind in allowed)
    for condition in found:
        if not isinstance(condition, Condition) or condition.kind not in allowed:
            raise InvalidInput(
                field="complete", value=condition, expected=f"conditions of {kinds or 'no kind'}"
            )
    if len(found) > 1 and any(condition.kind is ConditionKind.NONE_NEEDED for condition in found):
        raise InvalidInput(
            field="complete",
            value=[str(condition) for condition in found],
            expected="none_needed() alone, or conditions without it",
        )
    return found
