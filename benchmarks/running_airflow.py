"""A real Airflow with its default settings, for benchmarks of whole runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow_provider.coordination.service import Settings
from airflow_provider.stores.factory import upgrade_schema
from demo.airflow_cluster import AirflowCluster
from tests.servers.ports import free_port
from tests.system.page_world import connection

ROOT = Path(__file__).parent.parent
DAGS = Path(__file__).parent / "dags"
_PAUSE_S = 0.25
_TIMEOUT_S = 600.0


def settings_in(home: Path) -> Settings:
    """Keep the store in SQLite, and tables beside it."""
    return Settings(store_url=f"sqlite:///{home}/store.db", warehouse=(home / "warehouse").as_uri())


@contextmanager
def running_airflow(
    home: Path, file: str, dag_ids: set[str], environment: Mapping[str, str]
) -> Iterator[AirflowCluster]:
    """Start Airflow with one file of DAGs, which are taken off pause; stop it at the end.

    :param file: name below ``benchmarks/dags``.
    """
    settings = settings_in(home)
    upgrade_schema(settings.store_url)
    dags = home / "dags"
    dags.mkdir()
    (dags / file).write_text((DAGS / file).read_text(), encoding="utf-8")
    cluster = AirflowCluster(
        home=home,
        dags=dags,
        port=free_port(),
        python_path=[ROOT],
        quick=False,
        environment={"AIRFLOW_CONN_EPOCHS_DEFAULT": connection(home, "store.db"), **environment},
    )
    cluster.migrate()
    cluster.start()
    try:
        cluster.wait_until_healthy()
        cluster.rest.wait_for_dags(dag_ids)
        for dag_id in sorted(dag_ids):
            cluster.rest.unpause(dag_id)
        yield cluster
    finally:
        cluster.stop()


def task_of(cluster: AirflowCluster, dag_id: str, run_id: str, task_id: str) -> Mapping[str, Any]:
    """Return a task of a run, as Airflow's API describes it."""
    found = cluster.rest.task_instances(dag_id, run_id)
    return next(each for each in found if each["task_id"] == task_id)


def wait_for_state(cluster: AirflowCluster, dag_id: str, run_id: str, task_id: str, state: str) -> None:
    """Wait until a task of a run has a state.

    :raises TimeoutError: with the state that it has, after ten minutes.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    while (found := task_of(cluster, dag_id, run_id, task_id)["state"]) != state:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{dag_id}.{task_id} of {run_id} is {found}, not {state}")
        time.sleep(_PAUSE_S)


def finish(cluster: AirflowCluster, dag_id: str, run_id: str) -> None:
    """Wait for a run's end.

    :raises RuntimeError: it failed.
    """
    state = cluster.rest.wait_for_run(dag_id, run_id, timeout_s=_TIMEOUT_S)
    if state != "success":
        raise RuntimeError(f"{dag_id} {run_id}: {state}; logs in {cluster.home}")


def moment(cluster: AirflowCluster, dag_id: str, run_id: str, task_id: str, field: str) -> datetime:
    """Return ``start_date`` or ``end_date`` of a task."""
    return datetime.fromisoformat(str(task_of(cluster, dag_id, run_id, task_id)[field]))
