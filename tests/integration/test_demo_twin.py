"""The naive twin's programs, run one after the other: its tables are right then, and its readers say so."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from datetime import timedelta
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow.providers.standard.sensors.external_task import ExternalTaskSensor
from airflow.sdk import DAG

from demo import landing, source
from demo.readers import twin
from demo.source import Days, midnight
from demo.totals import SourceTotals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
DAYS = Days(first=source.BLIZZARD, count=2)


def programs() -> list[str]:
    """In an order in which the twin's DAGs let them run."""
    dags = [
        value
        for value in vars(importlib.import_module("dags.twin_pipeline")).values()
        if isinstance(value, DAG)
    ]
    after = {
        dag.get_task("job").application: {
            str(ROOT / "spark_jobs" / f"{task.external_dag_id}.py")
            for task in dag.tasks
            if isinstance(task, ExternalTaskSensor)
        }
        for dag in dags
    }
    return [Path(program).stem for program in TopologicalSorter(after).static_order()]


@pytest.fixture
def session_that_stays(classic_session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each program ends its session, and others use this one; two partitions are enough for small tables."""
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
    monkeypatch.setattr(type(classic_session), "stop", lambda session: session)
    name = "spark.sql.shuffle.partitions"
    before = classic_session.conf.get(name)
    classic_session.conf.set(name, "2")
    yield
    classic_session.conf.set(name, str(before))


@pytest.mark.slow
@pytest.mark.usefixtures("session_that_stays")
def test_programs_of_the_twin_write_the_tables_its_readers_expect(tmp_path: Path) -> None:
    """It lacks nothing but what keeps tables together: after each day all six agree there."""
    zone, warehouse = tmp_path / "landing", str(tmp_path / "twin")
    landing.land(zone, DAYS)
    assert len(programs()) == 5
    for day in DAYS:
        given = ["--landing", str(zone), "--warehouse", warehouse, "--day", day.isoformat()]
        for program in programs():
            importlib.import_module(f"spark_jobs.{program}").main(given)
        seen = twin.judge(twin.read_tables(warehouse), SourceTotals.of(DAYS), DAYS)
        assert (seen.barrier, seen.tables, seen.wrong) == (midnight(day + timedelta(days=1)), 6, {})
