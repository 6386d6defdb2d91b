"""``docker-compose.yml``: right as it stands; ``test_deployment_faults`` shows what the check finds."""

from __future__ import annotations

import configparser
import re

import pytest
import yaml

from tests.architecture import deployment
from tests.architecture.deployment.commands import airflow_arguments
from tests.architecture.deployment.connections import variable_of
from tests.services import compose
from tests.services.compose import ROOT, Document

DOCKERFILE = ROOT / "deploy" / "Dockerfile"


ON_ZOOKEEPER = ROOT / "deploy" / "zookeeper.yml"


@pytest.fixture(scope="module")
def raw() -> Document:
    return compose.raw()


@pytest.fixture(scope="module")
def on_zookeeper() -> Document:
    return compose.raw(compose.FILE, ON_ZOOKEEPER)


def test_the_compose_file_fits_the_schema_the_pins_and_the_code(raw: Document) -> None:
    assert deployment.problems(raw) == []


def test_with_zookeeper_it_does_too_and_nothing_but_connections_changes(
    raw: Document, on_zookeeper: Document
) -> None:
    assert deployment.problems(on_zookeeper) == []
    for name, service in on_zookeeper["services"].items():
        changed = {one: value for one, value in service.items() if value != raw["services"][name].get(one)}
        assert set(changed) <= {"environment", "depends_on"}
        before = raw["services"][name].get("environment", {})
        after = service.get("environment", {})
        assert {one for one in after if after[one] != before.get(one)} <= {
            f"AIRFLOW_CONN_EPOCHS_{one}" for one in ("DEFAULT", "CATALOG", "ADMIN", "CATALOG_ADMIN")
        }


def test_every_secret_of_the_list_is_used(on_zookeeper: Document, raw: Document) -> None:
    assert deployment.secret_names() == (compose.variables(raw) | compose.variables(on_zookeeper)) - set(
        compose.versions()
    )


def test_every_service_of_a_deployment_is_there(raw: Document) -> None:
    assert set(raw["services"]) == {
        "postgres", "zk1", "zk2", "zk3", "s3", "landing",
        "spark-master", "spark-worker-1", "spark-worker-2", "spark-connect",
        "airflow-init", "epochs-init", "airflow-api-server", "airflow-scheduler", "airflow-dag-processor",
        "airflow-triggerer",
    }  # fmt: skip


def test_a_missing_secret_stops_the_start(raw: Document) -> None:
    given = {**dict.fromkeys(deployment.secret_names() - {"S3_SECRET_KEY"}, "x"), **compose.versions()}
    with pytest.raises(compose.MissingVariable, match="S3_SECRET_KEY: see deploy/secrets.md"):
        compose.interpolated(raw, given)


def test_the_page_of_secrets_writes_each_of_them() -> None:
    written = deployment.PAGE.read_text().split("```bash")[1]
    assert {name for name in deployment.secret_names() if name not in written} == set()


def test_the_dockerfile_takes_what_is_there_and_nothing_is_pinned_twice() -> None:
    text = DOCKERFILE.read_text()
    assert re.findall(r"^FROM (.*)$", text, re.MULTILINE) == [
        "apache/airflow:slim-${AIRFLOW_VERSION}-python${PYTHON_VERSION}"
    ]
    assert re.search(r"\d+\.\d+", text) is None, "versions come as arguments"
    copied = [
        word for line in re.findall(r"^COPY --\S+ (.*) \S+$", text, re.MULTILINE) for word in line.split()
    ]
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
    assert asked_for <= set(extras.split(",")), "a store of a connection could not be opened in the image"


def test_sparks_defaults_leave_room_for_both_applications(raw: Document) -> None:
    lines = (ROOT / "deploy/spark/spark-defaults.conf").read_text().splitlines()
    defaults = dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))
    workers = [one for name, one in raw["services"].items() if name.startswith("spark-worker")]
    cores = sum(int(one["command"][one["command"].index("--cores") + 1]) for one in workers)
    assert cores >= 2 * int(defaults["spark.cores.max"]), "the Connect server would take all"
    assert defaults["spark.executor.cores"] == "1"


def test_the_pages_manifests_take_what_is_there() -> None:
    """Commands that Airflow takes, connections that they name, the tag that is pinned."""
    page = (ROOT / "docs" / "how-to" / "deploy.md").read_text()
    values, job = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    assert values["images"]["airflow"]["tag"] == compose.versions()["AIRFLOW_VERSION"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith(f":{compose.versions()['AIRFLOW_VERSION']}")
    given = airflow_arguments(container["command"][1:])
    assert given is not None, container["command"]
    assert [one["name"] for one in container["env"]] == [variable_of(given.conn_id)]
    named = {one["envName"] for one in values["secret"]}
    assert variable_of("epochs_default") in named
