"""A sensor that starts and ends in the triggerer, through Airflow's own serialization and its trigger runner."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

import pytest
from airflow.api_fastapi.execution_api.datamodels.taskinstance import DagRun
from airflow.jobs.triggerer_job_runner import TriggerRunner
from airflow.models.trigger import Trigger
from airflow.providers.common.compat.sdk import (
    AirflowSensorTimeout,
    AirflowSkipException,
    ParamValidationError,
    TaskDeferred,
)
from airflow.sdk import DAG, Asset, AssetAlias, Param
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import SetXCom
from airflow.triggers.base import TaskSuccessEvent, TriggerEvent
from airflow.utils.types import DagRunType

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Job, Table, previous, state
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.operators.assets import asset_of
from airflow_provider.sensors.epochs import EpochSensor
from airflow_provider.triggers import epochs as triggers
from tests.airflow_runs import DAY_END, epochs_connection, published, task_context
from tests.airflow_versions import AIRFLOW, DagSerialization, RunTrigger, TaskInstanceDTO, since
from tests.committed import FORMATS, commit_epoch

DAY = timedelta(days=1)
A, B = Table("a", format="memory"), Table("b", format="memory")
MAKE_A, MAKE_B = (
    Job(f"make_{table.name}", outputs=[table], cadence="@daily", origin=DAY_END - DAY) for table in (A, B)
)
READER = Job("read_a", inputs=[A], outputs=[Table("out")], cadence="@daily")


@pytest.fixture(autouse=True)
def _connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    with EpochsHook().get_conn() as service:
        writer = EpochService(service.store, FORMATS)
        for job in (MAKE_A, MAKE_B):
            writer.register(job)


def commit(job: Job, number: int = 0) -> None:
    """Commit a day of *job*; that of the run is the first."""
    with EpochsHook().get_conn() as service:
        daily = Interval(DAY_END + (number - 1) * DAY, DAY_END + number * DAY)
        commit_epoch(service.store, job, daily, origin=DAY_END - DAY)


def waits(*, dag: dict[str, Any] | None = None, **options: Any) -> tuple[EpochSensor, Any, dict[str, Any]]:
    """Return a sensor, the task that the scheduler has of it, and its serialized DAG."""
    given = {"tables": [A, B]} if "job" not in options else {}
    with DAG("reads", schedule="@daily", start_date=DAY_END, **(dag or {})) as made:
        sensor = EpochSensor(**{"task_id": "wait", "deferrable": True, **given, **options})
    data = json.loads(json.dumps(DagSerialization.to_dict(made)))
    return sensor, DagSerialization.from_dict(data).get_task("wait"), data


def run(data: dict[str, Any], task: Any, *, until: datetime | None = None, **fields: Any) -> RunTrigger:
    """Return what a triggerer is told of the trigger that the scheduler has made."""
    dag_run = DagRun(
        **{
            "dag_id": "reads",
            "run_id": "r",
            "logical_date": DAY_END,
            "data_interval_start": DAY_END,
            "data_interval_end": DAY_END,
            "run_after": DAY_END,
            "start_date": DAY_END,
            "end_date": None,
            **({"partition_key": None} if AIRFLOW >= (3, 2) else {}),
            "run_type": DagRunType.SCHEDULED,
            "state": "running",
            "consumed_asset_events": [],
            **fields,
        }
    )
    arguments = task.start_trigger_args
    return workload(
        arguments.trigger_cls,
        arguments.trigger_kwargs,
        timeout_after=until,
        dag_data=data,
        dag_run_data=dag_run.model_dump(exclude_unset=True),
    )


def workload(classpath: str, arguments: dict[str, Any], **more: Any) -> RunTrigger:
    instance = TaskInstanceDTO(
        id=uuid4(), dag_version_id=uuid4(), task_id="wait", dag_id="reads", run_id="r", try_number=1,
        map_index=-1, pool_slots=1, priority_weight=1, queue="default",
    )  # fmt: skip
    return RunTrigger(
        id=1,
        classpath=classpath,
        encrypted_kwargs=Trigger.encrypt_kwargs(arguments),
        ti=instance,
        **{"timeout_after": None, **more},
    )


def deferred(sensor: EpochSensor) -> RunTrigger:
    """Return what a triggerer is told of the trigger for which a worker has deferred the task."""
    with pytest.raises(TaskDeferred) as caught:
        sensor.execute(task_context())
    return workload(*caught.value.trigger.serialize())


def fired(told: RunTrigger, within_s: float = 20, later: Callable[[], None] | None = None) -> Any:
    """Return the event that the runner of a triggerer has for it, with the results that it stores before; None if none
    comes.
    """

    async def wait() -> TriggerEvent | None:
        runner = TriggerRunner()
        runner.to_create.append(told)
        await runner.create_triggers()
        if later is not None:
            await asyncio.sleep(0.5)
            await asyncio.to_thread(later)
        running = runner.triggers[1]["task"]
        await asyncio.wait([running], timeout=within_s)
        if not running.done():
            running.cancel()
            return None
        running.result()
        first: Any = runner.events[0]
        return getattr(first, "event", first[-1])

    with mock.patch.object(task_runner, "SUPERVISOR_COMMS", mock.MagicMock(), create=True) as comms:
        event = asyncio.run(wait())
    if isinstance(event, TaskSuccessEvent):
        assert event.xcoms is None, "Airflow stores those of an event as text"
        told = [call.args[0] for call in comms.send.call_args_list]
        event.xcoms = {message.key: message.value for message in told if isinstance(message, SetXCom)}
    return event


@since(3, 3)
def test_it_begins_waits_and_succeeds_without_a_worker() -> None:
    """Its return value and its link are those that a worker leaves."""
    commit(MAKE_A)
    sensor, task, data = waits()
    assert (task.start_from_trigger, task.start_trigger_args.timeout) == (True, timedelta(days=7, minutes=10))
    told = run(data, task)
    assert fired(told, 1) is None
    event = fired(told, later=lambda: commit(MAKE_B))
    assert isinstance(event, TaskSuccessEvent)
    found = sensor.execute(task_context())
    assert event.xcoms == {
        "return_value": found,
        "_link_EpochGridLink": sensor.operator_extra_links[0].get_link(sensor, ti_key=None),  # type: ignore[arg-type]
    }
    assert found == {"domain": "default", "barrier": DAY_END.isoformat(), "csn": 2}


def test_a_wait_that_a_worker_has_begun_ends_without_one() -> None:
    commit(MAKE_A)
    sensor, _, _ = waits()
    event = fired(deferred(sensor), later=lambda: commit(MAKE_B))
    assert isinstance(event, TaskSuccessEvent)
    found = sensor.execute(task_context())
    link = sensor.operator_extra_links[0].get_link(sensor, ti_key=None)  # type: ignore[arg-type]
    assert event.xcoms == {"return_value": found, "_link_EpochGridLink": link}


@since(3, 3)
@pytest.mark.parametrize(
    ("options", "fields", "ready"),
    [
        ({}, {"logical_date": DAY_END + DAY, "data_interval_end": DAY_END + DAY}, False),
        ({"at": "2013-02-08"}, {"logical_date": DAY_END + DAY, "data_interval_end": DAY_END + DAY}, True),
        ({"at": DAY_END}, {"logical_date": None, "data_interval_end": None}, True),
        ({"at": Interval(DAY_END - DAY, DAY_END)}, {"logical_date": None, "data_interval_end": None}, True),
        ({"cadence": "@daily"}, {"logical_date": DAY_END + timedelta(hours=13)}, True),
        ({}, {"partition_key": "2013-02-07", "logical_date": None}, True),
        ({}, {"partition_key": "2013-02-08", "logical_date": None}, False),
        ({"job": READER}, {"logical_date": DAY_END + timedelta(hours=13)}, True),
        ({"job": READER, "at": "2013-02-09"}, {}, False),
        ({"job": Job("own", inputs=[previous(own := Table("own")), state(A)], outputs=[own],
                     cadence="@daily", origin=DAY_END - DAY)}, {}, True),
    ],
)  # fmt: skip
def test_a_run_without_a_worker_waits_for_the_barrier_that_a_worker_waits_for(
    options: dict[str, Any], fields: dict[str, Any], ready: bool
) -> None:
    for job in (MAKE_A, MAKE_B):
        commit(job)
    sensor, task, data = waits(**options)
    event = fired(run(data, task, **fields), within_s=5 if ready else 1)
    context = task_context()
    for name, value in fields.items():
        setattr(context["dag_run"], name, value)
    context["dag_run"].data_interval_start = context["dag_run"].data_interval_end
    if ready:
        assert event.xcoms["return_value"] == sensor.execute(context)
    else:
        assert event is None
        with pytest.raises(TaskDeferred):
            sensor.execute(context)


def test_a_result_that_airflow_does_not_take_wakes_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which stores it, and ends the task: tasks after a sensor that has succeeded find its result."""
    commit(MAKE_A)
    told = deferred(waits()[0])
    commit(MAKE_B)

    def lost(*_: Any, **__: Any) -> None:
        raise ConnectionError("lost")

    monkeypatch.setattr(BaseXCom, "set", lost)
    assert fired(told).payload["status"] == "ready"


