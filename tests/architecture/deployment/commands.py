"""Whether commands, entry points and health checks start what is there, with words that it takes."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.architecture.deployment import spark
from tests.architecture.deployment.images import IMAGES
from tests.architecture.deployment.model import (
    API_SERVER,
    MASTER,
    OWN_IMAGE,
    SCHEDULER,
    SEAWEEDFS,
    WORKER,
    Deployment,
    Finding,
    Findings,
    Service,
    option,
    protocols,
    seconds,
)

SEAWEEDFS_OPTIONS = {
    "dir": str, "s3.port": int, "bucket": str, "s3.autoCreateBucket": bool, "webdav": bool, "admin.ui": bool,
    "master.telemetry": bool,
}  # fmt: skip
"""Options of ``weed mini``, those that are used, and their types."""

HTTP_PATHS = {
    SCHEDULER: {"/health"},
    MASTER: {"/json/"},
    WORKER: {"/json/"},
    SEAWEEDFS: {"/healthz", "/readyz", "/status"},
}
"""What tells over HTTP whether a service is well; the API server's paths are in its own description."""

LONGEST_INTERVAL_S, LONGEST_START_S = 60, 600
"""Who waits for a service waits for an interval at least, and gives up after all tries."""


def taken(parser: argparse.ArgumentParser, words: list[str]) -> Any | None:
    """What *parser* makes of *words*, None when it refuses them."""
    try:
        with redirect_stderr(StringIO()), redirect_stdout(StringIO()):
            return parser.parse_args(words)
    except SystemExit:
        return None


def airflow_arguments(words: list[str]) -> Any | None:
    """What Airflow's own commands make of *words*, without the program."""
    from airflow.cli import cli_parser

    return taken(cli_parser.get_parser(), words)


def command_problems(deployment: Deployment) -> Findings:
    for service in deployment.services.values():
        for setting, words in (
            ("entrypoint", list(service.given.get("entrypoint", []))),
            ("command", service.command),
            ("healthcheck.test", service.health),
        ):
            if words:
                yield from (Finding(service.name, setting, one) for one in _problems_of(service, words))
        if service.image == OWN_IMAGE and not service.command:
            yield Finding(service.name, "command", "there is none")


def health_problems(deployment: Deployment) -> Findings:
    """What runs for ever is started again and is checked, by a check that asks it; what ends is not."""
    for name, service in deployment.services.items():
        check = service.given.get("healthcheck", {})
        if name in deployment.finishing:
            if "restart" in service.given or check:
                yield Finding(name, "restart", f"{name} is waited for to end, and restarts or is checked")
            continue
        if service.given.get("restart") not in {"always", "unless-stopped"}:
            yield Finding(name, "restart", f"{name} has no health check, or is not restarted")
        if check.get("test", [""])[0] not in {"CMD", "CMD-SHELL"} or check.get("disable"):
            yield Finding(name, "healthcheck", f"{name} has no health check, or is not restarted")
            continue
        yield from _pace_problems(service, check)
        yield from (Finding(name, "healthcheck.test", one) for one in _asks(service))


def _pace_problems(service: Service, check: dict[str, Any]) -> Findings:
    paces = {
        word: seconds(str(check.get(word, default)))
        for word, default in (("interval", "30s"), ("timeout", "30s"), ("start_period", "0s"))
    }
    for word, pace in paces.items():
        if pace is None:
            yield Finding(service.name, f"healthcheck.{word}", f"{check[word]!r} is no duration")
    tries = int(check.get("retries", 3))
    if not tries > 0:
        yield Finding(service.name, "healthcheck.retries", "it is never tried")
    interval, timeout, start = (pace or 0 for pace in paces.values())
    if interval > LONGEST_INTERVAL_S:
        yield Finding(service.name, "healthcheck.interval", f"it is asked every {interval:g} s only")
    if start + tries * (interval + timeout) > LONGEST_START_S:
        yield Finding(
            service.name, "healthcheck", f"it may be ill for more than {LONGEST_START_S} s unnoticed"
        )


