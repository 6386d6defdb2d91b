"""The services of ``docker-compose.yml``, started on this host, run two of the example DAGs."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.hooks.epochs import EpochsHook
from spark_jobs import nyc_tables
from tests.servers.postgresql import binaries
from tests.services.native import NativeDeployment

RUN = "2013-02-04T00:00:00Z"
"""Ends the first day that landed, 3 February."""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeDeployment]:
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed: apt-get install postgresql")
    home = tmp_path_factory.mktemp("deployment")
    found = NativeDeployment(home=home, programs=programs, warehouse=f"file://{home}/warehouse")
    try:
        found.start()
        yield found
    finally:
        found.stop()


@pytest.mark.slow
def test_a_job_of_two_tables_runs_on_the_cluster_and_publishes(deployment: NativeDeployment) -> None:
    run_pipeline(deployment)
    check_tables(deployment)
    check_cluster(deployment)


def run_pipeline(deployment: NativeDeployment) -> None:
    """Flights by ``spark-submit``; the scorecards, which wait for them, by Spark Connect."""
    rest = deployment.rest
    rest.wait_for_dags({"nyc_flights", "nyc_scorecards"}, timeout_s=300)
    runs = {}
    for dag_id in ("nyc_scorecards", "nyc_flights"):
        rest.unpause(dag_id)
        runs[dag_id] = rest.trigger(dag_id, logical_date=RUN)
    for dag_id, run_id in runs.items():
        assert rest.wait_for_run(dag_id, run_id, timeout_s=600) == "success", dag_id


def check_tables(deployment: NativeDeployment) -> None:
    """What tasks published is one cut, and it is what landed; read with the connection that tasks have."""
    given = deployment.environment("airflow-scheduler")
    landed = Path(given["NYC_LANDING"]) / "flights" / "2013-02-03.csv"
    with landed.open() as lines:
        flights = sum(1 for _ in csv.DictReader(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
        for name, value in given.items():
            if name.startswith(("AIRFLOW_CONN_EPOCHS_", "AWS_")):
                patch.setenv(name, value)
        settings = EpochsHook().get_settings()
        with EpochService.open(settings) as service:
            tables = [nyc_tables.FLIGHTS, nyc_tables.CARRIER_DAILY, nyc_tables.ROUTE_DAILY]
            cut = service.cuts.cut(nyc_tables.DOMAIN, tables)
            assert cut.barrier.isoformat() == "2013-02-04T00:00:00+00:00"
            assert service.cuts.read(cut, "flights").num_rows == flights > 0
            for table in ("carrier_daily", "route_daily"):
                assert (
                    sum(service.cuts.read(cut, table, ["flights"]).column("flights").to_pylist()) == flights
                )


def check_cluster(deployment: NativeDeployment) -> None:
    """Both applications ran on the cluster's master, in executors of both workers."""
    with urlopen(f"http://127.0.0.1:{deployment.port('spark-master', 8090)}/json/") as answer:
        state = json.load(answer)
    assert [worker["state"] for worker in state["workers"]] == ["ALIVE", "ALIVE"]
    assert [app["name"] for app in state["activeapps"]] == ["epochs-connect"]
    assert [app["state"] for app in state["completedapps"]] == ["FINISHED"]
    for worker in ("spark-worker-1", "spark-worker-2"):
        used = {path.parent.name for path in (deployment.home / "spark" / worker).glob("app-*/[0-9]*")}
        assert used == {app["id"] for app in (*state["activeapps"], *state["completedapps"])}
