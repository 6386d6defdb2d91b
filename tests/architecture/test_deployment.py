"""``docker-compose.yml``: what would cost a user data, a secret or the start, and what only reading the file shows.

Whether its commands, connections, roles and health checks work is seen where they run:
``tests/system/test_deployment.py``, ``tests/slow/test_deployment_s3.py``.
"""

from __future__ import annotations

import configparser
import copy
import json
import re
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from airflow_provider.tables.iceberg.catalogs.connecting import OUTSIDE
from tests.services import compose
from tests.services.compose import ROOT, Document

SCHEMA = Path(__file__).parent / "compose_spec" / "compose-spec.json"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
ON_ZOOKEEPER = ROOT / "deploy" / "zookeeper.yml"
DATA = {
    "postgres": ("/var/lib/postgresql/data",),
    "zookeeper": ("/data", "/datalog"),
    "chrislusf/seaweedfs": ("/data",),
}
"""Folders by image whose content must outlive the container."""

_PINNED = re.compile(r"[a-z/-]+:\$\{([A-Z_]+):\?[^}]+\}")
_SECRET = re.compile(r"password|secret|_key\b|key_id|token|credential", re.IGNORECASE)
_FROM_OUTSIDE = re.compile(r"\$\{[A-Z][A-Z0-9_]*:\?[^}]+\}")


def problems(raw: Document) -> list[str]:
    """List what is wrong with *raw*, a compose file whose variables are not yet put in."""
    schema = jsonschema.Draft7Validator(json.loads(SCHEMA.read_text()))
    if found := [f"{error.json_path}: {error.message[:200]}" for error in schema.iter_errors(raw)]:
        return found
    services = raw["services"].items()
    return [
        *_secret_problems(raw),
        *_order_problems(raw["services"]),
        *_volume_problems(raw),
        *(f"{name}: {problem}" for name, service in services for problem in _service_problems(service)),
    ]


def _secret_problems(raw: Document) -> Iterator[str]:
    """A secret in the file, also one in a URL or in a connection's JSON, or as a default."""
    for path, text in compose.texts(raw):
        name = path.rpartition(".")[2]
        given = [(name, text)] if _SECRET.search(name) and "environment" in path else []
        given += [pair for pair in re.findall(r'"(\w+)": "([^"]*)"', text) if _SECRET.search(pair[0])]
        given += re.findall(r"(//\w+):([^@/]*)@", text)
        for field, value in given:
            if not _FROM_OUTSIDE.fullmatch(value):
                yield f"{path}: the secret {field} is not of the form ${{NAME:?message}}"


def _service_problems(service: dict[str, Any]) -> Iterator[str]:
    image = service.get("image", "")
    pin = _PINNED.fullmatch(image)
    if pin is None or pin[1] not in compose.versions():
        yield f"image {image} is not pinned by a line of versions.env"
    if build := service.get("build"):
        wanted = re.findall(r"^ARG (\w+)$", (ROOT / build["dockerfile"]).read_text(), re.MULTILINE)
        for name in sorted({*wanted, *build["args"]}):
            if not str(build["args"].get(name)).startswith(f"${{{name}:?") or name not in wanted:
                yield f"build argument {name} is not the one of the Dockerfile and of versions.env"
    for port in service.get("ports", []):
        if not port.startswith("127.0.0.1:"):
            yield f"port {port} is open to the network"


def _order_problems(services: dict[str, Any]) -> Iterator[str]:
    """What runs for ever is restarted and checked; what is waited for exists, and says when it is ready."""
    needs = {name: service.get("depends_on", {}) for name, service in services.items()}
    waits = [
        (name, needed, how["condition"]) for name, all_of in needs.items() for needed, how in all_of.items()
    ]
    ends = {needed for _, needed, condition in waits if condition == "service_completed_successfully"}
    for name, service in services.items():
        if ({"restart", "healthcheck"} & set(service)) != (
            set() if name in ends else {"restart", "healthcheck"}
        ):
            yield f"{name}: restart and healthcheck: both for what runs for ever, neither for what ends"
    for name, needed, condition in waits:
        if needed not in services or condition == "service_started":
            yield f"{name}: depends_on {needed}: no such service, or one that is not ready when it has started"
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        yield f"depends_on: {error.args[1]} wait for each other"


