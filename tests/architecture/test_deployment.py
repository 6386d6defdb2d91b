"""``docker-compose.yml``: right as it stands, and the check finds what could be wrong with it."""

from __future__ import annotations

import configparser
import copy
import re
from typing import Any

import pytest

from tests.architecture import deployment
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


def test_a_catalog_that_no_connection_leads_to_is_found(on_zookeeper: Document) -> None:
    faulty = copy.deepcopy(on_zookeeper)
    del faulty["services"]["airflow-triggerer"]["environment"]["AIRFLOW_CONN_EPOCHS_CATALOG"]
    assert any("there is no connection epochs_catalog" in one for one in deployment.problems(faulty))


def test_an_address_that_the_store_would_refuse_is_found(on_zookeeper: Document) -> None:
    faulty = copy.deepcopy(on_zookeeper)
    environment = faulty["services"]["airflow-scheduler"]["environment"]
    text = environment["AIRFLOW_CONN_EPOCHS_DEFAULT"]
    environment["AIRFLOW_CONN_EPOCHS_DEFAULT"] = text.replace('"tls": "off", ', "")
    found = list(deployment.problems(faulty))
    assert any("field tls" in one for one in found), found


def test_every_service_of_a_deployment_is_there(raw: Document) -> None:
    assert set(raw["services"]) == {
        "postgres", "zk1", "zk2", "zk3", "s3", "landing",
        "spark-master", "spark-worker-1", "spark-worker-2", "spark-connect",
        "airflow-init", "epochs-init", "airflow-api-server", "airflow-scheduler", "airflow-dag-processor",
        "airflow-triggerer",
    }  # fmt: skip


FAULTS: list[tuple[str, Any, str]] = [
    ("services.postgres.imagee", "postgres:15.18", "schema"),
    ("services.postgres.image", "postgres:16.1", "image: postgres: postgres has the tag 16.1"),
    ("services.s3.image", "minio/minio:latest", "minio/minio is none of"),
    ("services.landing.build.args.PYTHON_VERSION", "3.12", "build argument PYTHON_VERSION"),
    ("services.landing.build.dockerfile", "deploy/Dockerfil", "no Dockerfile"),
    ("services.zk2.healthcheck", None, "zk2 has no health check"),
    ("services.spark-connect.restart", None, "spark-connect has no health check, or is not restarted"),
    ("services.epochs-init.restart", "always", "epochs-init is waited for to end"),
    ("services.epochs-init.depends_on.postgre", {"condition": "service_healthy"}, "depends on postgre,"),
    ("services.spark-master.volumes[0]", "./dag:/opt/epochs/dags:ro", "./dag does not exist"),
    ("services.spark-master.volumes[1]", "./demo:/opt/epochs/spark_jobs:ro", "./spark_jobs is not mounted"),
    ("services.postgres.volumes[1]", "data:/var/lib/postgresql/data", "volume data is not declared"),
    ("services.airflow-scheduler.environment.AIRFLOW__CORE__DAGS_FOLDER", "/dags", "./dags is not mounted"),
    ("services.airflow-scheduler.environment.AIRFLOW__CORE__PARALELISM", "8", "no option core.paralelism"),
    ("services.airflow-scheduler.environment.NYC_DAY", "7", "nothing reads NYC_DAY"),
    ("services.airflow-scheduler.environment.NYC_ORIGIN", "2013-02-06T00:00:00+00:00", "NYC_ORIGIN"),
    ("services.airflow-scheduler.environment.AIRFLOW_CONN_EPOCHS_DEFAULT", '{"conn_type": "epochs"}', "field host"),
    ("services.airflow-triggerer.environment.AIRFLOW_CONN_SPARK_CONNECT", None, "no AIRFLOW_CONN_SPARK_CONNECT"),
    ("services.s3.command[3]", "-bucket=data", "s3 does not make the bucket of s3://warehouse"),
    ("services.s3.command[5]", "-webdaw=false", "weed mini has no option -webdaw"),
    ("services.s3.command[2]", "-s3.port=9000", "s3 does not listen on 8333"),
    ("services.spark-master.command[5]", "7078", "spark-master does not listen on 7077"),
    ("services.spark-connect.command[10]", "spark.connect.grpc.binding.port=15003", "does not listen on 15002"),
    ("services.airflow-api-server.ports[0]", "8080:8080", "is open to the network"),
    ("services.airflow-api-server.ports[0]", "127.0.0.1:8080:8081", "it does not listen on 8081"),
    ("services.airflow-api-server.ports", None, "nothing is published on 8080"),
    ("services.zk3.environment.ZOO_SERVERS", "server.3=zk4:2888:3888;2181", "there is no service zk4"),
    ("services.airflow-init.command[2]", "migrat", "airflow does not take db migrat"),
    ("services.epochs-init.command[3]", "upgrad", "airflow does not take epochs db upgrad"),
    ("services.spark-worker-1.command[1]", "org.apache.spark.deploy.Worker", "Spark has no class"),
    ("services.spark-connect.command[2]", "org.apache.spark.ConnectServer", "Spark has no class"),
    ("services.landing.command[2]", "demo.lands", "python cannot run"),
    ("services.airflow-dag-processor.healthcheck.test[1]", "airflow job check", "airflow does not take job check"),
    ("services.postgres.healthcheck.test[1]", "pgready", "postgres has no pgready"),
    ("services.postgres.environment.POSTGRES_PASSWORD", "postgres", "secret: services.postgres"),
    ("services.postgres.environment.POSTGRES_PASSWORD", "${POSTGRES_PASSWORD:-x}", "secret: services.postgres"),
    ("services.s3.environment.AWS_SECRET_ACCESS_KEY", "${S3_SECRET_KEY}", "secret: services.s3"),
    ("services.airflow-init.environment.AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://a:b@postgres/a", "secret:"),
    ("x-epochs-postgresql", '{"login": "epochs_task", "password": "hunter2"}', "secret: x-epochs-postgresql"),
    ("services.zk1.environment.ZOO_MY_ID", "${ZOO_ID:?say}", "ZOO_ID is in neither"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "expected"), FAULTS)
