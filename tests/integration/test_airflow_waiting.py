"""Sensor and trigger over SQLite: the same answers in every mode, and no wait that an outage ends."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    Stats,
    TaskDeferred,
)
from airflow.sdk import DAG, PokeReturnValue, task
from airflow.sdk.execution_time import task_runner
from airflow.triggers.base import TriggerEvent

from airflow_provider.coordination.reading.wait import JobInputs, begin_readiness
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.completeness import marker, min_files, none_needed
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import EpochBusy, PackageTooOld, StoreUnavailable
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Job, Table, increment, previous, state, window
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.hooks.task_run import task_owner
from airflow_provider.operators import waiting as begin_waiting
from airflow_provider.operators.outcome import IGNORED, tell_ignored
from airflow_provider.operators.participants import EpochBeginOperator, epoch_task_group
from airflow_provider.sensors.epochs import EpochSensor
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.base import MetadataStore
from airflow_provider.stores.factory import open_store
from airflow_provider.testing.faults import Call, Fault, FaultyStore
from airflow_provider.triggers import shared_reader
from airflow_provider.triggers.epochs import EpochTrigger, as_plain_values
from tests.airflow_runs import DAY_END, epochs_connection, task_context

A, B, C = Table("a"), Table("b"), Table("c")
JOBS = {
    "a": Job("make_a", outputs=[A], cadence="@daily", origin=datetime(2013, 2, 6, tzinfo=UTC)),
    "b": Job("make_b", outputs=[B], cadence="@daily", origin=datetime(2013, 2, 6, tzinfo=UTC)),
    "c": Job("make_c", outputs=[C], cadence="@daily"),
}
SCHEMA = pa.schema([("x", pa.int64())])
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))


@pytest.fixture
def service() -> Iterator[EpochService]:
    with EpochsHook().get_conn() as opened:
        yield opened


def publish(service: EpochService, table: str, *days: int) -> None:
    """Commit the epochs of February 2013 that begin on *days*."""
    for day in days:
        start = datetime(2013, 2, day, tzinfo=UTC)
        publish_epoch(service, JOBS[table], Interval(start, start + DAY), day)


def publish_epoch(service: EpochService, job: Job, epoch: Interval, number: int) -> None:
    """Commit one row of the job's table."""
    table = job.outputs[0].name
    attempt = service.begin(job, epoch, Owner(dag_id="producer", run_id=str(number)))
    assert isinstance(attempt, Attempt)
    data = service.formats["iceberg"]
    sink = attempt.sink(table)
    info = data.describe(sink) or data.create(sink, SCHEMA)
    place = service.place(attempt, table)
    files = list(data.task_writer(place, info)([pa.RecordBatch.from_pydict({"x": [number]})]))
    service.processed(attempt, table)
    service.written(attempt, table, data.describe_output(place, info, files))
    service.publish(attempt)


def sensor(**options: Any) -> EpochSensor:
    return EpochSensor(**{"task_id": "wait", "tables": [A, B], **options})


def first_event(trigger: EpochTrigger, within_s: float | None = None) -> TriggerEvent | None:
    """The trigger's event, None when there is none yet; of a task, as a triggerer has it."""
    trigger.task_instance = SimpleNamespace(dag_id="reads", task_id="wait", run_id="r", map_index=-1)  # type: ignore[assignment]

    async def wait() -> TriggerEvent | None:
        try:
            async with asyncio.timeout(within_s):
                return await anext(trigger.run())
        except TimeoutError:
            return None

    with mock.patch.object(task_runner, "SUPERVISOR_COMMS", mock.MagicMock(), create=True):
        return asyncio.run(wait())


def trigger(**options: Any) -> EpochTrigger:
    given = {"domain": "default", "tables": ["a", "b"], "barrier": DAY_END.isoformat(), "poll_interval": 0.2}
    return EpochTrigger(**{**given, **options})


