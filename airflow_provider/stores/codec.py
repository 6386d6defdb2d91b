"""Encode records as JSON with a format version in front, the same in every store.

A stored record is ``{"format":2,"record":{...}}``, its fields in the order of their declaration, so that equal
records have equal bytes. Times are ISO 8601 in UTC with microseconds, durations ISO 8601.

Changing a record: a new field has a default (older records lack it and get the default) and says by
:func:`~airflow_provider.domain.format_marks.since` which format it came with, as do new kinds
(:data:`KINDS_SINCE`) and new values (:data:`VALUES_SINCE`). A store of an older format gets none of them, so
that older versions of the package go on reading it. A field of format 1 that gets another name says so by
:func:`~airflow_provider.domain.format_marks.formerly`, a value by
:func:`~airflow_provider.domain.format_marks.members_formerly`. Any other change needs a step in :data:`UPGRADES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache, partial
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from airflow_provider.domain.epoch import EpochState
from airflow_provider.domain.errors import EpochError, InvalidInput, PackageTooOld, StoreIncompatible
from airflow_provider.domain.format_marks import (
    FORMAT,
    format_of,
    is_optional,
    name_in,
    present_values,
    value_in,
)
from airflow_provider.domain.records import RECORDS, Key, Kind

MAX_RECORD_BYTES = 1_000_000
"""Largest encoded record; a little less than a ZooKeeper node or message may be (1 MiB)."""

KINDS_SINCE: Mapping[Kind, int] = {
    Kind.RESERVATION: 2,
    Kind.EXPIRED: 2,
    Kind.RESTATEMENT: 2,
    Kind.COMPACTION: 2,
}
"""The format that each newer kind of record came with."""

VALUES_SINCE: Mapping[Enum, int] = {EpochState.ROLLED_BACK: 2}
"""The format that each newer member of an enumeration came with."""

_FRONTS = {number: b'{"format":%d,"record":' % number for number in range(1, FORMAT + 1)}
_FRONT = _FRONTS[FORMAT]
_NUMBERS = {front: number for number, front in _FRONTS.items()}
_encoder = msgspec.json.Encoder(order="deterministic")
_in_order = msgspec.json.Encoder()
_plain = msgspec.json.Decoder()


class _Envelope(msgspec.Struct):
    format: int
    record: msgspec.Raw


_envelope = msgspec.json.Decoder(_Envelope)


# Made at import, by one thread: msgspec 0.22 caches the description of a dataclass before it is complete. A decoder
# that another thread makes from an incomplete description crashes the process.
_decoders = {kind: msgspec.json.Decoder(record) for kind, record in RECORDS.items()}


def encode(key: Key[Any], record: object, number: int = FORMAT) -> bytes:
    """Return *record* as it is stored at *key* in a store of the format *number*.

    :raises InvalidInput: the record is not of the key's kind, a field has a value of another type, or it is
        larger than :data:`MAX_RECORD_BYTES`.
    :raises StoreIncompatible: the record holds a field, kind or value of a newer format than the store has.
    """
    wanted = RECORDS[key.kind]
    if type(record) is not wanted:
        raise InvalidInput(field=f"record of {key.kind}", value=record, expected=f"a {wanted.__name__}")
    try:
        body = _encoder.encode(record)
        # msgspec checks types only when it decodes; a list in place of a tuple, say, comes back as another value.
        faithful = _decoders[key.kind].decode(body) == record
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, EpochError) as error:
        raise InvalidInput(
            field=f"record of {key.kind}",
            value=record,
            expected=f"fields as {wanted.__name__} declares: {error}",
        ) from error
    if not faithful:
        raise InvalidInput(
            field=f"record of {key.kind}",
            value=record,
            expected=f"fields of the types that {wanted.__name__} has",
        )
    if number < FORMAT:
        body = _as_older(key, record, body, number)
    if len(body) + len(_FRONT) + 1 > MAX_RECORD_BYTES:
        raise InvalidInput(
            f"record {key}: {len(body) + len(_FRONT) + 1} bytes are too large; at most {MAX_RECORD_BYTES} bytes.",
            next_step="record less at this key: fewer inputs, files or parts, or a reference instead of contents.",
            field=f"record of {key.kind}",
            value=len(body) + len(_FRONT) + 1,
            expected=f"at most {MAX_RECORD_BYTES} bytes",
        )
    return _FRONTS[number] + body + b"}"


def _as_older(key: Key[Any], record: object, body: bytes, number: int) -> bytes:
    """Return *body*, the encoded *record*, without the fields that a store of the format *number* does not know.

    :raises StoreIncompatible: such a field has another value than its default.
    """
    if KINDS_SINCE.get(key.kind, 1) > number:
        raise older_store(f"record {key}", number, KINDS_SINCE[key.kind])

    def keeps(field: Field[Any], value: Any, path: str) -> bool:
        if format_of(field.metadata) <= number:
            return True
        if is_optional(field.metadata) or value == _default(field):
            return False
        raise older_store(f"record {key}, field {path}", number, format_of(field.metadata))

    def check(value: Enum, path: str) -> None:
        if VALUES_SINCE.get(value, 1) > number:
            raise older_store(f"record {key}, {path}.{value}", number, VALUES_SINCE[value])

    return _in_order.encode(_Spelling(number, keeps, check).of(record, _plain.decode(body)))


@dataclass(frozen=True, slots=True)
class _Spelling:
    """The spelling of records in an older format.

    :param keeps: False for a field that is left out, by its value and path. :param check: refuses members of
        enumerations.
    """

    number: int
    keeps: Callable[[Field[Any], Any, str], bool]
    check: Callable[[Enum, str], None] = lambda _value, _path: None

    def of(self, value: Any, plain: Any, path: str = "") -> Any:
        """Return *plain*, the encoded *value*, as the format spells it. :param path: of *value* in its record."""
        if is_dataclass(value) and not isinstance(value, type):
            return dict(self._fields(value, plain, path))
        if isinstance(value, Enum):
            self.check(value, path)
            return value_in(value, self.number)
        if isinstance(value, list | tuple):
            return [self.of(item, spelled, path) for item, spelled in zip(value, plain, strict=True)]
        if isinstance(value, Mapping):
            # The encoder has sorted a mapping by name.
            names = msgspec.to_builtins(list(value), str_keys=True)
            items = {str(name): item for name, item in zip(names, value.values(), strict=True)}
            return {name: self.of(items[name], spelled, path) for name, spelled in plain.items()}
        return plain

    def _fields(self, value: Any, plain: Any, path: str) -> Iterator[tuple[str, Any]]:
        for field in _fields(value.__class__):
            part, at = getattr(value, field.name), f"{path}.{field.name}" if path else field.name
            if self.keeps(field, part, at):
                yield name_in(field, self.number), self.of(part, plain[field.name], at)


def without_later(value: object, number: int) -> tuple[Any, bool]:
    """Return *value* as plain lists and mappings, with the names of fields of format 1 and without those fields of
    formats after *number* that have their defaults, and whether a field of a later format is left.
    """
    is_left = False

    def keeps(field: Field[Any], value: Any, _path: str) -> bool:
        nonlocal is_left
        is_later = format_of(field.metadata) > number
        if is_later and value == _default(field):
            return False
        is_left |= is_later
        return True

    return _Spelling(1, keeps).of(value, _plain.decode(_encoder.encode(value))), is_left


@lru_cache
def _fields(record: type[Any]) -> tuple[Field[Any], ...]:
    return fields(record)


def _names_of(record: Any) -> Mapping[str, tuple[str, Any]]:
    """Return name and type of each field of *record*, by its name in format 1."""
    hints = get_type_hints(record)
    return {name_in(field, 1): (field.name, hints[field.name]) for field in _fields(record)}


_earlier_names: Callable[[Any], Mapping[str, tuple[str, Any]]] = cache(_names_of)


def _is_enumeration(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Enum)


def _is_renamed(hint: Any, above: tuple[Any, ...] = ()) -> bool:
    """Return True if a value of the type *hint* holds a field or a value that format 1 spelled otherwise."""
    if _is_enumeration(hint):
        return bool(present_values(hint))
    if not is_dataclass(hint):
        return any(_is_renamed(part, above) for part in get_args(hint))
    if hint in above:
        return False
    names = _earlier_names(hint)
    return any(name != now or _is_renamed(part, (*above, hint)) for name, (now, part) in names.items())


_holds_renamed: Callable[[Any], bool] = cache(_is_renamed)


def _by_present_names(hint: Any, plain: Any) -> Any:
    """Return *plain*, a value of the type *hint* in format 1, with the present names of fields and values."""
    if plain is None or not _holds_renamed(hint):
        return plain
    if _is_enumeration(hint):
        return present_values(hint).get(plain, plain)
    if is_dataclass(hint):
        names = _earlier_names(hint)
        present = ((*names.get(name, (name, None)), value) for name, value in plain.items())
        return {name: _by_present_names(part, value) for name, part, value in present}
    parts = get_args(hint)
    if isinstance(plain, list):
        each = parts[:1] * len(plain) if parts[-1] is Ellipsis else parts
        return [_by_present_names(part, value) for part, value in zip(each, plain, strict=True)]
    if get_origin(hint) in (UnionType, Union):
        return _by_present_names(next(part for part in parts if _holds_renamed(part)), plain)
    return {name: _by_present_names(parts[-1], value) for name, value in plain.items()}


UPGRADES: Mapping[tuple[Kind, int], Callable[[dict[str, Any]], dict[str, Any]]] = {
    (kind, 1): partial(_by_present_names, record)
    for kind, record in RECORDS.items()
    if _holds_renamed(record)
}
"""For each older format of a kind, the function that turns fields of that format into fields of the next one."""


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def older_store(what: str, found: int, expected: int) -> StoreIncompatible:
    """Build the error for *what*, which a store of the format *found* cannot hold; *expected* is the format needed."""
    return StoreIncompatible(
        f"{what} needs a store of format {expected}; this store has format {found}, because older versions of the "
        "package may still use it.",
        next_step="upgrade the package on every host, then run `airflow epochs db upgrade`.",
        found=str(found),
        expected=str(expected),
    )


def decode(key: Key[Any], stored: bytes | str) -> Any:
    """Decode *stored*, the record at *key*.

    :raises PackageTooOld: a newer version of the package wrote the record.
    :raises StoreIncompatible: the record is damaged, or of a format that cannot be upgraded.
    """
    body = stored.encode() if isinstance(stored, str) else stored
    number = _NUMBERS.get(body[: len(_FRONT)])  # formats have one digit, so that all fronts are equally long
    if number == FORMAT or (number is not None and not _steps(key.kind, number)):
        return _decode_current(key, body[len(_FRONT) : -1])
    return _decode_other(key, body)


def _steps(kind: Kind, number: int) -> list[int]:
    """Return the formats from *number* on whose fields of *kind* must be upgraded to the next format."""
    return [step for step in range(number, FORMAT) if (kind, step) in UPGRADES]


def _decode_current(key: Key[Any], body: bytes) -> Any:
    try:
        record = _decoders[key.kind].decode(body)
        again = _encoder.encode(record)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, EpochError) as error:
        raise _damaged(key, str(error)) from error
    # Equal bytes prove that every stored field was understood. Other bytes alone are no error: an older record lacks
    # the fields that came later.
    if again != body:
        _refuse_unknown_fields(key, _plain.decode(body), _plain.decode(again), "")
    return record


def _decode_other(key: Key[Any], body: bytes) -> Any:
    """Decode a record that another version of the package wrote, or that has other white space."""
    try:
        envelope = _envelope.decode(body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise _damaged(key, str(error)) from error
    version, oldest = envelope.format, min(_FRONTS)
    if version > FORMAT or (version < oldest and (key.kind, version) not in UPGRADES):
        raise _unknown_format(key, version)
    steps = _steps(key.kind, version)
    if not steps:
        return _decode_current(key, bytes(envelope.record))
    plain = _plain.decode(envelope.record)
    try:
        for step in steps:
            plain = UPGRADES[key.kind, step](plain)
    except (
        AttributeError,
        TypeError,
        ValueError,
    ) as error:  # another type than the field's stands in the record
        raise _damaged(key, f"format {version}: {error}") from error
    return _decode_current(key, _in_order.encode(plain))


def _refuse_unknown_fields(key: Key[Any], stored: Any, known: Any, path: str) -> None:
    """Refuse a stored field that this version does not know: it would be lost when the record is written again.

    :raises PackageTooOld: names the field.
    """
    if isinstance(stored, dict) and isinstance(known, dict):
        for name, value in stored.items():
            if name not in known:
                raise PackageTooOld(
                    f"record {key} has the unknown field {path}{name}: a newer version of the package wrote it.",
                    next_step="upgrade the package on this host, then `airflow epochs db check`; a task may be "
                    "tried again on a host that has the newer one.",
                    key=key,
                    field=f"{path}{name}",
                    found=", ".join(sorted(stored)),
                    expected=", ".join(sorted(known)),
                )
            _refuse_unknown_fields(key, value, known[name], f"{path}{name}.")
    elif isinstance(stored, list) and isinstance(known, list):
        for stored_item, known_item in zip(stored, known, strict=False):
            _refuse_unknown_fields(key, stored_item, known_item, path)


def _unknown_format(key: Key[Any], found: int) -> StoreIncompatible | PackageTooOld:
    newer = found > FORMAT
    return (PackageTooOld if newer else StoreIncompatible)(
        f"record {key} has the format {found}; this version of the package knows the formats up to {FORMAT}.",
        next_step=(
            "upgrade the package on this host; see `airflow epochs db check`. A task may be tried again on a host "
            "that has the newer one."
            if newer
            else "run `airflow epochs db upgrade`."
        ),
        key=key,
        found=str(found),
        expected=str(FORMAT),
    )


def _damaged(key: Key[Any], reason: str) -> StoreIncompatible:
    return StoreIncompatible(
        f"record {key} cannot be read as a {RECORDS[key.kind].__name__}: {reason}.",
        next_step="run `airflow epochs db check`; if a newer version of the package wrote it, upgrade this host; "
        "otherwise restore the store from a backup, never edit it by hand.",
        key=key,
        found=reason,
        expected=RECORDS[key.kind].__name__,
    )
