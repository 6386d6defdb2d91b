"""One epoch that several participants write with real Spark: threads, processes, tasks; retried, and committed once."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException, TaskDeferred
from airflow.sdk import DAG

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.checks import is_true, row_count
from airflow_provider.domain.epoch import EpochState
from airflow_provider.domain.errors import (
    EpochBusy,
    EpochError,
    Fenced,
    InvalidInput,
    NotReady,
    SchemaMismatch,
    StoreIncompatible,
    Unavailable,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Job, Table
from airflow_provider.operators.assets import asset_of
from airflow_provider.operators.participants import epoch_task_group
from airflow_provider.spark.attempt_run import EpochRun
from airflow_provider.spark.computed import AlreadyComputed
from airflow_provider.spark.epoch_run import epoch_participant, epoch_run, shared_epoch_run
from airflow_provider.spark.handles import handles
from airflow_provider.spark.shared_run import ParticipantRun, begin_shared
from demo.spark_connect import SparkConnectServer
from tests.airflow_runs import epochs_connection, published, task_context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS, ODD, EVEN = Table("numbers"), Table("odd"), Table("even")
LOAD = Job("load", outputs=[NUMBERS], cadence="@daily")
SHARE = Job(
    "share",
    inputs=[NUMBERS],
    outputs=[ODD, EVEN],
    cadence="@daily",
    checks=[row_count(ODD, at_least=1), is_true("SELECT sum(id) >= 0 FROM {even}")],
    on_rerun="new_revision",
)
DAY = Interval(datetime(2013, 2, 7, tzinfo=UTC), datetime(2013, 2, 8, tzinfo=UTC))
PARTS = 3
ROWS = 60


def load(settings: Settings, spark: SparkSession) -> None:
    with epoch_run(LOAD, DAY, settings=settings, spark=spark) as epoch:
        epoch.write(NUMBERS, epoch.spark.range(ROWS))


def write_share(epoch: EpochRun) -> None:
    mine = epoch.read(NUMBERS).where(f"id % {epoch.participants} = {epoch.participant}")
    epoch.write(ODD, mine.where("id % 2 = 1"))
    epoch.write(EVEN, mine.where("id % 2 = 0"))


def ids(service: EpochService, *tables: Table) -> list[list[int]]:
    cut = service.cuts.cut("default", tables)
    return [sorted(service.cuts.read(cut, table, ["id"]).column("id").to_pylist()) for table in tables]


WHOLE = [list(range(1, ROWS, 2)), list(range(0, ROWS, 2))]


def test_participants_in_threads_share_one_session(
    classic_session: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R10, R2, R14: each writes its part at the same time; one fails and begins again; one commit, exact rows."""
    load(settings, classic_session)
    failed: list[int] = []

    def part(handle: str) -> None:
        with epoch_participant(SHARE, handle, settings=settings, spark=classic_session) as epoch:
            if epoch.participant == 1 and not failed:
                failed.append(1)
                epoch.write(ODD, epoch.read(NUMBERS).where("id % 2 = 1"))
                raise RuntimeError("after some files")
            write_share(epoch)

    with shared_epoch_run(SHARE, DAY, participants=PARTS, settings=settings, spark=classic_session) as epoch:
        with pytest.raises(InvalidInput, match="3 participants write"):
            epoch.write(ODD, epoch.spark.range(1))
        with ThreadPoolExecutor(PARTS) as pool:
            futures = [pool.submit(part, handle) for handle in epoch.handles]
        assert [type(future.exception()) for future in futures] == [type(None), RuntimeError, type(None)]
        with pytest.raises(NotReady):
            service.cuts.cut("default", [ODD])
        part(epoch.handles[1])
    assert epoch.published is not None
    assert epoch.published.csn == 2
    assert ids(service, ODD, EVEN) == WHOLE
    with pytest.raises(AlreadyComputed, match="at CSN 2"):
        part(epoch.handles[0])


