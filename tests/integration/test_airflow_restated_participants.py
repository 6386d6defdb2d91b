"""Tasks of an epoch that several participants write, in runs of restatements and of groups (R28, R37, R40)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.rollback import plan_rollback, rollback
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Group, Job, Table
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.operators.assets import asset_of
from airflow_provider.operators.participants import EpochBeginOperator, EpochCommitOperator
from airflow_provider.spark.handles import handle_of
from airflow_provider.testing.arrow_attempts import write_rows
from tests.airflow_runs import epochs_connection, published, task_context

DAYS = [
    Interval(datetime(2013, 2, day, tzinfo=UTC), datetime(2013, 2, day, tzinfo=UTC) + timedelta(days=1))
    for day in range(3, 8)
]
JOB = Job("c", outputs=[Table("c")], cadence="@daily", origin=DAYS[0].start)
RESTATED = {**published("a", (DAYS[0].start, DAYS[2].end)), "restatement": "fix"}


def begun(*events: dict[str, object]) -> int:
    """The number of handles that a run of these events gets."""
    begin = EpochBeginOperator(task_id="begin", participants=2, job=JOB)
    return len(begin.execute(task_context(events=events)))


def test_days_that_a_restatement_has_changed_stand_in_no_run_s_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R37: alone they ask for nothing; beside the event of a task its day is computed, and two are refused."""
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    service = EpochService.open(EpochsHook().get_settings())
    for number, day in enumerate(DAYS[:3]):
        attempt = service.begin(JOB, day, Owner(dag_id="pipeline", run_id=f"day {number}"))
        assert isinstance(attempt, Attempt)
        write_rows(service, attempt, "c", pa.table({"x": [number]}))
        service.complete(attempt)
        service.publish(attempt)
    with pytest.raises(AirflowSkipException, match="nothing is to be computed"):
        begun(RESTATED)
    with pytest.raises(AirflowFailException, match="one epoch of 'c'"):
        begun(RESTATED, published("a", (DAYS[3].start, DAYS[4].end)))
    assert begun(RESTATED, published("a", (DAYS[3].start, DAYS[3].end))) == 2


def committed(service: EpochService, job: Job, day: Interval, run: str = "first") -> None:
    attempt = service.begin(job, day, Owner(dag_id="pipeline", run_id=run))
    assert isinstance(attempt, Attempt)
    write_rows(service, attempt, job.outputs[0].name, pa.table({"x": [1]}))
    service.complete(attempt)
    service.publish(attempt)


def tasks(service: EpochService, job: Job, values: Sequence[int], **run: Any) -> Any:
    """Run the three tasks of an epoch, the participants without Spark; return the context of the last one."""
    begun = begin(job, len(values), **run)
    write(service, job, begun, values)
    return commit(job, begun, **run)


def begin(job: Job, participants: int = 1, **run: Any) -> list[str]:
    operator = EpochBeginOperator(task_id="begin", participants=participants, job=job)
    return operator.execute(task_context(**run))


def write(service: EpochService, job: Job, begun: Sequence[str], values: Sequence[int]) -> None:
    for handle, value in zip(begun, values, strict=True):
        found = service.resume(job, handle_of(handle, job).begun)
        if isinstance(found, Attempt):
            joined = service.join(found, handle_of(handle, job).participant, found.owner)
            write_rows(service, joined, job.outputs[0].name, pa.table({"x": [value]}))


def commit(job: Job, begun: Sequence[str], **run: Any) -> Any:
    context = task_context(**run)
    operator = EpochCommitOperator(task_id="commit", job=job, epoch=begun)
    operator.execute(context)
    return context if operator.outlets else None


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EpochService]:
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    with EpochService.open(EpochsHook().get_settings()) as opened:
        yield opened


def values(service: EpochService, table: str) -> list[int]:
    return service.cuts.read(service.cuts.cut("default", [table]), table, ["x"]).column("x").to_pylist()


def test_participants_write_a_member_of_a_restatement(
    service: EpochService, capsys: pytest.CaptureFixture[str]
) -> None:
    """R10, R28: the last task stages and announces nothing; a retry finds it staged; other days are left alone."""
    for day in DAYS:
        committed(service, JOB, day)
    told = {"name": "fix", "reason": "it was wrong", "by": "me"}
    service.restatements.open("default", ["c"], DAYS[4], **told)
    run = {"conf": {"restatement": "fix"}, "run_id": "backfill"}
    assert tasks(service, JOB, [7, 8], **run) is None
    assert "Restatement fix, opened by me, publishes it" in capsys.readouterr().out
    assert tasks(service, JOB, [9, 9], **run, try_number=2) is None
    assert values(service, "c") == [1] * 5
    with pytest.raises(AirflowSkipException, match="no member of restatement fix"):
        tasks(service, JOB, [9, 9], **run, run_date=DAYS[3].end)
    service.restatements.publish("default", "fix")
    assert values(service, "c") == [1, 1, 1, 1, 7, 8]


