"""A compose file as its check reads it: services with their parts by name, and what is wrong with them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile
from typing import Any

from tests.services.compose import Document

POSTGRES, ZOOKEEPER, SEAWEEDFS = "postgres", "zookeeper", "chrislusf/seaweedfs"
OWN_IMAGE = "airflow-provider-epochs"

MIGRATES, UPGRADES = "airflow db migrate", "airflow epochs db upgrade"
SCHEDULER, API_SERVER = "airflow scheduler", "airflow api-server"
COMPONENTS = frozenset({SCHEDULER, API_SERVER, "airflow dag-processor", "airflow triggerer"})
"""What of Airflow runs for ever, and runs this package's and the DAGs' code."""

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
LANDS = "demo.landing"
OPENS_WAREHOUSE = COMPONENTS | {WORKER, CONNECT}
"""Roles of those that read and write the tables' files."""

READS_LANDING = frozenset({SCHEDULER, WORKER, CONNECT})
"""Roles of those that read the files that roots name: tasks and drivers list them, workers read them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong: which service, which of its settings (as the file names it), and what."""

    service: str
    setting: str
    problem: str

    def __str__(self) -> str:
        return f"{self.service}: {self.setting}: {self.problem}"


Findings = Iterator[Finding]


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of a service's ``volumes``. :param setting: where in the service it is."""

    source: str
    target: str
    read_only: bool
    setting: str

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of the repository; else it is a volume."""
        return self.source.startswith(".")


@dataclass(frozen=True)
class Service:
    """One service. :param given: as in the file, its variables put in."""

    name: str
    given: dict[str, Any]

    @property
    def image(self) -> str:
        return str(self.given.get("image", "")).rpartition(":")[0]

    @property
    def command(self) -> list[str]:
        return [str(word) for word in self.given.get("command", [])]

    @property
    def environment(self) -> Mapping[str, str]:
        return self.given.get("environment") or {}

    @property
    def health(self) -> list[str]:
        """The words of the health check's command, without its form."""
        test = self.given.get("healthcheck", {}).get("test", [])
        return shlex.split(test[1]) if test[:1] == ["CMD-SHELL"] else list(test[1:])

    @property
    def needs(self) -> Mapping[str, str]:
        """What it waits for, and until when."""
        return {name: how["condition"] for name, how in self.given.get("depends_on", {}).items()}

    @cached_property
    def mounts(self) -> tuple[Mount, ...]:
        lines = [str(line).split(":") for line in self.given.get("volumes", [])]
        return tuple(
            Mount(source, target, "ro" in mode, f"volumes[{index}]")
            for index, (source, target, *mode) in enumerate(lines)
        )

    def mounted_at(self, target: str) -> Mount | None:
        return next((mount for mount in self.mounts if mount.target == target), None)

    @property
    def role(self) -> str:
        """What it does: an Airflow command's words, the class of Spark, the module of Python, else the image."""
        words = self.command
        if self.image != OWN_IMAGE or not words:
            return self.image
        if words[0] == "airflow":
            return " ".join(takewhile(lambda word: not word.startswith("-"), words))
        marker = {"spark-class": words[0], "spark-submit": "--class", "python": "-m"}.get(words[0])
        return option(words, marker) if marker else words[0]


_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")


def seconds(text: str) -> float | None:
    """Return how long a duration of Compose is, None for what is none."""
    found = _DURATION.fullmatch(text)
    if not found or not text:
        return None
    return sum(
        float(part or 0) * unit for part, unit in zip(found.groups(), (3600, 60, 1, 0.001), strict=True)
    )


def option(words: list[str], *names: str) -> str:
    """Return the word after the first of *names*, empty when there is none."""
    return next((after for before, after in pairwise(words) if before in names), "")


@dataclass(frozen=True)
class Deployment:
    """The whole file. :param document: its variables put in."""

    document: Document

    @cached_property
    def services(self) -> dict[str, Service]:
        return {name: Service(name, given) for name, given in self.document["services"].items()}

    @cached_property
    def finishing(self) -> set[str]:
        """Names of the services that others wait for until they have ended."""
        conditions = [pair for service in self.services.values() for pair in service.needs.items()]
        return {name for name, condition in conditions if condition == "service_completed_successfully"}

    def with_role(self, *roles: str) -> list[Service]:
        return [service for service in self.services.values() if service.role in roles]

    def of_image(self, image: str) -> list[Service]:
        return [service for service in self.services.values() if service.image == image]

    @property
    def airflow(self) -> list[Service]:
        """Every service that runs a command of Airflow."""
        return [one for one in self.of_image(OWN_IMAGE) if one.command[:1] == ["airflow"]]


# --- ports ---------------------------------------------------------------------------------------------------

_HEALTH = "AIRFLOW__SCHEDULER__"
_GRPC = "spark.connect.grpc.binding.port="


def listens(given: dict[str, Any]) -> set[int]:
    """The ports that a service listens on, as its command and environment say."""
    return set(protocols(Service("", given)))


def protocols(service: Service) -> dict[int, str]:
    """What *service* speaks, by port: ``http``, ``postgresql``, ``zookeeper``, ``spark``, ``sc``."""
    words, environment = service.command, service.environment
    if service.image == POSTGRES:
        found = {"5432": "postgresql"}
    elif service.image == ZOOKEEPER:
        mine = ensemble(service).get(environment.get("ZOO_MY_ID", ""))
        found = dict(zip(mine[1:], ("quorum", "election", "zookeeper"), strict=True)) if mine else {}
    elif service.image == SEAWEEDFS:
        found = {word.removeprefix("-s3.port="): "http" for word in words if word.startswith("-s3.port=")}
    elif service.role in {MASTER, WORKER}:
        found = {option(words, "--port"): "spark", option(words, "--webui-port"): "http"}
    elif service.role == CONNECT:
        found = {word.removeprefix(_GRPC): "sc" for word in words if word.startswith(_GRPC)}
    elif service.role == API_SERVER:
        found = {environment.get("AIRFLOW__API__PORT", "8080"): "http"}
    elif service.role == SCHEDULER and environment.get(f"{_HEALTH}ENABLE_HEALTH_CHECK") == "True":
        found = {environment.get(f"{_HEALTH}SCHEDULER_HEALTH_CHECK_SERVER_PORT", "8974"): "http"}
    else:
        found = {}
    return {int(port): protocol for port, protocol in found.items() if port.isdecimal()}


def ensemble(service: Service) -> dict[str, tuple[str, ...]]:
    """The servers of ``ZOO_SERVERS``, by their ids: host, and the ports of quorum, election and clients."""
    entries = re.findall(
        r"server\.(\d+)=([^:\s]+):(\d+):(\d+);(\d+)(?:\s|$)", service.environment.get("ZOO_SERVERS", "")
    )
    return {number: tuple(rest) for number, *rest in entries}
