"""The pages about work without Airflow and about users' own tests, done as they say, in a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from airflow_provider.domain.topology import Table
from airflow_provider.testing.local_epochs import LocalEpochs
from tests.documents import HOW_TO, ROOT, blocks

WORK, TESTS = HOW_TO / "work-locally.md", HOW_TO / "test-jobs.md"

SUBMITTED = '''
"""The other page's program, as a task of spark-submit."""
from datetime import UTC, datetime
from pathlib import Path

import rides
from airflow.sdk import DAG

from airflow_provider.operators.spark_submit import EpochSparkSubmitOperator

PROGRAM = Path(__file__).parent.parent / "count_rides.py"

with DAG("submit", schedule="@daily", start_date=datetime(2024, 5, 2, tzinfo=UTC), catchup=False) as dag:
    EpochSparkSubmitOperator(task_id="compute", job=rides.count, application=str(PROGRAM))
'''
TEST_OF_IT = """
from datetime import UTC, datetime

import rides
from submitted import dag


def test_the_program_of_the_other_page(local_connections):
    local_connections.commit(rides.load, "2024-05-01", {rides.rides: [{"station": "Harbour", "minutes": 12}]})
    assert dag.test(logical_date=datetime(2024, 5, 2, tzinfo=UTC)).state == "success"
    assert local_connections.rows(rides.totals) == [{"station": "Harbour", "count": 1}]
"""


def save(folder: Path, page: Path) -> None:
    for block in blocks(page):
        if block.file:
            (folder / block.file).parent.mkdir(exist_ok=True)
            (folder / block.file).write_text(block.text)


def console(page: Path) -> str:
    return "".join(block.text for block in blocks(page, "console"))


def run(folder: Path, commands: str) -> subprocess.CompletedProcess[str]:
    """Run *commands* as a shell of the reader's would, in this environment."""
    mine = {name: text for name, text in os.environ.items() if name != "AIRFLOW__CORE__LOAD_EXAMPLES"}
    environment = {
        **mine,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{folder / 'dags'}",
    }
    return subprocess.run(
        ["bash", "-ec", commands], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_notebook_program_and_spark_submit(tmp_path: Path) -> None:
    save(tmp_path, WORK)
    cells = "".join(block.text for block in blocks(WORK, "python") if not block.file)
    (tmp_path / "cells.py").write_text(cells)
    done = run(tmp_path, "python cells.py")
    assert [done.stdout] == [block.text for block in blocks(WORK, "text")], done.stderr

    done = run(tmp_path, console(WORK))
    assert done.returncode == 0, done.stderr
    totals = Table("station_totals", kind="full")
    with LocalEpochs(tmp_path) as epochs:
        assert epochs.rows(totals) == [{"station": "Harbour", "count": 2}, {"station": "Museum", "count": 2}]
        cut = epochs.service.cuts.cut("default", [totals])
        assert cut.csn == 5  # the program computed the day, spark-submit its next revision

    elsewhere = "spark-submit --master 'local[1]' --conf spark.kubernetes.submitInDriver=true"
    done = run(tmp_path, f"mkdir other && {elsewhere} count_rides.py --local other --interval 2024-05-02")
    assert done.returncode != 0
    assert (
        "StoreIncompatible: deploy mode 'cluster' runs the driver on another host"
        in done.stdout + done.stderr
    )
    assert list((tmp_path / "other").iterdir()) == []


def test_users_own_tests_of_functions_jobs_and_dags(tmp_path: Path) -> None:
    save(tmp_path, WORK)
    (tmp_path / "rides.py").unlink()
    save(tmp_path, TESTS)
    (tmp_path / "dags" / "submitted.py").write_text(SUBMITTED)
    (tmp_path / "tests" / "test_submitted.py").write_text(TEST_OF_IT)
    done = run(tmp_path, console(TESTS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
