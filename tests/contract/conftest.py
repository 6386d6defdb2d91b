"""Worlds for the tests of the coordination: one store of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.stores.factory import open_store
from tests.contract.coordination_world import Backend, World
from tests.services.directories import quick_directory
from tests.services.postgresql import postgresql
from tests.services.zookeeper import zookeeper, zookeeper_directory, zookeeper_ensemble

__all__ = ["postgresql", "zookeeper", "zookeeper_directory", "zookeeper_ensemble"]  # fixtures of this folder


@pytest.fixture(scope="session")
def empty_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite store with its schema and nothing in it."""
    path = tmp_path_factory.mktemp("template") / "store.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """A directory whose files need not reach a disk, where there is one: thousands of commits are made here."""
    with quick_directory("epochs-tests-") as directory:
        yield directory


@pytest.fixture(params=["memory", "sqlite", "sqlite elsewhere"])
def backend(request: Any, quick_path: Path, empty_sqlite: Path) -> Backend:
    """Memory tables on the memory store and on SQLite, there also with pointers that follow."""
    return Backend(request.param, quick_path, empty_sqlite)


@pytest.fixture
def world(backend: Backend) -> Iterator[World]:
    """An empty domain."""
    world = backend.world()
    yield world
    world.close()


@pytest.fixture(params=["memory", "sqlite", "iceberg", "iceberg elsewhere"])
def table_world(request: Any, quick_path: Path, empty_sqlite: Path) -> Iterator[World]:
    """An empty domain, also with Iceberg tables."""
    world = Backend(request.param, quick_path, empty_sqlite).world()
    yield world
    world.close()
