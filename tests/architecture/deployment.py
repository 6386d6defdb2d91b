"""What is wrong with a compose file: held against the published schema, the pins, the code, Airflow and Spark."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema

from airflow_provider.domain.errors import EpochError
from airflow_provider.hooks.connection import CONN_TYPE, ConnectionFields, catalog_url_of, place_of
from airflow_provider.stores.sql.postgresql import address as postgresql_address
from airflow_provider.stores.zookeeper import address as zookeeper_address
from tests.services import compose
from tests.services.compose import ROOT, Document

SCHEMA = Path(__file__).parent / "compose_spec" / "compose-spec.json"
SECRETS_PAGE = ROOT / "deploy" / "secrets.md"
OWN_IMAGE = "airflow-provider-epochs"
PINS = {
    "postgres": "POSTGRES_VERSION",
    "zookeeper": "ZOOKEEPER_VERSION",
    "chrislusf/seaweedfs": "SEAWEEDFS_VERSION",
    OWN_IMAGE: "AIRFLOW_VERSION",
}
"""Every image that may be used, and the line of versions.env that is its tag."""

PROGRAMS = {
    "postgres": {"pg_isready"},
    "zookeeper": {"zkServer.sh"},
    "chrislusf/seaweedfs": {"curl", "mini"},
    OWN_IMAGE: {"airflow", "curl", "python", "spark-class", "spark-submit"},
}
"""Programs that commands and health checks may start. ``mini`` is a word of SeaweedFS's entry point."""

SEAWEEDFS_OPTIONS = {
    "dir", "s3.port", "bucket", "s3.autoCreateBucket", "webdav", "admin.ui", "master.telemetry",
}  # fmt: skip
"""Options of ``weed mini`` as ``weed/command/mini.go`` of 4.44 declares them, those that are used."""

IMAGE_VARIABLES = {
    "postgres": r"POSTGRES_(USER|DB|PASSWORD)",
    "zookeeper": r"ZOO_(MY_ID|SERVERS)",
    "chrislusf/seaweedfs": r"AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY)",
    OWN_IMAGE: r"PYTHONPATH|SPARK_CONF_DIR|SPARK_WORKER_OPTS|AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|EC2_\w+)",
}
"""Variables that an image's programs read, beside those that are found in this project's and Airflow's own code."""

SECRET_NAME = re.compile(r"password|secret|_key\b|key_id|token|credential", re.IGNORECASE)
SECRET_FORM = re.compile(r"\$\{[A-Z][A-Z0-9_]*:\?[^}]+\}")
SAMPLE = "0123456789abcdef"

Services = dict[str, dict[str, Any]]


def problems(raw: Document) -> list[str]:
    """Everything that is wrong with *raw*, a compose file whose variables are not yet put in."""
    mismatch = next(_schema().iter_errors(raw), None)
    if mismatch is not None:
        return [f"schema: {mismatch.json_path}: {mismatch.message[:200]}"]
    found = [*_secrets(raw), *_variables(raw)]
    try:
        document = compose.interpolated(raw, {**dict.fromkeys(secret_names(), SAMPLE), **compose.versions()})
    except ValueError as error:
        return [*found, f"variables: {error}"]
    services: Services = document["services"]
    for check in (_images, _health, _mounts, _environment, _connections, _addresses, _commands):
        found += check(services, document)
    return found


@cache
def _schema() -> Any:
    return jsonschema.Draft7Validator(json.loads(SCHEMA.read_text()))


# --- secrets and variables -----------------------------------------------------------------------------------


