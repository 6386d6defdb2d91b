"""Remember hints about the store that save round trips. Each of them may be outdated at any time.

A transaction names the versions on which it was decided, so a wrong hint makes it fail, never succeed wrongly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, Stamped

Partition = tuple[DomainName, Kind, str]

CLEARED = frozenset({Kind.LOCK, Kind.LEASE, Kind.COMPACTION})
"""Kinds with many deletions: the empty nodes of their deleted records are cleared away."""
_MOST = 50_000


@dataclass(frozen=True, slots=True)
class Seen:
    """A record's node.

    :param version: version of the node's data.
    :param live: it holds a record; False for the empty node of a deleted one.
    :param base: base of the record's versions.
    """

    version: int
    live: bool
    base: int = 0

    @property
    def record_version(self) -> int | None:
        """Version of the record, None for the empty node of a deleted one."""
        return self.base + self.version + 1 if self.live else None


@dataclass(frozen=True, slots=True)
class Floor:
    """Floor of a folder in which deleted records are cleared away.

    :param version: version of the folder's data; None if the folder does not exist.
    :param base: base of the nodes that are made in it.
    """

    version: int | None
    base: int


@dataclass(frozen=True, slots=True)
class SeenHead:
    """A domain's head.

    :param version: version of its node; None if the domain has no head yet.
    :param transaction: name of the transaction that set it: a restored store gives out versions again.
    """

    version: int | None = None
    csn: int = 0
    transaction: bytes = b""


@dataclass(frozen=True, slots=True)
class Incarnation:
    """The store's identity, and the version of its node, which a transaction can check."""

    name: str
    version: int


@dataclass(frozen=True, slots=True)
class SeenTable:
    """A table's record, and the head at which it was read.

    :param head: as it was then. Every write of a table sets the head: while this is the head, no table was written.
    :param generation: of the connection, taken before the head was asked for. The server of another connection may
        lag behind or have been restored, so that its head says nothing about earlier reads.
    """

    head: SeenHead
    generation: int
    stamped: Stamped[Any]
    seen: Seen


class Known:
    """Hints about one store in one process. Threads may share them: each entry is replaced as a whole."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything: the store has another identity than before."""
        self.incarnation: Incarnation | None = None
        self.records: dict[Key[Any], Seen | None] = {}
        self.folders: set[str] = set()
        self.floors: dict[Partition, Floor] = {}
        self.heads: dict[DomainName, SeenHead] = {}
        self.decoded: dict[Key[Any], Stamped[Any]] = {}
        self.tables: dict[Key[Any], SeenTable] = {}

    def see_incarnation(self, answer: Any) -> Incarnation:
        """Learn the identity from kazoo's answer; if it has changed, forget all hints of the store before."""
        seen = Incarnation(answer[0].decode(), answer[1].version) if answer else Incarnation("", -1)
        if self.incarnation is not None and self.incarnation.name != seen.name:
            self.clear()
        self.incarnation = seen
        return seen

    def see(self, key: Key[Any], seen: Seen | None) -> None:
        if len(self.records) > _MOST:
            self.records.clear()
        self.records[key] = seen

    def see_floor(self, partition: Partition, floor: Floor) -> None:
        """Learn a folder's floor; if it has changed, forget the hints about the records in the folder."""
        if self.floors.get(partition) != floor:
            self.forget_floor(partition)
            self.floors[partition] = floor

    def forget_floor(self, partition: Partition) -> None:
        self.floors.pop(partition, None)
        for key in [key for key in list(self.records) if partition_of(key) == partition]:
            self.records.pop(key, None)

    def see_folders(self, paths: Iterable[str]) -> None:
        if len(self.folders) > _MOST:
            self.folders.clear()
        self.folders.update(paths)

    def keep(self, stamped: Stamped[Any]) -> Stamped[Any]:
        if len(self.decoded) > _MOST:
            self.decoded.clear()
        self.decoded[stamped.key] = stamped
        return stamped

    def keep_table(self, table: SeenTable) -> SeenTable:
        if len(self.tables) > _MOST:
            self.tables.clear()
        self.tables[table.stamped.key] = table
        return table

    def forget(self, keys: Iterable[Key[Any]], folders: Iterable[str]) -> None:
        """Forget the hints about *keys* and *folders*."""
        for key in keys:
            self.records.pop(key, None)
            if key.kind in CLEARED:
                self.forget_floor(partition_of(key))
        self.folders.difference_update(folders)


def partition_of(key: Key[Any]) -> Partition:
    return key.domain, key.kind, key.partition
