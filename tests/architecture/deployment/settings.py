"""Whether every variable of a service is read by something, has a value of its type, and agrees with the others'."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from tests.architecture.deployment.commands import taken
from tests.architecture.deployment.images import IMAGES
from tests.architecture.deployment.model import (
    API_SERVER,
    COMPONENTS,
    LANDS,
    MASTER,
    OPENS_WAREHOUSE,
    SEAWEEDFS,
    WORKER,
    Deployment,
    Finding,
    Findings,
    Service,
)
from tests.services.compose import ROOT

CONNECTION = "AIRFLOW_CONN_"
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
ENDPOINT = "AWS_ENDPOINT_URL_S3"
EXECUTION_API = "AIRFLOW__CORE__EXECUTION_API_SERVER_URL"
EXECUTOR = "AIRFLOW__CORE__EXECUTOR"
SPARK_OPTIONS = {"SPARK_WORKER_OPTS": {WORKER}, "SPARK_MASTER_OPTS": {MASTER}}
"""Variables with options of a Spark server, and the servers that read them."""


def setting_problems(deployment: Deployment) -> Findings:
    for service in deployment.services.values():
        yield from _unread(service)
        yield from _missing(service)
        if service.role in OPENS_WAREHOUSE:
            yield from _warehouse_problems(service, deployment)
    for service in deployment.airflow:
        yield from _option_problems(service)
        yield from _generated(service)
        if service.role in COMPONENTS:
            yield from _execution_api(service, deployment)
    yield from _differing(deployment)
    yield from _days(deployment)


# --- read, and given -----------------------------------------------------------------------------------------


@cache
def _own_words() -> frozenset[str]:
    folders = ("airflow_provider", "dags", "spark_jobs", "demo", "deploy/postgresql")
    files = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".sh"}
    ]
    return frozenset(word for path in files for word in re.findall(r"[A-Z][A-Z0-9_]+", path.read_text()))


def _unread(service: Service) -> Findings:
    image = IMAGES.get(service.image)
    for variable in service.environment:
        ours = variable in _own_words() or variable.startswith(("AIRFLOW__", CONNECTION))
        theirs = image is not None and re.fullmatch(image.variables, variable)
        elsewhere = variable in SPARK_OPTIONS and service.role not in SPARK_OPTIONS[variable]
        if elsewhere or not (ours or theirs):
            yield Finding(service.name, variable, f"nothing reads {variable}")


def _missing(service: Service) -> Findings:
    """Variables without which the image, or a script that it runs, does not start."""
    image = IMAGES.get(service.image)
    if image is None:
        return
    wanted = set(image.required)
    for script in start_scripts(service):
        wanted |= set(re.findall(r"(?:^\\getenv \w+ |\$\{?)([A-Z]\w+)", script, re.MULTILINE))
    for name in sorted(wanted - set(service.environment)):
        yield Finding(service.name, name, "is not given; what starts in the container needs it")


def start_scripts(service: Service) -> list[str]:
    """The texts of the scripts that the image runs when it starts for the first time."""
    image = IMAGES.get(service.image)
    mount = service.mounted_at(image.scripts) if image and image.scripts else None
    if mount is None or not mount.is_folder:
        return []
    return [path.read_text() for path in sorted((ROOT / mount.source).glob("*.sh"))]


# --- Airflow -------------------------------------------------------------------------------------------------


def _options() -> dict[tuple[str, str], dict[str, object]]:
    from airflow.configuration import conf

    return {
        (section, option): facts
        for section, one in conf.configuration_description.items()
        for option, facts in one["options"].items()
    }


def _option_problems(service: Service) -> Findings:
    known = _options()
    for variable, value in service.environment.items():
        if not variable.startswith("AIRFLOW__"):
            continue
        section, _, option = variable.removeprefix("AIRFLOW__").lower().partition("__")
        if (section, option) not in known:
            yield Finding(service.name, variable, f"Airflow has no option {section}.{option}")
            continue
        kind, default = known[section, option].get("type"), str(known[section, option].get("default"))
        form = r"true|false" if kind == "boolean" or default in {"True", "False"} else ""
        form = r"-?\d+" if kind == "integer" or default.isdecimal() else form
        form = r"-?\d+(\.\d+)?" if kind == "float" else form
        if form and not re.fullmatch(form, str(value), re.IGNORECASE):
            yield Finding(service.name, variable, f"{value!r} is no {kind} (the default is {default})")
    if EXECUTOR in service.environment:
        yield from _executor(service)


def _executor(service: Service) -> Findings:
    from airflow.executors.executor_loader import ExecutorLoader
    from airflow.sdk.module_loading import import_string

    name = service.environment[EXECUTOR]
    try:
        import_string(ExecutorLoader.executors.get(name, name))
    except (ImportError, ValueError) as error:
        yield Finding(service.name, EXECUTOR, f"Airflow cannot import the executor {name}: {error}")


def _generated(service: Service) -> Findings:
    """What Airflow makes up anew in each container that is not told."""
    for variable in _made_up():
        if not service.environment.get(variable):
            yield Finding(
                service.name, variable, "is not given: Airflow makes up one, another than its neighbours'"
            )


@cache
def _made_up() -> list[str]:
    return [
        f"AIRFLOW__{section}__{option}".upper()
        for (section, option), facts in _options().items()
        if re.fullmatch(r"\{\w*KEY\}", str(facts.get("default")))
    ]


def _execution_api(service: Service, deployment: Deployment) -> Findings:
    prefix = _execution_prefix()
    given = urlsplit(service.environment.get(EXECUTION_API, ""))
    if given.path != f"{prefix}/":
        yield Finding(service.name, EXECUTION_API, f"the path is {given.path!r}, Airflow serves {prefix}/")
    if given.hostname not in {one.name for one in deployment.with_role(API_SERVER)}:
        yield Finding(service.name, EXECUTION_API, f"{given.hostname} is no API server")


@cache
def _execution_prefix() -> str:
    """Where Airflow's API server serves tasks, as its source says: to import it takes seconds."""
    spec = importlib.util.find_spec("airflow.api_fastapi.app")
    assert spec is not None
    assert spec.origin is not None
    (prefix,) = re.findall(r'app\.mount\("(/exec\w+)"', Path(spec.origin).read_text())
    return prefix


