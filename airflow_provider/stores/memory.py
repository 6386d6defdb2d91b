"""A metadata store in the memory of one process: for tests, simulations and trying things out.

Stores of the same name share everything, as connections to one server do; their contents last as long as
the process, or until :func:`forget`. The module also has the catalog with the pointers of memory tables.
"""

from __future__ import annotations

import uuid
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Condition, RLock
from typing import Any

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.format_marks import FORMAT
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, Stamped, commit_item
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores import codec
from airflow_provider.stores.base import (
    CatalogSwap,
    Exists,
    Head,
    MetadataStore,
    Number,
    Reading,
    Receipt,
    RequirementFailed,
    StoreCapability,
    Transaction,
    commit_key,
)
from airflow_provider.stores.remembering import Remembered
from airflow_provider.stores.requests import CheckedTransaction, check_keys, check_scan, checked

Now = Callable[[], datetime]


def system_time() -> datetime:
    return datetime.now(UTC)


class MemoryCatalog:
    """Pointers of the memory tables: what an Iceberg SQL catalog is to Iceberg tables.

    All methods are atomic. :attr:`objects` stands for the warehouse: memory tables keep there, by URI, the
    objects that pointers and places name.
    """

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._pointers: dict[tuple[str, str], str] = {}
        self.objects: dict[str, Any] = {}

    def pointer(self, namespace: str, table: str) -> str | None:
        """Return the table's pointer, None if the table does not exist."""
        with self._lock:
            return self._pointers.get((namespace, table))

    def create(self, namespace: str, table: str, pointer: str) -> str:
        """Create the table with *pointer* unless it exists; return its pointer.

        Of two racing calls one wins, and both get the winner's pointer.
        """
        with self._lock:
            return self._pointers.setdefault((namespace, table), pointer)

    def move(self, namespace: str, table: str, expected: str, new: str) -> bool:
        """Move the table's pointer to *new* if it is *expected*; return whether it was."""
        with self._lock:
            if self._pointers.get((namespace, table)) != expected:
                return False
            self._pointers[namespace, table] = new
            return True

    def drop(self, namespace: str, table: str) -> None:
        """Remove the table's pointer; without effect if the table does not exist."""
        with self._lock:
            self._pointers.pop((namespace, table), None)

    def remove(self, namespace: str, table: str, expected: str) -> bool:
        """Remove the table's pointer if it is *expected*; return whether it was."""
        with self._lock:
            is_there = self._pointers.get((namespace, table)) == expected
            if is_there:
                del self._pointers[namespace, table]
            return is_there

    def tables(self, namespace: str) -> list[str]:
        """Return the names of the namespace's tables, sorted."""
        with self._lock:
            return sorted(table for space, table in self._pointers if space == namespace)

    def apply(self, swaps: Sequence[CatalogSwap]) -> None:
        """Move the pointers that a transaction swaps. The caller has checked them, and holds the lock since."""
        with self._lock:
            for swap in swaps:
                self._pointers[swap.namespace, swap.table] = swap.new


@dataclass(slots=True)
class _Entry:
    body: bytes
    version: int
    csn: int | None
    at: datetime


@dataclass(slots=True)
class _Server:
    """State that the stores of one name share; ``lock``, which ``changed`` uses too, guards all of it."""

    incarnation: str = field(default_factory=lambda: uuid.uuid4().hex)
    format: int = FORMAT
    lock: RLock = field(default_factory=RLock)
    entries: dict[Key[Any], _Entry] = field(default_factory=dict)
    items: defaultdict[tuple[DomainName, Kind, str], list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )
    heads: dict[DomainName, int] = field(default_factory=dict)
    last_version: int = 0
    changed: Condition = field(init=False)
    catalog: MemoryCatalog = field(init=False)

    def __post_init__(self) -> None:
        self.changed = Condition(self.lock)
        self.catalog = MemoryCatalog(self.lock)

    def put(self, key: Key[Any], entry: _Entry) -> None:
        if key not in self.entries:
            insort(self.items[key.domain, key.kind, key.partition], key.item)
        self.entries[key] = entry

    def delete(self, key: Key[Any]) -> None:
        if self.entries.pop(key, None) is not None:
            items = self.items[key.domain, key.kind, key.partition]
            del items[bisect_left(items, key.item)]


_servers: dict[str, _Server] = {}
_servers_lock = RLock()


def _server(name: str) -> _Server:
    with _servers_lock:
        return _servers.setdefault(name, _Server())


def forget(name: str) -> None:
    """Drop the contents of the stores called *name*: open stores keep them, new ones begin empty."""
    with _servers_lock:
        _servers.pop(name, None)


def memory_catalog(name: str) -> MemoryCatalog:
    """Return the catalog of the stores called *name*."""
    return _server(name).catalog


