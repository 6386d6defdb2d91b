"""``@task.epoch`` against a real Spark Connect server, over SQLite and Iceberg."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, TaskDeferred
from airflow.sdk import DAG, Asset, task
from airflow.sdk.api.datamodels._generated import DagRunType
from pyspark.errors import PySparkException

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import EpochState
from airflow_provider.domain.errors import NotReady, SchemaMismatch
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.operators.assets import asset_of
from airflow_provider.operators.decorator import EpochDecoratedOperator
from airflow_provider.triggers.epochs import EpochTrigger
from demo.spark_connect import SparkConnectServer
from tests.airflow_runs import epochs_connection, published, task_context

HOURS, DAYS = Table("hours"), Table("days")
HOURLY = Job("hourly", outputs=[HOURS], cadence="0 */6 * * *", on_rerun="new_revision")
KEPT = Job("hourly", outputs=[HOURS], cadence="0 */6 * * *")
DAILY = Job("daily", inputs=[HOURS], outputs=[DAYS], cadence="@daily")
MINE = Asset("mine")
SEVENTH = Interval(datetime(2013, 2, 7, tzinfo=UTC), datetime(2013, 2, 8, tzinfo=UTC))


@pytest.fixture(autouse=True)
def _connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connect_server: SparkConnectServer) -> None:
    spark = {"conn_type": "spark_connect", "host": "sc://127.0.0.1", "port": connect_server.port}
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT_DEFAULT", json.dumps(spark))


@pytest.fixture
def service() -> Iterator[EpochService]:
    with EpochsHook().get_conn() as opened:
        yield opened


def made(function: Callable[..., Any], *arguments: Any, **options: Any) -> EpochDecoratedOperator:
    """The operator that ``@task.epoch(**options)`` makes of *function* in a DAG."""
    with DAG("pipeline", schedule=None, start_date=datetime(2013, 1, 1, tzinfo=UTC)) as dag:
        task.epoch(**options)(function)(*arguments)
    (operator,) = dag.tasks
    assert isinstance(operator, EpochDecoratedOperator)
    return operator


def hours(epoch: Any) -> str:
    epoch.write(HOURS, epoch.spark.range(epoch.interval.start.hour + 1).selectExpr("id"))
    return str(epoch.interval.start.hour)


def days(epoch: Any, factor: int, dag_run: Any) -> str:
    epoch.write("days", epoch.read(HOURS).selectExpr(f"count(*) * {factor} as n"))
    return str(dag_run.run_id)


def number(epoch: Any, value: int) -> None:
    epoch.write(DAYS, epoch.spark.range(value, value + 1).selectExpr("id as n"))


def must_not_run(epoch: Any) -> None:
    raise AssertionError(epoch)


def rows(service: EpochService, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.cuts.read(service.cuts.cut("default", [table]), table).to_pylist()
    return found


@pytest.mark.parametrize(("commit", "csns"), [("each", [1, 2, 3, 4]), ("together", [1, 1, 1, 1])])
def test_a_batch_and_a_job_that_reads_it(
    service: EpochService, capsys: pytest.CaptureFixture[str], commit: str, csns: list[int]
) -> None:
    context = task_context()
    batch = made(hours, job=HOURLY, batch="@daily", commit=commit)
    assert batch.execute(context) == ["0", "6", "12", "18"]
    epochs = context["outlet_events"][asset_of(HOURS)].extra["epochs"]
    assert [entry["csn"] for entry in epochs] == csns

    assert made(days, 2, job=DAILY).execute(task_context()) == task_context()["dag_run"].run_id
    assert [row["n"] for row in rows(service, "days")] == [2 * (1 + 7 + 13 + 19)]

    # A try whose success was lost announces the same and computes nothing.
    again = task_context(try_number=2)
    made(must_not_run, job=HOURLY, batch="@daily", commit=commit).execute(again)
    assert again["outlet_events"][asset_of(HOURS)].extra["epochs"] == epochs
    told = f"computed again: 4 epochs of hourly, the last one at CSN {csns[-1]}"
    assert capsys.readouterr().out.count(told) == 1


@pytest.mark.parametrize(("commit", "csn"), [("each", 2), ("together", 0)])
def test_an_error_in_the_function_aborts_and_the_next_try_goes_on_where_it_was(
    service: EpochService, commit: str, csn: int
) -> None:
    def fails_at_noon(epoch: Any) -> None:
        hours(epoch)
        if epoch.interval.start.hour == 12:
            raise RuntimeError("noon")

    with pytest.raises(RuntimeError, match="noon"):
        made(fails_at_noon, job=HOURLY, batch="@daily", commit=commit).execute(task_context())
    assert service.store.read(HOURLY.domain, []).head.csn == csn
    noon = Interval(SEVENTH.start + timedelta(hours=12), SEVENTH.start + timedelta(hours=18))
    log = service.barriers("default", "hourly", noon)
    assert EpochState.ABORTED in {entry.record.state for entry in log}
    again = made(hours, job=HOURLY, batch="@daily", commit=commit)
    assert again.execute(task_context(try_number=2)) == ["12", "18"]
    assert service.cuts.cut("default", ["hours"]).barrier == SEVENTH.end


def test_epochs_that_do_not_touch_become_visible_together(service: EpochService) -> None:
    """R27, R37: events of two hours have started the run, and the one between them is not asked for."""

    def fails_at_noon(epoch: Any) -> None:
        hours(epoch)
        if epoch.interval.start.hour == 12:
            raise RuntimeError("noon")

    spans = [
        (SEVENTH.start + timedelta(hours=hour), SEVENTH.start + timedelta(hours=hour + 6)) for hour in (0, 12)
    ]
    run = {"events": [published("seen", span) for span in spans]}
    with pytest.raises(RuntimeError, match="noon"):
        made(fails_at_noon, job=HOURLY, commit="together").execute(task_context(**run))
    assert service.store.read(HOURLY.domain, []).head.csn == 0
    context = task_context(**run, try_number=2)
    assert made(hours, job=HOURLY, commit="together").execute(context) == ["12"]
    told = context["outlet_events"][asset_of(HOURS)].extra["epochs"]
    assert [(entry["start"][11:13], entry["csn"]) for entry in told] == [("00", 1), ("12", 1)]


@pytest.mark.parametrize("commit", ["each", "together"])
def test_a_batch_waits_for_the_epoch_that_could_not_begin(service: EpochService, commit: str) -> None:
    """R27: of epochs that commit together none is published before all have begun."""
    noon = Interval(SEVENTH.start + timedelta(hours=12), SEVENTH.start + timedelta(hours=18))
    service.begin(HOURLY, noon, Owner(dag_id="other", run_id="1"))
    batch = made(hours, job=HOURLY, batch="@daily", commit=commit, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        batch.execute(task_context())
    waits = deferred.value.trigger
    assert isinstance(waits, EpochTrigger)
    assert (waits.start, waits.barrier) == (noon.start.isoformat(), noon.end.isoformat())


def test_an_error_that_no_retry_cures_ends_the_retries(service: EpochService) -> None:
    made(hours, job=HOURLY, batch="@daily").execute(task_context())

    def other_columns(epoch: Any) -> None:
        epoch.write(HOURS, epoch.spark.range(1).selectExpr("'text' as id"))

    with pytest.raises(AirflowFailException, match="SchemaMismatch") as caught:
        made(other_columns, job=HOURLY, batch="@daily").execute(task_context(cleared_after=1, try_number=2))
    assert isinstance(caught.value.__cause__, SchemaMismatch)
    assert len(rows(service, "hours")) == 1 + 7 + 13 + 19


def test_a_task_that_is_ended_computes_no_further_epoch(service: EpochService) -> None:
    def ended_within(epoch: Any) -> None:
        operator.on_kill()
        hours(epoch)

    operator = made(ended_within, job=HOURLY, batch="@daily")
    with pytest.raises((AirflowException, PySparkException)):
        operator.execute(task_context())
    assert service.store.read(HOURLY.domain, []).head.csn <= 1


def test_missing_spark_connection_names_the_command_that_adds_it(service: EpochService) -> None:
    with pytest.raises(
        AirflowFailException, match="spark_conn_id.*'nowhere'.*airflow connections add nowhere"
    ):
        made(hours, job=HOURLY, batch="@daily", spark_conn_id="nowhere").execute(task_context())
    assert service.store.domains() == []


@pytest.mark.parametrize(
    "host", ["yarn", "spark://example:7077", "k8s://example", "local-cluster[1,1,1024]", None]
)
def test_spark_in_the_task_is_spark_of_this_process(
    service: EpochService, monkeypatch: pytest.MonkeyPatch, host: str | None
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT_DEFAULT", json.dumps({"conn_type": "spark", "host": host}))
    with pytest.raises(AirflowFailException, match="spark_conn_id.*EpochSparkSubmitOperator"):
        made(hours, job=HOURLY, batch="@daily").execute(task_context())
    assert service.store.domains() == []


@pytest.mark.parametrize("named", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_runs_within_a_restatement_stage_their_epochs(service: EpochService, *, named: bool) -> None:
    """R28: the run's configuration names it, or the task is cleared while it is open; a reader waits for what it reads;
    Airflow is told of nothing before.
    """
    made(hours, job=KEPT, batch="@daily").execute(task_context())
    made(days, 1, job=DAILY).execute(task_context())
    operations = service.restatements
    operations.open("default", ["hours"], "2013-02-07T06/2013-02-07T12", name="fix", reason="wrong", by="me")
    within: dict[str, Any] = {"cleared_after": 1, "try_number": 2}
    if named:
        within = {"run_id": "backfill__1", "conf": {"restatement": "fix"}}

    def more_hours(epoch: Any) -> None:
        epoch.write(HOURS, epoch.spark.range(100).selectExpr("id"))

    reading = made(days, 1, job=DAILY, deferrable=False, wait_timeout=timedelta(0))
    with pytest.raises(NotReady, match="has not computed .* of job hourly yet"):
        reading.execute(task_context(**within))
    staging = made(more_hours, job=KEPT, batch="@daily", outlets=[MINE])
    staging.execute(task_context(**within))
    assert staging.outlets == [MINE] if named else [MINE, asset_of(HOURS)]
    reading.execute(task_context(**within))
    assert [row["n"] for row in rows(service, "days")] == [1 + 7 + 13 + 19]
    csn = operations.publish("default", "fix")
    assert [row["n"] for row in rows(service, "days")] == [1 + 100 + 13 + 19]
    assert service.store.read(KEPT.domain, []).head.csn == csn == 6

    made(must_not_run, job=DAILY).execute(task_context(**within))


@pytest.mark.parametrize("asks", ["cleared", "backfill", pytest.param("manual", marks=pytest.mark.slow)])
def test_a_run_that_asks_for_a_read_day_again_is_restated(
    service: EpochService, capsys: pytest.CaptureFixture[str], asks: str
) -> None:
    """R28: it ends successful with its rows staged, and says who computes the rest and what publishes it; a retry does
    the same; the reader's cleared task, of another DAG, joins.
    """
    again, reading = HOURLY, {"dag_id": "reading", "run_id": "daily__1"}
    made(hours, job=again, batch="@daily").execute(task_context())
    made(days, 1, job=DAILY).execute(task_context(**reading))
    run: dict[str, Any] = {
        "cleared": {"cleared_after": 1, "try_number": 2},
        "backfill": {"run_id": "backfill__1", "run_type": DagRunType.BACKFILL},
        "manual": {"run_id": "manual__1", "run_type": DagRunType.MANUAL},
    }[asks]

    def more_hours(epoch: Any) -> None:
        epoch.write(HOURS, epoch.spark.range(10).selectExpr("id"))

    context = task_context(**run)
    staging = made(more_hours, job=again, batch="@daily")
    staging.execute(context)
    made(must_not_run, job=again, batch="@daily").execute(task_context(**run | {"try_number": 3}))
    assert staging.outlets == [], "nothing is announced before the commit"
    ((name, stamped),) = service.restatements.all("default")
    record = stamped.record
    assert (record.size, record.rerun_of) == (5, "pipeline")
    assert record.by == f"run {context['dag_run'].run_id} of DAG pipeline"
    assert {"cleared": "was cleared", "backfill": "a backfill", "manual": "of type manual"}[
        asks
    ] in record.reason
    told = capsys.readouterr().out
    assert "Staged, and not visible to readers" in told
    assert "Still to be computed are 1 of daily (DAG reading)" in told
    for words in ("status", "publish", "abandon"):
        assert f"`airflow epochs restate {words} {name}" in told
    assert "airflow epochs backfill hourly --interval 2013-02-07T00:00:00+00:00/2013-02-07T06" in told
    assert "Left as run" not in told
    made(must_not_run, job=again, batch="@daily").execute(task_context(run_id="repaired__1"))
    left = f"Left as run {context['dag_run'].run_id} of pipeline has staged it within restatement {name}"
    assert left in capsys.readouterr().out
    assert [row["n"] for row in rows(service, "days")] == [1 + 7 + 13 + 19]
    made(days, 1, job=DAILY).execute(task_context(**reading, cleared_after=1, try_number=2))
    assert "all 5 epochs of 2 jobs. All of them are staged." in capsys.readouterr().out
    csn = service.restatements.publish("default", name)
    assert [row["n"] for row in rows(service, "days")] == [40]
    made(must_not_run, job=again, batch="@daily").execute(task_context(**run | {"try_number": 4}))
    assert [known for known, _ in service.restatements.all("default")] == [name]
    assert service.store.read(KEPT.domain, []).head.csn == csn


@pytest.mark.parametrize("explicit", [False, True])
def test_a_run_that_the_event_of_a_restatement_starts_leaves_what_is_committed(
    service: EpochService, *, explicit: bool
) -> None:
    """R37: it computes what is not committed, and announces that alone, a retry of it, too; an event of a task asks for
    the day again.
    """
    again = Job("daily", outputs=[DAYS], cadence="@daily", on_rerun="new_revision")
    made(number, 1, job=again).execute(task_context())
    both = (SEVENTH.start, SEVENTH.end + timedelta(days=1))
    options = {"batch": "0 0 */2 * *", "interval": Interval(*both)} if explicit else {}
    restated = {**published("hours", both), "restatement": "fix"}
    run: dict[str, Any] = {"events": [restated], "run_id": "asset_triggered__1"}
    for number_of_try in (1, 2):
        context = task_context(**run, try_number=number_of_try)
        made(number, 2, job=again, **options).execute(context)
        (entry,) = context["outlet_events"][asset_of(DAYS)].extra["epochs"]
        assert (entry["start"], entry["csn"]) == (SEVENTH.end.isoformat(), 2)
    idle = made(must_not_run, job=again, **options)
    idle.execute(task_context(**run | {"run_id": "asset_triggered__2"}))
    assert idle.outlets == []
    assert service.restatements.all("default") == []
    asked = [restated, published("hours", (SEVENTH.start, SEVENTH.end))]
    if not explicit:
        made(number, 3, job=again).execute(task_context(events=asked, run_id="asset_triggered__3"))
        assert sorted(row["n"] for row in rows(service, "days")) == [2, 3]


@pytest.mark.parametrize("end", ["open", "published", pytest.param("abandoned", marks=pytest.mark.slow)])
def test_runs_whose_configuration_names_a_restatement_that_has_ended(service: EpochService, end: str) -> None:
    """R28: Airflow keeps a run's configuration. When its task is cleared later it computes a member as any other run
    does; what was to be looked at before it is published is never published by itself; a run of a date between members
    leaves a committed epoch alone, before the publish and after it, and computes one that no run has computed.
    """
    again = Job("daily", outputs=[DAYS], cadence="@daily", on_rerun="new_revision")
    made(number, 1, job=again).execute(task_context())
    operations, eighth = service.restatements, {"run_date": SEVENTH.end + timedelta(days=1)}
    made(number, 2, job=again).execute(task_context(run_id="scheduled__8", **eighth))
    operations.open("default", ["days"], "2013-02-07", name="fix", reason="wrong", by="me")
    within = {"conf": {"restatement": "fix"}, "run_id": "backfill__1"}
    made(must_not_run, job=again).execute(task_context(**within, **eighth))
    if end == "open":
        ninth = {"run_date": SEVENTH.end + timedelta(days=2)}
        made(number, 9, job=again).execute(task_context(**within, **ninth))
        assert sorted(row["n"] for row in rows(service, "days")) == [1, 2, 9]
        return
    if end == "abandoned":
        operations.abandon("default", "fix", reason="no", by="me")
        with pytest.raises(AirflowFailException, match="restatement 'fix' was abandoned: no"):
            made(must_not_run, job=again).execute(task_context(**within))
    else:
        made(number, 3, job=again).execute(task_context(**within))
        operations.publish("default", "fix")
        made(must_not_run, job=again).execute(task_context(**within, try_number=2))
        made(must_not_run, job=again).execute(task_context(**within, **eighth))
        assert sorted(row["n"] for row in rows(service, "days")) == [2, 3]
    operations.open("default", ["days"], "2013-02-07", name="other", reason="wrong", by="me")
    cleared = within | {"cleared_after": 1, "try_number": 3}
    made(number, 4, job=again).execute(task_context(**cleared))
    operations.publish("default", "other")
    assert sorted(row["n"] for row in rows(service, "days")) == [2, 4]
