"""``EpochRetentionOperator``: expires by its policy, deletes the files, and says what is left."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider import Keep
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import InvalidInput, Unavailable
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.operators.retention import EpochRetentionOperator
from airflow_provider.testing.arrow_attempts import write_rows
from tests.airflow_runs import epochs_connection, task_context
from tests.integration.flights import ORIGIN

JOB = Job("total", outputs=[Table("totals", kind="full")], cadence="@daily", origin=ORIGIN)
DAY = timedelta(days=1)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EpochService]:
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    with EpochsHook().get_conn() as opened:
        for number in range(5):
            day = Interval(ORIGIN + number * DAY, ORIGIN + (number + 1) * DAY)
            attempt = opened.begin(JOB, day, Owner(dag_id="totals", run_id=str(number)))
            assert isinstance(attempt, Attempt)
            write_rows(opened, attempt, "totals", pa.table({"n": [number]}))
            opened.publish(attempt)
        yield opened


def upkeep(**options: Any) -> EpochRetentionOperator:
    return EpochRetentionOperator(task_id="upkeep", **options)


def test_states_that_the_policy_does_not_keep_go(service: EpochService) -> None:
    """R24, R25: a retry finds nothing to do; files go once their grace is over."""
    nothing = {"expired": 0, "needed": 0, "more": 0, "files": 0, "claimed": 0}
    assert upkeep().execute(task_context()) == nothing
    keep = Keep(newest=2, each={"@daily": 3})
    assert upkeep(keep=keep, tables="totals").execute(task_context()) == {**nothing, "expired": 2}
    assert upkeep(keep=keep).execute(task_context(try_number=2)) == nothing
    with pytest.raises(Unavailable):
        service.cuts.cut("default", ["totals"], at=ORIGIN + 2 * DAY)
    cut = service.cuts.cut("default", ["totals"], at=ORIGIN + 3 * DAY)
    assert service.cuts.read(cut, "totals", ["n"]).to_pylist() == [{"n": 2}]


@pytest.mark.usefixtures("service")
def test_mistakes_end_the_retries_or_are_told_when_the_dag_is_parsed() -> None:
    with pytest.raises(InvalidInput, match=r"keep: 3 .* expected Keep\("):
        upkeep(keep=3)
    with pytest.raises(AirflowFailException, match="UnknownName.*total"):
        upkeep(keep=Keep(), tables=["total"]).execute(task_context())