class MemoryStore(MetadataStore):
    """A store in memory.

    :param name: stores of one name share everything; None for a store that shares nothing.
    :param now: the store's clock, so that a test or a simulation can set it.
    """

    capabilities = frozenset(
        {
            StoreCapability.WATCH,
            StoreCapability.SNAPSHOT_READ,
            StoreCapability.CATALOG_SWAP,
            StoreCapability.LARGE_TRANSACTIONS,
        }
    )

    def __init__(self, name: str | None = None, *, now: Now = system_time) -> None:
        self._name = uuid.uuid4().hex if name is None else name
        self._server = _server(self._name) if name is not None else _Server()
        self._now = now
        self._closed = False
        self._remembered = Remembered()

    @property
    def format(self) -> int:
        return self._server.format

    def __repr__(self) -> str:
        return f"MemoryStore(memory://{self._name})"

    @property
    def catalog(self) -> MemoryCatalog:
        """The pointers that a :class:`CatalogSwap` moves."""
        return self._server.catalog

    def new_incarnation(self) -> str:
        """Give the stores of this name a new identity; return it (R33)."""
        with self._open() as server:
            server.incarnation = uuid.uuid4().hex
            return server.incarnation

    # --- reading ---------------------------------------------------------------------------------------------

    def read(self, domain: DomainName, keys: Sequence[Key[Any]], *, pointers: Sequence[str] = ()) -> Reading:
        check_keys(domain, keys)
        with self._open() as server:
            head = Head(server.heads.get(domain, 0), server.incarnation)
            now = self._now()
            found = {key: server.entries[key] for key in keys if key in server.entries}
            named = {table: server.catalog.pointer(domain, table) for table in pointers}
        return Reading(
            head,
            now,
            {key: self._stamped(key, entry) for key, entry in found.items()},
            {table: location for table, location in named.items() if location is not None},
        )

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
        check_scan(domain, partition, start, end, limit)
        with self._open() as server:
            items = server.items.get((domain, kind, partition), [])
            low = 0 if start is None else bisect_left(items, start)
            high = len(items) if end is None else bisect_left(items, end)
            wanted = items[low:high]
            if reverse:
                wanted.reverse()
            keys = [Key(domain, kind, partition, item) for item in wanted[:limit]]
            found = [(key, server.entries[key]) for key in keys]
        return [self._stamped(key, entry) for key, entry in found]

    def _stamped(self, key: Key[Any], entry: _Entry) -> Stamped[Any]:
        known = self._remembered.get(key)
        if known is not None and known.version == entry.version:
            return known
        record = codec.decode(key, entry.body)
        return self._remembered.keep(Stamped(key, record, entry.version, entry.csn, entry.at))

    def changes(self, domain: DomainName, after: int, *, limit: int = 1000) -> list[Stamped[CommitRecord]]:
        return self.scan(domain, Kind.COMMIT, "", start=commit_item(after + 1), limit=limit)

    def domains(self) -> list[DomainName]:
        with self._open() as server:
            return sorted({domain for (domain, _, _), items in server.items.items() if items})

    def watch(self, domain: DomainName, after: int, timeout: timedelta) -> int:
        with self._open() as server:
            server.changed.wait_for(
                lambda: self._closed or server.heads.get(domain, 0) > after, max(0.0, timeout.total_seconds())
            )
            self._refuse_closed()
            return server.heads.get(domain, 0)

    # --- changing --------------------------------------------------------------------------------------------

    def transact(self, transaction: Transaction) -> Receipt:
        request = checked(transaction, self.capabilities, self._server.format)
        with self._open() as server:
            _require(server, request)
            csn = _next_number(server, request.domain, transaction.number)
            return self._apply(server, request, csn)

    def _apply(self, server: _Server, request: CheckedTransaction, csn: int | None) -> Receipt:
        at = self._now()
        server.catalog.apply(request.swaps)
        server.last_version += 1
        version = server.last_version
        for put, body in request.puts:
            server.put(put.key, _Entry(body, version, csn, at))
        for key in request.deletes:
            server.delete(key)
        if csn is not None and request.commit is not None:
            server.put(commit_key(request.domain, csn), _Entry(request.commit[1], version, csn, at))
            server.heads[request.domain] = csn
            server.changed.notify_all()
        return Receipt(csn=csn, at=at, versions={put.key: version for put, _ in request.puts})

    def close(self) -> None:
        with self._server.changed:
            self._closed = True
            self._server.changed.notify_all()

    @contextmanager
    def _open(self) -> Iterator[_Server]:
        with self._server.lock:
            self._refuse_closed()
            yield self._server

    def _refuse_closed(self) -> None:
        if self._closed:
            raise InvalidInput(
                field="store", value=self, expected="an open store", next_step="open it again."
            )


def _require(server: _Server, request: CheckedTransaction) -> None:
    """Check the store, the requirements and the swaps of *request*, in this order.

    :raises RequirementFailed: for the first that does not hold.
    """
    if request.store is not None and request.store.incarnation != server.incarnation:
        raise RequirementFailed.of(request.store, server.incarnation)
    for requirement in request.requires:
        entry = server.entries.get(requirement.key)
        found = None if entry is None else entry.version
        if found != (requirement.version if isinstance(requirement, Exists) else None):
            raise RequirementFailed.of(requirement, found)
    for swap in request.swaps:
        pointer = server.catalog.pointer(swap.namespace, swap.table)
        if pointer != swap.expected:
            raise RequirementFailed.of(swap, pointer)


def _next_number(server: _Server, domain: DomainName, number: Number | None) -> int | None:
    if number is None:
        return None
    csn = server.heads.get(domain, 0) + 1
    if number.expected not in (None, csn):
        raise RequirementFailed.of(number, csn)
    return csn
