"""Begin of an epoch that several participants write, in a run whose events tell of a restatement of several days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.operators.participants import EpochBeginOperator
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