@pytest.mark.parametrize(
    ("a", "b", "ready"),
    [
        ((), (), False),
        ((6, 7), (), False),
        ((6, 7), (6,), False),
        ((6, 7), (7,), False),
        ((6, 7), (6, 7), True),
        ((6, 7, 8), (6, 7), True),
    ],
    ids=["no owner yet", "one table", "a day behind", "a gap", "ready", "ahead"],
)
def test_every_mode_gives_the_same_answer(
    service: EpochService, a: tuple[int, ...], b: tuple[int, ...], ready: bool
) -> None:
    publish(service, "a", *a)
    publish(service, "b", *b)
    expected = {"domain": "default", "barrier": DAY_END.isoformat(), "csn": len(a) + len(b)}

    poked = sensor(deferrable=False).poke(task_context())
    assert isinstance(poked, PokeReturnValue)
    assert (bool(poked), poked.xcom_value) == (ready, expected if ready else None)

    event = first_event(trigger(), within_s=1.0)
    assert (event is not None) == ready

    for answer in (sensor().execute, lambda context: sensor().resumed(context, {"status": "ready"})):
        if ready:
            assert answer(task_context()) == expected
        else:
            with pytest.raises(TaskDeferred) as deferred:
                answer(task_context())
            assert isinstance(deferred.value.trigger, EpochTrigger)
            _, kwargs = deferred.value.trigger.serialize()
            given = {"poll_interval": 5.0, "until": kwargs["until"], "ends": True}
            assert kwargs == {**trigger().serialize()[1], **given}
            assert deferred.value.method_name == "resumed"


def test_poke_mode_is_woken_by_the_commit(service: EpochService) -> None:
    """The worker's pause is the store's watch: the next poke would come after the timeout."""
    publish(service, "a", 6, 7)
    later = threading.Timer(0.5, publish, (service, "b", 6, 7))
    later.start()
    assert sensor(deferrable=False, poke_interval=120, timeout=60).execute(task_context())["csn"] == 4
    later.join()


def test_poke_mode_times_out() -> None:
    with pytest.raises(AirflowSensorTimeout):
        sensor(deferrable=False, poke_interval=0.05, timeout=0.1).execute(task_context())


def test_the_trigger_is_woken_by_the_commit(service: EpochService) -> None:
    """Its own poll is far too slow to be what finds it."""
    publish(service, "a", 6, 7)
    later = threading.Timer(0.5, publish, (service, "b", 6, 7))
    later.start()
    started = time.monotonic()
    event = first_event(trigger(poll_interval=3600))
    later.join()
    assert event is not None
    assert event.payload == {"status": "ready", "barrier": DAY_END.isoformat(), "csn": 4}
    assert time.monotonic() - started < 60


def test_many_triggers_share_one_watch_and_leave_nothing_open(service: EpochService) -> None:
    publish(service, "a", 6, 7)

    async def wait() -> int:
        waiting = [asyncio.create_task(anext(trigger(poll_interval=3600).run())) for _ in range(50)]
        readers = shared_reader.of_this_loop().readers
        while sum(reader.users for reader in readers.values()) < len(waiting):
            await asyncio.sleep(0.01)
        shared = len(readers)
        await asyncio.to_thread(publish, service, "b", 6, 7)
        assert {event.payload["status"] for event in await asyncio.gather(*waiting)} == {"ready"}
        assert not readers
        return shared

    assert asyncio.run(wait()) == 1


