"""Encode the contents of a node: a small header and a body, compressed where that helps.

A node begins with one byte for the version of this form, one for flags, eight for the CSN of the transaction
that wrote it (0: it took none), four for its base, and eight random ones that name this transaction: they tell
the outcome after a lost reply. A record's version is its base plus that of its node's data plus one. A deleted record
is a node without a body, so that a version of a key is never used twice. Where many are deleted, such nodes are
removed in the end, and those that are made later have a base above all earlier versions.
"""

from __future__ import annotations

import secrets
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from airflow_provider.domain.errors import StoreIncompatible

FORM = 1
TRANSACTION_BYTES = 8
_HEADER = struct.Struct(">BBQI8s")
_BASE = struct.Struct(">I")
_BASE_AT = 10
_DELETED, _COMPRESSED = 1, 2
_SHORTEST_COMPRESSED = 64
_LEVEL = 1
_WINDOW_BITS, _MEMORY = 12, 4
"""Parameters for bodies that fit into the window: setting up zlib's defaults takes longer than compressing one."""


def new_transaction() -> bytes:
    """Return a random name for a transaction."""
    return secrets.token_bytes(TRANSACTION_BYTES)


@dataclass(frozen=True, slots=True)
class Node:
    """The contents of a node; ``body`` is None for a deleted record."""

    csn: int | None
    transaction: bytes
    body: bytes | None
    base: int = 0


def packed(body: bytes | None, csn: int | None, transaction: bytes, *, base: int = 0) -> bytes:
    """Encode a node's data; *body* is None for a deleted record."""
    flags, content = 0, b""
    if body is None:
        flags = _DELETED
    else:
        content = body
        if len(body) >= _SHORTEST_COMPRESSED:
            smaller = _compressed(body)
            if len(smaller) < len(body):
                flags, content = _COMPRESSED, smaller
    return _HEADER.pack(FORM, flags, csn or 0, base, transaction) + content


def _compressed(body: bytes) -> bytes:
    if len(body) > 1 << _WINDOW_BITS:
        return zlib.compress(body, _LEVEL)
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY)
    return compressor.compress(body) + compressor.flush()


def unpacked(where: object, data: bytes) -> Node:
    """Decode a node's data.

    :param where: the key or path, for the message.
    :raises StoreIncompatible: the data has another form, or is damaged.
    """
    if len(data) < _HEADER.size or data[0] != FORM:
        raise _unreadable(where, f"form {data[0]}" if data else "nothing", f"form {FORM}")
    _, flags, csn, base, transaction = _HEADER.unpack_from(data)
    if flags & ~(_DELETED | _COMPRESSED):
        raise _unreadable(where, f"flags {flags}", "flags that this version knows")
    if flags & _DELETED:
        return Node(csn or None, transaction, None, base)
    content = data[_HEADER.size :]
    try:
        body = zlib.decompress(content) if flags & _COMPRESSED else content
    except zlib.error as error:
        raise _unreadable(where, str(error), "a body that can be decompressed") from error
    return Node(csn or None, transaction, body, base)


def base_of(data: bytes) -> int:
    """Return the base of a node's versions, without decoding its body."""
    return int(_BASE.unpack_from(data, _BASE_AT)[0]) if len(data) >= _HEADER.size else 0


def packed_floor(floor: int) -> bytes:
    """Encode a folder's data: the base of the nodes that will be made in it."""
    return _BASE.pack(floor)


def unpacked_floor(data: bytes) -> int:
    return int(_BASE.unpack(data)[0]) if len(data) == _BASE.size else 0


def is_deleted(data: bytes) -> bool:
    """Return whether a node's data stands for a deleted record."""
    return len(data) >= _HEADER.size and bool(data[1] & _DELETED)


# --- the head ------------------------------------------------------------------------------------------------


_encoder = msgspec.msgpack.Encoder()


def packed_head(csn: int, transaction: bytes) -> bytes:
    """Encode a head.

    Its body is for clients of format 1, which copy tables into checkpoints and look for a checkpoint's name, the
    number of its nodes, the checkpoint before, and tables written since. They find a new checkpoint without nodes each
    time, so that they read all tables, and publish no checkpoint that they have begun before.
    """
    return packed(_encoder.encode(((transaction.hex(), 0), ("", 0), ())), csn, transaction)


# --- copies of nodes -----------------------------------------------------------------------------------------


class Copy(msgspec.Struct, array_like=True, frozen=True):
    """Copy of a node in a segment: its name, version, time in milliseconds and data; the partition is empty."""

    partition: str
    item: str
    version: int
    at_ms: int
    data: bytes


_copies = msgspec.msgpack.Decoder(list[Copy])


def packed_copies(copies: Iterable[Copy], transaction: bytes) -> bytes:
    return packed(_encoder.encode(list(copies)), None, transaction)


def unpacked_copies(where: object, data: bytes) -> list[Copy]:
    """Decode the copies in a segment.

    :raises StoreIncompatible: the data is damaged.
    """
    node = unpacked(where, data)
    try:
        return _copies.decode(node.body or b"")
    except msgspec.MsgspecError as error:
        raise _unreadable(where, str(error), "a list of nodes") from error


def _unreadable(where: object, found: str, expected: str) -> StoreIncompatible:
    return StoreIncompatible(
        f"{where} cannot be read: found {found}, expected {expected}.",
        next_step="run `airflow epochs db check`; if a newer version of the package wrote it, upgrade this host; "
        "otherwise restore the store from a backup, never edit it by hand.",
        node=str(where),
        found=found,
        expected=expected,
    )
