"""What a client believes about the store: hints that save round trips. Every one may be outdated at any time.

A transaction says the versions that it was decided on, so a wrong hint makes it fail, never succeed wrongly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, Stamped
from airflow_provider.stores.zookeeper.nodes import Copy, Index

Partition = tuple[DomainName, Kind, str]

CLEARED = frozenset({Kind.LOCK, Kind.LEASE})
"""Kinds of which many are made and deleted: the empty nodes that stand for them are cleared away."""
_MOST = 50_000
_MOST_SEGMENTS = 64


@dataclass(frozen=True, slots=True)
class Seen:
    """A record's node: the version of its data, whether it holds a record or stands for a deleted one, its base."""

    version: int
    live: bool
    base: int = 0

    @property
    def record_version(self) -> int | None:
        """The version of the record, None when there is none."""
        return self.base + self.version + 1 if self.live else None


@dataclass(frozen=True, slots=True)
class Floor:
    """A folder in which deleted records are cleared away: the version of its data, None when there is no folder,
    and the base of what is made in it."""

    version: int | None
    base: int


@dataclass(frozen=True, slots=True)
class SeenHead:
    """A domain's head; *version* is that of its node, None when there is none."""

    version: int | None = None
    csn: int = 0
    index: Index = field(default_factory=Index)
    transaction: bytes = b""


@dataclass(frozen=True, slots=True)
class Incarnation:
    """The store's identity, and the version of the node that holds it."""

    name: str
    version: int


@dataclass(frozen=True, slots=True)
class SeenCheckpoint:
    name: str
    copies: dict[tuple[str, str], Copy]


@dataclass(frozen=True, slots=True)
class SeenTable:
    """A table's record, and where the head's index led to it: the version that the tail gives for the table, or
    the name of the checkpoint. While the index says the same, the table was not written.

    :param generation: of the connection, from before that head was asked for. Behind another one may be a server
        that lagged, or was restored: there the index says nothing of what was read before.
    """

    index: int | str
    generation: int
    stamped: Stamped[Any]
    seen: Seen


class Known:
    """All hints of one store in one process. Threads may share it: each entry is replaced as a whole."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything: the store is another one than before."""
        self.incarnation: Incarnation | None = None
        self.records: dict[Key, Seen | None] = {}
        self.folders: set[str] = set()
        self.floors: dict[Partition, Floor] = {}
        self.heads: dict[DomainName, SeenHead] = {}
        self.checkpoints: dict[DomainName, SeenCheckpoint] = {}
        self.segments: dict[tuple[int, DomainName, int], list[Copy]] = {}
        self.decoded: dict[Key, Stamped[Any]] = {}
        self.tables: dict[Key, SeenTable] = {}

    def see_incarnation(self, answer: Any) -> Incarnation:
        """Learn the identity from kazoo's answer; all hints are of the store that had it."""
        seen = Incarnation(answer[0].decode(), answer[1].version) if answer else Incarnation("", -1)
        if self.incarnation is not None and self.incarnation.name != seen.name:
            self.clear()
        self.incarnation = seen
        return seen

    def see(self, key: Key, seen: Seen | None) -> None:
        if len(self.records) > _MOST:
            self.records.clear()
        self.records[key] = seen

    def see_floor(self, partition: Partition, floor: Floor) -> None:
        """Learn a folder's floor. What was believed about its records under another one is worth nothing."""
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

    def keep_segment(self, generation: int, domain: DomainName, number: int, copies: list[Copy]) -> None:
        """Remember a segment for as long as the connection of that generation lasts: a restored store may have
        another one of the same number."""
        if len(self.segments) > _MOST_SEGMENTS:
            self.segments.clear()
        self.segments[generation, domain, number] = copies

    def forget(self, keys: Iterable[Key], folders: Iterable[str]) -> None:
        """Drop what was believed about *keys* and *folders*."""
        for key in keys:
            self.records.pop(key, None)
            if key.kind in CLEARED:
                self.forget_floor(partition_of(key))
        self.folders.difference_update(folders)


def partition_of(key: Key) -> Partition:
    return key.domain, key.kind, key.partition
