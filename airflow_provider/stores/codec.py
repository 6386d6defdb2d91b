"""How records are written down: JSON with a format version in front, the same in every store.

A stored record is ``{"format":1,"record":{...}}``, its fields in the order of their declaration, so that equal
records have equal bytes. Times are ISO 8601 in UTC with microseconds, durations ISO 8601.

Changing a record: a new field with a default needs nothing (older records lack it and get the default); any
other change needs a new format version, and a step in :data:`UPGRADES` that turns the older one into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from airflow_provider.domain.epoch import BarrierRecord, EpochRecord, LockRecord
from airflow_provider.domain.errors import EpochError, InvalidInput, StoreIncompatible
from airflow_provider.domain.lease import LeaseRecord
from airflow_provider.domain.records import Key, Kind
from airflow_provider.domain.registration import JobRecord, TopologyRecord
from airflow_provider.domain.retention import RetentionRecord, VersionsRecord
from airflow_provider.domain.roots import RootRecord
from airflow_provider.domain.version import CommitRecord, FenceRecord, SchemaRecord, SliceRecord, TableRecord

FORMAT = 1
"""Version of what :func:`encode` writes."""

MAX_RECORD_BYTES = 1_000_000
"""Largest encoded record; a little less than a ZooKeeper node or message may be (1 MiB)."""

RECORDS: Mapping[Kind, type[Any]] = {
    Kind.TOPOLOGY: TopologyRecord,
    Kind.JOB: JobRecord,
    Kind.TABLE: TableRecord,
    Kind.FENCE: FenceRecord,
    Kind.SCHEMA: SchemaRecord,
    Kind.EPOCH: EpochRecord,
    Kind.LOCK: LockRecord,
    Kind.BARRIER: BarrierRecord,
    Kind.ROOT: RootRecord,
    Kind.SLICE: SliceRecord,
    Kind.COMMIT: CommitRecord,
    Kind.LEASE: LeaseRecord,
    Kind.RETENTION: RetentionRecord,
    Kind.VERSIONS: VersionsRecord,
}
"""The one dataclass of each kind of record."""

UPGRADES: Mapping[tuple[Kind, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""For each older format of a kind, what turns the fields of that format into the next one's."""

_FRONT = b'{"format":%d,"record":' % FORMAT
_encoder = msgspec.json.Encoder(order="deterministic")
_plain = msgspec.json.Decoder()


class _Envelope(msgspec.Struct):
    format: int
    record: msgspec.Raw


_envelope = msgspec.json.Decoder(_Envelope)


# Made while the module is imported, by one thread: msgspec 0.22 describes a dataclass where other threads find the
# description before it is whole, and a decoder that uses such a one ends the process.
_decoders = {kind: msgspec.json.Decoder(record) for kind, record in RECORDS.items()}


def encode(key: Key, record: object) -> bytes:
    """Return *record* as it is stored at *key*.

    :raises InvalidInput: the record is not of the key's kind, a field has a value of another type, or it is
        larger than :data:`MAX_RECORD_BYTES`.
    """
    wanted = RECORDS[key.kind]
    if type(record) is not wanted:
        raise InvalidInput(field=f"record of {key.kind}", value=record, expected=f"a {wanted.__name__}")
    try:
        body = _encoder.encode(record)
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
    if len(body) + len(_FRONT) + 1 > MAX_RECORD_BYTES:
        raise InvalidInput(
            f"record {key}: {len(body) + len(_FRONT) + 1} bytes are too large; at most {MAX_RECORD_BYTES} bytes.",
            next_step="record less at this key: fewer inputs, files or parts, or a reference instead of contents.",
            field=f"record of {key.kind}",
            value=len(body) + len(_FRONT) + 1,
            expected=MAX_RECORD_BYTES,
        )
    return _FRONT + body + b"}"


def decode(key: Key, stored: bytes | str) -> Any:
    """Return the record that *stored* is.

    :raises StoreIncompatible: it is of a format that this version does not know, or it is damaged.
    """
    body = stored.encode() if isinstance(stored, str) else stored
    if body.startswith(_FRONT):
        return _decode_current(key, body[len(_FRONT) : -1])
    return _decode_other(key, body)


def _decode_current(key: Key, body: bytes) -> Any:
    try:
        record = _decoders[key.kind].decode(body)
        again = _encoder.encode(record)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, EpochError) as error:
        raise _damaged(key, str(error)) from error
    if again != body:
        _refuse_unknown_fields(key, _plain.decode(body), _plain.decode(again), "")
    return record


def _decode_other(key: Key, body: bytes) -> Any:
    """Decode what was written by another version of the package, or with other white space."""
    try:
        envelope = _envelope.decode(body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise _damaged(key, str(error)) from error
    if envelope.format == FORMAT:
        return _decode_current(key, bytes(envelope.record))
    version = envelope.format
    fields = _plain.decode(envelope.record)
    while version < FORMAT and (key.kind, version) in UPGRADES:
        fields = UPGRADES[key.kind, version](fields)
        version += 1
    if version != FORMAT:
        raise _unknown_format(key, envelope.format)
    return _decode_current(key, _encoder.encode(fields))


def _refuse_unknown_fields(key: Key, stored: Any, known: Any, path: str) -> None:
    """A field that was read and would not be written back must not get lost silently."""
    if isinstance(stored, dict) and isinstance(known, dict):
        for name, value in stored.items():
            if name not in known:
                raise StoreIncompatible(
                    f"record {key} has the unknown field {path}{name}: a newer version of the package wrote it.",
                    next_step="upgrade the package on this host, then `airflow epochs db check`.",
                    key=key,
                    field=f"{path}{name}",
                    found=sorted(stored),
                    expected=sorted(known),
                )
            _refuse_unknown_fields(key, value, known[name], f"{path}{name}.")
    elif isinstance(stored, list) and isinstance(known, list):
        for one, other in zip(stored, known, strict=False):
            _refuse_unknown_fields(key, one, other, path)


def _unknown_format(key: Key, found: int) -> StoreIncompatible:
    newer = found > FORMAT
    return StoreIncompatible(
        f"record {key} has the format {found}; this version of the package knows the format {FORMAT}.",
        next_step=(
            "upgrade the package on this host; see `airflow epochs db check`."
            if newer
            else "run `airflow epochs db upgrade`."
        ),
        key=key,
        found=found,
        expected=FORMAT,
    )


def _damaged(key: Key, reason: str) -> StoreIncompatible:
    return StoreIncompatible(
        f"record {key} cannot be read as a {RECORDS[key.kind].__name__}: {reason}.",
        next_step="run `airflow epochs db check`; if a newer version of the package wrote it, upgrade this host; "
        "otherwise restore the store from a backup, never edit it by hand.",
        key=key,
        found=reason,
        expected=RECORDS[key.kind].__name__,
    )
