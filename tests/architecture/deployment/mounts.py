"""Whether everything that is mounted is read, and everything that is read or written is mounted."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from tests.architecture.deployment.images import AIRFLOW_HOME, IMAGES, data_folders
from tests.architecture.deployment.model import (
    LANDS,
    OWN_IMAGE,
    READS_LANDING,
    SCHEDULER,
    Deployment,
    Finding,
    Findings,
    Mount,
    Service,
)
from tests.services.compose import ROOT

PACKAGES = ("dags", "spark_jobs", "demo")
"""The repository's packages that are not installed in the image."""

HOLDS = {"AIRFLOW__CORE__DAGS_FOLDER": "nyc_*.py", "SPARK_CONF_DIR": "spark-defaults.conf"}
"""Variables that name a folder of the repository, and a file that it must hold."""


def mount_problems(deployment: Deployment) -> Findings:
    users = Counter(mount.source for one in deployment.services.values() for mount in one.mounts)
    for service in deployment.services.values():
        read = _read_in(service, deployment)
        for mount in service.mounts:
            yield from _folder_problems(service, mount)
            if mount.target not in read:
                yield Finding(
                    service.name, mount.setting, f"nothing reads {mount.target}, where {mount.source} is"
                )
        yield from _data_problems(service, users)
        if service.image == OWN_IMAGE:
            yield from _code_problems(service)
            yield from _landing_problems(service, deployment)
    declared = set(deployment.document.get("volumes", {}))
    used = {source for source in users if not source.startswith(".")}
    yield from (Finding("volumes", one, f"volume {one} is not declared") for one in sorted(used - declared))
    yield from (Finding("volumes", one, f"volume {one} is not used") for one in sorted(declared - used))


def landing_folder(deployment: Deployment) -> str:
    """Where files land, as the tasks are told."""
    return next((one.environment.get("NYC_LANDING", "") for one in deployment.with_role(SCHEDULER)), "")


def _read_in(service: Service, deployment: Deployment) -> set[str]:
    """Every folder of the container that something reads or writes."""
    image = IMAGES.get(service.image)
    read = {*data_folders(service), *service.command, *service.environment.values()}
    read |= {image.scripts} if image else set()
    if service.image == OWN_IMAGE:
        # one volume of logs for all, one place of files for drivers, which name it, and workers, which read it
        read |= {f"{AIRFLOW_HOME}/logs", landing_folder(deployment)}
        read |= {f"{folder}/{one}" for folder in _python_path(service) for one in PACKAGES}
    return read


def _python_path(service: Service) -> list[str]:
    return service.environment.get("PYTHONPATH", "").split(":")


def _folder_problems(service: Service, mount: Mount) -> Findings:
    if not mount.is_folder:
        return
    folder = ROOT / mount.source
    if not folder.is_dir():
        yield Finding(service.name, mount.setting, f"{mount.source} does not exist")
        return
    if not mount.read_only:
        yield Finding(service.name, mount.setting, f"{mount.source} of the repository can be written")
    image = IMAGES.get(service.image)
    if image and mount.target == image.scripts:
        scripts = [path for path in folder.iterdir() if path.suffix in {".sh", ".sql"}]
        if not scripts:
            yield Finding(service.name, mount.setting, f"{mount.source} holds no script")
        for path in scripts:
            if path.suffix == ".sh" and not os.access(path, os.X_OK):
                yield Finding(service.name, mount.setting, f"{path.name} is not executable")


def _data_problems(service: Service, users: Counter[str]) -> Findings:
    for folder in data_folders(service):
        mount = service.mounted_at(folder)
        if mount is None or mount.is_folder:
            yield Finding(service.name, "volumes", f"{folder}, where it keeps its data, is in no volume")
        elif mount.read_only:
            yield Finding(service.name, mount.setting, f"{folder}, where it keeps its data, is read only")
        elif service.image != OWN_IMAGE and users[mount.source] > 1:
            yield Finding(service.name, mount.setting, f"volume {mount.source} is another's, too")


def _code_problems(service: Service) -> Findings:
    for variable, file in HOLDS.items():
        default = (
            f"{AIRFLOW_HOME}/dags"
            if variable.startswith("AIRFLOW") and service.command[:1] == ["airflow"]
            else ""
        )
        folder = service.environment.get(variable, default)
        mount = service.mounted_at(folder)
        if folder and (mount is None or not mount.is_folder or not any((ROOT / mount.source).glob(file))):
            source = "./dags" if file.endswith(".py") else f"the folder with {file}"
            yield Finding(service.name, variable, f"is {folder}, where {source} is not mounted")
    for package in PACKAGES:
        mounts = [service.mounted_at(f"{folder}/{package}") for folder in _python_path(service)]
        if not any(mount and Path(mount.source) == Path(package) for mount in mounts):
            yield Finding(service.name, "PYTHONPATH", f"./{package} is not mounted below it")
    if service.role.startswith("org.apache.spark") and "SPARK_CONF_DIR" not in service.environment:
        yield Finding(service.name, "SPARK_CONF_DIR", "is not given, so that Spark has its own defaults")


def _landing_problems(service: Service, deployment: Deployment) -> Findings:
    """Everybody who reads what landed has the lander's volume, at the one path that plans name."""
    if (
        service.role not in READS_LANDING
        and "NYC_LANDING" not in service.environment
        and service.role != LANDS
    ):
        return
    folder, landers = landing_folder(deployment), deployment.with_role(LANDS)
    if not folder or not landers:
        yield Finding(service.name, "NYC_LANDING", "nobody says where files land, or nobody lands them")
        return
    if service.role == LANDS and folder not in service.command:
        yield Finding(service.name, "command", f"files do not land in {folder}, where tasks look for them")
    if service.environment.get("NYC_LANDING", folder) != folder:
        yield Finding(service.name, "NYC_LANDING", f"is not {folder}, where others look for files")
    mount, theirs = service.mounted_at(folder), landers[0].mounted_at(folder)
    if mount is None or theirs is None or mount.source != theirs.source:
        yield Finding(
            service.name, "volumes", f"what {landers[0].name} lands is not mounted at NYC_LANDING, {folder}"
        )
    elif service.role == LANDS and mount.read_only:
        yield Finding(service.name, mount.setting, f"{folder} cannot be written")
