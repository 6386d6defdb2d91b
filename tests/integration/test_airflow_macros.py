"""``macros.epochs`` in templates, as the task runner of Airflow renders them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG
from airflow.sdk.definitions._internal.abstractoperator import AbstractOperator
from airflow.sdk.execution_time.context import MacrosAccessor

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import EpochError, NotReady, UnknownConnection
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.operators.spark_submit import EpochSparkSubmitOperator
from tests.airflow_runs import DAY_END, epochs_connection, task_context
from tests.airflow_runs import published as event
from tests.airflow_versions import integrate_macros_plugins
from tests.integration.flights import JOB, published

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store in which the flights of 6 February are committed."""
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    with EpochService.open(EpochsHook().get_settings()) as service:
        published(service, 0)


def rendered(template: str, *, native: bool = False, **run: Any) -> Any:
    """Return *template*, rendered as for a task of a run of 8 February, by the plugin that Airflow has loaded."""
    with DAG("pipeline", schedule=None, render_template_as_native_obj=native):
        task = BashOperator(task_id="tell", bash_command=template)
    return _rendered(task, "bash_command", **run)


def _rendered(task: Any, field: str, **run: Any) -> Any:
    assert isinstance(task, AbstractOperator)
    integrate_macros_plugins()  # as the task runner does before it makes a context
    context = {**task_context(**run), "task": task, "macros": MacrosAccessor()}
    task.render_template_fields(context)
    return getattr(task, field)


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{{ macros.epochs.interval('@daily') }}", "2013-02-07T00:00:00+00:00/2013-02-08T00:00:00+00:00"),
        ("{{ macros.epochs.interval('@hourly').start | ts }}", "2013-02-07T23:00:00+00:00"),
        ("{{ macros.epochs.barrier('@daily') | ds }}", "2013-02-08"),
        ("{{ macros.epochs.watermark('flights') | ds }}", "2013-02-07"),
        ("{{ macros.epochs.cut('flights', at='2013-02-07').csn }}", "1"),
    ],
)
def test_what_the_macros_tell(template: str, told: str) -> None:
    assert rendered(template) == told


def test_the_calendar_is_that_of_the_tasks_own_job() -> None:
    with DAG("pipeline", schedule=None):
        task = EpochSparkSubmitOperator(
            task_id="clean", job=JOB, application="{{ macros.epochs.interval() }}", conn_id="spark"
        )
    assert _rendered(task, "application") == "2013-02-07T00:00:00+00:00/2013-02-08T00:00:00+00:00"


def test_a_run_that_assets_have_started_is_about_the_epochs_of_their_events() -> None:
    """R37: however late it starts."""
    told = rendered(
        "{{ macros.epochs.cut('flights', cadence='@daily').barrier | ds }}",
        events=[event("flights", (DAY_END - 2 * DAY, DAY_END - DAY))],
    )
    assert told == "2013-02-07"


def test_values_stay_values_where_the_dag_asks_for_native_ones() -> None:
    assert rendered("{{ macros.epochs.barrier('@daily') }}", native=True) == DAY_END
    assert rendered("{{ macros.epochs.watermark('flights') }}", native=True) == datetime(
        2013, 2, 7, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{ macros.epochs.watermark('flight') }}", "'flight' is not registered .*flights"),
        ("{{ macros.epochs.watermark('a/b') }}", "table"),
        ("{{ macros.epochs.interval() }}", "the calendar of the epochs"),
        ("{{ macros.epochs.interval('@sometimes') }}", "@sometimes"),
        ("{{ macros.epochs.cut(cadence='@daily') }}", "one table or more"),
        ("{{ macros.epochs.cut('flights', at='soon') }}", "soon"),
    ],
)
def test_mistakes_end_the_retries(template: str, why: str) -> None:
    with pytest.raises(AirflowFailException, match=why):
        rendered(template)


@pytest.mark.parametrize(
    ("template", "kind", "why"),
    [
        ("{{ macros.epochs.cut('flights', cadence='@daily') }}", NotReady, "its watermark is 2013-02-07"),
        (
            "{{ macros.epochs.watermark('flights', conn_id='nix') }}",
            UnknownConnection,
            "'nix' is not known to Airflow",
        ),
    ],
)
def test_what_may_come_is_left_to_the_retries(template: str, kind: type[EpochError], why: str) -> None:
    with pytest.raises(kind, match=why):
        rendered(template)
