"""Deploy mode ``cluster`` on a real YARN: the driver runs in a container, in another folder with another HOME."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import EpochState
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Job, Table
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.operators.spark_submit import EpochSparkSubmitOperator
from airflow_provider.stores.factory import upgrade_schema
from demo.spark_connect import spark_home
from tests.airflow_runs import task_context
from tests.servers.directories import guarded_directory
from tests.servers.postgresql import USER, PostgresqlServer
from tests.servers.yarn import YarnCluster
from tests.services import yarn_jars
from tests.services.postgresql import postgresql

__all__ = ["postgresql"]

ROOT = Path(__file__).parents[2]
DAILY = Job("daily", outputs=[Table("rows")], cadence="@daily")
SIX_HOURLY = Job("six_hourly", outputs=[Table("rows")], cadence="0 */6 * * *")
SEVENTH = Interval(datetime(2013, 2, 7, tzinfo=UTC), datetime(2013, 2, 8, tzinfo=UTC))
WRITES = """
from airflow_provider.spark.epoch_run import epoch_runs
for epoch in epoch_runs():
    with epoch:
        epoch.write("rows", epoch.spark.range(5).selectExpr("id"))
"""
DIES = """
import os, signal
from airflow_provider.spark.launch_spec import received
received()
os.kill(os.getppid(), signal.SIGKILL)
"""
SLEEPS = """
import sys, time
from pathlib import Path
from airflow_provider.spark.launch_spec import received
from airflow_provider.spark.session import session
received()
session()
while True:
    Path(sys.argv[1]).touch()
    time.sleep(0.2)
"""


_made: list[EpochSparkSubmitOperator] = []


@pytest.fixture(autouse=True)
def _pipes() -> Iterator[None]:
    """Close what Airflow's hook leaves to the garbage collector: the pipe of its child."""
    yield
    while _made:
        hook = _made.pop()._hook
        if hook is not None and hook._submit_sp is not None:
            hook._submit_sp.wait()
            hook._submit_sp.stdout.close()


@pytest.fixture(scope="module")
def yarn() -> Iterator[YarnCluster]:
    if (jars := yarn_jars.jars()) is None:
        pytest.skip("Maven Central does not answer")
    with guarded_directory("epochs-yarn-") as home, YarnCluster(jars, home) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def password(
    yarn: YarnCluster, postgresql: PostgresqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Connections to YARN and to a store of the test's own; return the store's password."""
    database = postgresql.create_database()
    upgrade_schema(postgresql.url(database))
    connection: dict[str, Any] = {
        "conn_type": "epochs",
        "host": "127.0.0.1",
        "port": postgresql.port,
        "schema": database,
        "login": USER,
        "password": postgresql.password,
        "extra": {"backend": "postgresql", "warehouse": f"file://{tmp_path}/warehouse", "sslmode": "disable"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", json.dumps(connection))
    cluster = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(cluster))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.configuration))
    monkeypatch.setenv("SPARK_HOME", str(spark_home()))
    yarn.command(tmp_path)
    path = [str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    return postgresql.password


@pytest.fixture
def service() -> Iterator[EpochService]:
    with EpochsHook().get_conn() as opened:
        yield opened


def operator(folder: Path, program: str, *arguments: str, **options: Any) -> EpochSparkSubmitOperator:
    (folder / "program.py").write_text(program)
    python = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    conf = {
        "spark.yarn.jars": f"local:{spark_home()}/jars/*",
        "spark.yarn.stagingDir": f"file://{folder}/staging",
        "spark.executor.instances": "1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        **{f"spark.yarn.appMasterEnv.{name}": value for name, value in python.items()},
        **{f"spark.executorEnv.{name}": value for name, value in python.items()},
    }
    task = {"job": DAILY, "application": str(folder / "program.py"), "application_args": list(arguments)}
    made = EpochSparkSubmitOperator(task_id="compute", conf=conf, **{**task, **options})
    _made.append(made)
    return made


def count(service: EpochService) -> int:
    return service.cuts.read(service.cuts.cut("default", ["rows"]), "rows").num_rows


def states(service: EpochService) -> list[EpochState]:
    log = service.barriers(DAILY.domain, DAILY.name, SEVENTH)
    return [entry.record.state for entry in sorted(log, key=lambda entry: entry.at)]


def readable_by_others(path: Path, within: Path) -> bool:
    """Whether a user who owns nothing reads *path*, coming from *within*."""
    folders = path.parents[: path.parents.index(within)]
    return bool(path.stat().st_mode & 0o044) and all(folder.stat().st_mode & 0o011 for folder in folders)


@pytest.mark.parametrize("batch", [False, True])
def test_driver_in_a_container_finds_the_launch_spec(
    yarn: YarnCluster, tmp_path: Path, service: EpochService, password: str, *, batch: bool, capfd: Any
) -> None:
    options: dict[str, Any] = {"job": SIX_HOURLY, "batch": "@daily"} if batch else {}
    operator(tmp_path, WRITES, **options).execute(task_context())
    assert count(service) == (20 if batch else 5)
    assert not list(tmp_path.glob("staging/.sparkStaging/*"))
    assert not list(tmp_path.glob("epochs-launch-*"))
    shown = capfd.readouterr()
    assert password not in shown.out + shown.err
    holders = [
        path
        for path in yarn.home.rglob("*")
        if path.is_file() and not path.is_symlink() and password.encode() in path.read_bytes()
    ]
    assert [holder for holder in holders if not holder.name.startswith("launch-spec-")] == []
    assert [holder for holder in holders if readable_by_others(holder, yarn.home)] == []


def test_driver_that_died_is_not_started_again_but_by_the_next_try(
    tmp_path: Path, service: EpochService
) -> None:
    with pytest.raises(AirflowException):
        operator(tmp_path, DIES).execute(task_context())
    assert states(service)[-1] is EpochState.ABORTED
    operator(tmp_path, WRITES).execute(task_context(try_number=2))
    assert count(service) == 5


def test_ended_task_ends_its_application(tmp_path: Path, service: EpochService) -> None:
    beat = tmp_path / "beat"
    task = operator(tmp_path, SLEEPS, str(beat))
    running = ThreadPoolExecutor(max_workers=1).submit(task.execute, task_context())
    while not beat.exists():
        assert not running.done(), running.exception()
        time.sleep(0.2)
    assert shutil.which("yarn") is not None
    task.on_kill()
    assert isinstance(running.exception(), AirflowException)
    assert states(service)[-1] is EpochState.ABORTED
    deadline = time.monotonic() + 60
    while time.time() - beat.stat().st_mtime < 3:
        assert time.monotonic() < deadline, "the driver still runs"
        time.sleep(0.2)
