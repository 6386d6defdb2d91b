"""The services of ``docker-compose.yml`` as processes of this host: their own commands, variables and health checks.

What differs from containers is put in: every service's name is 127.0.0.1, its ports are free ones, and folders of the
image are folders of a home. The S3 server is given, and ZooKeeper's servers are, where they are used.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from demo.airflow_cluster import own_environment
from demo.airflow_rest import AirflowRest
from demo.processes import ManagedProcess, ask_to_end, end, end_owned_by
from demo.spark_connect import QUICK_JVM
from tests.servers.directories import guarded_directory
from tests.servers.ports import free_port
from tests.servers.postgresql import USER, PostgresqlServer
from tests.services import compose
from tests.services.compose import ROOT

SPARK = ("spark-master", "spark-worker-1", "spark-worker-2", "spark-connect")
AIRFLOW = ("airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer")
PORTS = {
    "postgres": (5432,),
    "zk1": (2181,),
    "zk2": (2181,),
    "zk3": (2181,),
    "s3": (8333,),
    "spark-master": (7077, 8090),
    "spark-worker-1": (8091,),
    "spark-worker-2": (8091,),
    "spark-connect": (15002,),
    "airflow-api-server": (8080,),
    "airflow-scheduler": (8974,),
}
"""Ports that commands, addresses and health checks of the compose file name: each becomes a free one of this host."""

READY_TIMEOUT_S = 400.0
_HOST_AND_PORT = re.compile(r"(?<![\w.-])([a-z][a-z0-9-]*)(:|', |\", \"port\": )(\d{2,5})\b")
_QUICK = {
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "5",
    "AIRFLOW__API__HOST": "127.0.0.1",
    "AIRFLOW__API__WORKERS": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_HOST": "127.0.0.1",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
}
"""Each user of this host is an admin, nothing listens beyond it, and nothing waits long."""

_QUICK_SPARK = {
    "spark.ui.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.defaultJavaOptions": QUICK_JVM,
    "spark.executor.defaultJavaOptions": QUICK_JVM,
}


class NativeDeployment:
    """Services of the compose file; :meth:`start` runs them all, :meth:`stop` ends them.

    :param home: an empty folder for all that they write.
    :param programs: directory of PostgreSQL's programs: it gets a server of its own, with the roles of a deployment.
    :param warehouse: instead of the one in the compose file's connections.
    :param ports: of services that are given: the S3 server, ZooKeeper's servers.
    :param files: more compose files, merged over the first.
    """

    def __init__(
        self,
        *,
        home: Path,
        programs: Path,
        warehouse: str | None = None,
        ports: Mapping[tuple[str, int], int] | None = None,
        files: Sequence[Path] = (),
    ) -> None:
        self.home = home
        self.secrets = {name: secrets.token_hex(32) for name in compose.secret_names()}
        self.secrets["AIRFLOW_FERNET_KEY"] = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
        raw = compose.raw(compose.FILE, *files)
        document = compose.interpolated(raw, {**self.secrets, **compose.versions()})
        self.services = document["services"]
        self._started = ExitStack()
        # Not below home, which may be this user's alone: root's server runs as another user
        folder = self._started.enter_context(guarded_directory("epochs-pg-"))
        self._database = PostgresqlServer(programs=programs, directory=folder)
        self._warehouse = warehouse
        self._ports = {(name, port): free_port() for name, own in PORTS.items() for port in own}
        self._ports |= {("postgres", 5432): self._database.port, **(ports or {})}
        self._folders = {
            "/opt/epochs/conf": home / "conf",
            "/opt/epochs": home / "code",
            "/srv/nyc": home / "srv",
            "/tmp/spark": home / "spark",  # noqa: S108 - a folder of the image
        }
        self._processes: dict[str, ManagedProcess] = {}
        self.rest = AirflowRest(f"http://127.0.0.1:{self.port('airflow-api-server', 8080)}")

    def port(self, service: str, port: int) -> int:
        """The port of this host for one of a service."""
        return self._ports[service, port]

    def environment(self, service: str) -> dict[str, str]:
        """The variables of a service, as they are on this host."""
        given = {
            name: self._here(service, text)
            for name, text in self.services[service].get("environment", {}).items()
        }
        return {
            **own_environment([]),
            **given,
            **_QUICK,
            "AIRFLOW_HOME": str(self.home / "airflow"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), given.get("PYTHONPATH", "")]),
        }

    def command(self, service: str) -> list[str]:
        """The program and arguments of a service, as they are on this host."""
        words = [self._here(service, str(word)) for word in self.services[service]["command"]]
        words = ["127.0.0.1" if word in self.services else word for word in words]
        return self._program([word.replace("=0.0.0.0", "=127.0.0.1") for word in words])

    def start(self) -> None:
        """Start all, in the order in which the compose file lets them.

        :raises demo.processes.ProcessFailedError: one ends with an error, or does not get healthy.
        """
        for package in ("dags", "spark_jobs", "demo"):
            (self.home / "code").mkdir(exist_ok=True)
            (self.home / "code" / package).symlink_to(ROOT / package)
        self._write_spark_settings()
        self._started.enter_context(self._database)
        self._make_roles()
        self._start("spark-master", *SPARK[1:3])
        self.run("landing")
        self.wait_until_healthy(*SPARK[:3])
        self._start("spark-connect")
        self.run("airflow-init")
        self.run("epochs-init")
        self._start(*AIRFLOW)
        self.wait_until_healthy("postgres", *SPARK, "airflow-api-server", "airflow-scheduler")
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self.rest.healthy():
            self.check(deadline)

    def run(self, service: str) -> None:
        """Run a service that ends."""
        self._process(service).run()

    def check(self, deadline: float, waits_for: str = "Airflow") -> None:
        """Wait a moment; say so when a process has ended or the time is over."""
        for process in self._processes.values():
            process.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{waits_for} is not healthy in time; logs are in {self.home / 'logs'}")
        time.sleep(0.3)

    def wait_until_healthy(self, *services: str) -> None:
        """Run the health checks of the compose file until each succeeds."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        for service in services:
            while not self.healthy(service):
                self.check(deadline, service)

    def healthy(self, service: str) -> bool:
        """Run the health check of a service once."""
        form, *words = self.services[service]["healthcheck"]["test"]
        assert form == "CMD", f"{service}: its check is for a shell of the container"
        command = self._program([self._here(service, word) for word in words])
        try:
            return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def stop(self) -> None:
        """Stop all, and whatever belongs to the home."""
        self.rest.close()
        ask_to_end(self._processes.values())
        end(self._processes.values())
        end_owned_by(self.home)
        self._started.close()

    def log(self, service: str) -> str:
        """What a service has written."""
        return (self.home / "logs" / f"{service}.log").read_text()

    def _write_spark_settings(self) -> None:
        """The deployment's own, and a few lines for quick starts."""
        shutil.copytree(ROOT / "deploy" / "spark", self.home / "conf")
        with (self.home / "conf" / "spark-defaults.conf").open("a") as lines:
            lines.writelines(f"{name} {value}\n" for name, value in _QUICK_SPARK.items())

    def _make_roles(self) -> None:
        environment = {
            **os.environ,
            **self.environment("postgres"),
            "POSTGRES_USER": USER,
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self._database.port),
            "PGPASSWORD": self._database.password,
        }
        for script in sorted((ROOT / "deploy" / "postgresql").iterdir()):
            subprocess.run([str(script)], env=environment, check=True)

    def _start(self, *services: str) -> None:
        for service in services:
            self._processes[service] = self._process(service)
            self._processes[service].start()

    def _process(self, service: str) -> ManagedProcess:
        return ManagedProcess(
            name=service, command=self.command(service), environment=self.environment(service), home=self.home
        )

    def _program(self, words: list[str]) -> list[str]:
        if words[0] == "airflow":
            return [sys.executable, "-m", *words]
        if words[0] == "python":
            return [sys.executable, *words[1:]]
        beside = Path(sys.executable).parent / words[0]
        return [str(beside) if beside.exists() else shutil.which(words[0]) or words[0], *words[1:]]

    def _here(self, service: str, text: str) -> str:
        """*text* of a service with this host's addresses and folders."""
        for folder, place in self._folders.items():
            text = text.replace(folder, str(place / service if folder == "/tmp/spark" else place))  # noqa: S108
        if self._warehouse is not None:
            text = text.replace("s3://warehouse/epochs", self._warehouse)
        text = _HOST_AND_PORT.sub(lambda found: self._address(service, found), text)
        for name, port in self._ports:
            if name == service and not _HOST_AND_PORT.search(text):
                text = re.sub(rf"(?<![\d.]){port}\b(?![.\d])", str(self._ports[name, port]), text)
        return text

    def _address(self, service: str, found: re.Match[str]) -> str:
        host, between, port = found[1], found[2], int(found[3])
        if host == "localhost":
            owners = [name for name, inside in self._ports if inside == port and name == service]
            owners += [
                name
                for name, declared in self.services.items()
                if f":{port}:{port}" in str(declared.get("ports"))
            ]
            host = owners[0]
        return f"127.0.0.1{between}{self._ports[host, port]}"
