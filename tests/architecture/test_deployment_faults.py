"""The check of ``docker-compose.yml`` bites: each fault that is planted is found, by the service and the setting.

A fault is planted twice: in one service alone, and in all that share the line by an anchor.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.architecture import deployment
from tests.architecture.deployment import spark
from tests.services import compose
from tests.services.compose import ROOT, Document

ON_ZOOKEEPER = ROOT / "deploy" / "zookeeper.yml"
Change = Callable[[str], str]


def replaced(old: str, new: str) -> Change:
    """Change a text, which must hold *old*."""

    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return change


FAULTS: list[tuple[str, Any, str]] = [
    # form, images, build
    ("postgres.imagee", "postgres:15.18", "postgres: : schema"),
    ("postgres.image", "postgres:16.1", "postgres: image: postgres has the tag 16.1"),
    ("s3.image", "minio/minio:latest", "s3: image: minio/minio is none of"),
    ("s3.command", "mini -dir=/data", "s3: command: is written as a str"),
    ("landing.build.args.PYTHON_VERSION", "3.12", "landing: build.args.PYTHON_VERSION: build argument"),
    ("landing.build.args.JAVA_VERSION", None, "landing: build.args.JAVA_VERSION: build argument"),
    ("landing.build.dockerfile", "deploy/Dockerfil", "landing: build: no Dockerfile"),
    # secrets
    ("postgres.environment.POSTGRES_PASSWORD", "postgres", "postgres: POSTGRES_PASSWORD: the secret"),
    ("postgres.environment.POSTGRES_PASSWORD", "${POSTGRES_PASSWORD:-x}", "postgres: POSTGRES_PASSWORD: the secret"),
    ("postgres.environment.EPOCHS_TASK_PASSWORD", None, "postgres: EPOCHS_TASK_PASSWORD: is not given"),
    ("postgres.environment.EPOCHS_TASK_PASSWORD", "${EPOCHS_ADMIN_PASSWORD:?x}",
     "EPOCHS_DEFAULT: the password is not"),
    ("s3.environment.AWS_SECRET_ACCESS_KEY", "${S3_SECRET_KEY}", "s3: AWS_SECRET_ACCESS_KEY: the secret"),
    ("airflow-init.environment.AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://a:b@postgres/a",
     "CONN: the secret"),
    ("zk2.environment.ZOO_AUTOPURGE_PURGEINTERVAL", None, "zk2: ZOO_AUTOPURGE_PURGEINTERVAL"),
    ("zk1.environment.ZOO_MY_ID", "${ZOO_ID:?say}", "zk1: ZOO_MY_ID: ZOO_ID is in neither"),
    ("spark-worker-1.environment.AWS_ACCESS_KEY_ID", None, "spark-worker-1: AWS_ACCESS_KEY_ID: is not the one"),
    ("airflow-triggerer.environment.AIRFLOW__API_AUTH__JWT_SECRET", None,
     "triggerer: AIRFLOW__API_AUTH__JWT_SECRET: is"),
    # mounts
    ("spark-master.volumes[0]", "./dag:/opt/epochs/dags:ro", "spark-master: volumes[0]: ./dag does not exist"),
    ("spark-master.volumes[1]", "./demo:/opt/epochs/spark_jobs:ro", "spark-master: PYTHONPATH: ./spark_jobs is not"),
    ("spark-worker-1.volumes[4]", "landing:/srv/landing",
     "spark-worker-1: volumes: what landing lands is not mounted"),
    ("spark-connect.volumes[3]", "./deploy/spark:/opt/epochs/con:ro", "spark-connect: SPARK_CONF_DIR: is"),
    ("postgres.volumes[0]", "./deploy/postgresql:/docker-entrypoint-init.d:ro",
     "postgres: volumes[0]: nothing reads"),
    ("postgres.volumes[0]", "./deploy/spark:/docker-entrypoint-initdb.d:ro",
     "postgres: volumes[0]: ./deploy/spark holds no"),
    ("postgres.volumes[1]", "data:/var/lib/postgresql/data", "volumes: data: volume data is not declared"),
    ("postgres.volumes[1]", "postgres:/var/lib/postgres/data", "postgres: volumes[1]: nothing reads"),
    ("zk1.volumes[0]", "zk1-data:/dat", "zk1: volumes: /data, where it keeps its data, is in no volume"),
    ("zk2.volumes[0]", "zk1-data:/data", "zk2: volumes[0]: volume zk1-data is another's"),
    ("s3.volumes[0]", "s3:/dat", "s3: volumes: /data, where it keeps its data, is in no volume"),
    # variables
    ("airflow-scheduler.environment.AIRFLOW__CORE__DAGS_FOLDER", "/dags",
     "DAGS_FOLDER: is /dags, where ./dags is not"),
    ("airflow-scheduler.environment.AIRFLOW__CORE__PARALELISM", "8", "no option core.paralelism"),
    ("airflow-scheduler.environment.AIRFLOW__CORE__PARALLELISM", "eight",
     "scheduler: AIRFLOW__CORE__PARALLELISM: 'eight'"),
    ("airflow-scheduler.environment.AIRFLOW__CORE__EXECUTOR", "LocalExecuter",
     "cannot import the executor LocalExecuter"),
    ("airflow-scheduler.environment.AIRFLOW__CORE__EXECUTION_API_SERVER_URL", "http://airflow-api-server:8080/exec/",
     "airflow-scheduler: AIRFLOW__CORE__EXECUTION_API_SERVER_URL: the path is"),
    ("airflow-scheduler.environment.NYC_DAY", "7", "airflow-scheduler: NYC_DAY: nothing reads"),
    ("airflow-scheduler.environment.NYC_DAYS", "8", "airflow-scheduler: NYC_DAYS: NYC_DAYS is 8"),
    ("airflow-scheduler.environment.NYC_ORIGIN", "2013-02-06T00:00:00+00:00", "airflow-scheduler: NYC_ORIGIN:"),
    ("zk3.environment.ZOO_MY_ID", "2", "zk3: ZOO_MY_ID: '2' is not an id"),
    ("zk3.environment.ZOO_SERVERS", "server.3=zk4:2888:3888;2181", "zk3: ZOO_SERVERS: there is no service zk4"),
    ("zk3.environment.ZOO_SERVERS", "server.1=zk1:2888:3888;2181 server.2=zk2:2888:3888;2181",
     "zk3: ZOO_SERVERS: zk3 is not in it"),
    # connections
    ("airflow-scheduler.environment.AIRFLOW_CONN_EPOCHS_DEFAULT", '{"conn_type": "epochs"}', "field host"),
    ("airflow-scheduler.environment.AIRFLOW_CONN_EPOCHS_DEFAULT", replaced('epochs_task"', 'epochs_tsk"'),
     "airflow-scheduler: AIRFLOW_CONN_EPOCHS_DEFAULT: nobody makes the role 'epochs_tsk'"),
    ("airflow-scheduler.environment.AIRFLOW_CONN_EPOCHS_DEFAULT", replaced('"schema": "epochs"', '"schema": "epoch"'),
     "airflow-scheduler: AIRFLOW_CONN_EPOCHS_DEFAULT: nobody makes the database 'epoch'"),
    ("airflow-scheduler.environment.AIRFLOW_CONN_EPOCHS_DEFAULT", replaced("5432", "5433"),
     "airflow-scheduler: AIRFLOW_CONN_EPOCHS_DEFAULT: postgres:5433 is no PostgreSQL server"),
    ("airflow-scheduler.environment.AIRFLOW_CONN_EPOCHS_DEFAULT", replaced(', "sslmode": "disable"', ""),
     "airflow-scheduler: AIRFLOW_CONN_EPOCHS_DEFAULT: sslmode is require"),
    ("airflow-triggerer.environment.AIRFLOW_CONN_SPARK_CONNECT", None, "no AIRFLOW_CONN_SPARK_CONNECT"),
    ("airflow-scheduler.environment.AIRFLOW_CONN_SPARK_DEFAULT",
     '{"conn_type": "spark", "host": "spark://spark-mastr", "port": 7077}',
     "SPARK_DEFAULT: spark://spark-mastr:7077 leads"),
    ("airflow-scheduler.environment.AIRFLOW_CONN_SPARK_DEFAULT",
     '{"conn_type": "spark", "host": "spark://spark-master", "port": 8090}', "does not listen on 8090 for spark"),
    ("airflow-scheduler.environment.AWS_ENDPOINT_URL_S3", "http://s3:9000",
     "scheduler: AWS_ENDPOINT_URL_S3: s3 does not listen"),
    ("spark-worker-1.environment.AWS_ENDPOINT_URL_S3", "http://s3:9000",
     "worker-1: AWS_ENDPOINT_URL_S3: s3 does not listen"),
    ("s3.command[3]", "-bucket=data", "s3 does not make the bucket of s3://warehouse"),
    # ports
    ("s3.command[2]", "-s3.port=9000", "spark-worker-1: AWS_ENDPOINT_URL_S3: s3 does not listen on 8333"),
    ("spark-master.command[5]", "7078", "spark-connect: command[6]: spark-master does not listen on 7077"),
    ("spark-connect.command[10]", "spark.connect.grpc.binding.port=15003", "does not listen on 15002"),
    ("spark-worker-1.command[9]", "spark://spark-masters:7077",
     "worker-1: command[9]: there is no service spark-masters"),
    ("spark-worker-1.command[9]", "spark://spark-master:7070", "worker-1: command[9]: spark-master does not listen"),
    ("spark-connect.command[6]", "spark://spark-master:7070", "connect: command[6]: spark-master does not listen"),
    ("airflow-api-server.ports[0]", "8080:8080", "airflow-api-server: ports: 8080:8080 is open to the network"),
    ("airflow-api-server.ports[0]", "127.0.0.1:8080:8081",
     "airflow-api-server: ports: 127.0.0.1:8080:8081: it does not"),
    ("airflow-api-server.ports", None, "AIRFLOW__API__BASE_URL: nothing is published on 8080"),
    # health
    ("zk2.healthcheck", None, "zk2: healthcheck: zk2 has no health check"),
    ("spark-connect.restart", None, "spark-connect: restart: spark-connect has no health check, or is not restarted"),
    ("epochs-init.restart", "always", "epochs-init: restart: epochs-init is waited for to end"),
    ("postgres.healthcheck.test[1]", "pgready", "postgres: healthcheck.test: postgres has no pgready"),
    ("postgres.healthcheck.test[3]", "--port=5433", "postgres: healthcheck.test: it asks 127.0.0.1:5433"),
    ("postgres.healthcheck.test[4]", "--username=epochs_tsk", "healthcheck.test: nobody makes the role 'epochs_tsk'"),
    ("postgres.healthcheck.test[5]", "--dbname=epoch", "healthcheck.test: nobody makes the database 'epoch'"),
    ("airflow-dag-processor.healthcheck.test[1]", "airflow job check", "airflow does not take job check"),
    ("airflow-dag-processor.healthcheck.test[1]", "airflow jobs check --job-type TriggererJob",
     "airflow-dag-processor: healthcheck.test: it asks for TriggererJob"),
    # order
    ("epochs-init.depends_on.postgre", {"condition": "service_healthy"},
     "epochs-init: depends_on.postgre: depends on"),
    ("airflow-triggerer.depends_on.epochs-init", None,
     "airflow-triggerer: depends_on: airflow-triggerer does not wait for epochs"),
    ("spark-worker-1.depends_on.spark-master", None, "spark-worker-1: depends_on: spark-worker-1 does not wait for"),
    # commands
    ("airflow-init.command[2]", "migrat", "airflow-init: command: airflow does not take db migrat"),
    ("epochs-init.command[3]", "upgrad", "epochs-init: command: airflow does not take epochs db upgrad"),
    ("epochs-init.command[3]", "check", "EPOCHS_DEFAULT: no service upgrades the schema of this store"),
    ("epochs-init.command[5]", "epochs_adm", "epochs-init: command: there is no connection epochs_adm"),
    ("epochs-init.command[5]", "epochs_default", "epochs-init: command: epochs-init upgrades as epochs_task"),
    ("spark-worker-1.command[1]", "org.apache.spark.deploy.Worker", "spark-worker-1: command: Spark has no class"),
    ("spark-connect.command[2]", "org.apache.spark.ConnectServer", "spark-connect: command: Spark has no class"),
    ("spark-connect.command[11]", "spark-internl", "spark-connect: command: ['spark-internl'] is to be run"),
    ("s3.command[5]", "-webdaw=false", "s3: command: weed mini has no option -webdaw"),
    ("landing.command[2]", "demo.lands", "landing: command: python cannot run"),
    ("landing.command[3]", "/srv/nyc", "landing: command: files do not land in /srv/nyc/landing"),
    # found by nobody at first: names made twice, servers that listen where nobody reaches them
    ("postgres.environment.POSTGRES_DB", "epochs", "postgres: POSTGRES_DB: epochs would be made twice"),
    ("postgres.environment.POSTGRES_USER", "epochs_admin", "postgres: POSTGRES_USER: epochs_admin would be"),
    ("spark-master.command[3]", "localhost", "spark-master: command: it listens as localhost"),
    ("spark-connect.command[8]", "spark.connect.grpc.binding.address=127.0.0.1", "connect: command: it listens as"),
    ("zk1.healthcheck.test[2]", "stat", "zk1: healthcheck.test: zkServer.sh stat tells nothing"),
    ("airflow-triggerer.healthcheck.interval", "thirty", "airflow-triggerer: healthcheck.interval: 'thirty'"),
    ("spark-worker-1.environment.SPARK_WORKER_OPTS", "-Dspark.worker.cleanup.enable=true",
     "spark-worker-1: SPARK_WORKER_OPTS:"),
    ("s3.environment.AWS_ACCESS_KEY_ID", "${S3_SECRET_KEY:?see deploy/secrets.md}",
     "AWS_ACCESS_KEY_ID: is not the one"),
    ("s3.volumes[0]", "s3:/data:ro", "s3: volumes[0]: /data, where it keeps its data, is read only"),
    ("spark-connect.depends_on.spark-worker-2", None, "spark-connect: depends_on: spark-connect does not wait"),
    ("spark-connect.command[6]", "local[2]", "spark-connect: command: local[2] is no master"),
    ("spark-worker-1.command[5]", "300m", "spark-worker-1: command: 2 cores and 300m have no room"),
    ("airflow-scheduler.healthcheck.test[6]", "http://localhost:8974/healthz", "airflow-scheduler has no /healthz"),
    # what the checks believe, changed behind their back
    ("spark-worker-1.mem_limit", "2g", "spark-worker-1: mem_limit: no check reads"),
    ("postgres.network_mode", "none", "postgres: network_mode: no check reads"),
    ("epochs-init.profiles", ["maintenance"], "epochs-init: profiles: no check reads"),
    ("spark-worker-1.user", "root", "spark-worker-1: user: no check reads"),
    ("postgres.tmpfs", ["/var/lib/postgresql/data"], "postgres: tmpfs: no check reads"),
    ("airflow-api-server.deploy", {"replicas": 2}, "airflow-api-server: deploy: no check reads"),
    ("airflow-api-server.scale", 2, "airflow-api-server: scale: no check reads"),
    # slow, crowded, too large, killed
    ("zk1.healthcheck.interval", "1h", "zk1: healthcheck.interval: it is asked every 3600 s"),
    ("zk1.healthcheck.retries", 60, "zk1: healthcheck: it may be ill for more than 600 s"),
    ("zk3.environment.ZOO_SERVERS", replaced("zk2:2888:3888", "zk2:2888:2888"), "server 2, zk2, is to listen twice"),
    ("zk3.environment.ZOO_SERVERS", replaced("server.2=", "server.1="), "zk3: ZOO_SERVERS: ['server.1=zk1"),
    ("spark-connect.command[10]", "spark.executor.memory=4g", "connect: command: spark-worker-1: 2 cores and 3g have"),
    ("spark-connect.command[10]", "spark.executor.memory=4GB", "no room for 2 executors with 4GB each"),
    ("spark-connect.command[10]", "spark.executor.cores=4", "2 cores and 3g have no room for 0 executors"),
    ("spark-connect.command[10]", "spark.cores.max=4", "spark-connect: command: two applications take 6 cores"),
    ("postgres.stop_grace_period", "10s", "postgres: stop_grace_period: 10.0 s to end, it may need 90"),
    ("zk2.stop_grace_period", None, "zk2: stop_grace_period: 10.0 s to end"),
    ("s3.stop_grace_period", "soon", "s3: stop_grace_period: None s to end"),
    ("airflow-scheduler.stop_grace_period", None, "airflow-scheduler: stop_grace_period: 10.0 s to end"),
    ("spark-worker-1.environment.AWS_ENDPOINT_URL_S3", None, "spark-worker-1: AWS_ENDPOINT_URL_S3: is ''"),
]  # fmt: skip

ZOOKEEPER_FAULTS: list[tuple[str, Any, str]] = [
    ("airflow-scheduler.environment.AIRFLOW_CONN_EPOCHS_DEFAULT", replaced("zk3:2181", "zk4:2181"), "no service zk4"),
    ("airflow-scheduler.environment.AIRFLOW_CONN_EPOCHS_DEFAULT", replaced("zk3:2181", "zk3:2182"),
     "does not listen on 2182"),
    ("airflow-scheduler.environment.AIRFLOW_CONN_EPOCHS_DEFAULT", replaced("zk3:2181", "zk3:2888"),
     "the ensemble is"),
    ("airflow-scheduler.environment.AIRFLOW_CONN_EPOCHS_DEFAULT", replaced(",zk3:2181", ""), "the ensemble is"),
    ("airflow-scheduler.environment.AIRFLOW_CONN_EPOCHS_DEFAULT", replaced('"schema": "epochs"', '"schema": "epoch"'),
     "airflow-scheduler: AIRFLOW_CONN_EPOCHS_DEFAULT: no service upgrades"),
    ("airflow-scheduler.environment.AIRFLOW_CONN_EPOCHS_DEFAULT", replaced('"tls": "off", ', ""), "field tls"),
    ("epochs-init.environment.AIRFLOW_CONN_EPOCHS_ADMIN", replaced('"login": "epochs"', '"login": "root"'),
     "nodes would belong to root"),
    ("airflow-triggerer.environment.AIRFLOW_CONN_EPOCHS_CATALOG", None, "there is no connection epochs_catalog"),
    ("epochs-init.depends_on.zk2", None, "epochs-init: depends_on: epochs-init does not wait for zk2"),
]  # fmt: skip


@pytest.fixture(scope="module")
def raw() -> Document:
    return compose.raw()


@pytest.fixture(scope="module")
def on_zookeeper() -> Document:
    return compose.raw(compose.FILE, ON_ZOOKEEPER)


@pytest.mark.parametrize(("path", "change", "expected"), FAULTS)
def test_a_planted_fault_is_found(raw: Document, path: str, change: Any, expected: str) -> None:
    _expect(raw, path, change, expected)


@pytest.mark.parametrize(("path", "change", "expected"), ZOOKEEPER_FAULTS)
def test_a_fault_planted_beside_zookeeper_is_found(
    on_zookeeper: Document, path: str, change: Any, expected: str
) -> None:
    _expect(on_zookeeper, path, change, expected)


def test_a_secret_in_an_anchor_is_found(raw: Document) -> None:
    faulty = {**raw, "x-epochs-postgresql": '{"login": "epochs_task", "password": "hunter2"}'}
    assert any("x-epochs-postgresql: : the secret" in str(one) for one in deployment.problems(faulty))


@pytest.mark.parametrize(
    ("part", "change", "expected"),
    [
        (
            "volumes",
            {"postgres": {"driver_opts": {"type": "tmpfs", "device": "tmpfs"}}},
            "volumes: postgres: no check",
        ),
        ("networks", {"default": {"internal": True}}, ": networks: no check reads"),
    ],
)
def test_a_fault_planted_beside_the_services_is_found(
    raw: Document, part: str, change: Any, expected: str
) -> None:
    faulty = {**raw, part: {**raw.get(part, {}), **change}}
    assert any(expected in str(one) for one in deployment.problems(faulty))


@pytest.mark.parametrize(
    "line",
    [
        "spark.executor.memory 4g",
        "spark.executor.memory plenty",
        "spark.executor.cores 4",
        "spark.cores.max 3",
    ],
)
def test_executors_that_no_worker_has_room_for_are_found(
    raw: Document, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = tmp_path / spark.DEFAULTS.name
    changed.write_text(f"{spark.DEFAULTS.read_text()}{line}\n")
    monkeypatch.setattr(spark, "DEFAULTS", changed)
    services = {one.service for one in deployment.problems(raw)}
    assert services >= {"spark-connect"}


def _expect(document: Document, path: str, change: Any, expected: str) -> None:
    alone, shared = json.loads(json.dumps(document)), copy.deepcopy(document)
    for faulty in (alone, shared):
        _plant(faulty["services"], path, change)
    for faulty in [alone] if shared == alone else [alone, shared]:
        found = [str(one) for one in deployment.problems(faulty)]
        assert any(expected in problem for problem in found), found


def _plant(services: Any, path: str, change: Any) -> None:
    """Put *change* at *path*: a text or mapping; what a function makes of the text there; None takes it away."""
    parts: list[Any] = []
    for word in path.split("."):
        name, *indices = re.split(r"\[(\d+)\]", word)
        parts += [name, *(int(one) for one in indices if one)]
    node = services
    for part in parts[:-1]:
        node = node[part]
    if change is None:
        del node[parts[-1]]
    else:
        node[parts[-1]] = change(node[parts[-1]]) if callable(change) else change