@since(3, 3)
def test_the_time_out_is_of_the_whole_wait_and_says_what_is_missing() -> None:
    """However often the trigger begins anew; and a worker that waits on goes on with the same time."""
    sensor, task, data = waits(timeout=3600)
    over = datetime.now(UTC) + timedelta(
        minutes=10
    )  # Airflow's own end; the sensor's is ten minutes before it
    event = fired(run(data, task, until=over))
    assert event.payload["status"] == "waited"
    with pytest.raises(AirflowSensorTimeout, match=r"Not within 1:00:00: a: .*; b: "):
        sensor.resumed(task_context(), event.payload)
    left = datetime.fromisoformat(event.payload["since"]) + timedelta(hours=1, minutes=10)
    assert left == over
    short, task, data = waits(timeout=3600, execution_timeout=timedelta(minutes=5))
    event = fired(run(data, task, until=datetime.now(UTC) + timedelta(minutes=4)), within_s=1)
    assert event is None, "Airflow ends it after five minutes; it has not begun to end by itself"
    assert short.trigger_of_any_run(timedelta(hours=1)).trigger_timeout == 300


@since(3, 3)
def test_a_run_that_assets_have_started_is_found_out_about_by_a_worker() -> None:
    """Airflow tells no trigger the events."""
    for job in (MAKE_A, MAKE_B):
        commit(job)
    sensor, task, data = waits()
    event = fired(run(data, task, run_type=DagRunType.ASSET_TRIGGERED, logical_date=None))
    assert event.payload["status"] == "ask"
    context = task_context(events=[published("a", (DAY_END - DAY, DAY_END))])
    assert sensor.resumed(context, event.payload)["barrier"] == DAY_END.isoformat()


