"""``bench.airflow.epoch``: a day of a cascade of three jobs in real Airflow, by this package and plain."""

from __future__ import annotations

import json
import statistics
from datetime import UTC, datetime, timedelta

from benchmarks.figures import figure, progress
from benchmarks.running_airflow import DAGS, ROOT, finish, moment, running_airflow
from benchmarks.sizes import Size
from benchmarks.stores import directory
from demo.airflow_cluster import AirflowCluster, own_environment
from demo.spark_connect import SparkConnectServer, write_configuration
from tests.servers.ports import free_port

ROUNDS = 4
DAY = timedelta(days=1)
ORIGIN = datetime(2013, 2, 1, tzinfo=UTC)
WAYS = ("epochs_connect", "plain_connect", "epochs_submit", "plain_submit")
FIRST, LAST = "made", "summed"


def measure(size: Size = Size.FULL) -> None:
    """Print the median seconds of each way, by turns, from the first task's start to the last one's end."""
    spent: dict[str, list[float]] = {name: [] for name in WAYS}
    with directory("cascade") as home:
        write_configuration(home / "conf")
        spark = {"SPARK_CONF_DIR": str(home / "conf"), "BENCH_PROGRAMS": str(DAGS)}
        server = SparkConnectServer(
            home=home, port=free_port(), environment={**own_environment([ROOT]), **spark}
        )
        where = {"conn_type": "spark_connect", "host": "127.0.0.1", "port": server.port}
        environment = {
            **spark,
            "BENCH_PLAIN_TABLES": str(home / "plain"),
            "AIRFLOW_CONN_SPARK_CONNECT": json.dumps(where),
            "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
        }
        server.start()
        try:
            server.wait_until_ready()
            with running_airflow(home, "cascade.py", set(WAYS), environment) as cluster:
                for number in range(size.of(ROUNDS + 1, 1)):
                    for name in WAYS:
                        took = _run(cluster, name, number)
                        if number or size is Size.SMALLEST:  # the first run of each imports and compiles
                            spent[name].append(took)
                        progress(f"cascade, {name}: {took:.1f} s")
        finally:
            server.stop()
    middle = {name: statistics.median(found) for name, found in spent.items()}
    for name, seconds in middle.items():
        figure(f"bench.airflow.epoch.{name}_s", seconds)
    figure("bench.airflow.epoch", middle["epochs_connect"] / middle["plain_connect"])
    figure("bench.airflow.epoch.submit", middle["epochs_submit"] / middle["plain_submit"])
    figure("bench.airflow.epoch.faster_than_submit", middle["plain_submit"] / middle["epochs_connect"])


def _run(cluster: AirflowCluster, dag_id: str, number: int) -> float:
    run = cluster.rest.trigger(dag_id, logical_date=(ORIGIN + (number + 1) * DAY).isoformat())
    finish(cluster, dag_id, run)
    began = moment(cluster, dag_id, run, FIRST, "start_date")
    return (moment(cluster, dag_id, run, LAST, "end_date") - began).total_seconds()