def test_triggers_of_several_domains_share_one_store(
    service: EpochService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many begin at once: one opens it, and the others wait for that one; the last one out closes it."""
    url = EpochsHook().get_settings().store_url
    opened: list[MetadataStore] = []
    closed = threading.Event()

    class Counted(FaultyStore):
        def close(self) -> None:
            super().close()
            closed.set()

    def open_slowly(url: str, **_: Any) -> MetadataStore:
        time.sleep(0.2)
        opened.append(Counted(open_store(url), lambda _: None))
        return opened[-1]

    monkeypatch.setattr(shared_reader, "open_store", open_slowly)

    async def read(domain: str) -> int:
        async with shared_reader.shared_reader(url, DomainName(domain)) as shared:
            return shared.reader.read(DomainName(domain), []).head.csn

    async def reads() -> list[int]:
        found = await asyncio.gather(*(read(f"domain{number % 4}") for number in range(200)))
        await asyncio.to_thread(closed.wait, 60)
        return found

    publish(service, "a", 6)
    assert asyncio.run(reads()) == [0] * 200
    assert (len(opened), closed.is_set()) == (1, True)


def test_waiter_gets_the_error_of_the_thread_that_opens_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(url: str, **_: Any) -> MetadataStore:
        asked.append(url)
        time.sleep(0.1)
        raise StoreUnavailable("the store does not answer.", next_step="try again.")

    monkeypatch.setattr(shared_reader, "open_store", refuse)

    async def fail() -> None:
        with pytest.raises(StoreUnavailable):
            async with shared_reader.shared_reader("sqlite:////nowhere", DomainName("d")):
                pass

    async def fails() -> None:
        await asyncio.gather(*(fail() for _ in range(100)))

    asyncio.run(fails())
    assert len(asked) == 1


def test_the_trigger_outlives_an_outage_of_the_store(
    service: EpochService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening fails, then reading, then the watch; each is tried again."""
    publish(service, "a", 6, 7)
    opened: list[FaultyStore] = []
    lost = {"open": 2, "read": 2, "watch": 1}

    def fails(what: str) -> bool:
        lost[what] = lost.get(what, 0) - 1
        return lost[what] >= 0

    def lose(call: Call) -> Fault | None:
        return Fault.REQUEST_LOST if fails(call.method) else None

    def open_during_outage(url: str, **_: Any) -> MetadataStore:
        if fails("open"):
            raise StoreUnavailable("the store does not answer.", next_step="try again.")
        opened.append(FaultyStore(open_store(url), lose))
        return opened[-1]

    monkeypatch.setattr(shared_reader, "open_store", open_during_outage)
    later = threading.Timer(1.0, publish, (service, "b", 6, 7))
    later.start()
    event = first_event(trigger())
    later.join()
    assert event is not None
    assert event.payload["status"] == "ready"
    assert opened
    assert all(left < 0 for left in lost.values())


def test_permanent_error_wakes_the_task_with_its_message(
    service: EpochService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service.close()
    with sqlite3.connect(tmp_path / "store.db") as database:
        database.execute("UPDATE epochs_alembic_version SET version_num = '9999'")
    event = first_event(trigger())
    assert event is not None
    assert event.payload["status"] == "error"
    assert "9999" in event.payload["message"]
    with pytest.raises(PackageTooOld, match="9999"):
        sensor().resumed(task_context(), event.payload)

    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", '{"conn_type": "epochs", "host": "relative.db"}')
    event = first_event(trigger())
    assert event is not None
    assert "field host" in event.payload["message"]
    with pytest.raises(AirflowFailException, match="field host"):
        sensor().execute(task_context())


def test_an_expired_barrier_ends_the_wait_by_name(service: EpochService) -> None:
    """R24: in every mode, at once; a job that finds its rows all the same goes on."""
    for table in ("a", "b"):
        publish(service, table, 6, 7, 8)
    service.retention.expire("default", "a", DAY_END)
    reader = Job("reads", inputs=[A], outputs=[replace(A, name="out")], cadence="@daily")
    for answer in (sensor().execute, sensor(deferrable=False).execute, lambda run: sensor().resumed(run, {})):
        with pytest.raises(
            AirflowFailException, match=r"Unavailable: a: .*expired.*2013-02-07T00.*2013-02-09T00"
        ):
            answer(task_context())
    event = first_event(trigger())
    assert event is not None
    assert event.payload["status"] == "error"
    assert EpochSensor(task_id="wait", job=reader).execute(task_context())["csn"] >= 6
    read = JobInputs.of(reader, Interval(DAY_END - DAY, DAY_END))
    event = first_event(trigger(tables=["a"], **as_plain_values(read)))
    assert event is not None
    assert event.payload["status"] == "ready"


def test_a_deferred_wait_has_the_inputs_of_its_job() -> None:
    """All that bounds and qualifies a read comes back from what Airflow stores, as JSON, of the trigger."""
    inputs = [
        state(A, as_of=timedelta(days=2), on_upstream_revision="ignore"),
        window(replace(A, name="b"), timedelta(days=7)),
        increment(replace(A, name="c")),
        previous(out := replace(A, name="out", kind=TableKind.FULL)),
    ]
    job = Job("reads", inputs=inputs, outputs=[out], cadence="@daily")
    read = JobInputs.of(job, Interval(DAY_END - DAY, DAY_END))
    _, kept = trigger(tables=["a"], **as_plain_values(read)).serialize()
    stored = EpochTrigger(**json.loads(json.dumps(kept)))
    again = stored._inputs(DAY_END)
    assert again is not None
    assert (again.edges, again.interval) == (read.edges, read.interval)


def test_run_decides_the_awaited_barrier(service: EpochService) -> None:
    publish(service, "a", 6, 7)
    one = {"tables": A, "deferrable": False}
    assert sensor(**one).poke(task_context(run_date=datetime(2013, 2, 7, tzinfo=UTC)))
    assert not sensor(**one).poke(task_context(run_date=datetime(2013, 2, 9, tzinfo=UTC)))
    assert sensor(**one, at="2013-02-08").poke(task_context(run_date=datetime(2013, 2, 20, tzinfo=UTC)))
    at_one = task_context(run_date=datetime(2013, 2, 8, 13, 5, tzinfo=UTC))
    assert not sensor(**one).poke(at_one), "13:05 is no barrier of a daily table"
    assert sensor(**one, cadence="@daily").poke(at_one)
    reader = Job("reads", inputs=[A], outputs=[replace(A, name="out")], cadence="@daily")
    assert EpochSensor(task_id="wait", job=reader, deferrable=False).poke(at_one)


def test_a_deferred_wait_looks_back_as_far_as_its_job(service: EpochService) -> None:
    """R6: of a table without a declared origin, what lies before its first epoch is yet to come."""
    publish(service, "c", 7)
    out = replace(A, name="out")
    waits = EpochSensor(
        task_id="wait", job=Job("reads", inputs=[window(C, DAY)], outputs=[out], cadence="@daily")
    )
    run = task_context(run_date=datetime(2013, 2, 8, tzinfo=UTC))
    with pytest.raises(TaskDeferred) as deferred:
        waits.execute(run)
    _, kwargs = deferred.value.trigger.serialize()
    woken = EpochTrigger(**{**json.loads(json.dumps(kwargs)), "poll_interval": 0.2})
    assert first_event(woken, within_s=1.0) is None
    publish(service, "c", 6)
    event = first_event(woken)
    assert event is not None
    assert event.payload == "success"
    assert waits.execute(run)["csn"] == 2


def test_a_source_is_waited_for_as_tables_are(service: EpochService, tmp_path: Path) -> None:  # noqa: ARG001
    """A2: by the sensor in both modes, and by the trigger, which looks again without a commit."""
    source = FileSource("landed", f"{tmp_path}/{{start:%Y-%m-%d}}/*", complete=[marker(), min_files(1)])
    loads = Job("loads", inputs=[source], outputs=[replace(A, name="out")], cadence="@daily")
    waits = EpochSensor(task_id="wait", job=loads)
    run = task_context(run_date=datetime(2013, 2, 8, tzinfo=UTC))
    with pytest.raises(TaskDeferred) as deferred:
        waits.execute(run)
    _, kwargs = deferred.value.trigger.serialize()
    woken = EpochTrigger(**{**json.loads(json.dumps(kwargs)), "poll_interval": 0.1})
    folder = tmp_path / "2013-02-07"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    assert first_event(woken, within_s=0.5) is None
    (folder / "a.csv").touch()
    event = first_event(woken, within_s=20)
    assert event is not None
    assert event.payload == "success"
    assert EpochSensor(task_id="wait", job=loads, deferrable=False).poke(run)


def test_a_run_of_a_job_that_builds_on_its_past_waits_for_the_run_before(service: EpochService) -> None:
    """R12: in every mode, and for as much as the task below computes; without it, two runs of a backfill would fail."""
    hourly = Job(
        "sums", inputs=[previous(A)], outputs=[A], cadence="@hourly", origin=datetime(2013, 2, 6, tzinfo=UTC)
    )
    with DAG("backfilled", schedule=None):
        waits = EpochSensor(task_id="wait", job=hourly)

        @task.epoch(job=hourly, batch="@daily")
        def compute(epoch: object) -> None:
            """Compute an hour."""

        waits >> compute()
    first = task_context(run_date=datetime(2013, 2, 7, tzinfo=UTC))
    assert waits.execute(first)["barrier"] == "2013-02-07T00:00:00+00:00", "no job has registered it yet"
    with pytest.raises(TaskDeferred) as deferred:
        waits.execute(task_context(run_date=datetime(2013, 2, 8, tzinfo=UTC)))
    _, kwargs = deferred.value.trigger.serialize()
    assert kwargs["start"] == "2013-02-07T00:00:00+00:00", "the run's first hour, not its last"
    woken = EpochTrigger(**{**json.loads(json.dumps(kwargs)), "poll_interval": 0.2})
    assert first_event(woken, within_s=1.0) is None
    for hour in range(24):
        start = datetime(2013, 2, 6, hour, tzinfo=UTC)
        publish_epoch(service, hourly, Interval(start, start + timedelta(hours=1)), hour)
    event = first_event(woken)
    assert event is not None
    assert event.payload == "success"
    assert waits.execute(task_context(run_date=datetime(2013, 2, 8, tzinfo=UTC)))["csn"] == 24
    with pytest.raises(TaskDeferred):
        waits.execute(task_context(run_date=datetime(2013, 2, 9, tzinfo=UTC)))


# --- what begins epochs ----------------------------------------------------------------------------------------

OTHER = Owner(dag_id="pipeline", run_id="manual")
SEVENTH = Interval(DAY_END - DAY, DAY_END)


def beginner(**options: Any) -> EpochBeginOperator:
    return EpochBeginOperator(task_id="begin", participants=1, **{"job": JOBS["a"], **options})


def deferred_by(work: Callable[[], Any]) -> tuple[EpochTrigger, TaskDeferred]:
    with pytest.raises(TaskDeferred) as deferred:
        work()
    _, kwargs = deferred.value.trigger.serialize()
    assert json.loads(json.dumps(kwargs)) == kwargs
    return EpochTrigger(**{**kwargs, "poll_interval": 0.1}), deferred.value


def test_a_busy_epoch_is_waited_for_and_spends_no_retry(service: EpochService) -> None:
    """The lock's end wakes the task, which begins then; what keeps its inputs' run is not asked twice at once."""
    other = service.begin(JOBS["a"], SEVENTH, OTHER)
    assert isinstance(other, Attempt)
    waits, deferred = deferred_by(lambda: beginner().execute(task_context()))
    assert deferred.method_name == "resumed"
    assert first_event(waits, 0.5) is None
    service.abort(other, "a test")
    event = first_event(waits, 30)
    assert event is not None
    assert event.payload["status"] == "ready"
    assert len(beginner().resumed(task_context(), event.payload, **(deferred.kwargs or {}))) == 1


def test_inputs_are_awaited_before_spark_is_requested(
    service: EpochService, capsys: pytest.CaptureFixture[str]
) -> None:
    """No connection to Spark exists; the log says who brings the input, and that a run ended and left it open."""
    publish(service, "a", 6)
    service.begin(JOBS["a"], SEVENTH, Owner(dag_id="producer", run_id="marked"))
    reader = Job("reads", inputs=[A], outputs=[replace(A, name="out")], cadence="@daily")
    with DAG("pipeline", schedule=None) as dag:
        task.epoch(task_id="compute", job=reader)(lambda epoch: epoch)()
    context = task_context()
    context["ti"].get_dagrun_state = lambda *_: "success"
    waits, _ = deferred_by(lambda: dag.tasks[0].execute(context))
    assert first_event(waits, 0.3) is None
    said = capsys.readouterr().out
    assert (
        "(brought by job make_a of DAG producer, begun by run marked and not ended, whose lock lasts" in said
    )
    assert "Run marked of DAG producer ended as success while its epoch is open" in said


def test_late_files_that_are_ignored_are_counted(
    service: EpochService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A gauge among Airflow's metrics, and a warning; a source that reads late files has none."""
    gauges: list[tuple[str, int, dict[str, str]]] = []
    monkeypatch.setattr(Stats, "gauge", lambda name, value, *, tags: gauges.append((name, value, tags)))
    landed = tmp_path / "2013-02-06"
    landed.mkdir()
    (landed / "a.csv").touch()
    epoch = Interval(DAY_END - 2 * DAY, DAY_END - DAY)
    for late in ("ignore", "next"):
        source = FileSource(late, f"{tmp_path}/{{start:%Y-%m-%d}}/*", late, complete=none_needed())
        job = Job(f"load_{late}", inputs=[source], outputs=[Table(f"of_{late}")], cadence="@daily")
        service.begin(job, epoch, OTHER, sources=SourceReaders())
        tell_ignored(logging.getLogger(), service, job, epoch.end)
        (landed / f"{late}.csv").touch()
        tell_ignored(logging.getLogger(), service, job, epoch.end)
    tags = {"domain": "default", "source": "ignore"}
    assert gauges == [(IGNORED, 0, tags), (IGNORED, 1, tags)]
    assert "Source ignore: 1 files came late and are read by no epoch" in caplog.text


def test_one_task_of_a_group_waits() -> None:
    """What is said of waiting is said to ``begin`` alone: the others would not take it."""
    hour = timedelta(hours=1)
    with DAG("group", schedule=None) as dag:
        epoch_task_group(job=JOBS["a"], participants=2, deferrable=True, wait_timeout=hour)(_writes)()
    assert (dag.get_task("_writes.begin").deferrable, dag.get_task("_writes.begin").wait_timeout) == (
        True,
        hour,
    )
    assert not hasattr(dag.get_task("_writes.commit"), "wait_timeout")


def _writes(epoch: Any) -> None:
    del epoch


def test_all_waits_of_a_try_are_within_one_time_out(service: EpochService) -> None:
    service.begin(JOBS["a"], SEVENTH, OTHER)
    long_ago = (datetime.now(UTC) - timedelta(hours=2)).isoformat()
    hour = timedelta(hours=1)
    _, deferred = deferred_by(lambda: beginner(wait_timeout=hour).execute(task_context()))
    assert deferred.timeout is not None
    with pytest.raises(EpochBusy, match="manual"):
        beginner(wait_timeout=hour).resumed(task_context(), {}, since=long_ago)
    with pytest.raises(EpochBusy):
        beginner(wait_timeout=timedelta(0)).execute(task_context())
    with pytest.raises(AirflowSensorTimeout, match="1:00:00"):
        sensor(timeout=3600).resumed(task_context(), {}, since=long_ago)
    waits = EpochTrigger(domain="default", tables=["a"], barrier=DAY_END.isoformat(), until=long_ago)
    event = first_event(waits, 10)
    assert event is not None
    assert event.payload["status"] == "waited"


def test_task_without_deferral_waits_in_its_worker(
    service: EpochService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        begin_waiting, "DEFAULTS", replace(DEFAULTS, wait_poll_interval=timedelta(seconds=0.1))
    )
    other = service.begin(JOBS["a"], SEVENTH, OTHER)
    assert isinstance(other, Attempt)
    later = threading.Timer(0.5, service.abort, (other, "a test"))
    later.start()
    assert len(beginner(deferrable=False).execute(task_context())) == 1
    later.join()


def test_a_try_does_not_wait_for_an_earlier_one_of_its_own_run(service: EpochService) -> None:
    mine = task_owner(task_context())
    service.begin(JOBS["a"], SEVENTH, mine)
    inputs = JobInputs.of(JOBS["a"], SEVENTH)
    ready = partial(begin_readiness, service.store, "default", "make_a", inputs)
    assert ready((mine.dag_id, mine.run_id)).ready
    assert "lock lasts until" in str(ready(("pipeline", "manual")))
    assert len(beginner().execute(task_context(try_number=2))) == 1


def test_looking_makes_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistyped host is no new store; who comes before the first run of all waits for it."""
    (tmp_path / "typo").mkdir()
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path / "typo"))
    with (
        pytest.raises(StoreUnavailable, match=r"no store at .*typo/store.db.*db upgrade"),
        EpochsHook().get_reader(),
    ):
        raise AssertionError
    assert EpochsHook().test_connection()[0] is False
    waits, _ = deferred_by(lambda: sensor().execute(task_context()))
    assert first_event(waits, 0.5) is None
    assert list((tmp_path / "typo").iterdir()) == []
    with EpochsHook().get_conn() as service:
        publish(service, "a", 6, 7)
        publish(service, "b", 6, 7)
    assert getattr(first_event(waits, 20), "payload", None) == "success"


def test_a_name_that_is_mistyped_is_told_with_the_one_that_is_alike(
    service: EpochService, capsys: pytest.CaptureFixture[str]
) -> None:
    flights = Job("fly", outputs=[Table("flights")], cadence="@daily")
    publish_epoch(service, flights, SEVENTH, 7)
    assert not sensor(tables=[Table("fligths")], deferrable=False).poke(task_context())
    _, after = capsys.readouterr().out.split("no job that writes it has run")
    assert after.startswith("; is 'flights' meant?")