# --- agreement -----------------------------------------------------------------------------------------------


def _differing(deployment: Deployment) -> Findings:
    """What several of Airflow's services have, they have alike; what runs has all that its neighbours have."""
    everywhere: dict[str, dict[str, list[Service]]] = {}
    for service in deployment.airflow:
        for variable, value in service.environment.items():
            everywhere.setdefault(variable, {}).setdefault(value, []).append(service)
    for variable, by_value in everywhere.items():
        usual = max(by_value.values(), key=len)
        for strangers in by_value.values():
            if strangers is not usual:
                names = ", ".join(one.name for one in usual)
                yield from (Finding(one.name, variable, f"differs from that of {names}") for one in strangers)
    components = [one for one in deployment.airflow if one.role in COMPONENTS]
    for variable in everywhere:
        have = [one for one in components if variable in one.environment]
        if have:
            yield from (
                Finding(one.name, variable, f"is not given; {have[0].name} has it")
                for one in components
                if one not in have
            )


def _warehouse_problems(service: Service, deployment: Deployment) -> Findings:
    """Who opens tables' files comes to the S3 server, with its keys."""
    servers = deployment.of_image(SEAWEEDFS)
    endpoint = urlsplit(service.environment.get(ENDPOINT, ""))
    server = next((one for one in servers if one.name == endpoint.hostname), None)
    if server is None:
        yield Finding(service.name, ENDPOINT, f"is {endpoint.geturl()!r}, which is no S3 server of the file")
        return
    for key in KEYS:
        if service.environment.get(key) != server.environment.get(key):
            yield Finding(service.name, key, f"is not the one that {server.name} has")


def _days(deployment: Deployment) -> Findings:
    from demo.landing import arguments
    from demo.source import Days

    for lander in deployment.with_role(LANDS):
        given = taken(arguments(), lander.command[lander.command.index(LANDS) + 1 :])
        if given is None:
            yield Finding(lander.name, "command", f"{LANDS} does not take {lander.command}")
            continue
        days = Days.through_blizzard(given.days)
        wanted = {"NYC_DAYS": str(days.count), "NYC_ORIGIN": days.start.isoformat()}
        for service in deployment.services.values():
            for variable, value in wanted.items():
                found = service.environment.get(variable, value)
                if found != value:
                    yield Finding(service.name, variable, f"{variable} is {found}, what lands has {value}")
                if "NYC_LANDING" in service.environment and variable not in service.environment:
                    yield Finding(service.name, variable, f"is not given, what lands has {value}")
