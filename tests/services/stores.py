"""Empty metadata stores for tests, on whichever server."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest

from airflow_provider.stores.factory import open_store, upgrade_schema

EVERY_STORE = (
    "memory",
    "sqlite",
    "postgresql",
    "zookeeper",
    pytest.param("zookeeper_ensemble", marks=pytest.mark.slow),
)
"""Stores for :func:`empty_store`, and the one in memory; that on three servers in the slow tier."""


@functools.cache
def empty_sqlite_file() -> bytes:
    """A SQLite store with its schema and nothing in it: what makes one is done once."""
    with tempfile.TemporaryDirectory(prefix="epochs-tests-") as directory:
        path = Path(directory) / "store.db"
        open_store(f"sqlite:///{path}").close()
        return path.read_bytes()


def empty_store(name: str, request: pytest.FixtureRequest, directory: Path) -> str:
    """The URL of a new store with its schema.

    :param name: ``sqlite``, or the fixture of the server: ``postgresql``, ``zookeeper``, ``zookeeper_ensemble``.
    :param directory: for a SQLite file.
    """
    if name == "sqlite":
        url = f"sqlite:///{directory}/store.db"
    else:
        server = request.getfixturevalue(name)
        url = str(server.url(server.create_database()) if name == "postgresql" else server.url())
    upgrade_schema(url)
    return url
