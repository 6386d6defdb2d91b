"""``airflow epochs check``: what DAG files declare, without a store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.airflow_runs import typed
from tests.airflow_versions import since
from tests.documents import ROOT

HEAD = """
from datetime import UTC, datetime, timedelta
from airflow.sdk import DAG, task
from airflow_provider import Job, Table, increment, previous
from airflow_provider.sensors.epochs import EpochSensor

START = datetime(2024, 1, 1, tzinfo=UTC)

def compute(epoch): ...

def dag_of(*jobs, name, schedule="@daily"):
    with DAG(name, schedule=schedule, start_date=START):
        for job in jobs:
            task.epoch(job=job, task_id=f"compute_{job.name}")(compute)()
"""
GOOD = """
A = Job("load", outputs=[Table("raw")], cadence="@daily", origin=START)
B = Job("count", inputs=[Table("raw")], outputs=[Table("totals")], cadence="@daily", origin=START)
dag_of(A, B, name="good")
"""
BAD = {
    "a cycle": (
        """
A = Job("a", inputs=[Table("y")], outputs=[Table("x")], cadence="@daily", origin=START)
B = Job("b", inputs=[Table("x")], outputs=[Table("y")], cadence="@daily", origin=START)
dag_of(A, B, name="bad")
""",
        ["the jobs a -> b -> a read each other's tables of the same epoch"],
    ),
    "calendars": (
        """
A = Job("a", outputs=[Table("x")], cadence="@daily", origin=START)
B = Job("b", inputs=[Table("x")], outputs=[Table("y")], cadence="@hourly", origin=START)
dag_of(A, name="bad")
dag_of(B, name="worse", schedule="@hourly")
""",
        ["job 'b' (0 * * * * UTC) reads 'x' exactly at its barriers"],
    ),
    "second writers": (
        """
A, B, C = (Job(name, outputs=[Table("x")], cadence="@daily", origin=START) for name in "abc")
dag_of(A, B, C, name="bad")
""",
        [
            "table 'x' has an owner: job 'b'; job 'a' cannot own it too",
            "table 'x' has an owner: job 'c'; job 'a' cannot own it too",
            "table 'x' has an owner: job 'c'; job 'b' cannot own it too",
        ],
    ),
    "second declarations": (
        """
dag_of(Job("a", outputs=[Table("x")], cadence="@daily", origin=START), name="one")
dag_of(Job("a", outputs=[Table("x"), Table("y")], cadence="@daily", origin=START), name="two")
""",
        ["it is declared in two ways, which differ in outputs"],
    ),
    "no job's table": (
        """
A = Job("a", inputs=[Table("typo")], outputs=[Table("x")], cadence="@daily", origin=START)
dag_of(A, name="bad")
with DAG("waits", schedule="@daily", start_date=START):
    EpochSensor(task_id="wait", tables=[Table("elsewhere"), Table("x")])
""",
        ["table elsewhere", "table typo", "no job here writes it"],
    ),
    "an awaited job that no task computes": (
        """
A = Job("a", inputs=[Table("raw")], outputs=[Table("x")], cadence="@daily", origin=START)
B = Job("b", inputs=[Table("x")], outputs=[Table("y")], cadence="@daily", origin=START)
dag_of(B, name="bad")
with DAG("waits", schedule="@daily", start_date=START):
    EpochSensor(task_id="wait", job=A)
""",
        ["table x", "no job here writes it"],
    ),
    "unlike tables": (
        """
A = Job("a", outputs=[Table("x")], cadence="@daily", origin=START)
B = Job("b", inputs=[Table("x", kind="full")], outputs=[Table("y")], cadence="@daily", origin=START)
dag_of(A, B, name="bad")
""",
        ["job b reads it as full iceberg, and job a writes it as incremental iceberg"],
    ),
    "a schedule": (
        """
A = Job("a", outputs=[Table("x")], cadence="@daily", origin=START)
dag_of(A, name="bad", schedule="@weekly")
""",
        ["file bad.py", "found      InvalidInput: ", "schedule"],
    ),
    "no origin": (
        """
X = Table("x")
A = Job("a", inputs=[previous(X)], outputs=[X], cadence="@daily")
dag_of(A, name="bad")
""",
        ["job 'a' reads the past of 'x', but job 'a' declares no origin"],
    ),
    "groups that wait for each other": (
        """