def test_a_planted_fault_is_found(raw: Document, path: str, value: Any, expected: str) -> None:
    faulty = copy.deepcopy(raw)
    _plant(faulty, path, value)
    found = deployment.problems(faulty)
    assert any(expected in problem for problem in found), found


def _plant(document: Document, path: str, value: Any) -> None:
    """Set what is at *path*, or take it away for None."""
    parts: list[Any] = []
    for word in path.split("."):
        name, *indices = re.split(r"\[(\d+)\]", word)
        parts += [name, *(int(one) for one in indices if one)]
    node: Any = document
    for part in parts[:-1]:
        node = node[part]
    if value is None:
        del node[parts[-1]]
    else:
        node[parts[-1]] = value


def test_a_missing_secret_stops_the_start(raw: Document) -> None:
    given = {**dict.fromkeys(deployment.secret_names() - {"S3_SECRET_KEY"}, "x"), **compose.versions()}
    with pytest.raises(compose.MissingVariable, match="S3_SECRET_KEY: see deploy/secrets.md"):
        compose.interpolated(raw, given)


def test_the_page_of_secrets_writes_each_of_them() -> None:
    written = deployment.SECRETS_PAGE.read_text().split("```bash")[1]
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


def test_sparks_defaults_leave_room_for_both_applications(raw: Document) -> None:
    lines = (ROOT / "deploy/spark/spark-defaults.conf").read_text().splitlines()
    defaults = dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))
    workers = [one for name, one in raw["services"].items() if name.startswith("spark-worker")]
    cores = sum(int(one["command"][one["command"].index("--cores") + 1]) for one in workers)
    assert cores >= 2 * int(defaults["spark.cores.max"]), "the Connect server would take all"
    assert defaults["spark.executor.cores"] == "1"
