"""Which runs ask for a committed epoch again, and what a restatement that they open keeps of that (R28)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from airflow.sdk.api.datamodels._generated import DagRunType

from airflow_provider.domain.admission import Beginning, asks_anew, decide
from airflow_provider.domain.epoch import AttemptRecord, Commitment, EpochRecord
from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.identifiers import ChangeSetId, JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.restatement import JobEpochs, RestatementRecord
from airflow_provider.domain.topology import Job, OnRerun, Table
from airflow_provider.hooks.task_run import task_cause
from tests.airflow_runs import task_context
from tests.declarations import declared

START = datetime(2013, 2, 1, tzinfo=UTC)
DAY = timedelta(days=1)
FIRST, SECOND = Interval(START, START + DAY), Interval(START + DAY, START + 2 * DAY)
MINE = Owner(dag_id="d", run_id="r1")
OWNERS = [
    MINE,
    replace(MINE, try_number=2),
    replace(MINE, generation=1),
    replace(MINE, generation=1, try_number=2),
    Owner(dag_id="d", run_id="r2"),
]


def committed(owner: Owner, skipped: str = "") -> EpochRecord:
    change_set, given = ChangeSetId("c"), {"revision": 1, "token": 3, "output_token": 3, "inputs": ()}
    done = Commitment(owner=owner, change_set=change_set, skipped=skipped, **given)  # type: ignore[arg-type]
    return EpochRecord(interval=FIRST, token=3, committed=done)


def decided(on_rerun: OnRerun, epoch: EpochRecord, owner: Owner) -> Beginning | None:
    job = declared(Job("j", outputs=[Table("a")], cadence="@daily", on_rerun=on_rerun), None)
    try:
        return decide(job, epoch, None, owner, START)
    except EpochError:
        return None


def test_a_run_asks_anew_exactly_where_a_begin_computes_the_committed_epoch_again() -> None:
    for on_rerun, owner, other, skipped in product(OnRerun, OWNERS, OWNERS, ("", "no data")):
        epoch = committed(other, skipped)
        is_opened = decided(on_rerun, epoch, owner) is Beginning.OPEN
        assert asks_anew(on_rerun, epoch, owner) is is_opened, (on_rerun, owner, other, skipped)
        assert not asks_anew(on_rerun, epoch, owner, fills=True)
        assert not asks_anew(on_rerun, epoch, owner, behind=True)
        assert not asks_anew(on_rerun, replace(epoch, committed=None), owner)


def test_a_try_that_a_newer_attempt_has_overtaken_asks_for_nothing() -> None:
    given: dict[str, Any] = {"inputs": (), "input_generation": 1, "sources": (), "baseline": ()}
    newer = AttemptRecord(
        revision=2, token=4, job_revision=1, owner=replace(MINE, generation=2), aborted="why", **given
    )
    epoch = replace(committed(Owner(dag_id="d", run_id="r2")), token=4, attempt=newer)
    assert not asks_anew(OnRerun.NEW_REVISION, epoch, replace(MINE, generation=1))
    assert asks_anew(OnRerun.NEW_REVISION, epoch, replace(MINE, generation=2, try_number=2))


def test_what_is_asked_for_grows_in_order() -> None:
    asked = (JobEpochs(job=JobName("b"), intervals=(SECOND,)),)
    record = RestatementRecord(reason="x", by="y", asked=asked, members=asked, incarnation="i")
    more = record.asking(JobName("b"), [FIRST, SECOND])
    assert more == (JobEpochs(job=JobName("b"), intervals=(FIRST, SECOND)),)
    both = record.asking(JobName("a"), [FIRST])
    assert [found.job for found in both] == ["a", "b"]


@pytest.mark.parametrize(
    ("run", "user", "cause"),
    [
        ({"cleared_after": 1, "try_number": 2}, None, "its task was cleared and asks"),
        (
            {"run_type": DagRunType.BACKFILL},
            "ann",
            "a backfill of the DAG, which ann has started, or a clearing",
        ),
        (
            {"run_type": DagRunType.BACKFILL, "cleared_after": 1, "try_number": 2},
            None,
            "a backfill of the DAG or",
        ),
        ({"run_type": DagRunType.MANUAL}, "bob", "a run of type manual, which bob has started, asks"),
        ({}, None, "a run of type scheduled asks"),
    ],
)
def test_the_cause_of_a_rerun_is_what_airflow_tells_the_task(
    run: dict[str, Any], user: str | None, cause: str
) -> None:
    context = task_context(**run)
    context["dag_run"].triggering_user_name = user
    assert task_cause(context).startswith(cause)