def test_a_cleared_group_of_participants_opens_a_restatement(service: EpochService) -> None:
    """R28: as a cleared task of one writer does, if others have read the day and the job computes it again."""
    job = Job("c", outputs=[Table("c")], cadence="@daily", origin=DAYS[0].start, on_rerun="new_revision")
    reader = Job("r", inputs=[job.outputs[0]], outputs=[Table("r")], cadence="@daily", origin=DAYS[0].start)
    for day in DAYS:
        committed(service, job, day, "scheduled__2013-02-08")
        committed(service, reader, day)
    assert tasks(service, job, [7, 8], cleared_after=1, try_number=2) is None
    (name,) = (name for name, _ in service.restatements.all("default"))
    assert name.startswith("pipeline-2013-02-07")
    assert {found.job for found in service.restatements.status("default", name).record.members} == {"c", "r"}


def test_participants_write_for_a_group(service: EpochService) -> None:
    """R10, R40: the last task announces what is staged for the group, and with the last job what is committed."""
    group = Group("both", jobs=["a", "b"])
    first, second = (
        Job(name, outputs=[Table(name)], cadence="@daily", origin=DAYS[4].start, group=group) for name in "ab"
    )
    (entry,) = tasks(service, first, [1, 2])["outlet_events"][asset_of(first.outputs[0])].extra["epochs"]
    assert "csn" not in entry
    (entry,) = tasks(service, second, [3])["outlet_events"][asset_of(second.outputs[0])].extra["epochs"]
    assert entry["csn"] == 1
    assert values(service, "a") == [1, 2]


def test_a_member_that_was_abandoned_since_it_was_found_staged_is_no_success(service: EpochService) -> None:
    """R28: nothing would be computed, and nothing published."""
    committed(service, JOB, DAYS[4])
    service.restatements.open("default", ["c"], DAYS[4], name="fix", reason="it was wrong", by="me")
    run = {"conf": {"restatement": "fix"}, "run_id": "backfill"}
    assert tasks(service, JOB, [7, 8], **run) is None
    found = begin(JOB, **run, try_number=2)
    service.restatements.abandon("default", "fix", reason="no", by="me")
    with pytest.raises(AirflowFailException, match="clear the task that has begun it"):
        commit(JOB, found, **run, try_number=2)


def test_a_barrier_that_was_abandoned_since_it_was_found_staged_is_no_success(service: EpochService) -> None:
    """R35, R40: it sent an event that named no epoch; once the barrier is published, it names the commit."""
    group = Group("both", jobs=["a", "b"])
    first, second = (
        Job(name, outputs=[Table(name)], cadence="@daily", origin=DAYS[4].start, group=group) for name in "ab"
    )
    tasks(service, first, [1, 2])
    found = begin(first, run_id="other")
    service.restatements.abandon("default", "both 2013-02-08T00:00:00Z", reason="no", by="me")
    with pytest.raises(AirflowFailException, match="found it staged for 'both"):
        commit(first, found, run_id="other")
    tasks(service, first, [3, 4], try_number=2)
    found = begin(first, run_id="other")
    tasks(service, second, [5])
    told = commit(first, found, run_id="other")["outlet_events"][asset_of(first.outputs[0])]
    assert [entry["csn"] for entry in told.extra["epochs"]] == [1]


def test_a_commit_that_was_rolled_back_is_announced_no_more(service: EpochService) -> None:
    """R30, R35: the last task alone was cleared, and named a CSN at which nothing is committed any more."""
    for day in DAYS[:4]:
        committed(service, JOB, day)
    write(service, JOB, begun := begin(JOB), [7])
    assert commit(JOB, begun) is not None
    found = begin(JOB, run_id="other")
    assert commit(JOB, found, run_id="other") is not None
    rollback(service.context, plan_rollback(service.context, "default", 4), reason="all wrong", by="me")
    for handles in (begun, found):
        with pytest.raises(AirflowFailException, match="begin the epoch again"):
            commit(JOB, handles, try_number=2)
    assert values(service, "c") == [1] * 4