from airflow_provider import Group
FIRST, SECOND = Group("first", jobs=["a", "b"]), Group("second", jobs=["c", "d"])
def job(name, group, *inputs):
    return Job(name, inputs=inputs, outputs=[Table(name)], cadence="@daily", origin=START, group=group)
dag_of(job("a", FIRST), job("b", FIRST, Table("d")), job("c", SECOND, Table("a")), job("d", SECOND), name="bad")
""",
        ["job 'b' of group 'first' reads job 'd'; job 'c' of group 'second' reads job 'a'"],
    ),
    "a job outside of a group that its list names": (
        """
from airflow_provider import Group
GROUP = Group("first", jobs=["a", "b", "c"])
A = Job("a", outputs=[Table("a")], cadence="@daily", origin=START, group=GROUP)
B = Job("b", outputs=[Table("b")], cadence="@daily", origin=START, group=GROUP)
X = Job("x", inputs=[Table("a")], outputs=[Table("x")], cadence="@daily", origin=START)
C = Job("c", inputs=[Table("x")], outputs=[Table("c")], cadence="@daily", origin=START)
dag_of(A, B, C, X, name="bad")
""",
        ["the list of group 'first' names job 'c'"],
    ),
    "a misspelt job of a group": (
        """
from airflow_provider import Group
GROUP = Group("first", jobs=["a", "bb"])
dag_of(Job("a", outputs=[Table("a")], cadence="@daily", origin=START, group=GROUP), name="bad")
""",
        ["its list names job 'bb', which no task here computes"],
    ),
    "a file that does not run": ("import nothing_of_this_name", ["No module named 'nothing_of_this_name'"]),
}


@pytest.mark.parametrize("what", sorted(BAD))
def test_check_names_what_is_wrong_and_where(tmp_path: Path, what: str) -> None:
    """R6, R38: exit code 1 with all findings, each with its places and its next step."""
    text, expected = BAD[what]
    (tmp_path / "good.py").write_text(HEAD + GOOD)
    (tmp_path / "bad.py").write_text(HEAD + text)
    done = typed("check", str(tmp_path))
    assert done.returncode == 1, done
    said = " ".join(done.stdout.split())
    assert [words for words in expected if " ".join(words.split()) not in said] == [], done.stdout
    assert "finding" in done.stderr
    told = json.loads(typed("check", str(tmp_path), "-o", "json").stdout)
    assert len(told["findings"]) == {"second writers": 3, "no job's table": 2}.get(what, 1)
    assert all(finding["next_step"] for finding in told["findings"])
    assert all("bad.py" in str(finding) for finding in told["findings"])


def test_several_findings_are_told_at_once(tmp_path: Path) -> None:
    """R6: also of files that contradict each other."""
    (tmp_path / "one.py").write_text(HEAD + GOOD)
    other = GOOD.replace('"load"', '"loads"').replace('"raw")], cadence', '"raw"), Table("r2")], cadence')
    (tmp_path / "two.py").write_text(HEAD + other.replace("good", "other"))
    done = typed("check", str(tmp_path))
    assert done.returncode == 1
    assert "table 'raw' has an owner: job 'loads'; job 'load' cannot own it too" in " ".join(
        done.stdout.split()
    )
    assert "good.compute_load (one.py)" in done.stdout
    assert "other.compute_loads (two.py)" in done.stdout


@pytest.mark.parametrize("form", ["table", "json"])
def test_good_folders_are_counted(tmp_path: Path, form: str) -> None:
    """R6: exit code 0, for a folder and for a file."""
    file = tmp_path / "good.py"
    file.write_text(HEAD + GOOD)
    for path in (tmp_path, file):
        done = typed("check", str(path), "-o", form)
        assert done.returncode == 0, done
        assert "2 jobs, 2 tables" in done.stdout or json.loads(done.stdout)["jobs"] == 2


def test_folders_without_epochs_are_refused(tmp_path: Path) -> None:
    """A pipeline that checks the wrong folder would be green for ever."""
    (tmp_path / "other.py").write_text("from airflow.sdk import DAG\nDAG('plain')\n")
    done = typed("check", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("InvalidInput: path")


@since(3, 2)
def test_check_needs_neither_database_nor_store(tmp_path: Path) -> None:
    """On a host with the packages and nothing else, as a runner of a user's CI; the DAGs of this repository pass."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))
    }
    environment |= {
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:////{tmp_path}/there/is/none.db",
    }
    words = [sys.executable, "-m", "airflow_provider.cli.program", "check", str(ROOT / "dags")]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tables" in done.stdout
    assert not list(tmp_path.rglob("*.db"))