def secret_names() -> set[str]:
    """The variables that deploy/secrets.md lists."""
    rows = [line for line in SECRETS_PAGE.read_text().splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([A-Z][A-Z0-9_]+)`", row.split("|")[1])}


def _secrets(raw: Document) -> Iterator[str]:
    for path, text in compose.texts(raw):
        name = path.rsplit(".", 1)[-1]
        inside = re.findall(r'"(\w+)": "([^"]*)"', text) + re.findall(r"(//\w+):([^@/]*)@", text)
        given = [(name, text)] if SECRET_NAME.search(name) and "environment" in path else []
        for field, value in given + [
            one for one in inside if SECRET_NAME.search(one[0]) or one[0].startswith("//")
        ]:
            if not SECRET_FORM.fullmatch(value):
                yield f"secret: {path}: {field} is not of the form ${{NAME:?message}}"


def _variables(raw: Document) -> Iterator[str]:
    unknown = compose.variables(raw) - secret_names() - set(compose.versions())
    yield from (f"variables: {name} is in neither deploy/secrets.md nor versions.env" for name in unknown)


# --- images, health, mounts ----------------------------------------------------------------------------------


def _image(service: dict[str, Any]) -> str:
    return str(service["image"]).rsplit(":", 1)[0]


def _images(services: Services, _: Document) -> Iterator[str]:
    for name, service in services.items():
        image, _, tag = str(service.get("image", "")).rpartition(":")
        if image not in PINS:
            yield f"image: {name}: {image or 'none'} is none of {sorted(PINS)}"
        elif tag != compose.versions()[PINS[image]]:
            yield f"image: {name}: {image} has the tag {tag}, {PINS[image]} is {compose.versions()[PINS[image]]}"
        if image == OWN_IMAGE:
            build = service.get("build", {})
            if not (ROOT / build.get("context", "?") / build.get("dockerfile", "?")).is_file():
                yield f"image: {name}: no Dockerfile {build.get('dockerfile')!r}"
            wrong = {
                one: value
                for one, value in build.get("args", {}).items()
                if value != compose.versions().get(one)
            }
            yield from (f"image: {name}: build argument {one} is {value}" for one, value in wrong.items())


def _health(services: Services, _: Document) -> Iterator[str]:
    finished = {
        needed
        for service in services.values()
        for needed, how in service.get("depends_on", {}).items()
        if how["condition"] == "service_completed_successfully"
    }
    for name, service in services.items():
        if name in finished and ("restart" in service or "healthcheck" in service):
            yield f"health: {name} is waited for to end, and restarts or is checked"
        if name not in finished and (
            "restart" not in service or "test" not in service.get("healthcheck", {})
        ):
            yield f"health: {name} has no health check, or is not restarted"
        for needed, how in service.get("depends_on", {}).items():
            if needed not in services:
                yield f"health: {name} depends on {needed}, which does not exist"
            elif how["condition"] == "service_healthy" and "healthcheck" not in services[needed]:
                yield f"health: {name} waits until {needed} is healthy, which has no check"


def _mounts(services: Services, document: Document) -> Iterator[str]:
    declared, used = set(document.get("volumes", {})), set()
    for name, service in services.items():
        targets = {}
        for mount in service.get("volumes", []):
            source, target, *_ = mount.split(":")
            targets[target] = source
            if not source.startswith("."):
                used.add(source)
            elif not (ROOT / source).is_dir():
                yield f"mount: {name}: {source} does not exist"
        environment = service.get("environment", {})
        for variable, source in (
            ("AIRFLOW__CORE__DAGS_FOLDER", "./dags"),
            ("SPARK_CONF_DIR", "./deploy/spark"),
        ):
            if variable in environment and targets.get(environment[variable]) != source:
                yield f"mount: {name}: {variable} is {environment[variable]}, where {source} is not mounted"
        if (landing := environment.get("NYC_LANDING")) and landing not in targets:
            yield f"mount: {name}: nothing is mounted at NYC_LANDING, {landing}"
        if folder := environment.get("PYTHONPATH"):
            yield from (
                f"mount: {name}: ./{package} is not mounted below PYTHONPATH"
                for package in ("dags", "spark_jobs", "demo")
                if targets.get(f"{folder}/{package}") != f"./{package}"
            )
    yield from (f"mount: volume {one} is not declared" for one in used - declared)
    yield from (f"mount: volume {one} is not used" for one in declared - used)


# --- environment ---------------------------------------------------------------------------------------------


@cache
def _own_words() -> frozenset[str]:
    folders = ("airflow_provider", "dags", "spark_jobs", "demo", "deploy/postgresql")
    files = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".sh"}
    ]
    return frozenset(word for path in files for word in re.findall(r"[A-Z][A-Z0-9_]+", path.read_text()))


def _environment(services: Services, _: Document) -> Iterator[str]:
    from airflow.configuration import conf

    for name, service in services.items():
        for variable in service.get("environment", {}):
            if variable.startswith("AIRFLOW__"):
                _, section, option = variable.lower().split("__")
                if option not in conf.configuration_description.get(section, {}).get("options", {}):
                    yield f"environment: {name}: Airflow has no option {section}.{option}"
            elif variable.startswith(_CONNECTION):
                continue
            elif variable not in _own_words() and not re.fullmatch(
                IMAGE_VARIABLES.get(_image(service), ""), variable
            ):
                yield f"environment: {name}: nothing reads {variable}"
        origin = service.get("environment", {}).get("NYC_ORIGIN")
        if origin is not None and origin != _first_day(services):
            yield f"environment: {name}: NYC_ORIGIN is {origin}, and the files begin at {_first_day(services)}"


def _first_day(services: Services) -> str:
    from demo.source import Days

    return Days.around_blizzard(int(services["landing"]["command"][-1])).start.isoformat()


def _connections(services: Services, _: Document) -> Iterator[str]:
    for name, service in services.items():
        environment = service.get("environment", {})
        for variable, text in environment.items():
            if not variable.startswith(_CONNECTION):
                continue
            try:
                given = json.loads(text)
                if given["conn_type"] == CONN_TYPE:
                    yield from _store(services, name, variable)
                elif given["conn_type"] not in {"spark", "spark_connect"}:
                    yield f"connection: {name}: {variable} is of type {given['conn_type']}"
            except (EpochError, ValueError, KeyError, TypeError) as error:
                yield f"connection: {name}: {variable}: {error}"
        if _image(service) == OWN_IMAGE and "AIRFLOW__CORE__EXECUTOR" in environment:
            missing = {"EPOCHS_DEFAULT", "SPARK_DEFAULT", "SPARK_CONNECT"} - {
                one.removeprefix("AIRFLOW_CONN_") for one in environment
            }
            yield from (f"connection: {name}: no AIRFLOW_CONN_{one}" for one in sorted(missing))


def _store(services: Services, name: str, variable: str) -> Iterator[str]:
    """Check a connection of this package: a store, or the catalog of one."""
    environment = services[name]["environment"]
    conn_id = variable.removeprefix(_CONNECTION).lower()
    fields = ConnectionFields(conn_id=conn_id, **json.loads(environment[variable]))
    if "warehouse" not in fields.extra:
        catalog_url_of(fields)
        return
    place = place_of(fields)
    _ADDRESSES[place.store_url.split("://")[0]](place.store_url)
    if f"-bucket={urlsplit(place.warehouse).netloc}" not in services["s3"]["command"]:
        yield f"connection: {name}: {variable}: s3 does not make the bucket of {place.warehouse}"
    if place.catalog is not None and f"{_CONNECTION}{place.catalog.upper()}" not in environment:
        yield f"connection: {name}: {variable}: there is no connection {place.catalog}"


_CONNECTION = "AIRFLOW_CONN_"
_ADDRESSES: dict[str, Callable[[str], object]] = {
    "postgresql+psycopg": postgresql_address.parsed,
    "zookeeper": zookeeper_address.parsed,
}
"""What a store makes of its URL, by scheme; each refuses what it would not open."""


# --- addresses -----------------------------------------------------------------------------------------------


def listens(service: dict[str, Any]) -> set[int]:
    """The ports that *service* listens on, as its command and environment say."""
    command = [str(part) for part in service.get("command", [])]
    environment = service.get("environment", {})
    if _image(service) == "postgres":
        return {5432}
    if _image(service) == "zookeeper":
        mine = re.search(
            rf"server\.{environment['ZOO_MY_ID']}=\S+?:(\d+):(\d+);(\d+)", environment["ZOO_SERVERS"]
        )
        return {int(port) for port in mine.groups()} if mine else set()
    ports = {int(port) for port in re.findall(r"(?:-s3\.port|grpc\.binding\.port)=(\d+)", " ".join(command))}
    ports |= {int(after) for before, after in pairwise(command) if before in _PORT_OPTIONS}
    if command[:2] == ["airflow", "api-server"]:
        ports.add(int(environment["AIRFLOW__API__PORT"]))
    if command[:2] == ["airflow", "scheduler"] and environment[f"{_HEALTH}ENABLE_HEALTH_CHECK"] == "True":
        ports.add(int(environment[f"{_HEALTH}SCHEDULER_HEALTH_CHECK_SERVER_PORT"]))
    return ports


_PORT_OPTIONS = {"--port", "--webui-port"}
_HEALTH = "AIRFLOW__SCHEDULER__"


def _addresses(services: Services, _: Document) -> Iterator[str]:
    for name, service in services.items():
        for path, text in compose.texts({key: service[key] for key in _ADDRESSING & set(service)}):
            for host, port in re.findall(
                r"(?<![\w.-])([a-z][a-z0-9-]*)(?::|', |\", \"port\": )(\d{2,5})\b", text
            ):
                if host == "localhost" and path.endswith("BASE_URL"):
                    yield from _not_published(services, int(port))
                    continue
                target = service if host == "localhost" else services.get(host)
                if target is None:
                    yield f"address: {name}: {path}: there is no service {host}"
                elif int(port) not in listens(target):
                    yield f"address: {name}: {path}: {host} does not listen on {port}"
        for mapping in service.get("ports", []):
            host, _, inside = str(mapping).rpartition(":")
            if not host.startswith("127.0.0.1:"):
                yield f"address: {name}: {mapping} is open to the network"
            if int(inside) not in listens(service):
                yield f"address: {name}: {mapping}: it does not listen on {inside}"


_ADDRESSING = {"environment", "command", "healthcheck"}


def _not_published(services: Services, port: int) -> Iterator[str]:
    if not any(
        str(one).startswith(f"127.0.0.1:{port}:")
        for service in services.values()
        for one in service.get("ports", [])
    ):
        yield f"address: nothing is published on {port}, where Airflow says that its UI is"


# --- commands ------------------------------------------------------------------------------------------------


def _commands(services: Services, _: Document) -> Iterator[str]:
    for name, service in services.items():
        command = [str(part) for part in service.get("command", [])]
        test = service.get("healthcheck", {}).get("test", [])
        checked = shlex.split(test[1]) if test[:1] == ["CMD-SHELL"] else test[1:]
        for words in (command, checked):
            if not words:
                continue
            if words[0] not in PROGRAMS.get(_image(service), set()):
                yield f"command: {name}: {_image(service)} has no {words[0]}"
            elif words[0] in _PROGRAM_CHECKS:
                yield from (
                    f"command: {name}: {problem}" for problem in _problems_of(words[0], tuple(words[1:]))
                )


@cache
def _problems_of(program: str, words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_PROGRAM_CHECKS[program](list(words)))


def _airflow_problems(words: list[str]) -> Iterator[str]:
    from airflow.cli import cli_parser

    try:
        cli_parser.get_parser().parse_args(words)
    except SystemExit:
        yield f"airflow does not take {shlex.join(words)}"


def _spark_problems(words: list[str]) -> Iterator[str]:
    name = words[words.index("--class") + 1] if "--class" in words else words[0]
    if name.replace(".", "/") + ".class" not in _spark_classes():
        yield f"Spark has no class {name}"


def _python_problems(words: list[str]) -> Iterator[str]:
    try:
        if words[0] == "-c":
            compile(words[1], "<compose>", "exec")
        elif words[0] != "-m" or importlib.util.find_spec(words[1]) is None:
            yield f"python cannot run {shlex.join(words)}"
    except (SyntaxError, ModuleNotFoundError) as error:
        yield f"python cannot run {shlex.join(words)}: {error}"


def _seaweedfs_problems(words: list[str]) -> Iterator[str]:
    options = {word.lstrip("-").partition("=")[0] for word in words}
    yield from (f"weed mini has no option -{one}" for one in sorted(options - SEAWEEDFS_OPTIONS))


_PROGRAM_CHECKS: dict[str, Callable[[list[str]], Iterator[str]]] = {
    "airflow": _airflow_problems,
    "spark-class": _spark_problems,
    "spark-submit": _spark_problems,
    "python": _python_problems,
    "mini": _seaweedfs_problems,
}


@cache
def _spark_classes() -> frozenset[str]:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    jars = (Path(spec.origin).parent / "jars").glob("spark-*.jar")
    return frozenset(
        name
        for jar in jars
        for name in zipfile.ZipFile(jar).namelist()
        if "/deploy/" in name or "/connect/" in name
    )
