"""The format in which a store's records are written, and which of their fields came with which format.

Two versions of the package may use one store while its hosts are upgraded one after the other. Until
``airflow epochs db upgrade`` raises the store's format, all of them write records that the older one reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

FORMAT = 2
"""The newest format: what a new store gets. Records of older ones are read as well."""

_SINCE: Final = "record format"
_OPTIONAL: Final = "record format optional"


def since(number: int, *, optional: bool = False) -> Mapping[str, Any]:
    """Return the metadata of a field that came with format *number*; the field must have a default.

    In a store of an older format the field is left out while it has its default, and any other value is refused.

    :param optional: it is left out there whatever its value: only where a reader that finds the default does right.
    """
    return {_SINCE: number, _OPTIONAL: optional}


def format_of(metadata: Mapping[str, Any]) -> int:
    """Return the format that a field with *metadata* came with; 1 for one that has always been there."""
    return int(metadata.get(_SINCE, 1))


def is_optional(metadata: Mapping[str, Any]) -> bool:
    """Whether a field with *metadata* may be left out, whatever its value, in a store of an older format."""
    return bool(metadata.get(_OPTIONAL, False))
