"""The contract of a metadata store.

A store keeps typed, versioned records and changes several of them in one conditional transaction. Begin,
publish, leases and the rest of the protocol are written once, above this contract. One such transaction fits
into one SQL transaction as well as into one ZooKeeper ``multi``.

Rules for every store:

* A transaction applies wholly or not at all, and is durable when it returns.
* The store stamps what it writes: version, time, and the CSN when the transaction takes a number (R3).
* CSNs of a domain are 1, 2, 3 … without gaps; when a reader sees CSN c it sees all before it.
* A version of a key is never used twice, also after the record was deleted and made again.
* All times are the store's own (R23).
* Errors of drivers never leave the store: :class:`~airflow_provider.domain.errors.StoreUnavailable` when
  nothing can have happened, :class:`~airflow_provider.domain.errors.OutcomeUnknown` when it may have.
* A record that cannot be decoded raises :class:`~airflow_provider.domain.errors.StoreIncompatible`; it is
  never skipped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from types import TracebackType
from typing import Any, Self, TypeVar

from airflow_provider.domain.errors import RetryableError
from airflow_provider.domain.format_marks import FORMAT
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import KINDS, Key, Kind, Stamped, commit_item
from airflow_provider.domain.version import CommitRecord

Record = TypeVar("Record")

CATALOG_NAME = "epochs"
"""Name of the Iceberg catalog whose pointers a :class:`CatalogSwap` moves."""

FIRST_CHARACTER = "\x01"
"""The smallest character that a key may contain: ``item + FIRST_CHARACTER`` is the least item above *item*."""


class StoreCapability(StrEnum):
    """Features of a store beyond the contract."""

    WATCH = "watch"
    """``watch`` is woken by the commit itself instead of by polling."""
    SNAPSHOT_READ = "snapshot read"
    """All records of one ``read`` come from one snapshot."""
    CATALOG_SWAP = "atomic with an Iceberg catalog"
    """:class:`CatalogSwap` is part of the transaction."""
    CLUSTER = "cluster-wide"
    """Clients on several hosts may use it."""
    LARGE_TRANSACTIONS = "large transactions"
    """One transaction may write the records of thousands of epochs."""


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a domain's commit sequence. A domain that the store has not seen has CSN 0."""

    csn: int
    incarnation: str


@dataclass(frozen=True, slots=True)
class Reading:
    """Answer of :meth:`MetadataReader.read`: the head was read before the records.

    :param pointers: the metadata location of each catalog table that was asked for and exists.
    """

    head: Head
    now: datetime
    records: Mapping[Key[Any], Stamped[Any]] = field(default_factory=dict)
    pointers: Mapping[str, str] = field(default_factory=dict)

    def get(self, key: Key[Record]) -> Stamped[Record] | None:
        return self.records.get(key)

    def of(self, key: Key[Record]) -> Stamped[Record]:
        """Return the record at *key*, which exists."""
        return self.records[key]


@dataclass(frozen=True, slots=True)
class Exists:
    """Requirement that *key* exists at *version*."""

    key: Key[Any]
    version: int


@dataclass(frozen=True, slots=True)
class Absent:
    """Requirement that *key* does not exist."""

    key: Key[Any]


@dataclass(frozen=True, slots=True)
class Put:
    """Update that writes *record* at *key*, whether or not the key exists."""

    key: Key[Any]
    record: Any


@dataclass(frozen=True, slots=True)
class Delete:
    """Update that removes *key*; without effect if the key does not exist."""

    key: Key[Any]


@dataclass(frozen=True, slots=True)
class CatalogSwap:
    """Update that moves a table's pointer in the Iceberg catalog from *expected* to *new* (compare-and-set)."""

    namespace: str
    table: str
    expected: str
    new: str


@dataclass(frozen=True, slots=True)
class Number:
    """Request to take the domain's next CSN and to append *commit* at it.

    :param expected: the CSN that the transaction must get, because table metadata written beforehand carries it
        (docs/decisions/expected-csn.md); None for any.
    """

    commit: CommitRecord
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class SameStore:
    """Requirement that the store still has *incarnation*, under which the transaction was decided (R33)."""

    incarnation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Transaction:
    """Requirements plus updates. All keys are of *domain*; a key is updated at most once.

    :param store: incarnation under which the transaction was decided; None for any. A restored store gives out the
        same versions again, so that the requirements alone cannot tell the two histories apart.
    """

    domain: DomainName
    store: SameStore | None = None
    requires: tuple[Exists | Absent, ...] = ()
    updates: tuple[Put | Delete | CatalogSwap, ...] = ()
    number: Number | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """Answer of :meth:`MetadataStore.transact`.

    :param csn: the number taken; None for a transaction without one.
    :param at: the store's time, which is also the stamp of everything written.
    :param versions: the new version of each key that was put.
    """

    csn: int | None
    at: datetime
    versions: Mapping[Key[Any], int]


Requirement = SameStore | Exists | Absent | CatalogSwap | Number
"""Parts of a transaction that the store can refuse."""


@dataclass(kw_only=True, eq=False, repr=False)
class RequirementFailed(RetryableError):
    """A requirement did not hold; nothing was changed.

    :param requirement: the requirement.
    :param expected: version, CSN, pointer or incarnation that it names; None for absent.
    :param found: what the store has instead; None for absent.
    """

    requirement: Requirement
    expected: int | str | None
    found: int | str | None

    @classmethod
    def of(cls, requirement: Requirement, found: int | str | None) -> Self:
        """Build the error for *requirement*; the store has *found* instead."""
        subject, expected = _required(requirement)
        return cls(
            f"{subject}: expected {_or_absent(expected)}, found {_or_absent(found)}; nothing was changed.",
            next_step="read again, decide again, and send a new transaction.",
            requirement=requirement,
            expected=expected,
            found=found,
        )