@since(3, 3)
def test_what_can_never_be_is_said_by_the_worker() -> None:
    _, task, data = waits(job=READER)
    event = fired(run(data, task, partition_key="2013-02-07T05:00:00+00:00"))
    assert event.payload["status"] == "error"
    assert "partition_key" in event.payload["message"]


@pytest.mark.parametrize(
    ("options", "dag", "starts", "ends"),
    [
        ({}, {}, True, True),
        ({"deferrable": False}, {}, False, False),
        ({"start_from_trigger": False}, {}, False, True),
        ({"end_from_trigger": False}, {}, True, False),
        ({"at": "{{ ds }}"}, {}, False, True),
        ({"on_execute_callback": lambda _: None}, {}, False, True),
        ({"pre_execute": lambda _: None}, {}, False, True),
        ({"post_execute": lambda *_: None}, {}, True, False),
        ({"outlets": [asset_of(Table("told"))]}, {}, True, False),
        ({"do_xcom_push": False}, {}, True, False),
        ({"inlets": [AssetAlias("any")]}, {}, False, True),
        ({"inlets": [Asset.ref(name="a")]}, {}, False, True),
        ({"multiple_outputs": True}, {}, True, False),
        ({"params": {"x": 1}}, {}, False, True),
        ({}, {"params": {"x": 1}}, False, True),
    ],
)
def test_it_starts_or_ends_in_a_worker_where_something_would_be_lost(
    options: dict[str, Any], dag: dict[str, Any], starts: bool, ends: bool
) -> None:
    sensor, task, _ = waits(dag=dag, **options)
    starts = starts and AIRFLOW >= (3, 3)
    assert (task.start_from_trigger, task.start_trigger_args is not None) == (starts, starts)
    assert sensor.trigger_of_any_run(DAY).ends == ends
    for option, is_so in (("start_from_trigger", starts), ("end_from_trigger", ends)):
        if not is_so and option not in options:
            with pytest.raises(InvalidInput, match=option):
                waits(dag=dag, **{**options, option: True})[0].trigger_of_any_run(DAY)


