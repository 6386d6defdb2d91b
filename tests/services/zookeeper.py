"""Private ZooKeeper servers for a run of the tests; each test or module uses a chroot of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.stores.factory import upgrade_schema
from airflow_provider.stores.zookeeper.address import parsed
from airflow_provider.stores.zookeeper.store import ZookeeperStore
from tests.servers.directories import guarded_directory
from tests.servers.zookeeper import ZookeeperEnsemble, ZookeeperServer, class_path


@pytest.fixture(scope="session")
def zookeeper_directory() -> Iterator[Path]:
    """Where the servers keep what they have."""
    if class_path() is None:
        pytest.skip("no ZooKeeper can be started: it needs java, and pyspark's jars")
    with guarded_directory("epochs-zk-") as directory:
        yield directory


@pytest.fixture(scope="session")
def zookeeper(zookeeper_directory: Path) -> Iterator[ZookeeperServer]:
    """One server."""
    with ZookeeperServer(directory=zookeeper_directory / "one") as server:
        yield server


@pytest.fixture(scope="session")
def zookeeper_ensemble(zookeeper_directory: Path) -> Iterator[ZookeeperEnsemble]:
    """An ensemble of three. A test that kills a server starts it again."""
    with ZookeeperEnsemble(zookeeper_directory / "three") as ensemble:
        yield ensemble


@pytest.fixture
def url(zookeeper: ZookeeperServer) -> str:
    """An empty store with its layout, under a chroot of its own."""
    url = zookeeper.url()
    upgrade_schema(url)
    return url


@pytest.fixture
def store(url: str) -> Iterator[ZookeeperStore]:
    """A client of it."""
    with ZookeeperStore(parsed(url)).open() as store:
        yield store