def _volume_problems(raw: Document) -> Iterator[str]:
    """Data outside of a volume is gone with its container; data of two servers in one volume is damaged."""
    owners: dict[str, str] = {}
    for name, service in raw["services"].items():
        mounts = {target: (source, mode) for source, target, mode in map(_mount, service.get("volumes", []))}
        for folder in DATA.get(service.get("image", "").partition(":")[0], ()):
            source, mode = mounts.get(folder, ("", ""))
            if source not in raw["volumes"] or mode or owners.setdefault(source, name) != name:
                yield f"{name}: {folder} is in no writable volume of its own"
        for source, mode in mounts.values():
            if source.startswith(".") and not ((ROOT / source).is_dir() and mode == "ro"):
                yield f"{name}: {source} is no folder of the repository, or not read only"


def _mount(line: str) -> tuple[str, str, str]:
    source, target, mode = [*line.split(":"), ""][:3]
    return source, target, mode


@pytest.fixture(scope="module")
def raw() -> Document:
    return compose.raw()


@pytest.fixture(scope="module")
def on_zookeeper() -> Document:
    return compose.raw(compose.FILE, ON_ZOOKEEPER)


def test_the_compose_files_have_no_problem(raw: Document, on_zookeeper: Document) -> None:
    assert problems(raw) == []
    assert problems(on_zookeeper) == []