def test_a_part_that_never_came_ends_the_attempt_of_a_program(
    classic_session: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R10: named by output and number; nothing is visible, nothing is left, and the epoch may be begun at once."""
    load(settings, classic_session)
    with (
        pytest.raises(
            NotReady, match="even by participants 1; odd by participants 1|odd by participants 1; even"
        ),
        shared_epoch_run(SHARE, DAY, participants=2, settings=settings, spark=classic_session) as epoch,
        epoch_participant(SHARE, epoch.handles[0], settings=settings, spark=classic_session) as part,
    ):
        write_share(part)
    assert EpochState.ABORTED in {
        barrier.record.state for barrier in service.barriers("default", SHARE.name, DAY)
    }
    with (
        pytest.raises(Fenced, match="it has ended: NotReady"),
        epoch_participant(SHARE, epoch.handles[1], settings=settings),
    ):
        raise AssertionError
    with shared_epoch_run(SHARE, DAY, participants=1, settings=settings, spark=classic_session) as again:
        (handle,) = again.handles
        with epoch_participant(SHARE, handle, settings=settings, spark=classic_session) as alone:
            write_share(alone)
    assert ids(service, ODD, EVEN) == WHOLE


def test_a_participant_does_not_replace_the_table_that_others_have_written(
    classic_session: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R10, R32: a new table has the columns of the part that wrote first; a part with others is refused by name."""

    def part(handle: str, column: str) -> None:
        with epoch_participant(LOAD, handle, settings=settings, spark=classic_session) as epoch:
            epoch.write(NUMBERS, epoch.spark.range(1).selectExpr(f"{column} as id"))

    with shared_epoch_run(LOAD, DAY, participants=2, settings=settings) as epoch:
        part(epoch.handles[1], "7L")
        with pytest.raises(SchemaMismatch, match="id"):
            part(epoch.handles[0], "'a'")
        part(epoch.handles[0], "6")
    assert ids(service, NUMBERS) == [[6, 7]]


def test_a_part_whose_source_changed_before_its_end_is_not_published(
    classic_session: SparkSession, settings: Settings, service: EpochService, tmp_path: Path
) -> None:
    """R10, I11: the end of the part's block refuses its rows, so that they count as not WRITTEN; its retry writes."""
    landed = tmp_path / "2013-02-07.csv"
    landed.write_text("1\n")
    source = FileSource("landing", f"{tmp_path}/{{start:%Y-%m-%d}}.csv", late="refuse")
    job = Job("land", inputs=[source], outputs=[NUMBERS], cadence="@daily")

    def part(handle: str, *, replace: bool) -> None:
        with epoch_participant(job, handle, settings=settings, spark=classic_session) as epoch:
            found = epoch.spark.read.schema("id long").csv(epoch.source_files("landing"))
            epoch.write(NUMBERS, found)
            if replace:
                landed.write_text("22\n")

    with (
        pytest.raises(NotReady, match="numbers by participants 0"),
        shared_epoch_run(job, DAY, participants=1, settings=settings, spark=classic_session) as epoch,
        pytest.raises(Unavailable, match="is not the file that was recorded"),
    ):
        part(epoch.handles[0], replace=True)
    with shared_epoch_run(job, DAY, participants=1, settings=settings, spark=classic_session) as epoch:
        part(epoch.handles[0], replace=False)
    assert ids(service, NUMBERS) == [[22]]


def test_invalid_handle_is_refused_before_any_read(settings: Settings, tmp_path: Path) -> None:
    """R10: no text of a begun epoch, one of another job, of another declaration, of another version."""
    with EpochService.open(settings) as service:
        attempt = begin_shared(service, LOAD, DAY, Owner(dag_id="d", run_id="r"), participants=2)
    handle, _ = handles(LOAD, attempt, 2)
    assert len(handle) < 400
    assert str(tmp_path) not in handle
    other = Job("load", outputs=[NUMBERS], cadence="@daily", checks=[row_count(NUMBERS, at_least=1)])
    refused: list[tuple[Any, Job, type[EpochError], str]] = [
        *((wrong, LOAD, InvalidInput, "handle") for wrong in ("", "{}", None, 3, "[1]", "\ud800")),
        (handle[:-2], LOAD, InvalidInput, "handle"),
        (json.dumps({**json.loads(handle), "format": 1}), LOAD, StoreIncompatible, "format 1"),
        (handle, SHARE, InvalidInput, "default/load, whose epoch"),
        (handle, other, InvalidInput, "declared otherwise"),
        (json.dumps({**json.loads(handle), "participant": 2}), LOAD, InvalidInput, "0 to 1"),
    ]
    for text, job, kind, why in refused:
        with pytest.raises(kind, match=why), epoch_participant(job, text, settings=settings):
            raise AssertionError(text)
    with pytest.raises(InvalidInput, match="local= .a folder"), epoch_participant(LOAD, handle):
        raise AssertionError


# --- as tasks of Airflow, each with a session of its own on a Connect server -----------------------------------


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connect_server: SparkConnectServer) -> Settings:
    """Connections for operators; where their store is."""
    spark = {"conn_type": "spark_connect", "host": "sc://127.0.0.1", "port": connect_server.port}
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT_DEFAULT", json.dumps(spark))
    return Settings(store_url=f"sqlite:///{tmp_path}/store.db", warehouse=f"file://{tmp_path}/warehouse")