def _required(requirement: Requirement) -> tuple[str, int | str | None]:
    match requirement:
        case SameStore(incarnation):
            return "incarnation of the store", incarnation
        case Exists(key, version):
            return f"record {key}", version
        case Absent(key):
            return f"record {key}", None
        case CatalogSwap(namespace, table, pointer, _):
            return f"catalog pointer of {namespace}.{table}", pointer
        case Number(_, csn):
            return "next commit sequence number", csn


def _or_absent(value: int | str | None) -> str:
    return "nothing" if value is None else repr(value)


class MetadataReader(ABC):
    """Read-only interface of a store; sensors, readers, the UI and ``status`` get no other."""

    capabilities: frozenset[StoreCapability] = frozenset()

    @property
    def format(self) -> int:
        """Format of the records in this store; fields and kinds of a later one need `airflow epochs db upgrade`.

        It only rises. A store of an older format is asked each time: another process may have upgraded it.
        """
        return FORMAT

    @abstractmethod
    def read(self, domain: DomainName, keys: Sequence[Key[Any]], *, pointers: Sequence[str] = ()) -> Reading:
        """Return the head, the store's time and those of *keys* that exist, in one round trip.

        The head is read first: a record stamped later than it is newer than the head.

        :param pointers: tables of *domain* in the Iceberg catalog whose pointers are read as well, where a
            :class:`CatalogSwap` can move them.
        :raises InvalidInput: *pointers* were given, and the store has no catalog.
        :raises StoreUnavailable: the store did not answer within its deadline.
        :raises StoreIncompatible: a record cannot be decoded, or the schema is older or newer.
        """

    @abstractmethod
    def scan(
        self,
        domain: DomainName,
        kind: Kind,
        partition: str,
        *,
        start: str | None = None,
        end: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[Stamped[Any]]:
        """Return the records of a partition with ``start <= item < end``, sorted by item.

        :param limit: maximum number of records, counted in the order asked for.
        :param reverse: sort from the greatest item down.
        :raises StoreUnavailable: as in :meth:`read`.
        """

    @abstractmethod
    def changes(self, domain: DomainName, after: int, *, limit: int = 1000) -> list[Stamped[CommitRecord]]:
        """Return the commits with a CSN above *after*, sorted by CSN."""

    @abstractmethod
    def domains(self) -> list[DomainName]:
        """Return the domains that have a record, sorted."""

    @abstractmethod
    def watch(self, domain: DomainName, after: int, timeout: timedelta) -> int:
        """Wait until the head is above *after* or *timeout* has passed; return the head's CSN.

        The call may return early. It never misses a commit that was made before it.
        """


class MetadataStore(MetadataReader):
    """Interface of a store that reads and writes; only coordination gets it."""

    @abstractmethod
    def transact(self, transaction: Transaction) -> Receipt:
        """Check all requirements and apply all updates, atomically.

        Order of checks: the store, requirements in their order, the catalog swaps, the number. The first that fails is
        reported. Not idempotent by itself: a caller that repeats a transaction must require the state that the first
        try changes.

        :raises RequirementFailed: a requirement did not hold; says expected and found; nothing was changed.
        :raises StoreUnavailable: nothing was changed.
        :raises OutcomeUnknown: the reply was lost; the transaction may have been applied.
        :raises InvalidInput: a key of another domain, a key updated twice, a record of the wrong type or too
            large; nothing was changed.
        """

    def publish_queue(self, domain: DomainName, timeout: timedelta) -> AbstractContextManager[None]:  # noqa: ARG002 - a hint
        """Queue the publishers of *domain*: return a context that only one of them is in, as far as possible.

        A hint, on which no decision depends (docs/decisions/publish-queue.md). A publisher that has waited for
        *timeout* enters beside the others, so that a paused holder does not block the domain; a store without a queue
        lets all publishers in at once. It never raises.
        """
        return nullcontext()

    @abstractmethod
    def close(self) -> None:
        """Close the connections; the store must not be used afterwards. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def commit_key(domain: DomainName, csn: int) -> Key[CommitRecord]:
    """Return the key of the commit record that took *csn*; only :class:`Number` writes there."""
    return Key(domain, Kind.COMMIT, "", commit_item(csn))


def unchanged(reading: Reading, key: Key[Any]) -> Exists | Absent:
    """Build the requirement that *key* still is as *reading* found it: at the same version, or absent."""
    stamped = reading.get(key)
    return Absent(key) if stamped is None else Exists(key, stamped.version)


def scan(
    reader: MetadataReader,
    domain: DomainName,
    record: type[Record],
    partition: str = "",
    *,
    start: str | None = None,
    end: str | None = None,
    limit: int | None = None,
    reverse: bool = False,
) -> list[Stamped[Record]]:
    """Scan a partition with records of the type *record*, as :meth:`MetadataReader.scan` does."""
    return reader.scan(domain, KINDS[record], partition, start=start, end=end, limit=limit, reverse=reverse)


def pages(
    reader: MetadataReader,
    domain: DomainName,
    record: type[Record],
    partition: str = "",
    *,
    start: str | None = None,
    size: int = 500,
) -> Iterator[Stamped[Record]]:
    """Scan a partition of any length, page by page."""
    while True:
        page = scan(reader, domain, record, partition, start=start, limit=size)
        yield from page
        if len(page) < size:
            return
        start = page[-1].key.item + FIRST_CHARACTER
