"""What every image is: facts about it that are neither in the compose file nor in this repository."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.architecture.deployment.model import (
    COMPONENTS,
    OWN_IMAGE,
    POSTGRES,
    SCHEDULER,
    SEAWEEDFS,
    ZOOKEEPER,
    Deployment,
    Finding,
    Findings,
    Service,
    seconds,
)
from tests.services import compose
from tests.services.compose import ROOT

AIRFLOW_HOME = "/opt/airflow"
SEAWEEDFS_READ_AT = "4.44"
"""The release whose ``weed/command/mini.go`` and ``docker/entrypoint.sh`` were read for what is said of it here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """An image that may be used.

    :param pin: the line of versions.env that is its tag.
    :param programs: what commands and health checks may start.
    :param variables: pattern of what its programs read, beside what this project's and Airflow's own code reads.
    :param required: variables without which it does not start, or not stay up for long.
    :param data: folders that it writes, and that must outlive the container.
    :param grace_s: seconds that it is given to end, at least: till then it writes what it has in memory only.
    :param scripts: folder whose scripts it runs when it starts for the first time.
    """

    pin: str
    programs: frozenset[str]
    variables: str
    required: frozenset[str] = frozenset()
    data: tuple[str, ...] = ()
    grace_s: int = 0
    scripts: str = ""


IMAGES = {
    POSTGRES: Image(
        pin="POSTGRES_VERSION",
        programs=frozenset({"pg_isready"}),
        variables=r"POSTGRES_(USER|DB|PASSWORD)",
        required=frozenset({"POSTGRES_PASSWORD"}),
        data=("/var/lib/postgresql/data",),
        grace_s=90,
        scripts="/docker-entrypoint-initdb.d",
    ),
    ZOOKEEPER: Image(
        pin="ZOOKEEPER_VERSION",
        programs=frozenset({"zkServer.sh"}),
        variables=r"ZOO_(MY_ID|SERVERS|AUTOPURGE_PURGEINTERVAL)",
        required=frozenset({"ZOO_MY_ID", "ZOO_SERVERS", "ZOO_AUTOPURGE_PURGEINTERVAL"}),
        data=("/data", "/datalog"),
        grace_s=30,
    ),
    # ``mini`` is a word of its entry point; its folder is an option
    SEAWEEDFS: Image(
        pin="SEAWEEDFS_VERSION",
        programs=frozenset({"curl", "mini"}),
        variables=r"AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY)",
        required=frozenset({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}),
        grace_s=30,
    ),
    OWN_IMAGE: Image(
        pin="AIRFLOW_VERSION",
        programs=frozenset(
            {"/usr/bin/dumb-init", "airflow", "curl", "python", "spark-class", "spark-submit"}
        ),
        variables=r"PYTHONPATH|SPARK_CONF_DIR|SPARK_WORKER_OPTS|AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|EC2_\w+)",
    ),
}


TASKS_GRACE_S = 60
"""What docs/how-to/deploy.md says that tasks need which are told to end: they abort their attempts."""
_UNTOLD_GRACE_S = 10
"""What Docker gives to a container that says nothing."""


def data_folders(service: Service) -> tuple[str, ...]:
    """The folders that *service* writes and that must outlive it."""
    if service.image == SEAWEEDFS:
        return tuple(word.removeprefix("-dir=") for word in service.command if word.startswith("-dir="))
    if service.role in COMPONENTS:
        return (service.environment.get("AIRFLOW__LOGGING__BASE_LOG_FOLDER", f"{AIRFLOW_HOME}/logs"),)
    image = IMAGES.get(service.image)
    return image.data if image else ()


def image_problems(deployment: Deployment) -> Findings:
    """Images and tags are the pinned ones; the own one is built from this repository, with the pinned versions."""
    for service in deployment.services.values():
        tag = str(service.given.get("image", "")).rpartition(":")[2]
        if service.image not in IMAGES:
            yield Finding(service.name, "image", f"{service.image or 'none'} is none of {sorted(IMAGES)}")
            continue
        pin = IMAGES[service.image].pin
        if tag != compose.versions()[pin]:
            problem = f"{service.image} has the tag {tag}, {pin} is {compose.versions()[pin]}"
            yield Finding(service.name, "image", problem)
        if service.image == SEAWEEDFS and tag != SEAWEEDFS_READ_AT:
            yield Finding(
                service.name, "image", f"its options were read at {SEAWEEDFS_READ_AT}; read them at {tag}"
            )
        yield from _grace_problems(service)
        if service.image == OWN_IMAGE:
            yield from _build_problems(service)


def _grace_problems(service: Service) -> Findings:
    wanted = TASKS_GRACE_S if service.role == SCHEDULER else IMAGES[service.image].grace_s
    grace = seconds(str(service.given.get("stop_grace_period", f"{_UNTOLD_GRACE_S}s")))
    if grace is None or grace < wanted:
        yield Finding(service.name, "stop_grace_period", f"{grace} s to end, it may need {wanted}")


def _build_problems(service: Service) -> Findings:
    build = service.given.get("build", {})
    dockerfile = ROOT / build.get("context", "?") / build.get("dockerfile", "?")
    if not dockerfile.is_file():
        yield Finding(service.name, "build", f"no Dockerfile {build.get('dockerfile')!r}")
        return
    given = build.get("args", {})
    wanted = set(re.findall(r"^ARG (\w+)$", dockerfile.read_text(), re.MULTILINE))
    for name in sorted(wanted | set(given)):
        if given.get(name) != compose.versions().get(name) or name not in wanted:
            problem = f"build argument {name} is {given.get(name)}, the Dockerfile and versions.env differ"
            yield Finding(service.name, f"build.args.{name}", problem)
