"""The stores that are measured: each on a server of its own that is started for the run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider.stores.factory import upgrade_schema
from tests.servers.directories import guarded_directory
from tests.servers.postgresql import PostgresqlServer, binaries
from tests.servers.zookeeper import ZookeeperEnsemble, ZookeeperServer


@dataclass(frozen=True, kw_only=True, slots=True)
class Store:
    """A running store, empty, with its schema.

    :param name: as it stands in the figures' names.
    """

    name: str
    url: str


def directory(name: str) -> AbstractContextManager[Path]:
    """A directory on the disk of temporary files: what a commit costs there belongs to the measurement.

    Nothing of it is left when the run is killed, and no server.
    """
    return guarded_directory(f"epochs-bench-{name}-", on_disk=True)


@contextmanager
def _sqlite() -> Iterator[Store]:
    with directory("sqlite") as path:
        url = f"sqlite:///{path}/store.db"
        upgrade_schema(url)
        yield Store(name="sqlite", url=url)


@contextmanager
def _postgresql() -> Iterator[Store]:
    programs = binaries()
    if programs is None:
        raise FileNotFoundError("no PostgreSQL server is installed: apt-get install postgresql")
    with (
        directory("postgresql") as path,
        PostgresqlServer(programs=programs, directory=path) as server,
    ):
        url = server.url(server.create_database())
        upgrade_schema(url)
        yield Store(name="postgresql", url=url)


@contextmanager
def _zookeeper_1() -> Iterator[Store]:
    with directory("zookeeper") as path, ZookeeperServer(directory=path) as server:
        yield _zookeeper("zookeeper_1", server.url())


@contextmanager
def _zookeeper_3() -> Iterator[Store]:
    with directory("zookeeper") as path, ZookeeperEnsemble(path) as ensemble:
        yield _zookeeper("zookeeper_3", ensemble.url())


def _zookeeper(name: str, url: str) -> Store:
    upgrade_schema(url)
    return Store(name=name, url=url)


STORES: Mapping[str, Callable[[], AbstractContextManager[Store]]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "zookeeper_1": _zookeeper_1,
    "zookeeper_3": _zookeeper_3,
}
"""What starts each store, by its name in the figures."""


def place() -> str:
    """Say what the measurements were made on."""
    return f"{os.cpu_count()} cores, files in {tempfile.gettempdir()}"
