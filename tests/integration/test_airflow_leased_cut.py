"""A sensor whose result is a leased cut, and cuts with a reader's options, in a worker and without one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred
from airflow.triggers.base import TaskSuccessEvent

from airflow_provider import connect
from airflow_provider.domain.errors import InvalidInput, LeaseExpired, LeaseHeld
from airflow_provider.operators.leases import EpochReleaseOperator
from tests.airflow_runs import DAY_END, task_context
from tests.airflow_versions import AIRFLOW
from tests.integration.test_airflow_without_worker import (
    DAY,
    MAKE_A,
    MAKE_B,
    READER,
    A,
    B,
    _connection,
    commit,
    deferred,
    fired,
    run,
    waits,
)

__all__ = ["_connection"]  # a fixture of this module
HOURS = timedelta(hours=6)


def leases() -> list[Any]:
    with connect("epochs_default") as epochs:
        return epochs.leases()


def in_trigger(sensor: Any, task: Any, data: dict[str, Any]) -> Any:
    """Return what a triggerer is told of a wait that begins there, or, in an older Airflow, in a worker."""
    return run(data, task) if AIRFLOW >= (3, 3) else deferred(sensor)


@pytest.mark.parametrize("where", ["worker", "poke", "trigger"])
def test_the_tasks_after_it_read_the_cut_that_it_has_leased(where: str) -> None:
    """Also when the tables have moved on; the block of one of them leaves the lease to the others."""
    sensor, task, data = waits(lease=HOURS, deferrable=where != "poke")
    told = in_trigger(sensor, task, data) if where == "trigger" else None
    for job in (MAKE_A, MAKE_B):
        commit(job)
    if told is not None:
        event = fired(told)
        assert isinstance(event, TaskSuccessEvent)
        found: Any = (event.xcoms or {})["return_value"]
    else:
        found = sensor.execute(task_context())
    assert found.keys() == {"domain", "barrier", "csn", "lease", "owner", "until"}
    assert (found["barrier"], found["csn"]) == (DAY_END.isoformat(), 2)
    commit(MAKE_A, 1)
    commit(MAKE_B, 1)
    with connect("epochs_default") as epochs:
        for _ in range(2):
            with epochs.held(found) as held:
                assert (held.cut.barrier, held.cut.record.csn) == (DAY_END, 2)
        assert epochs.cut([A, B]).barrier == DAY_END + DAY
        assert release(found) is True
        with pytest.raises(LeaseExpired, match=found["lease"]):
            epochs.held(found)
    assert release(found) is False, "a teardown may run again"


def release(found: Any) -> bool:
    return EpochReleaseOperator(task_id="release", held=found).execute(task_context())


def test_a_try_that_ends_twice_has_one_lease_and_another_try_another_one() -> None:
    """Airflow may run a trigger twice; a cleared sensor does not get the cut of before."""
    sensor, task, data = waits(lease=HOURS)
    workload = in_trigger(sensor, task, data)
    for job in (MAKE_A, MAKE_B):
        commit(job)
    first, second = (fired(workload).xcoms["return_value"] for _ in range(2))
    assert (first["lease"], first["csn"]) == (second["lease"], second["csn"])
    assert len(leases()) == 1
    names = {sensor.execute(task_context(try_number=number))["lease"] for number in (1, 1, 2)}
    assert len(names) == 2
    assert len(leases()) == 3


def test_a_try_that_ends_twice_keeps_its_lease_when_a_later_cut_would_serve() -> None:
    """Two triggerers run one trigger: the result of the first is in use when the second one ends."""
    workload = in_trigger(*waits(lease=HOURS, max_staleness=timedelta(days=36_500)))
    for job in (MAKE_A, MAKE_B):
        commit(job)
    first = fired(workload).xcoms["return_value"]
    for job in (MAKE_A, MAKE_B):
        commit(job, 1)
    second = fired(workload).xcoms["return_value"]
    assert (first["barrier"], second["barrier"]) == (DAY_END.isoformat(),) * 2
    with connect("epochs_default") as epochs:
        assert epochs.held(first).cut.barrier == DAY_END


def test_a_lease_that_cannot_be_had_wakes_a_worker_which_fails_by_it() -> None:
    sensor, task, data = waits(lease=HOURS)
    workload = in_trigger(sensor, task, data)
    for job in (MAKE_A, MAKE_B):
        commit(job)
    assert workload.ti is not None
    with connect("epochs_default") as epochs:
        for name in (workload.ti.id, UUID(int=1)):
            epochs.lease([A, B], name=f"sensor-{name}", owner="another")
    assert fired(workload).payload["status"] == "ready"
    with pytest.raises(LeaseHeld, match="another"):
        sensor.execute(task_context())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"lease": timedelta(0)}, "ttl"),
        ({"lease": timedelta(days=365)}, "ttl"),
        ({"align": "floor"}, "max_lag"),
        ({"consistency": "any"}, "consistency"),
        ({"job": READER, "lease": HOURS}, "job"),
        ({"job": READER, "consistency": "altogether"}, "job"),
    ],
)
def test_what_no_cut_can_be_is_refused_when_the_dag_is_parsed(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        waits(**options)


@pytest.mark.parametrize("found", [None, {}, {"domain": "default", "barrier": "x", "csn": 1}])
def test_a_result_without_a_lease_is_refused(found: Any) -> None:
    with connect("epochs_default") as epochs, pytest.raises(InvalidInput, match="lease"):
        epochs.held(found)
    with pytest.raises(AirflowFailException, match=r"expected what EpochSensor\(lease=…\) returns"):
        release(found)


def test_a_sensor_waits_for_the_cut_that_a_reader_with_its_options_gets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a worker and without one; by default as readers of this deployment read."""
    commit(MAKE_A)
    commit(MAKE_A, 1)
    commit(MAKE_B)
    later = {"logical_date": DAY_END + DAY, "data_interval_end": DAY_END + DAY}
    for options, ready in (({}, True), ({"consistency": "altogether"}, False)):
        sensor, task, data = waits(tables=[A], **options)
        if AIRFLOW >= (3, 3):
            assert (fired(run(data, task, **later), within_s=5 if ready else 1) is not None) == ready
        context = task_context(run_date=DAY_END + DAY)
        if ready:
            assert sensor.execute(context)["barrier"] == (DAY_END + DAY).isoformat()
        else:
            with pytest.raises(TaskDeferred) as deferred:
                sensor.execute(context)
            assert deferred.value.trigger.serialize()[1]["cut"] == {"consistency": "altogether"}
    monkeypatch.setenv("AIRFLOW__EPOCHS__READ_CONSISTENCY", "altogether")
    with pytest.raises(TaskDeferred):
        waits(tables=[A])[0].execute(task_context(run_date=DAY_END + DAY))
    old = waits(tables=[A], max_staleness=timedelta(days=1))[0]
    with pytest.raises(TaskDeferred):
        old.execute(task_context())
    young = waits(tables=[A], max_staleness=timedelta(days=36_500), consistency="rolling")[0]
    assert young.execute(task_context())["barrier"] == (DAY_END + DAY).isoformat()
