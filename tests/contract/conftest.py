"""Worlds for the tests of the coordination: one store of its own for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider.tables.factory import open_formats
from tests.anomalies.schedules import OF_ROWS, schedule_of
from tests.contract.coordination_world import Backend, World
from tests.contract.lakes import Lake
from tests.contract.server_worlds import ServerBackend, WorldPostgresql, postgresql_place, zookeeper_place
from tests.contract.statement_worlds import FormatsOpener, statement_formats
from tests.servers.hive import HiveMetastore
from tests.servers.iceberg_rest import RestCatalogServer
from tests.servers.postgresql import PostgresqlServer
from tests.services import iceberg_runtime
from tests.services.directories import quick_directory
from tests.services.postgresql import postgresql
from tests.services.spark import classic_spark
from tests.services.stores import empty_sqlite_file
from tests.services.zookeeper import zookeeper, zookeeper_directory, zookeeper_ensemble

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["postgresql", "zookeeper", "zookeeper_directory", "zookeeper_ensemble"]  # fixtures of this folder


@pytest.fixture(scope="session")
def empty_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite store with its schema and nothing in it."""
    path = tmp_path_factory.mktemp("template") / "store.db"
    path.write_bytes(empty_sqlite_file())
    return path


@pytest.fixture(scope="session")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    """A Hive metastore, for tables that are cleared by each test which uses it."""
    with HiveMetastore(tmp_path_factory.mktemp("hive")) as server:
        yield server


@pytest.fixture(scope="session")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalogServer]:
    """A REST catalog, for tables that are cleared by each test which uses it."""
    if (jar := iceberg_runtime.jar()) is None:
        pytest.skip("Maven Central does not answer")
    if shutil.which("javac") is None:
        pytest.skip("no Java compiler is installed: apt-get install default-jdk-headless")
    with RestCatalogServer(jar, tmp_path_factory.mktemp("rest")) as server:
        yield server


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """A directory whose files need not reach a disk, where there is one: thousands of commits are made here."""
    with quick_directory("epochs-tests-") as directory:
        yield directory


EMBEDDED = ("memory", "memory elsewhere", "sqlite")
BOTH = "sqlite elsewhere"
"""What the last two have each of, where all of the coordination runs besides in the slow tier."""
TABLES = ("memory", "sqlite", "iceberg", "iceberg elsewhere")
FILES = ("iceberg", "iceberg elsewhere")
"""Those of the last four whose tables have files, which other programs write."""
QUICK = ("memory", "iceberg")
"""Of these, what `make test-quick` runs."""
SERVERS = ("postgresql", "zookeeper")
MORE = ("zookeeper x3", "iceberg", "iceberg postgresql")
"""Where the named schedules of docs/anomalies.md run besides."""
BY_STATEMENTS = ("iceberg statements", "iceberg statements postgresql")
"""Where those of rows run when `make anomalies` asks for it: Spark writes them."""
ALWAYS_ON_SERVERS = frozenset({"attempts", "leases", "participants", "races", "retention"})
"""Modules ``test_coordination_…`` whose worlds are on servers and on SQLite in every run; those of others in the slow
tier. So are, on SQLite, the named schedules.
"""
NEVER_ON_SERVERS = frozenset({"crashes", "lost_replies"})
"""Modules that copy worlds as they are at a moment, which a server's cannot be."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of the coordination on every store, unless their module has a backend of its own.

    A test that makes a hundred worlds by itself is on servers only in the slow tier. So are those with
    ``table_world``, and all of them only if they are a named schedule.
    """
    _, is_coordination, name = metafunc.module.__name__.rpartition("test_coordination_")
    if "backend" not in metafunc.fixturenames or not is_coordination or hasattr(metafunc.module, "backend"):
        return
    with_files = "file_world" in metafunc.fixturenames
    with_tables = with_files or "table_world" in metafunc.fixturenames
    schedule = schedule_of(metafunc.function.__name__)
    is_schedule = schedule is not None
    embedded = FILES if with_files else TABLES if with_tables else EMBEDDED
    servers = SERVERS if name not in NEVER_ON_SERVERS and (is_schedule or not with_tables) else ()
    more = [kind for kind in MORE if servers and is_schedule and kind not in embedded]
    if with_files:
        servers, more = (), [kind for kind in more if kind.startswith("iceberg")]
    if not with_tables:
        more.append(BOTH)
    asked = metafunc.config.getoption("worlds", "").split(",")
    of_rows = schedule in OF_ROWS
    by_statements = [kind for kind in BY_STATEMENTS if of_rows and kind in asked]
    always = name in ALWAYS_ON_SERVERS and "world" in metafunc.fixturenames
    marks = () if always else (pytest.mark.slow,)
    on_sqlite = always or is_schedule or name in NEVER_ON_SERVERS
    marks_of = {"sqlite": pytest.mark.thorough if on_sqlite else pytest.mark.slow}
    worlds = [
        *(
            world if world in QUICK else pytest.param(world, marks=marks_of.get(world, pytest.mark.thorough))
            for world in embedded
        ),
        *(pytest.param(server, marks=marks) for server in servers),
        *(pytest.param(world, marks=pytest.mark.slow) for world in more),
        *by_statements,
    ]
    left_out = _left_out(metafunc.config)
    wanted = [world for world in worlds if isinstance(world, str) or not left_out & _marks(world)]
    metafunc.parametrize("backend", wanted, indirect=True)


