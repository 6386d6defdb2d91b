"""Cases: the catalog's pointers move with the transaction, or the store refuses them."""

from __future__ import annotations

import uuid

import pytest

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.stores.base import (
    CatalogSwap,
    Delete,
    MetadataStore,
    Put,
    RequirementFailed,
    StoreCapability,
    Transaction,
)
from airflow_provider.testing.store_cases.backend import (
    StoreBackend,
    StoreCases,
    commit,
    counter_key,
    everything,
    put,
)


def refused_without_catalog(store: MetadataStore, transaction: Transaction) -> bool:
    """Return whether the store has no catalog; if so, check that it refuses *transaction* as a whole."""
    if StoreCapability.CATALOG_SWAP in store.capabilities:
        return False
    with pytest.raises(InvalidInput, match=StoreCapability.CATALOG_SWAP):
        store.transact(transaction)
    assert store.read(transaction.domain, []).head.csn == 0
    return True


class CatalogCases(StoreCases):
    """Catalog swaps."""

    @pytest.fixture
    def namespace(self, backend: StoreBackend, store: MetadataStore) -> str:
        """A namespace with the tables ``one`` and ``two``, both at ``old``."""
        namespace = f"n{uuid.uuid4().hex}"
        if StoreCapability.CATALOG_SWAP in store.capabilities:
            backend.create_pointer(namespace, "one", "old")
            backend.create_pointer(namespace, "two", "old")
        return namespace

    def test_pointers_move_with_the_records(
        self, backend: StoreBackend, store: MetadataStore, domain: DomainName, namespace: str
    ) -> None:
        """R2: catalog pointers are part of the transaction."""
        swaps = [CatalogSwap(namespace, table, "old", f"new {table}") for table in ("one", "two")]
        transaction = Transaction(
            domain=domain, updates=(swaps[0], put(counter_key(domain)), swaps[1]), number=commit()
        )
        if refused_without_catalog(store, transaction):
            return
        assert store.transact(transaction).csn == 1
        assert backend.pointer(namespace, "one") == "new one"
        assert backend.pointer(namespace, "two") == "new two"
        assert counter_key(domain) in store.read(domain, [counter_key(domain)]).records

    def test_pointers_are_read_with_the_records(self, store: MetadataStore, namespace: str) -> None:
        """R17: in one snapshot, and only existing pointers that the caller asked for."""
        domain = DomainName(namespace)
        key = counter_key(domain)
        if StoreCapability.CATALOG_SWAP not in store.capabilities:
            with pytest.raises(InvalidInput, match=StoreCapability.CATALOG_SWAP):
                store.read(domain, [key], pointers=["one"])
            return
        assert store.read(domain, [], pointers=["one", "missing"]).pointers == {"one": "old"}
        swap = CatalogSwap(namespace, "two", "old", "new")
        store.transact(Transaction(domain=domain, updates=(put(key), swap), number=commit()))
        for _ in range(2):  # the second time, the record is known
            found = store.read(domain, [key, key], pointers=["two", "one", "two"])
            assert found.pointers == {"one": "old", "two": "new"}
            assert list(found.records) == [key]
            assert found.head.csn == 1
        assert store.read(domain, [key]).pointers == {}

    @pytest.mark.parametrize("position", range(3))
    def test_a_pointer_elsewhere_changes_nothing(
        self, backend: StoreBackend, store: MetadataStore, domain: DomainName, namespace: str, position: int
    ) -> None:
        table = "missing" if position == 1 else "two"
        before = everything(store, domain)
        broken = CatalogSwap(namespace, table, "elsewhere", "new")
        updates: list[Put | Delete | CatalogSwap] = [
            CatalogSwap(namespace, "one", "old", "new"),
            put(counter_key(domain)),
        ]
        updates.insert(position, broken)
        transaction = Transaction(domain=domain, updates=tuple(updates), number=commit(expected=99))
        if refused_without_catalog(store, transaction):
            return
        with pytest.raises(RequirementFailed) as failed:
            store.transact(transaction)
        assert failed.value.requirement == broken
        assert (failed.value.expected, failed.value.found) == ("elsewhere", "old" if table == "two" else None)
        assert everything(store, domain) == before
        assert backend.pointer(namespace, "one") == "old"

    def test_a_failed_requirement_moves_no_pointer(
        self, backend: StoreBackend, store: MetadataStore, domain: DomainName, namespace: str
    ) -> None:
        """R2: a transaction applies wholly or not at all."""
        swap = CatalogSwap(namespace, "one", "old", "new")
        transaction = Transaction(domain=domain, updates=(swap,), number=commit(expected=2))
        if refused_without_catalog(store, transaction):
            return
        with pytest.raises(RequirementFailed) as failed:
            store.transact(transaction)
        assert failed.value.found == 1
        assert backend.pointer(namespace, "one") == "old"
        with pytest.raises(InvalidInput, match="at most one update"):
            store.transact(Transaction(domain=domain, updates=(swap, swap)))
        assert backend.pointer(namespace, "one") == "old"
