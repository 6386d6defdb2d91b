"""Tasks of a commit group: each ends once its epoch is staged, and the last one publishes all of them (R40)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, task

from airflow_provider.coordination.restating.restatements import Restatements
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import Conflict, InvalidInput, NotReady
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import fence_of
from airflow_provider.domain.topology import Group, Job, Table
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.hooks.task_run import task_owner
from airflow_provider.operators import outcome
from airflow_provider.operators.assets import asset_of
from airflow_provider.operators.decorator import EpochDecoratedOperator
from airflow_provider.operators.outcome import unpublished_epochs
from airflow_provider.operators.spark_submit import EpochSparkSubmitOperator
from airflow_provider.sensors.epochs import EpochSensor
from airflow_provider.testing.arrow_attempts import write_rows
from tests.airflow_runs import epochs_connection, task_context

RAW, CLEAN = Table("raw"), Table("clean")
GROUP = Group("flights", jobs=["raw", "clean"])
THREE = Group("three", jobs=["raw", "clean", "third"])
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


class Computing(EpochSparkSubmitOperator):
    """Writes rows itself, in place of its Spark program."""

    def _run_attempt(self, *given: Any) -> None:
        _, service, _, attempt = given
        for sink in attempt.sinks:
            write_rows(service, attempt, sink.name, pa.table({"id": [1]}))
        service.complete(attempt)


def submitted(job: Job, **options: Any) -> Computing:
    with DAG(f"submit_{job.name}", schedule=None, start_date=datetime(2013, 1, 1, tzinfo=UTC)):
        return Computing(
            task_id="submit", job=job, application="none.py", wait_timeout=timedelta(0), **options
        )


def day(number: int) -> Interval:
    start = datetime(2013, 2, number, tzinfo=UTC)
    return Interval(start, start + timedelta(days=1))


def announced(context: Any, table: Table) -> list[tuple[str, int | None]]:
    found = context["outlet_events"][asset_of(table)].extra["epochs"]
    return [(entry["start"][:10], entry.get("csn")) for entry in found]


def test_an_epoch_that_another_task_publishes_is_announced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R35: the last task of the group publishes before this one has announced what it has staged."""
    context = task_context()
    with monkeypatch.context() as patched:
        last = partial(submitted(SECOND).execute, task_context(run_id="last"))
        patched.setattr(outcome, "tell_ignored", lambda *_: patched.undo() or last())
        submitted(FIRST).execute(context)
    assert announced(context, RAW) == [("2013-02-07", 1)]


def test_a_run_that_finds_its_day_staged_may_publish_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """R40: the last task was interrupted before the commit; another run of the day comes, which computes nothing."""
    jobs = [replace_rerun(job) for job in (FIRST, SECOND)]
    with monkeypatch.context() as patched:
        patched.setattr(Restatements, "publish_if_whole", lambda *_: None)
        submitted(jobs[0]).execute(task_context())
        submitted(jobs[1]).execute(task_context())
    context = task_context(run_id="by hand")
    made(must_not_run, jobs[1], "by_hand").execute(context)
    assert announced(context, CLEAN) == [("2013-02-07", 1)]


def replace_rerun(job: Job) -> Job:
    """The job, which computes committed epochs again where a run asks for them."""
    edges = list(job.edges)
    return Job(job.name, inputs=edges, outputs=list(job.outputs), on_rerun="new_revision", **OPTIONS)


def test_a_second_try_announces_what_the_first_has_published(service: EpochService) -> None:
    """R35: a run of several epochs died after the first of them."""
    first, second = submitted(FIRST), submitted(SECOND)
    days = {"data_interval": (datetime(2013, 2, 7, tzinfo=UTC), datetime(2013, 2, 9, tzinfo=UTC))}
    first.interval = second.interval = "2013-02-07/2013-02-09"
    first.execute(task_context(**days))
    owner = task_owner(context := task_context(**days))
    second._compute_one(context, service, EpochsHook().get_settings(), day(7), owner)
    second.execute(context := task_context(**days, try_number=2))
    assert announced(context, CLEAN) == [("2013-02-07", 1), ("2013-02-08", 2)]


