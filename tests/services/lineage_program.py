"""Run tasks of the package where Airflow's provider for OpenLineage is installed; print the events that it makes.

``python -m tests.services.lineage_program FOLDER``: a store and a warehouse are made in the folder.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

ORIGIN = datetime(2013, 2, 6, tzinfo=UTC)
DAY = timedelta(days=1)


def main(folder: str) -> None:
    connection = {
        "conn_type": "epochs",
        "host": f"{folder}/store.db",
        "extra": {"backend": "sqlite", "warehouse": f"file://{folder}/warehouse"},
    }
    os.environ["AIRFLOW_CONN_EPOCHS_DEFAULT"] = json.dumps(connection)
    from airflow.providers.openlineage.extractors.manager import ExtractorManager
    from airflow.sdk import DAG
    from airflow.utils.state import TaskInstanceState
    from openlineage.client.serde import Serde

    from airflow_provider.domain.epoch import Attempt
    from airflow_provider.domain.interval import Interval
    from airflow_provider.domain.owner import Owner
    from airflow_provider.domain.source_bounds import FileSource
    from airflow_provider.domain.topology import Job, Table
    from airflow_provider.hooks.epochs import EpochsHook
    from airflow_provider.operators.skipping import EpochSkipOperator
    from airflow_provider.operators.spark_submit import EpochSparkSubmitOperator
    from airflow_provider.sources.readers import SourceReaders
    from airflow_provider.testing.arrow_attempts import write_rows
    from tests.airflow_runs import task_context

    Path(f"{folder}/2013-02-07.csv").write_text("a")
    options: dict[str, Any] = {"cadence": "@daily", "origin": ORIGIN}
    load = Job("load", outputs=[Table("rides")], **options)
    feed = FileSource("feed", f"{folder}/{{start:%Y-%m-%d}}.csv")
    count = Job("count", inputs=[Table("rides"), feed], outputs=[Table("totals")], **options)
    context = task_context()
    owner = Owner(dag_id=context["dag_run"].dag_id, run_id=context["dag_run"].run_id, try_number=1)
    day = Interval(ORIGIN + DAY, ORIGIN + 2 * DAY)
    with EpochsHook().get_conn() as service:
        for job, interval in ((load, Interval(ORIGIN, day.start)), (load, day), (count, day)):
            attempt = service.begin(job, interval, owner, sources=SourceReaders())
            assert isinstance(attempt, Attempt)
            write_rows(service, attempt, job.outputs[0].name, pa.table({"x": [1, 2, 3]}))
            service.publish(attempt)
    with DAG("pipeline", schedule=None):
        submit = EpochSparkSubmitOperator(task_id="count", job=count, application="x.py", conn_id="spark")
        skip = EpochSkipOperator(task_id="skip", job=count, reason="closed", interval="2013-02-08")
        fails = EpochSparkSubmitOperator(
            task_id="fails", job=count, application="x.py", interval="2013-02-06", wait_timeout=timedelta()
        )
    told: dict[str, Any] = {}
    for task, state in (
        (submit, TaskInstanceState.SUCCESS),
        (skip, TaskInstanceState.SUCCESS),
        (fails, TaskInstanceState.FAILED),
    ):
        try:
            task.execute(context)
        except Exception as error:
            if state is TaskInstanceState.SUCCESS:
                raise
            told["error"] = f"{type(error).__name__}: {error}"
        instance = SimpleNamespace(task_id=task.task_id, dag_id="pipeline", task=task)
        found = ExtractorManager().extract_metadata(
            dagrun=context["dag_run"], task=task, task_instance_state=state, task_instance=instance
        )
        told[task.task_id] = {
            "inputs": [json.loads(Serde.to_json(dataset)) for dataset in found.inputs],
            "outputs": [json.loads(Serde.to_json(dataset)) for dataset in found.outputs],
            "run": {name: json.loads(Serde.to_json(facet)) for name, facet in found.run_facets.items()},
        }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
