"""A private PostgreSQL for a run of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from airflow_provider.stores.factory import upgrade_schema
from tests.servers.directories import guarded_directory
from tests.servers.postgresql import PostgresqlServer, binaries


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


@dataclass(frozen=True, slots=True)
class Pair:
    """A primary with a database that is a store, and a hot standby that follows it."""

    primary: PostgresqlServer
    standby: PostgresqlServer
    database: str

    @property
    def url(self) -> str:
        """The address of both; the standby is named first."""
        servers = f"127.0.0.1:{self.standby.port},127.0.0.1:{self.primary.port}"
        return self.primary.url(self.database).replace(f"127.0.0.1:{self.primary.port}", servers)


@pytest.fixture
def postgresql_pair() -> Iterator[Pair]:
    """Two servers of a test's own, which it may end and promote."""
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed: apt-get install postgresql")
    with (
        guarded_directory("epochs-pg-a-") as ours,
        guarded_directory("epochs-pg-b-") as theirs,
        PostgresqlServer(programs=programs, directory=ours) as primary,
    ):
        database = primary.create_database()
        upgrade_schema(primary.url(database))
        standby = primary.standby(theirs)
        yield Pair(primary, standby, database)
        standby.stop("immediate")