def _asks(service: Service) -> Iterator[str]:
    """Whether a check asks its own service, so that the answer says how that is."""
    words, ports = service.health, protocols(service)
    if words[0] == "pg_isready":
        host, port = (_value(words, name) for name in ("--host", "--port"))
        if host not in {"127.0.0.1", "localhost"} or int(port or 0) not in ports:
            yield f"it asks {host}:{port}, where {service.name} does not listen"
    elif words[0] == "curl":
        yield from _asks_by_http(service, words)
    elif words[0] == "airflow":
        given = airflow_arguments(words[1:])
        wanted = service.role.removeprefix("airflow ").title().replace("-", "") + "Job"
        if given is not None and getattr(given, "job_type", None) != wanted:
            yield f"it asks for {getattr(given, 'job_type', words)}, and not for a {wanted}"
    elif words[0] == "python":
        asked = {int(port) for port in re.findall(r"localhost(?::|', )(\d+)", " ".join(words))}
        if not asked or asked - set(ports):
            yield f"it asks port {sorted(asked)}, where {service.name} does not listen"
    elif words != ["zkServer.sh", "status"]:
        yield f"{shlex.join(words)} tells nothing about {service.name}"


def _asks_by_http(service: Service, words: list[str]) -> Iterator[str]:
    url = urlsplit(words[-1])
    if "--fail" not in words:
        yield "without --fail an error of the server counts as health"
    if url.scheme != "http" or url.hostname != "localhost":
        yield f"it asks {words[-1]}, and not {service.name} itself"
    elif protocols(service).get(url.port or 80) != "http":
        yield f"it asks port {url.port}, where {service.name} does not listen for HTTP"
    if url.path not in (_api_paths() if service.role == API_SERVER else HTTP_PATHS.get(service.role, set())):
        yield f"{service.name} has no {url.path}"


@cache
def _api_paths() -> set[str]:
    from airflow.api_fastapi.core_api import openapi

    described = Path(str(openapi.__file__)).parent / "v2-rest-api-generated.yaml"
    return set(re.findall(r"^  (/api/\S+):$", described.read_text(), re.MULTILINE))


def _value(words: list[str], name: str) -> str:
    return next((word.partition("=")[2] for word in words if word.startswith(f"{name}=")), "") or option(
        words, name
    )


# --- programs ------------------------------------------------------------------------------------------------


def _problems_of(service: Service, words: list[str]) -> Iterator[str]:
    image = IMAGES.get(service.image)
    if image is None or words[0] not in image.programs:
        yield f"{service.image} has no {words[0]}"
    elif words[0] in _PROGRAM_CHECKS:
        yield from _PROGRAM_CHECKS[words[0]](words[1:])


def _airflow_problems(words: list[str]) -> Iterator[str]:
    if airflow_arguments(words) is None:
        yield f"airflow does not take {shlex.join(words)}"


def _python_problems(words: list[str]) -> Iterator[str]:
    try:
        if words[0] == "-c":
            compile(words[1], "<compose>", "exec")
        elif words[0] != "-m" or importlib.util.find_spec(words[1]) is None:
            yield f"python cannot run {shlex.join(words)}"
    except (SyntaxError, ModuleNotFoundError, IndexError) as error:
        yield f"python cannot run {shlex.join(words)}: {error}"


def _seaweedfs_problems(words: list[str]) -> Iterator[str]:
    for word in words:
        name, _, value = word.lstrip("-").partition("=")
        kind = SEAWEEDFS_OPTIONS.get(name)
        if kind is None:
            yield f"weed mini has no option -{name}"
        elif (
            (kind is bool and value not in {"true", "false"})
            or (kind is int and not value.isdecimal())
            or not value
        ):
            yield f"-{name} of weed mini is {value!r}, and no {kind.__name__}"


def _pg_isready_problems(words: list[str]) -> Iterator[str]:
    unknown = {word.partition("=")[0] for word in words} - {"--host", "--port", "--username", "--dbname"}
    yield from (f"pg_isready does not take {one}" for one in sorted(unknown))


_PROGRAM_CHECKS: dict[str, Callable[[list[str]], Iterator[str]]] = {
    "airflow": _airflow_problems,
    "spark-class": spark.class_problems,
    "spark-submit": spark.submit_problems,
    "python": _python_problems,
    "mini": _seaweedfs_problems,
    "pg_isready": _pg_isready_problems,
}
