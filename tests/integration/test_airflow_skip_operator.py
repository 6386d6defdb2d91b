"""``EpochSkipOperator``: the run's epoch is committed without rows, and its readers are told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import EpochBusy, InvalidInput
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.hooks.assets import span_of
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.operators.assets import asset_of
from airflow_provider.operators.skipping import EpochSkipOperator
from airflow_provider.testing.arrow_attempts import write_rows
from tests.airflow_runs import DAY_END, epochs_connection, task_context
from tests.integration.flights import ORIGIN

TABLE = Table("deliveries")
JOB = Job("deliver", outputs=[TABLE], cadence="@daily", origin=ORIGIN)
DAY = timedelta(days=1)
HOLIDAY = Interval(DAY_END - DAY, DAY_END)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EpochService]:
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    with EpochsHook().get_conn() as opened:
        yield opened


def begun(service: EpochService, day: Interval, run_id: str = "before") -> Attempt:
    attempt = service.begin(JOB, day, Owner(dag_id="deliver", run_id=run_id))
    assert isinstance(attempt, Attempt)
    return attempt


def computed(service: EpochService, day: Interval) -> None:
    attempt = begun(service, day)
    write_rows(service, attempt, "deliveries", pa.table({"n": [1]}))
    service.publish(attempt)


def skip(**options: Any) -> EpochSkipOperator:
    return EpochSkipOperator(**{"task_id": "skip", "job": JOB, "reason": "a holiday", **options})


def test_readers_go_on_and_are_told(service: EpochService) -> None:
    """R5, R35: also by a retry after a success that Airflow never heard of; a reader's cut has no rows there."""
    day = ORIGIN
    while day < HOLIDAY.start:
        computed(service, Interval(day, day + DAY))
        day += DAY
    events = []
    for number in (1, 2):
        context = task_context(try_number=number)
        found = skip().execute(context)
        assert found == {"skipped": [str(HOLIDAY)], "left": [], "unread": [], "late": []}
        events.append(context["outlet_events"][asset_of(TABLE)].extra)
    assert events[0] == events[1]
    assert [entry["end"] for entry in events[0]["epochs"]] == [DAY_END.isoformat()]
    cut = service.cuts.cut("default", ["deliveries"], at=DAY_END)
    assert service.cuts.read(cut, "deliveries", ["n"]).num_rows == (HOLIDAY.start - ORIGIN) // DAY


@pytest.mark.parametrize("on_rerun", ["keep", "new_revision"])
def test_what_is_committed_stays_and_sends_nothing(service: EpochService, on_rerun: str) -> None:
    """R5, R35: the run's event would name an epoch that another run has told of."""
    job = Job("deliver", outputs=[TABLE], cadence="@daily", origin=ORIGIN, on_rerun=on_rerun)
    computed(service, HOLIDAY)
    operator = skip(job=job)
    found = operator.execute(task_context())
    assert found == {"skipped": [], "left": [str(HOLIDAY)], "unread": [], "late": []}
    assert operator.outlets == []


@pytest.mark.parametrize("on_rerun", ["keep", "new_revision"])
def test_what_was_computed_after_a_skip_stays_and_sends_nothing(service: EpochService, on_rerun: str) -> None:
    """R5, R35: the task that has skipped is cleared, and its epoch was computed by another run since."""
    job = Job("deliver", outputs=[TABLE], cadence="@daily", origin=ORIGIN, on_rerun=on_rerun)
    computed(service, Interval(ORIGIN, ORIGIN + DAY))
    assert skip(job=job).execute(task_context())["skipped"] == [str(HOLIDAY)]
    computed(service, HOLIDAY)
    operator = skip(job=job)
    found = operator.execute(task_context(cleared_after=1, try_number=2))
    assert (found["skipped"], found["left"]) == ([], [str(HOLIDAY)])
    assert operator.outlets == []


def test_mistakes_end_the_retries_and_a_live_attempt_does_not(service: EpochService) -> None:
    with pytest.raises(InvalidInput, match="reason: ' ' is not accepted"):
        skip(reason=" ")
    with pytest.raises(AirflowFailException, match=r"UnknownName.*deliver"):
        skip().execute(task_context())
    begun(service, HOLIDAY)
    with pytest.raises(AirflowFailException, match="has no columns yet"):
        skip().execute(task_context())
    computed(service, Interval(ORIGIN, ORIGIN + DAY))
    with pytest.raises(EpochBusy, match="run 'before'|before"):
        skip().execute(task_context())


@pytest.mark.parametrize("restatement", ["fix", None])
def test_events_of_a_restatement_move_no_beginning(service: EpochService, restatement: str | None) -> None:
    """R37: the days before the job's first one stay as they are, unless another event asks for them."""
    days = [Interval(HOLIDAY.start - ago * DAY, HOLIDAY.end - ago * DAY) for ago in (3, 2, 1, 0)]
    job = Job("deliver", outputs=[TABLE], cadence="@daily")
    attempt = service.begin(job, days[2], Owner(dag_id="deliver", run_id="before"))
    assert isinstance(attempt, Attempt)
    write_rows(service, attempt, "deliveries", pa.table({"n": [1]}))
    service.publish(attempt)
    event = {
        "domain": "default",
        "table": "orders",
        "epochs": [span_of(day) for day in days],
        **({} if restatement is None else {"restatement": restatement}),
    }
    context = task_context(events=[event])
    found = skip(job=job).execute(context)
    skipped = [days[3]] if restatement else [days[0], days[1], days[3]]
    assert found["skipped"] == list(map(str, skipped))
    assert found["left"] == [str(days[2])]
    cut = service.cuts.cut("default", ["deliveries"])
    assert cut.states[TABLE.name].low == (days[2] if restatement else days[0]).start
