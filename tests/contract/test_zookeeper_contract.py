"""The store contract on real ZooKeeper servers: one, and an ensemble of three."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from airflow_provider.domain.records import Key
from airflow_provider.stores.base import MetadataStore
from airflow_provider.stores.factory import open_store, upgrade_schema
from airflow_provider.stores.zookeeper.address import parsed
from airflow_provider.stores.zookeeper.nodes import new_transaction, packed
from airflow_provider.stores.zookeeper.paths import Paths
from airflow_provider.testing.store_contract import StoreBackend, StoreContract
from tests.servers.zookeeper import ZookeeperEnsemble, ZookeeperServer


class ZookeeperBackend(StoreBackend):
    """A chroot."""

    def __init__(self, server: ZookeeperServer | ZookeeperEnsemble) -> None:
        self.url = server.url()
        self.paths = Paths(parsed(self.url).chroot)
        upgrade_schema(self.url)
        self._hosts = server.hosts

    @functools.cached_property
    def client(self) -> KazooClient:
        """A client that acts behind the store's back."""
        client = KazooClient(hosts=self._hosts)
        client.start()
        return client

    def close(self) -> None:
        if "client" in vars(self):
            self.client.stop()
            self.client.close()

    def open(self) -> MetadataStore:
        return open_store(self.url)

    def opener(self) -> Callable[[], MetadataStore]:
        return functools.partial(open_store, self.url)

    def plant(self, key: Key, body: bytes) -> None:
        self.client.set(self.paths.record(key), packed(body, None, new_transaction()))


@pytest.fixture(scope="module")
def one_server(zookeeper: ZookeeperServer) -> Iterator[ZookeeperBackend]:
    backend = ZookeeperBackend(zookeeper)
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def three_servers(zookeeper_ensemble: ZookeeperEnsemble) -> Iterator[ZookeeperBackend]:
    backend = ZookeeperBackend(zookeeper_ensemble)
    yield backend
    backend.close()


class TestZookeeperStore(StoreContract):
    """One server, all cases under one chroot."""

    @pytest.fixture
    def backend(self, one_server: ZookeeperBackend) -> StoreBackend:
        return one_server


class TestZookeeperStoreOnThree(StoreContract):
    """Three servers, all cases under one chroot."""

    @pytest.fixture
    def backend(self, three_servers: ZookeeperBackend) -> StoreBackend:
        return three_servers
