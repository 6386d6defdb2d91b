"""Real Spark for these tests: a classic local session and a Connect server, each started when first asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from airflow_provider.coordination.service import EpochService, Settings
from demo.spark_connect import SparkConnectServer, write_configuration
from tests.servers.ports import free_port
from tests.services import iceberg_runtime
from tests.services.spark import UNCLOSED, classic_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[2,3]"
"""Two cores; a task may fail twice before its job does."""


IN_BOTH_SESSIONS = frozenset(
    {"test_spark_columns", "test_spark_epoch_run", "test_spark_reads", "test_spark_views"}
)
"""Modules whose tests run in a classic and in a Connect session; those of others run in the second in the slow tier."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test with a session each kind of it, unless the test names its own or the module has another session."""
    named = any("spark" in marker.args[0] for marker in metafunc.definition.iter_markers("parametrize"))
    if "spark" in metafunc.fixturenames and not named and not hasattr(metafunc.module, "spark"):
        _, _, module = metafunc.module.__name__.rpartition(".")
        marks = () if module in IN_BOTH_SESSIONS else pytest.mark.slow
        metafunc.parametrize("spark", ["classic", pytest.param("connect", marks=marks)], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them may use Spark."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.filterwarnings(UNCLOSED))


def spark_jars() -> str:
    """The jars that can be had of those that tests add to Spark, as its setting has them."""
    return ",".join(str(jar) for jar in (iceberg_runtime.jar(), iceberg_runtime.driver()) if jar)


@pytest.fixture
def runtime_jar() -> None:
    """Iceberg's Spark runtime, in both kinds of session."""
    if iceberg_runtime.jar() is None:
        pytest.skip("Iceberg's Spark runtime cannot be had: Maven Central does not answer")


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkConnectServer]:
    home = tmp_path_factory.mktemp("spark-connect")
    write_configuration(home / "conf")
    if jars := spark_jars():
        with (home / "conf" / "spark-defaults.conf").open("a") as defaults:
            defaults.write(f"spark.jars {jars}\n")
    environment = {**os.environ, "SPARK_CONF_DIR": str(home / "conf")}
    server = SparkConnectServer(home=home, port=free_port(), environment=environment, master=MASTER)
    server.start()
    try:
        server.wait_until_ready(timeout_s=900)
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def classic_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark-warehouse"))}
    if jars := spark_jars():
        settings["spark.jars"] = jars
    with classic_spark(MASTER, settings) as session:
        yield session


@pytest.fixture(scope="session")
def connect_session(connect_server: SparkConnectServer) -> Iterator[SparkSession]:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    session = ConnectSession.builder.remote(connect_server.url).getOrCreate()
    yield cast("SparkSession", session)
    session.stop()


@pytest.fixture
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session of the kind that the test has; settings that the test changes are put back."""
    session: SparkSession = request.getfixturevalue(f"{request.param}_session")
    names = ("spark.sql.session.timeZone", "spark.sql.files.ignoreMissingFiles")
    before = {name: session.conf.get(name, None) for name in names}
    yield session
    for name, value in before.items():
        session.conf.set(name, value) if value is not None else session.conf.unset(name)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A store and a warehouse of the test's own."""
    return Settings(store_url=f"sqlite:///{tmp_path}/store.db", warehouse=f"{tmp_path}/warehouse")


@pytest.fixture
def service(settings: Settings) -> Iterator[EpochService]:
    with EpochService.open(settings) as opened:
        yield opened
