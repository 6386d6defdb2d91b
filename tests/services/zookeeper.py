"""Private ZooKeeper servers for a run of the tests; each test or module uses a chroot of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.testing.servers.zookeeper import ZookeeperEnsemble, ZookeeperServer, class_path

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made there is made by tempfile


@pytest.fixture(scope="session")
def zookeeper_directory() -> Iterator[Path]:
    """Where the servers keep what they have."""
    if class_path() is None:
        pytest.skip("no ZooKeeper can be started: it needs java, and pyspark's jars")
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="epochs-zk-", dir=parent) as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def zookeeper(zookeeper_directory: Path) -> Iterator[ZookeeperServer]:
    """One server."""
    with ZookeeperServer(directory=zookeeper_directory / "one") as server:
        yield server


@pytest.fixture(scope="session")
def zookeeper_ensemble(zookeeper_directory: Path) -> Iterator[ZookeeperEnsemble]:
    """An ensemble of three. Whoever kills one of them starts it again."""
    with ZookeeperEnsemble(zookeeper_directory / "three") as ensemble:
        yield ensemble
