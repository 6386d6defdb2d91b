"""Address and stamp of a record in a metadata store, typed by the record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from airflow_provider.domain.identifiers import DomainName

Record_co = TypeVar("Record_co", covariant=True)


class Kind(StrEnum):
    """The kinds of records; each has one dataclass (``domain.records`` pairs them).

    The values are parts of stored keys, spelled as format 1 spelled them.
    """

    TOPOLOGY = "topology"
    JOB = "job"
    TABLE = "table"
    REWRITE_LOG = "fence"
    SCHEMA = "schema"
    EPOCH = "epoch"
    LOCK = "lock"
    EVENT = "barrier"
    SOURCE = "root"
    SLICE = "slice"
    COMMIT = "commit"
    LEASE = "lease"
    RETENTION = "retention"
    VERSIONS = "versions"
    RESERVATION = "reservation"
    EXPIRED = "withdrawn"
    RESTATEMENT = "restatement"
    COMPACTION = "compaction"


class Key(NamedTuple, Generic[Record_co]):
    """Address of a record. Keys of one partition sort by ``item``; every key starts with its domain.

    A tuple, because its hash is taken hundreds of times in an epoch, and thousands of times in a wide cut.
    """

    domain: DomainName
    kind: Kind
    partition: str
    item: str


@dataclass(frozen=True, slots=True)
class Stamped(Generic[Record_co]):
    """A record as the store keeps it.

    :param key: its address.
    :param record: its body; never names its own CSN, version or time.
    :param version: changes with each write; never used twice for one key, also after a deletion.
    :param csn: commit sequence number of the transaction that wrote it; None when that took no number.
    :param at: the store's time of that write.
    """

    key: Key[Any]
    record: Record_co
    version: int
    csn: int | None
    at: datetime
