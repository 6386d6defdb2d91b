"""Backend that a store's author provides to the contract suite, and helpers of its cases."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.domain.identifiers import ChangeSetId, DomainName
from airflow_provider.domain.records import Key, Kind
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.stores.base import (
    Absent,
    Exists,
    MetadataStore,
    Number,
    Put,
    Receipt,
    SameStore,
    Transaction,
)
from airflow_provider.testing.store_cases.samples import bare

SOON = timedelta(milliseconds=50)
LATER = timedelta(seconds=20)


class StoreBackend(ABC):
    """A place for records, empty or not: the cases use domains of their own."""

    @abstractmethod
    def open(self) -> MetadataStore:
        """Return another store on the same records."""

    @abstractmethod
    def plant(self, key: Key[Any], body: bytes) -> None:
        """Overwrite the body of the record at *key*, bypassing the store."""

    def opener(self) -> Callable[[], MetadataStore] | None:
        """Return a function that can be pickled and opens the store in another process.

        None for a store of one process.
        """
        return None

    def create_pointer(self, namespace: str, table: str, pointer: str) -> None:
        """Create a table in the catalog; only for stores with the catalog's pointers in their transactions."""
        raise NotImplementedError

    def pointer(self, namespace: str, table: str) -> str | None:
        """Return the pointer of a table of the catalog; None without the table."""
        raise NotImplementedError


class StoreCases:
    """The fixtures of all cases; a suite overrides :meth:`backend`."""

    @pytest.fixture
    def backend(self) -> StoreBackend:
        """The backend under test."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, backend: StoreBackend) -> Iterator[MetadataStore]:
        """A store on the backend."""
        with backend.open() as store:
            yield store

    @pytest.fixture
    def domain(self) -> DomainName:
        """A domain that no other case uses."""
        return DomainName(f"case-{uuid.uuid4().hex}")


def counter_key(domain: DomainName, name: str = "counter", partition: str = "") -> Key[Any]:
    """Return the key of a record that holds one number."""
    return Key(domain, Kind.TOPOLOGY, partition, name)


def put(key: Key[Any], number: int = 1) -> Put:
    """Return the update that writes a number at *key*."""
    return Put(key, TopologyRecord(generation=number))


def commit(name: str = "change", expected: int | None = None) -> Number:
    """Return the request for the next CSN, with a commit of the change set *name*."""
    record = replace(bare(Kind.COMMIT), change_set=ChangeSetId(name))
    return Number(record, expected)


def write(
    store: MetadataStore,
    *updates: Put,
    requires: Sequence[Exists | Absent] = (),
    number: Number | None = None,
) -> Receipt:
    """Apply *updates*, all of one domain."""
    transaction = Transaction(
        domain=updates[0].key.domain, requires=tuple(requires), updates=updates, number=number
    )
    return store.transact(transaction)


def publish(
    store: MetadataStore,
    domain: DomainName,
    name: str = "change",
    expected: int | None = None,
    incarnation: str | None = None,
) -> Receipt:
    """Take a CSN and write nothing else."""
    decided_in = None if incarnation is None else SameStore(incarnation)
    return store.transact(Transaction(domain=domain, store=decided_in, number=commit(name, expected)))


def everything(store: MetadataStore, domain: DomainName) -> object:
    """Return the head and all records of *domain* that cases write, with their stamps."""
    partitions = ("", "a", "b")
    records = [store.scan(domain, kind, partition) for kind in Kind for partition in partitions]
    return store.read(domain, []).head, records