@pytest.mark.parametrize("submits", [True, False], ids=["submit", "function"])
def test_a_second_try_publishes_what_the_first_has_staged(
    service: EpochService, monkeypatch: pytest.MonkeyPatch, submits: bool
) -> None:
    """R40: the first of two days was staged last, and not published: the second one waits for that commit."""
    first, second = submitted(FIRST), submitted(SECOND)
    first.interval = "2013-02-07/2013-02-09"
    first.execute(task_context())
    with monkeypatch.context() as patched:
        patched.setattr(Restatements, "publish_if_whole", lambda *_: None)
        owner = task_owner(context := task_context())
        second._compute_one(context, service, EpochsHook().get_settings(), day(7), owner)
    again = second if submits else made(clean, SECOND, "second")
    again.interval = first.interval
    again.execute(context := task_context(try_number=2))
    assert announced(context, CLEAN) == [("2013-02-07", 1), ("2013-02-08", 2)]


def test_a_cleared_task_computes_again_what_it_has_staged(service: EpochService) -> None:
    """R28, R40: also the first of two days, of which the second one was not computed."""
    operator = submitted(FIRST, interval="2013-02-07/2013-02-09")
    owner = task_owner(context := task_context())
    operator._compute_one(context, service, EpochsHook().get_settings(), day(7), owner)
    operator.execute(task_context(try_number=2, cleared_after=1))
    for number in (7, 8):
        key = fence_of(FIRST.epoch(day(number)))
        attempt = service.store.read(FIRST.domain, [key]).of(key).record.attempt
        assert attempt is not None
        assert attempt.owner.generation == 1


def test_a_barrier_that_is_abandoned_while_the_task_computes_the_next_is_no_success(
    service: EpochService,
) -> None:
    """R40: its rows are gone, and the task has announced that it is done with both days."""
    operator = submitted(FIRST, interval="2013-02-07/2013-02-09")
    compute, name = operator._compute_one, "flights 2013-02-08T00:00:00Z"

    def computing(*given: Any) -> None:
        compute(*given)
        if given[3] == day(8):
            service.restatements.abandon("default", name, reason="wrong", by="me")

    operator._compute_one = computing  # type: ignore[method-assign]
    with pytest.raises(AirflowFailException, match="first one missing is .2013-02-07"):
        operator.execute(task_context())


def test_a_task_that_fails_for_outdated_others_says_that_it_is_to_be_cleared_too() -> None:
    """R35, R40: another task publishes what it has staged, and sends no event of its tables."""
    alone = Job("third", outputs=[Table("third")], **{**OPTIONS, "group": THREE})
    first, second = (
        Job(job.name, inputs=list(job.edges), outputs=list(job.outputs), **OPTIONS | {"group": THREE})
        for job in (FIRST, SECOND)
    )
    for job in (first, second):
        submitted(job).execute(task_context())
    submitted(first).execute(task_context(try_number=2, cleared_after=1))
    with pytest.raises(Conflict, match="tasks of clean .* Clear a task that has failed with this, too"):
        submitted(alone).execute(task_context())
    submitted(second).execute(context := task_context(try_number=2, cleared_after=1))
    assert announced(context, CLEAN) == [("2013-02-07", 1)]
    submitted(alone).execute(context := task_context(try_number=2, cleared_after=1))
    assert announced(context, alone.outputs[0]) == [("2013-02-07", 1)]


def test_an_epoch_of_another_process_of_the_run_is_announced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R35: also without a group: the commit came between the two looks of the task."""
    alone = Job("alone", outputs=[Table("alone")], cadence="@daily", origin=datetime(2013, 2, 7, tzinfo=UTC))
    context = task_context()
    with monkeypatch.context() as patched:

        def between(*given: Any) -> list[Interval]:
            patched.undo()
            submitted(alone).execute(task_context())
            return unpublished_epochs(*given)

        patched.setattr(outcome, "unpublished_epochs", between)
        submitted(alone).execute(context)
    assert announced(context, alone.outputs[0]) == [("2013-02-07", 1)]


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
