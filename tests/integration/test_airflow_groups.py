"""Tasks of a commit group: each ends once its epoch is staged, and the last one publishes all of them (R40)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, task

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import InvalidInput, NotReady
from airflow_provider.domain.topology import Group, Job, Table
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.operators.assets import asset_of
from airflow_provider.operators.decorator import EpochDecoratedOperator
from airflow_provider.sensors.epochs import EpochSensor
from tests.airflow_runs import epochs_connection, task_context

RAW, CLEAN = Table("raw"), Table("clean")
GROUP = Group("flights", jobs=["raw", "clean"])
OPTIONS: dict[str, Any] = {"cadence": "@daily", "group": GROUP, "origin": datetime(2013, 2, 7, tzinfo=UTC)}
FIRST = Job("raw", outputs=[RAW], **OPTIONS)
SECOND = Job("clean", inputs=[RAW], outputs=[CLEAN], **OPTIONS)


@pytest.fixture(autouse=True)
def _connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_LOCAL", '{"conn_type": "spark", "host": "local[1]"}')


@pytest.fixture
def service() -> Iterator[EpochService]:
    with EpochsHook().get_conn() as opened:
        yield opened


def made(function: Callable[..., Any], job: Job, dag_id: str, **options: Any) -> EpochDecoratedOperator:
    """The operator of *job* in a DAG of its own."""
    with DAG(dag_id, schedule=None, start_date=datetime(2013, 1, 1, tzinfo=UTC)) as dag:
        wait = timedelta(0)
        task.epoch(job=job, spark_conn_id="spark_local", wait_timeout=wait, **options)(function)()
    (operator,) = dag.tasks
    assert isinstance(operator, EpochDecoratedOperator)
    return operator


def raw(epoch: Any) -> None:
    epoch.write(RAW, epoch.spark.range(3).selectExpr("id"))


def clean(epoch: Any) -> None:
    epoch.write(CLEAN, epoch.read(RAW).where("id > 0"))


def must_not_run(epoch: Any) -> None:
    raise AssertionError(epoch)


def test_two_dags_publish_their_day_together(service: EpochService) -> None:
    second = made(clean, SECOND, "second")
    with pytest.raises(NotReady):
        second.execute(task_context())
    first = task_context()
    made(raw, FIRST, "first").execute(first)
    (told,) = first["outlet_events"][asset_of(RAW)].extra["epochs"]
    assert told == {"start": "2013-02-07T00:00:00+00:00", "end": "2013-02-08T00:00:00+00:00"}
    made(must_not_run, FIRST, "first").execute(task_context(try_number=2))
    with pytest.raises(NotReady):
        service.cuts.cut("default", [RAW])
    context = task_context()
    second.execute(context)
    cut = service.cuts.cut("default", [RAW, CLEAN])
    assert [len(service.cuts.read(cut, table)) for table in (RAW, CLEAN)] == [3, 2]
    (told,) = context["outlet_events"][asset_of(CLEAN)].extra["epochs"]
    assert told["csn"] == cut.csn


@pytest.mark.parametrize(
    "ask",
    [
        lambda: made(raw, FIRST, "first", batch="@weekly"),
        lambda: made(raw, FIRST, "first", commit="together"),
        lambda: EpochSensor(task_id="wait", job=SECOND),
    ],
    ids=["batch", "together", "sensor"],
)
def test_what_would_make_a_group_wait_for_itself_is_refused(ask: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput, match="flights"):
        ask()
