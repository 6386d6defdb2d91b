"""The shape of stored records: what stands at each path, by the types of the fields that lead there."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

from airflow_provider.domain.format_marks import format_of, name_in, value_in
from airflow_provider.domain.records import RECORDS
from airflow_provider.stores.codec import KINDS_SINCE, VALUES_SINCE


@dataclass(frozen=True)
class Place:
    """A field of a record by its name in format 1, if that has it, or a value that it may have.

    :param since: the format that it came with, as it is annotated. :param has_default: always true of a value.
    """

    path: str
    since: int
    has_default: bool = True


def places() -> list[Place]:
    """Return every field and every value of all records; what lies below a newer field is as new."""
    return [
        place
        for kind, record in RECORDS.items()
        for place in _places(record, kind.value, KINDS_SINCE.get(kind, 1), ())
    ]


def _places(wanted: Any, path: str, since: int, inside: tuple[type, ...]) -> Iterator[Place]:
    if isinstance(wanted, type) and is_dataclass(wanted):
        if wanted in inside:
            return
        hints = typing.get_type_hints(wanted)
        for field in fields(wanted):
            here, number = f"{path}.{name_in(field, 1)}", max(since, format_of(field.metadata))
            yield Place(here, number, _has_default(field))
            yield from _places(hints[field.name], here, number, (*inside, wanted))
    elif isinstance(wanted, type) and issubclass(wanted, Enum):
        for value in wanted:
            yield Place(f"{path}={value_in(value, 1)}", max(since, VALUES_SINCE.get(value, 1)))
    elif typing.get_origin(wanted) in (types.UnionType, typing.Union, tuple, list, dict, Mapping):
        pass
    for part in typing.get_args(wanted):
        yield from _places(part, path, since, inside)


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING
