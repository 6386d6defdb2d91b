"""``EpochLagOperator``: what it measures, and the task that fails because tables are late."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, Stats

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.operators.lag import EpochLagOperator
from airflow_provider.testing.arrow_attempts import write_rows
from tests.airflow_runs import epochs_connection, task_context

RIDES, TOTALS = Table("rides"), Table("totals")
DAY, DAILY = timedelta(days=1), Cadence("@daily")
ROWS = pa.table({"hours": [1, 2]})


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EpochService]:
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    with EpochsHook().get_conn() as opened:
        yield opened


@pytest.fixture
def gauges(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, ...], float]:
    """What is sent to Airflow's metrics: values by name and tags."""
    sent: dict[tuple[str, ...], float] = {}

    def gauge(name: str, value: float, *, tags: dict[str, str]) -> None:
        sent[name, *tags.values()] = value

    monkeypatch.setattr(Stats, "gauge", gauge)
    return sent


def cascade(service: EpochService) -> None:
    """Rides of the last three days that have ended, and totals of the first; an attempt at the second goes on."""
    today = DAILY.floor(service.store.read("default", []).now)  # type: ignore[arg-type]
    days = [Interval(today - ago * DAY, today - (ago - 1) * DAY) for ago in (3, 2, 1)]
    options: dict[str, Any] = {"cadence": "@daily", "origin": days[0].start}
    load = Job("load", outputs=[RIDES], **options)
    count = Job("count", inputs=[RIDES], outputs=[TOTALS], **options)
    for job, ended in ((load, days), (count, days[:1])):
        for day in ended:
            written(service, job, day, publish=True)
    written(service, count, days[1], publish=False)


def written(service: EpochService, job: Job, day: Interval, *, publish: bool) -> None:
    attempt = service.begin(job, day, Owner(dag_id="rides", run_id="1"))
    assert isinstance(attempt, Attempt)
    write_rows(service, attempt, job.outputs[0].name, ROWS)
    if publish:
        service.publish(attempt)


def lag_of(**options: Any) -> EpochLagOperator:
    return EpochLagOperator(task_id="lag", **options)


def test_a_late_table_fails_the_task_which_names_what_holds_it_back(
    service: EpochService, gauges: dict[tuple[str, ...], float]
) -> None:
    """R21: an epoch that is due is late by the time since its end; the task has measured before it fails."""
    cascade(service)
    assert lag_of().execute(task_context()) == ["totals"], "without at_most nothing fails"
    with pytest.raises(AirflowFailException) as failed:
        lag_of(at_most=timedelta(hours=1), tables=[TOTALS, "rides"]).execute(task_context())
    told = str(failed.value)
    assert "1 of 2 tables of domain default have lacked a due epoch for more than 1:00:00" in told
    assert "\n- totals: complete to " in told
    assert "held back by count [" in told
    assert "running" in told
    assert "airflow epochs lag" in told
    assert lag_of(at_most=timedelta(days=9)).execute(task_context()) == []
    overdue = gauges["epochs.table.overdue_seconds", "default", "totals"]
    assert DAY.total_seconds() < overdue < 2 * DAY.total_seconds()
    assert gauges["epochs.table.overdue_seconds", "default", "rides"] == 0
    assert gauges["epochs.table.lacking_epochs", "default", "totals"] == 2
    assert gauges["epochs.table.end_to_end_seconds", "default", "totals"] > overdue
    assert (gauges["epochs.csn", "default"], gauges["epochs.attempts.open", "default"]) == (4, 1)
    assert gauges["epochs.attempts.silent", "default"] == 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"at_most": 3600}, "at_most: 3600 is not accepted; expected a timedelta"),
        ({"at_most": -timedelta(1)}, "at_most"),
        ({"tables": [Table("rides", domain="city")]}, "domain: 'default' .* expected 'city'"),
        ({"tables": ["a/b"]}, "table"),
    ],
)
def test_mistakes_are_told_when_the_dag_is_parsed(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        lag_of(**options)


def test_an_unknown_table_is_no_table_that_is_in_time(
    service: EpochService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an error, and counted as each that ends a try."""
    counted: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(Stats, "incr", lambda name, *, tags: counted.append((name, tags)))
    cascade(service)
    with pytest.raises(AirflowFailException, match="UnknownName.*riddes"):
        lag_of(tables=["riddes"], at_most=DAY).execute(task_context())
    assert counted == [("epochs.errors", {"error": "UnknownName"})]
