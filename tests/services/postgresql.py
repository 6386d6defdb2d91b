"""A private PostgreSQL for a run of the tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.testing.servers.postgresql import PostgresqlServer, binaries


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A server for the whole run; each test module makes databases of its own."""
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed: apt-get install postgresql")
    shared_memory = Path("/dev/shm")  # noqa: S108 - what is made there is made by tempfile
    parent = shared_memory if shared_memory.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="epochs-pg-", dir=parent) as directory,
        PostgresqlServer(programs=programs, directory=Path(directory)) as server,
    ):
        yield server
