"""What Spark's own jars say about classes, options and settings."""

from __future__ import annotations

import importlib.util
import math
import re
import zipfile
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.architecture.deployment.model import (
    CONNECT,
    MASTER,
    WORKER,
    Deployment,
    Finding,
    Findings,
    Service,
    option,
    protocols,
)
from tests.services.compose import ROOT

DEFAULTS = ROOT / "deploy" / "spark" / "spark-defaults.conf"
_ARGUMENTS = {
    MASTER: "org/apache/spark/deploy/master/MasterArguments",
    WORKER: "org/apache/spark/deploy/worker/WorkerArguments",
}
_SUBMIT = "org/apache/spark/launcher/SparkSubmitOptionParser"
_SETTINGS = re.compile(r"org/apache/spark/.*(/config/|SQLConf|SqlApiConf)")
_UNITS = {"m": 1, "g": 1024}
_MEMORY = re.compile(rf"(\d+)([{''.join(_UNITS)}])")
_AS_OPTIONS = {
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--total-executor-cores": "spark.cores.max",
}
_OVERHEAD_MB = 384
"""What Spark adds to an executor's memory at least (``spark.executor.minMemoryOverhead``)."""


def class_problems(words: list[str]) -> Iterator[str]:
    """What ``spark-class`` does not take in *words*."""
    name = words[0] if words else ""
    if name not in _classes():
        yield f"Spark has no class {name}"
        return
    known = _constants(_ARGUMENTS[name]) if name in _ARGUMENTS else frozenset()
    options = {word for word in words if word.startswith("-")}
    yield from (f"{name} has no option {one}" for one in sorted(options - known))


def submit_problems(words: list[str]) -> Iterator[str]:
    """What ``spark-submit`` does not take in *words*: pairs of option and value, then what is run."""
    name = option(words, "--class")
    if name not in _classes():
        yield f"Spark has no class {name}"
    at = 0
    while at < len(words) and words[at].startswith("--"):
        if words[at] not in _constants(_SUBMIT):
            yield f"spark-submit has no option {words[at]}"
        elif words[at] == "--conf" and not known_setting(words[at + 1].partition("=")[0]):
            yield f"Spark has no setting {words[at + 1]}"
        at += 2
    if words[at:] != ["spark-internal"]:
        yield f"{words[at:]} is to be run, and {name} is inside Spark: spark-internal"


def known_setting(name: str) -> bool:
    """Whether a class of Spark declares the setting *name*."""
    return name in _settings()


def defaults() -> dict[str, str]:
    """The settings that every Spark program of the deployment gets."""
    lines = DEFAULTS.read_text().splitlines()
    return {
        name: value.strip() for name, value in (one.split(None, 1) for one in lines if one and one[0] != "#")
    }


def cluster_problems(deployment: Deployment) -> Findings:
    """Servers belong to a master of the file, workers have room for executors, and options name settings of Spark."""
    masters = {
        f"{protocol}://{master.name}:{port}"
        for master in deployment.with_role(MASTER)
        for port, protocol in protocols(master).items()
    }
    for service in deployment.with_role(WORKER, CONNECT):
        named = option(service.command, "--master") if service.role == CONNECT else service.command[-1]
        if named not in masters:
            yield Finding(service.name, "command", f"{named} is no master of the file")
    yield from _room_problems(deployment)
    for service in deployment.services.values():
        for variable, text in service.environment.items():
            if re.fullmatch(r"SPARK_\w+_OPTS", variable):
                names = re.findall(r"-D([\w.]+)=", text)
                if not names or not all(map(known_setting, names)):
                    yield Finding(service.name, variable, f"{text!r} names no setting of Spark")


def _room_problems(deployment: Deployment) -> Findings:
    """The workers have room for the executors of the Connect server, and of what runs beside it with the defaults."""
    workers, usual = deployment.with_role(WORKER), defaults()
    for worker in workers:
        yield from (Finding(worker.name, "command", one) for one in _too_large(usual, worker))
    for connect in deployment.with_role(CONNECT):
        asked = {**usual, **_asked(connect.command)}
        for worker in workers:
            yield from (
                Finding(connect.name, "command", f"{worker.name}: {one}") for one in _too_large(asked, worker)
            )
        wanted = int(asked["spark.cores.max"]) + int(usual["spark.cores.max"])
        if wanted > (offered := sum(_cores(worker) for worker in workers)):
            problem = f"two applications take {wanted} cores, the workers have {offered}"
            yield Finding(connect.name, "command", problem)


def _asked(words: list[str]) -> dict[str, str]:
    """The settings that the command of a Spark program gives."""
    pairs = list(pairwise(words))
    settings = dict(after.split("=", 1) for before, after in pairs if before == "--conf" and "=" in after)
    return {**settings, **{_AS_OPTIONS[before]: after for before, after in pairs if before in _AS_OPTIONS}}


def _too_large(asked: dict[str, str], worker: Service) -> Iterator[str]:
    """Why *worker* has not the room for as many executors as its cores allow."""
    memory, cores, each = option(worker.command, "--memory"), _cores(worker), asked["spark.executor.memory"]
    executors = cores // int(asked["spark.executor.cores"])
    if not executors or not _megabytes(memory) >= executors * (_megabytes(each) + _OVERHEAD_MB):
        yield f"{cores} cores and {memory} have no room for {executors} executors with {each} each"


def _cores(worker: Service) -> int:
    text = option(worker.command, "--cores")
    return int(text) if text.isdecimal() else 0


def _megabytes(text: str) -> float:
    """NaN, which is not enough for anything and too much for everything, for what is not read here."""
    found = _MEMORY.fullmatch(text.lower())
    return int(found[1]) * _UNITS[found[2]] if found else math.nan


@cache
def _jars() -> tuple[zipfile.ZipFile, ...]:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return tuple(map(zipfile.ZipFile, sorted((Path(spec.origin).parent / "jars").glob("spark-*.jar"))))


@cache
def _classes() -> frozenset[str]:
    return frozenset(
        name.removesuffix(".class").replace("/", ".")
        for jar in _jars()
        for name in jar.namelist()
        if "/deploy/" in name or "/connect/" in name
    )


@cache
def _constants(name: str) -> frozenset[str]:
    """The printable constants of a class, options among them."""
    for jar in _jars():
        if f"{name}.class" in jar.namelist():
            return frozenset(map(bytes.decode, re.findall(rb"--[a-z-]+", jar.read(f"{name}.class"))))
    raise AssertionError(f"Spark's jars have no {name}")


@cache
def _settings() -> frozenset[str]:
    texts = (
        jar.read(name)
        for jar in _jars()
        for name in jar.namelist()
        if _SETTINGS.match(name) and name.endswith(".class")
    )
    return frozenset(
        word.decode() for text in texts for word in re.findall(rb"spark\.[A-Za-z][A-Za-z0-9.]+", text)
    )