def _left_out(config: pytest.Config) -> set[str]:
    """Return the marks whose tests this run leaves out: to make thousands and drop them takes a quarter of its time."""
    chosen = config.option.markexpr
    if "not thorough" in chosen:
        return {"thorough", "slow"}
    return {"slow"} if "not slow" in chosen else set()


def _marks(world: Any) -> set[str]:
    """Return the names of the marks of a parameter that ``pytest.param`` made."""
    return {mark.name for mark in world.marks}


@pytest.fixture(scope="module")
def world_database(postgresql: PostgresqlServer) -> WorldPostgresql:
    """A database for the worlds of a module."""
    return WorldPostgresql(postgresql)


@pytest.fixture
def backend(request: pytest.FixtureRequest, quick_path: Path, empty_sqlite: Path) -> Backend:
    """Memory tables on every store, with pointers in it and with pointers that follow; Iceberg tables on SQL."""
    name = request.param
    formats: FormatsOpener = open_formats
    if "statements" in name:
        formats = statement_formats(request.getfixturevalue("runtime_session"))
    if "postgresql" in name:
        place = postgresql_place(request.getfixturevalue("world_database"))
    elif "zookeeper" in name:
        fixture = "zookeeper_ensemble" if name == "zookeeper x3" else "zookeeper"
        place = zookeeper_place(request.getfixturevalue(fixture))
    else:
        return Backend(name, quick_path, empty_sqlite, open_formats=formats)
    return ServerBackend(name, quick_path, empty_sqlite, place=place, open_formats=formats)


@pytest.fixture(scope="session")
def runtime_session() -> Iterator[SparkSession]:
    """Spark with Iceberg's own runtime."""
    jar = iceberg_runtime.jar()
    assert jar is not None, "Iceberg's Spark runtime is missing: run scripts/prepare-iceberg"
    with classic_spark("local[1]", {"spark.jars": str(jar)}) as session:
        yield session


@pytest.fixture
def world(backend: Backend) -> Iterator[World]:
    """An empty domain."""
    world = backend.world()
    yield world
    world.close()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """An Iceberg table of others, with a catalog of its own."""
    opened = Lake(tmp_path / "others")
    yield opened
    opened.close()


@pytest.fixture
def table_world(world: World) -> World:
    """An empty domain, also with Iceberg tables."""
    return world


@pytest.fixture
def file_world(world: World) -> World:
    """An empty domain with Iceberg tables."""
    return world
