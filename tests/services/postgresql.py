"""A private PostgreSQL for a run of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider.testing.servers.directories import guarded_directory
from airflow_provider.testing.servers.postgresql import PostgresqlServer, binaries


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A server for the whole run; each test module makes databases of its own."""
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed: apt-get install postgresql")
    with (
        guarded_directory("epochs-pg-") as directory,
        PostgresqlServer(programs=programs, directory=directory) as server,
    ):
        yield server
