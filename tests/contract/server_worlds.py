"""Worlds on real servers: memory tables on PostgreSQL and ZooKeeper, in a time that only moves when it is told to."""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import RLock
from typing import Any

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, Stamped
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores.base import MetadataStore, Reading, Receipt, Transaction
from airflow_provider.stores.memory import MemoryCatalog
from airflow_provider.testing.manual_clock import ManualClock
from airflow_provider.testing.store_contract import StoreBackend
from tests.contract.coordination_world import DOMAIN, Backend, World, memory_tables
from tests.contract.test_postgresql_contract import PostgresqlBackend
from tests.contract.test_zookeeper_contract import ZookeeperBackend
from tests.servers.pointers import StoreCatalog
from tests.servers.zookeeper import ZookeeperEnsemble, ZookeeperServer


class ServerTime(ManualClock):
    """A manual clock for a server that has its own: what the server did between two moves was at one moment.

    :param store: tells the server's time, which is noted at each move.
    """

    def __init__(self, store: MetadataStore) -> None:
        super().__init__()
        self._store = store
        self._lock = RLock()
        self._latest = store.read(DOMAIN, []).now
        self._moves: list[datetime] = []
        self._moments = [self.now()]

    def of(self, at: datetime) -> datetime:
        """What this clock said when the server's said *at*."""
        with self._lock:
            self._latest = max(self._latest, at)
            return self._moments[bisect_right(self._moves, at)]

    def advance(self, duration: timedelta) -> None:
        """Move on, when the server's time is later than all that it has stamped."""
        with self._lock:
            now = self._latest
            while now <= self._latest:
                now = self._store.read(DOMAIN, []).now
            super().advance(duration)
            self._latest = now
            self._moves.append(now)
            self._moments.append(self.now())


class TimedStore(MetadataStore):
    """A server's store with the times of *clock* in place of the server's."""

    def __init__(self, inner: MetadataStore, clock: ServerTime) -> None:
        self._inner = inner
        self._clock = clock
        self.capabilities = inner.capabilities

    def _timed(self, stamped: Stamped[Any]) -> Stamped[Any]:
        return replace(stamped, at=self._clock.of(stamped.at))

    @property
    def format(self) -> int:
        return self._inner.format

    def read(self, domain: DomainName, keys: Sequence[Key], **options: Any) -> Reading:
        found = self._inner.read(domain, keys, **options)
        records = {key: self._timed(stamped) for key, stamped in found.records.items()}
        return replace(found, now=self._clock.of(found.now), records=records)

    def scan(self, domain: DomainName, kind: Kind, partition: str, **options: Any) -> list[Stamped[Any]]:
        return [self._timed(stamped) for stamped in self._inner.scan(domain, kind, partition, **options)]

    def changes(self, domain: DomainName, after: int, *, limit: int = 1000) -> list[Stamped[CommitRecord]]:
        return [self._timed(change) for change in self._inner.changes(domain, after, limit=limit)]

    def domains(self) -> list[DomainName]:
        return self._inner.domains()

    def watch(self, domain: DomainName, after: int, timeout: timedelta) -> int:
        return self._inner.watch(domain, after, timeout)

    def transact(self, transaction: Transaction) -> Receipt:
        receipt = self._inner.transact(transaction)
        return replace(receipt, at=self._clock.of(receipt.at))

    def publish_queue(self, domain: DomainName, timeout: timedelta) -> AbstractContextManager[None]:
        return self._inner.publish_queue(domain, timeout)

    def close(self) -> None:
        self._inner.close()


class WorldPostgresql(PostgresqlBackend):
    """One database for many worlds, one after the other."""

    def empty(self) -> None:
        self.execute(
            "WITH a AS (DELETE FROM epochs_record), b AS (DELETE FROM epochs_head) DELETE FROM iceberg_tables"
        )

    def restored(self) -> None:
        """Give the store another incarnation, as a restore does."""
        self.execute("UPDATE epochs_store SET incarnation = %s", uuid.uuid4().hex)


class WorldZookeeper(ZookeeperBackend):
    """A chroot for each world."""

    def restored(self) -> None:
        """Give the store another incarnation, as a restore does."""
        self.client.set(self.paths.incarnation, uuid.uuid4().hex.encode())


Place = Callable[[], tuple[StoreBackend, MemoryCatalog, Callable[[], None]]]
"""Gives an empty place for a store, the catalog beside it, and what closes both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBackend(Backend):
    """Worlds on a server: "postgresql" moves the pointers in its own transactions, on "zookeeper" they follow.

    With "iceberg" before its name they have Iceberg tables.

    :param place: gives one for each world.
    """

    place: Place

    def world(self) -> World:
        server, pointers, close = self.place()
        store = server.open()
        clock = ServerTime(store)
        if self.name.startswith("iceberg"):
            warehouse = self.directory / uuid.uuid4().hex
            formats = self.open_formats(server.url, f"file://{warehouse}")
            world = World(TimedStore(store, clock), formats, pointers, clock)
            world.table_format, world.warehouse = "iceberg", warehouse
        else:
            formats = memory_tables(pointers, swaps=isinstance(pointers, StoreCatalog))
            world = World(TimedStore(store, clock), formats, pointers, clock)
        world.server = server
        world.cleanup = close
        return world


def postgresql_place(backend: WorldPostgresql) -> Place:
    """Places in the database of *backend*, emptied for each."""

    def place() -> tuple[StoreBackend, MemoryCatalog, Callable[[], None]]:
        backend.empty()
        pointers = StoreCatalog(backend.url)
        return backend, pointers, pointers.close

    return place


def zookeeper_place(server: ZookeeperServer | ZookeeperEnsemble) -> Place:
    """Places on *server*, a chroot each; pointers lie elsewhere."""

    def place() -> tuple[StoreBackend, MemoryCatalog, Callable[[], None]]:
        backend = WorldZookeeper(server)
        return backend, MemoryCatalog(RLock()), backend.close

    return place