def test_a_result_that_tasks_are_mapped_over_is_pushed_by_a_worker() -> None:
    with DAG("reads", schedule=None) as dag:
        sensor = EpochSensor(task_id="wait", tables=[A], deferrable=True)
        EpochSensor.partial(task_id="each", tables=[A]).expand(at=sensor.output)
    task = DagSerialization.from_dict(DagSerialization.to_dict(dag)).get_task("wait")
    assert task.start_from_trigger == (AIRFLOW >= (3, 3))
    assert not sensor.trigger_of_any_run(DAY).ends


@pytest.mark.parametrize("given", [asset_of(Table("other")), [asset_of(Table("other"))], asset_of(A)])
def test_its_inlets_are_its_tables_beside_those_of_the_author(given: Any) -> None:
    """One or many, of the task or of all tasks."""
    more = [asset for asset in (given if isinstance(given, list) else [given]) if asset != asset_of(A)]
    wanted = [asset_of(A), asset_of(B), *more]
    for options in ({"inlets": given}, {"default_args": {"inlets": given}}):
        sensor, _, _ = waits(**options)
        assert len(sensor.inlets) == len(wanted)
        assert all(asset in sensor.inlets for asset in wanted)


@pytest.mark.parametrize("option", ["soft_fail", "never_fail"])
@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"timeout": 0}, None),
        pytest.param({"job": READER}, "2013-02-07T05:00:00+00:00", marks=since(3, 2)),
    ],
)
def test_a_first_question_that_fails_is_soft_as_a_later_one(
    option: str, wrong: dict[str, Any], key: str | None
) -> None:
    sensor, _, _ = waits(**wrong, **{option: True})
    context = task_context()
    if key:
        context["dag_run"].partition_key = key
    for ask in (sensor.execute, lambda context: sensor.resume_execution("resumed", {"event": {}}, context)):
        with pytest.raises(AirflowSkipException):
            ask(context)


def test_a_mapped_sensor_starts_in_a_worker() -> None:
    """Airflow cannot start it elsewhere: it would not know the values that it is mapped over."""
    with DAG("reads", schedule=None) as dag:
        EpochSensor.partial(task_id="wait", tables=[A], deferrable=True).expand(at=["2013-02-08"])
    task = DagSerialization.from_dict(DagSerialization.to_dict(dag)).get_task("wait")
    assert (task.start_from_trigger, task.start_trigger_args) == (False, None)


def test_listeners_hear_of_the_end_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    commit(MAKE_A)
    told = deferred(waits()[0])
    commit(MAKE_B)
    monkeypatch.setattr(triggers, "_is_for_workers", lambda: True)
    assert fired(told).payload["status"] == "ready"


@since(3, 3)
def test_airflow_ends_its_triggerer_for_a_param_without_a_default() -> None:
    """Why a DAG with params starts in a worker: should this fail, a later Airflow may do without."""
    _, task, _ = waits()
    with DAG("reads", schedule=None, params={"x": Param(type="integer")}) as dag:
        EpochSensor(task_id="wait", tables=[A])
    with pytest.raises(ParamValidationError):
        fired(run(DagSerialization.to_dict(dag), task, conf={"x": 1}))