def _service(name: str, **settings: Any) -> Callable[[Document], None]:
    return lambda raw: raw["services"][name].update(settings)


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (_service("postgres", imagee="postgres:15"), "imagee"),
        (_service("postgres", image="postgres:15.18"), "postgres: image"),
        (_service("landing", build={"dockerfile": "deploy/Dockerfile", "args": {}}), "landing: build argument"),
        (_service("spark-master", ports=["8090:8090"]), "spark-master: port"),
        (_service("postgres", environment={"POSTGRES_PASSWORD": "${POSTGRES_PASSWORD:-x}"}), "the secret POSTGRES"),
        (_service("landing", command=["postgresql://a:b@postgres/a"]), "the secret //a"),
        (lambda raw: raw.update({"x-a": '{"login": "a", "password": "hunter2"}'}), "x-a: the secret password"),
        (lambda raw: raw["services"]["zk2"].pop("healthcheck"), "zk2: restart and healthcheck"),
        (_service("epochs-init", restart="always"), "epochs-init: restart and healthcheck"),
        (_service("s3", depends_on={"postgre": {"condition": "service_healthy"}}), "s3: depends_on postgre"),
        (_service("s3", depends_on={"spark-connect": {"condition": "service_healthy"}}), "wait for each other"),
        (_service("postgres", volumes=["postgres:/var/lib/postgres/data"]), "postgres: /var/lib/postgresql/data"),
        (_service("zk2", volumes=["zk1-data:/data", "zk2-log:/datalog"]), "zk2: /data is in no"),
        (_service("s3", volumes=["s3:/data:ro"]), "s3: /data is in no"),
        (_service("landing", volumes=["./dag:/opt/epochs/dags:ro"]), "landing: ./dag is no folder"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_found(raw: Document, plant: Callable[[Document], Any], expected: str) -> None:
    faulty = copy.deepcopy(raw)
    plant(faulty)
    assert any(expected in problem for problem in problems(faulty)), problems(faulty)


def test_with_zookeeper_nothing_but_connections_changes(raw: Document, on_zookeeper: Document) -> None:
    for name, service in on_zookeeper["services"].items():
        changed = {key: value for key, value in service.items() if value != raw["services"][name].get(key)}
        assert set(changed) <= {"environment", "depends_on"}
        before, after = raw["services"][name].get("environment", {}), service.get("environment", {})
        assert {key for key in after if after[key] != before.get(key)} <= {
            f"AIRFLOW_CONN_EPOCHS_{suffix}" for suffix in ("DEFAULT", "CATALOG", "ADMIN", "CATALOG_ADMIN")
        }


def test_the_three_zookeeper_servers_have_ids_of_their_own(raw: Document) -> None:
    for number in "123":
        assert raw["services"][f"zk{number}"]["environment"]["ZOO_MY_ID"] == number


def test_secrets_page_lists_and_writes_every_variable_of_the_files(
    raw: Document, on_zookeeper: Document
) -> None:
    asked_for = (compose.variables(raw) | compose.variables(on_zookeeper)) - set(compose.versions())
    assert compose.secret_names() == asked_for
    written = compose.SECRETS.read_text().split("```bash")[1]
    assert {name for name in asked_for if name not in written} == set()


def test_a_missing_secret_stops_the_start(raw: Document) -> None:
    given = {**dict.fromkeys(compose.secret_names() - {"S3_SECRET_KEY"}, "x"), **compose.versions()}
    with pytest.raises(compose.MissingVariable, match="S3_SECRET_KEY: see deploy/secrets.md"):
        compose.interpolated(raw, given)


def test_dockerfile_copies_existing_files_and_pins_no_version() -> None:
    text = DOCKERFILE.read_text()
    assert re.findall(r"^FROM (.*)$", text, re.MULTILINE) == [
        "apache/airflow:slim-${AIRFLOW_VERSION}-python${PYTHON_VERSION}"
    ]
    assert re.search(r"\d+\.\d+", text) is None, "versions come as arguments"
    copied = " ".join(re.findall(r"^COPY --\S+ (.*) \S+$", text, re.MULTILINE)).split()
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(let_in) == sorted(copied)
    (extras,) = re.findall(r"source\[([a-z,]+)\]", text)
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert set(extras.split(",")) <= set(setup["options.extras_require"])
    sources = [path.read_text() for path in (ROOT / "airflow_provider" / "stores").rglob("*.py")]
    asked_for = {name for source in sources for name in re.findall(r'with_extra\("(\w+)"\)', source)}
    assert asked_for, "no store says which extra it needs"
    asked_for |= set(OUTSIDE) - {"rest"}  # its client comes with pyiceberg
    assert asked_for <= set(extras.split(",")), (
        "a catalog or store of a connection could not be opened in the image"
    )


def test_sparks_defaults_leave_room_for_both_applications(raw: Document) -> None:
    lines = (ROOT / "deploy/spark/spark-defaults.conf").read_text().splitlines()
    defaults = dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))
    commands = [
        service["command"] for name, service in raw["services"].items() if name.startswith("spark-worker")
    ]
    cores = sum(int(words[words.index("--cores") + 1]) for words in commands)
    assert cores >= 2 * int(defaults["spark.cores.max"]), "the Connect server would take all"
    assert defaults["spark.executor.cores"] == "1"


def test_manifests_of_the_pages_use_existing_commands_and_connections() -> None:
    """Commands that Airflow takes, connections that they name, the tag that is pinned."""
    from airflow.cli import cli_parser

    page = (ROOT / "docs" / "how-to" / "deploy.md").read_text()
    values, job = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    assert values["images"]["airflow"]["tag"] == compose.versions()["AIRFLOW_VERSION"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith(f":{compose.versions()['AIRFLOW_VERSION']}")
    given = cli_parser.get_parser().parse_args(container["command"][1:])
    assert [variable["name"] for variable in container["env"]] == [f"AIRFLOW_CONN_{given.conn_id.upper()}"]
    assert "AIRFLOW_CONN_EPOCHS_DEFAULT" in {variable["envName"] for variable in values["secret"]}
