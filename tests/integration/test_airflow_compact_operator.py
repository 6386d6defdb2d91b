"""``EpochCompactOperator`` and ``airflow epochs compact``: one file for a month, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.operators.compacting import EpochCompactOperator
from airflow_provider.spark.added_files import add_files
from airflow_provider.testing.arrow_attempts import write_rows
from tests.airflow_runs import epochs_connection, task_context, typed

ORIGIN = datetime(2024, 1, 29, tzinfo=UTC)
DAY = timedelta(days=1)
JOB = Job("count", outputs=[Table("counts")], cadence="@daily", origin=ORIGIN)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EpochService]:
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    with EpochsHook().get_conn() as opened:
        for number in range(4):
            day = Interval(ORIGIN + number * DAY, ORIGIN + (number + 1) * DAY)
            attempt = opened.begin(JOB, day, Owner(dag_id="counts", run_id=str(number)))
            assert isinstance(attempt, Attempt)
            write_rows(opened, attempt, "counts", pa.table({"n": [number]}))
            opened.publish(attempt)
        yield opened


def operator(**options: Any) -> EpochCompactOperator:
    return EpochCompactOperator(**{"task_id": "compact", "tables": "counts", **options})


def test_the_months_that_have_ended_come_into_one_file(service: EpochService) -> None:
    """R41: by the operator; the command tells the same, and takes it back."""
    nothing = {"units": 0, "rows": 0, "before": 0, "after": 0, "left": 0}
    assert operator(before=(ORIGIN + DAY).isoformat()).execute(task_context()) == nothing
    assert operator().execute(task_context()) == {"units": 1, "rows": 3, "before": 3, "after": 1, "left": 0}
    assert operator().execute(task_context(try_number=2)) == nothing
    undone = json.loads(typed("compact", "counts", "--undo", "-o", "json").stdout)
    assert [(unit["before"], unit["after"]) for unit in undone["compacted"]] == [(1, 3)]
    told = typed("compact", "counts", "--before", "2024-01-31").stdout
    assert "nothing: each unit is compacted, has one epoch, or ends later" in told
    again = typed("compact", "counts")
    assert "files before" in again.stdout
    assert "2024-02-01T00:00:00+00:00: 3 files became 1" in again.stderr, "progress, unit by unit"
    cut = service.cuts.cut("default", ["counts"])
    assert sorted(service.cuts.read(cut, "counts", ["n"]).column("n").to_pylist()) == [0, 1, 2, 3]


def test_a_month_with_added_files_is_left_and_says_the_next_step(
    service: EpochService, tmp_path: Path
) -> None:
    """R41: by the operator and by the command, which does not tell that all is done."""
    file = tmp_path / "old.parquet"
    pq.write_table(pa.table({"n": [7]}), file)
    declared = Job("count", outputs=JOB.outputs, cadence="@daily", origin=ORIGIN, on_rerun="new_revision")
    attempt = service.begin(declared, Interval(ORIGIN, ORIGIN + DAY), Owner(dag_id="counts", run_id="again"))
    assert isinstance(attempt, Attempt)
    (sink,) = attempt.sinks
    describe = add_files(
        service, attempt, sink, service.formats[sink.format], [f"file://{file}"], in_paths={}
    )
    service.processed(attempt, "counts")
    service.written(attempt, "counts", describe())
    service.publish(attempt)
    assert operator().execute(task_context()) == {"units": 0, "rows": 0, "before": 0, "after": 0, "left": 1}
    told = typed("compact", "counts").stdout
    assert "nothing: 1 unit cannot be compacted now" in told
    wanted = f"3 files, left: files of another program, which were added: file://{file}; next step: let"
    assert wanted.replace(" ", "") in "".join(told.split()), "lines are wrapped where the path is long"
    (left,) = json.loads(typed("compact", "counts", "-o", "json").stdout)["left"]
    assert left["next_step"].endswith("then `airflow epochs compact` again")
    assert "nothing: the epochs have files of their own" in typed("compact", "counts", "--undo").stdout


@pytest.mark.usefixtures("service")
def test_mistakes_end_the_retries_or_are_told_when_the_dag_is_parsed() -> None:
    with pytest.raises(InvalidInput, match="unit: 'week'"):
        operator(unit="week")
    with pytest.raises(InvalidInput, match="tables"):
        operator(tables=[])
    with pytest.raises(AirflowFailException, match="UnknownName.*count"):
        operator(tables=["count"]).execute(task_context())
    assert "--undo" in typed("compact", "counts", "--since", "2024-01-31").stderr