class Group:
    """The three tasks of one run, executed as Airflow's task runner does, in whatever order a test wishes."""

    def __init__(self, function: Callable[..., Any] = write_share, **options: Any) -> None:
        with DAG("pipeline", schedule=None, start_date=datetime(2013, 1, 1, tzinfo=UTC)) as self.dag:
            epoch_task_group(**{"job": SHARE, "participants": PARTS, "group_id": "share", **options})(
                function
            )()
        self.handles: list[str] = []

    def begin(self, **run: Any) -> list[str]:
        self.handles = self.dag.get_task("share.begin").execute(task_context(**run))
        return self.handles

    def write(self, number: int, *, handles: list[str] | None = None, **run: Any) -> Any:
        """Execute the mapped task with the number, unmapped as Airflow unmaps it."""
        handle = (handles or self.handles)[number]
        operator = self.dag.get_task("share.write").unmap({"op_kwargs": {"epoch": handle}})
        return operator.execute(task_context(**run))

    def commit(self, **run: Any) -> list[dict[str, Any]]:
        """Execute it; return the epochs that it announced."""
        operator = self.dag.get_task("share.commit")
        operator.epoch = self.handles
        context = task_context(**run)
        operator.execute(context)
        announced: list[dict[str, Any]] = context["outlet_events"][asset_of(ODD)].extra["epochs"]
        return announced


def test_mapped_tasks_write_one_epoch(tasks: Settings, connect_session: SparkSession) -> None:
    """R10, R2: one is retried after it has written files; the commit waits for it; one commit, exact rows; and what is
    cleared after it does nothing.
    """
    load(tasks, connect_session)
    left: list[ParticipantRun] = []

    def dies_late(epoch: ParticipantRun) -> str:
        if epoch.attempt.participant_attempt == 1 and epoch.participant == 2:
            write_share(epoch)
            left.append(epoch)
            raise RuntimeError("after all files")
        write_share(epoch)
        return f"{epoch.participant} of {epoch.participants}"

    group = Group(dies_late)
    before = group.begin()
    beside = Group()
    with pytest.raises(TaskDeferred):
        beside.begin(run_id="manual")
    beside.dag.get_task("share.begin").wait_timeout = timedelta(0)
    with pytest.raises(EpochBusy, match="is computed by pipeline/scheduled__2013-02-08"):
        beside.begin(run_id="manual")
    assert len(group.begin(try_number=2)) == PARTS, "begun anew while participants run"
    with pytest.raises(AirflowFailException, match=r"Fenced.*newest one has token 2"):
        group.write(1, handles=before)
    assert [group.write(number) for number in (1, 0)] == ["1 of 3", "0 of 3"]
    with pytest.raises(RuntimeError, match="after all files"):
        group.write(2)
    with pytest.raises(NotReady, match="by participants 2"):
        group.commit()
    with EpochService.open(tasks) as service:
        with pytest.raises(NotReady):
            service.cuts.cut("default", [ODD])
        assert group.write(2, try_number=2) == "2 of 3"
        with pytest.raises(Fenced, match="participant 2 was begun again"):
            service.heartbeat(left[0].attempt)
        (epoch,) = group.commit(try_number=2)
        assert (epoch["csn"], epoch["revision"]) == (2, 1)
        assert ids(service, ODD, EVEN) == WHOLE

        assert group.commit(cleared_after=2, try_number=3) == [epoch], "a cleared commit announces the same"
        assert group.write(1, cleared_after=1, try_number=2) is None, "a cleared participant writes nothing"
        keep = Group(dies_late, job=Job("share", inputs=[NUMBERS], outputs=[ODD, EVEN], cadence="@daily",
                                             checks=SHARE.checks, on_rerun="keep"))  # fmt: skip
        keep.begin(run_id="manual")
        assert [keep.write(number, run_id="manual") for number in range(PARTS)] == [None, None, None]
        assert keep.commit(run_id="manual") == [epoch]
        assert service.store.read("default", []).head.csn == 2  # type: ignore[arg-type]
        restated = {**published(NUMBERS.name, (DAY.start, DAY.end)), "restatement": "fix"}
        with pytest.raises(AirflowSkipException, match="events of restatements alone name it"):
            group.begin(events=[restated], run_id="asset_triggered__1")
        again = group.begin(cleared_after=2, try_number=3)
        assert {json.loads(handle)["revision"] for handle in again} == {2}, "the whole group is cleared"


@pytest.mark.usefixtures("tasks")
def test_mistakes_in_a_group() -> None:
    """R10: refused when the DAG is parsed, and when a template had it, by the begin task before anything is
    begun; nothing is committed without a begin.
    """
    mistakes: tuple[tuple[str, Any, str], ...] = (
        ("participants", "many", "participants"),
        ("participants", "0", "participants"),
        ("lock_ttl", timedelta(seconds=1), "lock_ttl"),
        ("interval", "2013-02", "one epoch of 'share'"),
    )
    for name, value, told in mistakes:
        with pytest.raises(InvalidInput, match=told):
            Group(**{name: value})
        group = Group()
        setattr(group.dag.get_task("share.begin"), name, value)
        with pytest.raises(AirflowFailException, match=f"InvalidInput.*{told}"):
            group.begin()
    with pytest.raises(AirflowFailException, match="InvalidInput: handle"):
        Group().commit()
