"""kill -9 in every window of an epoch that SQL statements write: each row is there once, no draft stays.

The retry of an attempt that was killed in a statement, between two, or after WRITTEN begins with the rows of the
barrier before, never with what the dead one did. Only these: ``make test-slow ARGS='-k kill_drafts'``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.coordination.service import EpochService, Settings
from demo.spark_connect import spark_home
from tests.services import iceberg_runtime
from tests.slow.kill_plan import DRAFTED
from tests.slow.test_kill_spark import KILLS, Task, environment, run, settings

__all__ = ["environment", "settings"]  # fixtures of this module

WINDOWS: dict[str, tuple[str, str]] = {
    "in a statement": ("in a task of totals", "in a task of hourly"),
    "between statements": ("between statements of totals", "between statements of hourly"),
    "after PROCESSED": ("after PROCESSED totals", "after PROCESSED hourly"),
    "after WRITTEN": ("after WRITTEN totals", "after WRITTEN"),
    "in publish": ("before publish", "after publish"),
}


@pytest.fixture(autouse=True)
def _runtime(environment: dict[str, str]) -> None:
    jar = iceberg_runtime.jar()
    if jar is None:
        pytest.skip("Iceberg's Spark runtime cannot be had: Maven Central, or its mirror, does not answer")
    with Path(environment["SPARK_CONF_DIR"], "spark-defaults.conf").open("a") as defaults:
        defaults.write(f"spark.jars {jar}\n")


@pytest.fixture
def submitted(tmp_path: Path, settings: Settings, environment: dict[str, str]) -> Iterator[Task]:
    command = [str(spark_home() / "bin/spark-submit"), "--master", "local[2]"]
    task = Task(tmp_path, settings, command, environment, epochs=len(WINDOWS) * KILLS, job=DRAFTED)
    yield task
    task.end()


def test_the_drivers_jvm_alone(submitted: Task, capsys: pytest.CaptureFixture[str]) -> None:
    """With it all that wrote is dead: of drafts nothing is left but the files of published slices."""

    def kill() -> None:
        submitted.process.kill()
        submitted.process.wait()

    run(submitted, kill, capsys, "the JVM of a driver that drafts", WINDOWS)
    with EpochService.open(submitted.settings) as service:
        cut = service.cuts.cut("default", ["hourly", "totals"])
        live = {
            file.removeprefix("file://") for table in cut.states for file in service.cuts.files(cut, table)
        }
        barriers = [
            change.record.members[0].interval.end for change in service.store.changes(DRAFTED.domain, 0)
        ]
        for barrier in barriers:
            earlier = service.cuts.cut("default", ["totals"], at=barrier)
            live |= {file.removeprefix("file://") for file in service.cuts.files(earlier, "totals")}
    warehouse = Path(submitted.settings.warehouse)
    assert {str(path) for path in warehouse.rglob("*.parquet")} == live
    assert not [file for draft in warehouse.rglob("draft-*") for file in draft.rglob("*.metadata.json")]
