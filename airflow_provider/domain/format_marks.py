"""Marks at fields and values of records: the format that each came with, and its name in format 1.

The codec (``stores/codec.py``) reads and writes records by these marks.

Two versions of the package may use one store while its hosts are upgraded one after the other. Until
``airflow epochs db upgrade`` raises the store's format, all of them write records that the older one reads.

What format 1 spells otherwise is declared where it is: a field by :func:`formerly`, the members of an enumeration by
:func:`members_formerly`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field
from enum import Enum
from typing import Any, Final, TypeVar

FORMAT = 2
"""The newest format, which a new store gets. Records of older formats are read as well."""

_SINCE: Final = "record format"
_OPTIONAL: Final = "record format optional"
_EARLIER: Final = "record format earlier name"
_EARLIER_VALUES: Final[dict[type[Enum], Mapping[str, str]]] = {}
"""Of each enumeration with renamed members: their values in format 1, by their names."""

_Enumeration = TypeVar("_Enumeration", bound=type[Enum])


def since(number: int, *, optional: bool = False) -> Mapping[str, Any]:
    """Return the metadata of a field that came with format *number*; the field must have a default.

    In a store of an older format the field is left out while it has its default, and any other value is refused.

    :param optional: the field is left out there whatever its value; only if its default is always safe to read.
    """
    return {_SINCE: number, _OPTIONAL: optional}


def formerly(name: str) -> Mapping[str, Any]:
    """Return the metadata of a field of format 1 that format 1 called *name*."""
    return {_EARLIER: name}


def members_formerly(**values: str) -> Callable[[_Enumeration], _Enumeration]:
    """Return a decorator for an enumeration: *values* are those that format 1 had for the members of these names."""

    def mark(enumeration: _Enumeration) -> _Enumeration:
        _EARLIER_VALUES[enumeration] = {enumeration[name].name: value for name, value in values.items()}
        return enumeration

    return mark


def name_in(field: Field[Any], number: int) -> str:
    """Return the name of *field* in a store of the format *number*."""
    return str(field.metadata.get(_EARLIER, field.name)) if number == 1 else field.name


def value_in(member: Enum, number: int) -> Any:
    """Return the value of *member* in a store of the format *number*."""
    earlier = _EARLIER_VALUES.get(type(member), {}) if number == 1 else {}
    return earlier.get(member.name, member.value)


def present_values(enumeration: type[Enum]) -> Mapping[str, Any]:
    """Return the values of the members of *enumeration* that format 1 spelled otherwise, by their values there."""
    earlier = _EARLIER_VALUES.get(enumeration, {})
    return {value: enumeration[name].value for name, value in earlier.items()}


def format_of(metadata: Mapping[str, Any]) -> int:
    """Return the format with which a field with *metadata* came; 1 for a field of the first format."""
    return int(metadata.get(_SINCE, 1))


def is_optional(metadata: Mapping[str, Any]) -> bool:
    """Return True if a field with *metadata* is left out in a store of an older format, whatever its value."""
    return bool(metadata.get(_OPTIONAL, False))
