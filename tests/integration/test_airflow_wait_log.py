"""What a waiting task says: what it waits for, since when that is due, which DAG brings it; and when it gives up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.triggers.base import TriggerEvent

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.checks import Check, row_count
from airflow_provider.domain.completeness import min_files
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import CheckFailed, InvalidInput, NotReady
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Job, Table
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.sensors.epochs import EpochSensor
from airflow_provider.triggers.epochs import EpochTrigger
from tests.airflow_runs import DAY_END, epochs_connection, task_context

DAY = timedelta(days=1)
A = Table("a")
EPOCH = Interval(DAY_END - DAY, DAY_END)
OWNER = Owner(dag_id="producer", run_id="r1")
BUILDS_ON_IT = Job(
    "reads_b", inputs=[A, FileSource("a", "/nowhere/{start:%Y-%m-%d}/*", complete=[min_files(1)])],
    outputs=[Table("out")], cadence="@daily",
)  # fmt: skip


def make(checks: Sequence[Check] = ()) -> Job:
    return Job("make_a", outputs=[A], cadence="@daily", origin=EPOCH.start, checks=checks)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EpochService]:
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    with EpochsHook().get_conn() as opened:
        yield opened


def begin(service: EpochService, checks: Sequence[Check] = ()) -> Attempt:
    attempt = service.begin(make(checks), EPOCH, OWNER)
    assert isinstance(attempt, Attempt)
    return attempt


def sensor(**options: Any) -> EpochSensor:
    return EpochSensor(**{"task_id": "wait", "tables": [A], "deferrable": True, "timeout": 3600, **options})


def first_line(out: str) -> str:
    """Return the first line that the task itself has written, without its time."""
    lines = [line for line in out.splitlines() if "Waiting for" in line]
    return lines[0].partition("Waiting for ")[2].partition("[airflow.")[0].strip()


def in_state(service: EpochService, state: str) -> None:
    """Bring the epoch that is waited for into *state*."""
    if state == "not begun":
        service.register(make())
    if state in ("running", "aborted", "refused", "tried again"):
        attempt = begin(service, checks=[row_count(A, at_least=1)] if state == "refused" else [])
        if state == "refused":
            write(service, attempt)
            with pytest.raises(CheckFailed):
                service.publish(attempt)
        elif state != "running":
            service.abort(attempt, "out of memory")
        if state == "tried again":
            begin(service)


def write(service: EpochService, attempt: Attempt) -> None:
    """Write no row."""
    data, sink = service.formats["iceberg"], attempt.sink("a")
    info = data.describe(sink) or data.create(sink, pa.schema([("x", pa.int64())]))
    service.processed(attempt, "a")
    service.written(attempt, "a", data.describe_output(service.place(attempt, "a"), info, []))


SAID = {
    "unknown": "no job that writes it has run",
    "not begun": "brought by job make_a, not begun; due since 2013-02-08T00:00:00+00:00",
    "running": "brought by job make_a of DAG producer, begun by run r1 and not ended, whose lock lasts until ",
    "aborted": "brought by job make_a of DAG producer, whose last attempt by run r1 failed: out of memory; due since",
    "refused": "whose last attempt by run r1 failed: a check refused its rows: ",
}


@pytest.mark.parametrize("state", SAID)
def test_the_first_line_says_what_is_waited_for_and_which_dag_brings_it(
    service: EpochService, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    """In a worker, and likewise in a trigger that no worker has begun."""
    in_state(service, state)
    waits = sensor()
    with pytest.raises(TaskDeferred):
        waits.execute(task_context())
    line = first_line(capsys.readouterr().out)
    assert line.startswith("a at 2013-02-08T00:00:00+00:00, until 20")
    assert " at most: a: " in line
    assert SAID[state] in line
    trigger = waits.trigger_of_any_run(timedelta(hours=1))
    trigger.render_template_fields(task_context())
    assert first_event(trigger, within_s=1) is None
    assert SAID[state] in first_line(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("state", "fails"),
    [
        ("unknown", ""),
        ("not begun", ""),
        ("running", ""),
        ("tried again", ""),
        ("aborted", "out of memory"),
        ("refused", "a check refused its rows: "),
    ],
)
def test_a_failed_epoch_ends_the_wait_by_name_if_the_task_says_so(
    service: EpochService, state: str, fails: str
) -> None:
    """In every mode; by default, and while another try is at work, it waits on."""
    in_state(service, state)
    strict = {"on_upstream_failure": "fail"}
    name = rf"a: epoch \[2013-02-07.* of job make_a failed in run r1 of DAG producer: {fails}"
    for options in ({}, strict):
        waits = sensor(**options)
        with pytest.raises(NotReady, match=name) if fails and options else pytest.raises(TaskDeferred):
            waits.execute(task_context())
        trigger = waits.trigger_of_any_run(timedelta(hours=1))
        trigger.render_template_fields(task_context())
        event = first_event(trigger, within_s=5 if fails and options else 1)
        assert (event is not None) == bool(fails and options)
        if event is not None:
            assert event.payload["status"] == "failed"
            assert fails in event.payload["message"]
    with pytest.raises(NotReady, match=name) if fails else nullcontext():
        sensor(deferrable=False, **strict).poke(task_context())


def test_a_trigger_that_waits_gives_up_once_the_epoch_fails(service: EpochService) -> None:
    attempt = begin(service)
    trigger = sensor(on_upstream_failure="fail").trigger_of_any_run(timedelta(hours=1))
    trigger.render_template_fields(task_context())
    later = threading.Timer(0.7, service.abort, (attempt, "out of memory"))
    later.start()
    event = first_event(trigger, within_s=15)
    later.join()
    assert event is not None
    assert event.payload["status"] == "failed"


@pytest.mark.parametrize(
    "options",
    [{"at": "2013-02-07T05:00"}, {"at": DAY_END, "consistency": "altogether"}, {"job": BUILDS_ON_IT}],
)
def test_the_failure_of_an_epoch_that_is_not_waited_for_ends_nothing(
    service: EpochService, options: dict[str, Any]
) -> None:
    """The table has what is waited for, and its next epoch has failed; what lacks is another table, or a source."""
    attempt = begin(service)
    write(service, attempt)
    service.publish(attempt)
    late = service.begin(make(), Interval(DAY_END, DAY_END + DAY), OWNER)
    assert isinstance(late, Attempt)
    service.abort(late, "out of memory")
    service.register(Job("slow", outputs=[Table("b")], cadence="@daily", origin=EPOCH.start))
    given = {} if "job" in options else {"tables": [A, Table("b")]}
    waits = EpochSensor(task_id="wait", deferrable=True, on_upstream_failure="fail", **given, **options)
    with pytest.raises(TaskDeferred):
        waits.execute(task_context())


def test_another_word_for_a_failed_epoch_is_refused() -> None:
    with pytest.raises(InvalidInput, match="on_upstream_failure"):
        sensor(on_upstream_failure="skip")


def first_event(trigger: EpochTrigger, within_s: float) -> TriggerEvent | None:
    async def wait() -> TriggerEvent | None:
        try:
            async with asyncio.timeout(within_s):
                return await anext(trigger.run())
        except TimeoutError:
            return None

    return asyncio.run(wait())
