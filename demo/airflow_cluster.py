"""A real Airflow on this machine: API server, scheduler, DAG processor and triggerer, each a process.

Its home holds everything it writes: secrets, logs, and the metadata database unless a server has it.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from demo.airflow_rest import AirflowRest
from demo.ports import Endpoint
from demo.processes import ManagedProcess, ProcessFailedError, ask_to_end, end

READY_TIMEOUT_S = 120.0
KEY_FILE = ".key"
COMPONENTS: dict[str, list[str]] = {
    "api-server": ["--host", "127.0.0.1"],
    "scheduler": ["--skip-serve-logs"],
    "dag-processor": [],
    "triggerer": ["--skip-serve-logs"],
}
"""Airflow's commands, with their arguments."""
WARM = {"scheduler": "demo.scheduler"}
"""Of a command: the module that is the same, but spares tasks their imports."""
QUICK = {
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
}
"""A scheduler that looks more often than once a second, for a short run. DAG files are parsed as by default."""

WORKER_PYTHON = Path(__file__).resolve().parent.parent / "scripts" / "worker-python"
"""The interpreter of Spark's workers: PYSPARK_DRIVER_PYTHON, but it starts sooner."""


class AirflowCluster:
    """Airflow with the LocalExecutor, on 127.0.0.1.

    :param home: folder that its processes belong to, made when it is absent; AIRFLOW_HOME is ``airflow`` in it.
    :param dags: folder of the DAG files.
    :param port: of the API server and the UI.
    :param parallelism: tasks that run at the same time.
    :param database: SQLAlchemy's URL of the metadata database; None for SQLite in *home*.
    :param quick: as a demo wants it: a scheduler that looks more often, and has imported what its tasks need; False
        for Airflow's defaults.
    :param environment: added to every component's environment, and so to every task's.
    :param python_path: folders that DAGs, tasks and triggers import from.
    """

    def __init__(
        self,
        *,
        home: Path,
        dags: Path,
        port: int,
        parallelism: int = 12,
        database: str | None = None,
        quick: bool = True,
        environment: Mapping[str, str] | None = None,
        python_path: list[Path] | None = None,
    ) -> None:
        self.home = home
        self.airflow_home = home / "airflow"
        self.port = port
        self.endpoint = Endpoint(number=port, purpose="Airflow's API server and UI", setting="DEMO_PORT")
        self.base_url = f"http://127.0.0.1:{port}"
        self.rest = AirflowRest(self.base_url)
        self._database = database
        self._secret = self._kept_secret()
        self._warm = WARM if quick else {}
        self.environment = {
            **own_environment(python_path or []),
            **self._settings(dags=dags, parallelism=parallelism),
            **(QUICK if quick else {}),
            **(environment or {}),
        }
        self.components = {name: self._process(name, arguments) for name, arguments in COMPONENTS.items()}

    def migrate(self) -> None:
        """Make or upgrade the metadata database.

        :raises ProcessFailedError: when ``airflow db migrate`` fails.
        """
        self.airflow_home.mkdir(parents=True, exist_ok=True)
        self._keep_secret()
        self._process("db", ["migrate"], log="airflow-db-migrate").run()
        if self._database is not None:
            return
        with closing(sqlite3.connect(self.airflow_home / "airflow.db")) as database:
            database.execute("PRAGMA journal_mode=WAL")

    def start(self) -> None:
        """Start the components that do not run, without waiting."""
        for component in self.components.values():
            component.start()

    def wait_until_healthy(self, *, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every component says that it is healthy, to this cluster's own API server.

        :raises PortInUseError: when another process has taken the API server's port meanwhile.
        :raises ProcessFailedError: when one ends, or the time is over, before that.
        """
        deadline = time.monotonic() + timeout_s
        self.endpoint.wait_for(self.components["api-server"], timeout_s=timeout_s)
        while not self.rest.healthy():
            self.check()
            if time.monotonic() > deadline:
                server = self.components["api-server"]
                reason = f"did not report a healthy Airflow within {timeout_s:.0f} s"
                raise ProcessFailedError(name=server.name, reason=reason, log=server.log)
            time.sleep(0.3)

    def run(
        self, *words: str, timeout_s: float = 900.0, program: str = "airflow"
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of ``airflow`` to its end; return what it printed, whatever its exit code.

        :param program: module that is run in its place.
        """
        return subprocess.run(
            [sys.executable, "-m", program, *words],
            env=self.environment,
            cwd=self.home,
            text=True,
            capture_output=True,
            check=False,
            timeout=timeout_s,
        )

    def check(self) -> None:
        """Say so when a component has ended.

        :raises ProcessFailedError: naming it.
        """
        for component in self.components.values():
            component.check()

    def stop(self) -> None:
        """Stop all components; those that do not end in time are killed."""
        self.rest.close()
        ask_to_end(self.components.values())
        end(self.components.values())

    def _process(self, command: str, arguments: list[str], *, log: str | None = None) -> ManagedProcess:
        started = [self._warm[command]] if command in self._warm else ["airflow", command]
        return ManagedProcess(
            name=log or f"airflow-{command}",
            command=[sys.executable, "-m", *started, *arguments],
            environment=self.environment,
            home=self.home,
        )

    def _settings(self, *, dags: Path, parallelism: int) -> dict[str, str]:
        """Airflow's configuration; what differs from a production's is said beside it."""
        return {
            "AIRFLOW_HOME": str(self.airflow_home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": str(parallelism),
            "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "5",
            "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.base_url}/execution/",
            # Each user of this machine is an admin: the server listens on 127.0.0.1 only.
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__API__BASE_URL": self.base_url,
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API_AUTH__JWT_SECRET": self._secret,
            "AIRFLOW__API__SECRET_KEY": self._secret,
            **self._database_settings(),
            # Airflow 3.3.2 marks waiting tasks failed when a late message arrives; this makes it rare.
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
            # A busy machine's API server may answer a task late; the default of 5 s fails it.
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
        }

    def _database_settings(self) -> dict[str, str]:
        if self._database is None:
            # SQLite's own five seconds are over on a busy machine, and a scheduler ends when its database is locked.
            url = f"sqlite:///{self.airflow_home / 'airflow.db'}?timeout=60"
            return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url}
        # Airflow would take another driver for what it does asynchronously: psycopg serves both.
        names = ("SQL_ALCHEMY_CONN", "SQL_ALCHEMY_CONN_ASYNC")
        return {f"AIRFLOW__DATABASE__{name}": self._database for name in names}

    def _kept_secret(self) -> str:
        """Give the secret that all components share: the home's, or a new one that :meth:`migrate` keeps there."""
        path = self.airflow_home / KEY_FILE
        return path.read_text() if path.exists() else secrets.token_urlsafe(32)

    def _keep_secret(self) -> None:
        path = self.airflow_home / KEY_FILE
        path.touch(mode=0o600)
        path.write_text(self._secret)


def own_environment(python_path: list[Path]) -> dict[str, str]:
    """Give this process's environment without settings of Airflow and Spark that it was started with.

    The interpreter's own folder leads PATH, since Airflow's hook starts ``spark-submit`` by name.
    """
    theirs = ("AIRFLOW_", "AIRFLOW__", "SPARK_", "PYSPARK_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    folder = str(Path(sys.executable).parent)
    return {
        **kept,
        "PATH": os.pathsep.join([folder, kept.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(str(path) for path in python_path),
        "PYTHONUNBUFFERED": "1",
        "PYSPARK_PYTHON": str(WORKER_PYTHON),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
