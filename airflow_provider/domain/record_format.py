"""The format of a store's records, and the format with which each field came.

Two versions of the package may use one store while its hosts are upgraded one after the other. Until
``airflow epochs db upgrade`` raises the store's format, all of them write records that the older one reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field
from typing import Any, Final

FORMAT = 2
"""The newest format, which a new store gets. Records of older formats are read as well."""

_SINCE: Final = "record format"
_OPTIONAL: Final = "record format optional"
_EARLIER: Final = "record format earlier name"


def since(number: int, *, optional: bool = False) -> Mapping[str, Any]:
    """Return the metadata of a field that came with format *number*; the field must have a default.

    In a store of an older format the field is left out while it has its default, and any other value is refused.

    :param optional: the field is left out there whatever its value; only if its default is always safe to read.
    """
    return {_SINCE: number, _OPTIONAL: optional}


def formerly(name: str) -> Mapping[str, Any]:
    """Return the metadata of a field of format 1 that format 1 called *name*."""
    return {_EARLIER: name}


def name_in(field: Field[Any], number: int) -> str:
    """Return the name of *field* in a store of the format *number*."""
    return str(field.metadata.get(_EARLIER, field.name)) if number == 1 else field.name


def format_of(metadata: Mapping[str, Any]) -> int:
    """Return the format with which a field with *metadata* came; 1 for a field of the first format."""
    return int(metadata.get(_SINCE, 1))


def is_optional(metadata: Mapping[str, Any]) -> bool:
    """Return True if a field with *metadata* is left out in a store of an older format, whatever its value."""
    return bool(metadata.get(_OPTIONAL, False))
