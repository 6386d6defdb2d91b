"""Read many nodes by one request: ZooKeeper's ``multiRead`` (since 3.6), which kazoo 2.11 does not have.

The server reads the nodes in their order, in one thread; they are no snapshot. Measured in kazoo, one request for
one node costs as much as one of these for thirty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kazoo.exceptions import EXCEPTIONS, NoNodeError
from kazoo.protocol.serialization import GetData, MultiHeader, int_struct, stat_struct

MOST_NODES = 100
MOST_PATH_BYTES = 200_000
_ERROR = -1


class Nodes(list[Any]):
    """The answers to one request for several nodes."""


class MultiRead:
    """Request for several nodes, in the form that kazoo's connection sends."""

    type = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytearray:
        """Encode the request: each part behind a header, and a last header at the end."""
        message = bytearray()
        for path in self._paths:
            message += MultiHeader(GetData.type, False, -1).serialize()
            message += GetData(path, None).serialize()
        message += MultiHeader(-1, True, -1).serialize()
        return message

    @staticmethod
    def deserialize(message: bytes, offset: int) -> Nodes:
        """Decode the answer: for each path its data and stat, None if there is no such node, or the error."""
        answers = Nodes()
        while True:
            header, offset = MultiHeader.deserialize(message, offset)
            if header.done:
                return answers
            if header.type == _ERROR:
                error = EXCEPTIONS[int_struct.unpack_from(message, offset)[0]]()
                answers.append(None if isinstance(error, NoNodeError) else error)
                offset += int_struct.size
            else:
                answers.append(GetData.deserialize(message, offset))
                size = int_struct.unpack_from(message, offset)[0]
                offset += int_struct.size + max(0, size) + stat_struct.size


def flights(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split *paths* into runs that fit into one request each."""
    first, size = 0, 0
    for position, path in enumerate(paths):
        size += len(path) + 16
        if position > first and (position - first >= MOST_NODES or size > MOST_PATH_BYTES):
            yield paths[first:position]
            first, size = position, len(path) + 16
    if paths:
        yield paths[first:]
