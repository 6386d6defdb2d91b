"""What the README and the tutorial tell a reader to run, run as it stands there, and what the walk shows of it."""

from __future__ import annotations

import importlib
import json
import logging
import runpy
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider import connect
from airflow_provider.cli.program import parser
from airflow_provider.coordination.service import Settings
from airflow_provider.domain.interval import Interval
from airflow_provider.spark.epoch_run import epoch_run
from demo.spark_connect import SparkConnectServer
from tests.airflow_runs import task_context
from tests.documents import HOW_TO, README, ROOT, TUTORIAL, WALK, Block, blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider.domain.topology import Job
    from airflow_provider.spark.attempt_run import EpochRun

EXAMPLES = ROOT / "airflow_provider_epochs" / "example_dags"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of the reader's own, with what the tutorial's files bring along forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "dags"))
    epochs = {
        "conn_type": "epochs",
        "host": f"{tmp_path}/epochs.db",
        "extra": {"warehouse": f"file://{tmp_path}/warehouse"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", json.dumps(epochs))
    logging.getLogger("py4j").setLevel(
        logging.ERROR
    )  # it logs when it goes, and its terminal is gone by then
    yield
    for name in ("rides", "rides_dags", "shop"):
        sys.modules.pop(name, None)


def _connect_to(server: SparkConnectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "spark_connect", "host": "sc://127.0.0.1", "port": server.port}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT_DEFAULT", json.dumps(connection))


def _run_tasks(dag: Any, run_date: datetime) -> None:
    """Run the DAG's tasks in their order, as a run of that date would."""
    for task in dag.topological_sort():
        task.execute(task_context(run_date=run_date))


def _outputs(page: Path) -> list[str]:
    return [block.text for block in blocks(page, "text")]


def test_python_of_the_readme_prints_the_stated_output_twice(
    classic_session: SparkSession,  # noqa: ARG001 - what the README starts by itself
    connect_server: SparkConnectServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    declarations, by_hand, dag = (block.text for block in blocks(README, "python"))
    _connect_to(connect_server, monkeypatch)
    for _ in range(2):
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(declarations + by_hand, names)  # noqa: S102 - it is the README's
        assert [capsys.readouterr().out] == _outputs(README)
    names = {"__name__": "a_dag_file"}
    exec(declarations + by_hand + dag, names)  # noqa: S102
    assert capsys.readouterr().out == ""
    assert [operator.task_id for operator in names["dag"].topological_sort()] == [
        "rides_are_there",
        "compute",
    ]
    _run_tasks(names["dag"], datetime(2024, 5, 2, tzinfo=UTC))


def test_files_of_the_tutorial_give_the_stated_output(
    tmp_path: Path,
    classic_session: SparkSession,  # noqa: ARG001 - what the tutorial starts by itself
    connect_server: SparkConnectServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _connect_to(connect_server, monkeypatch)
    monkeypatch.setenv("COLUMNS", "80")
    _save(tmp_path, blocks(TUTORIAL, "python"))
    _land(tmp_path)
    by_hand, explained, cut = _outputs(TUTORIAL)

    runpy.run_path("by_hand.py")
    assert capsys.readouterr().out == by_hand
    runpy.run_path("by_hand.py")
    assert capsys.readouterr().out.splitlines() == by_hand.splitlines()[-2:]

    names = runpy.run_path("dags/rides_dags.py")
    _epochs(capsys, "explain", "count_rides", says=explained)
    for day in (4, 2):  # the new day, and one that was computed by hand and is kept
        for dag in ("load_dag", "count_dag"):
            _run_tasks(names[dag], datetime(2024, 5, day, tzinfo=UTC))
    _epochs(capsys, "cut", "rides", "station_totals", says=cut)
    runpy.run_path("by_hand.py")
    assert "up to 04 May, commit 6: 7 rides" in capsys.readouterr().out


def test_the_correction_of_a_day_gives_the_stated_output(
    classic_session: SparkSession,  # noqa: ARG001 - what the page starts by itself
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = HOW_TO / "correct-a-day.md"
    monkeypatch.setenv("COLUMNS", "80")
    (program,) = (block.text for block in blocks(page, "python") if block.file == "rides.py")
    planned, computed, differs, published, *_ = _outputs(page)

    def run(text: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["rides.py", *arguments])
        capsys.readouterr()
        exec(text, {"__name__": "__main__"})  # noqa: S102 - it is the page's
        return capsys.readouterr().out

    run(program)
    words = ("rides", "--interval", "2024-05-01")
    before, _, after = planned.partition("expected time")
    table = after[after.index("\n\n") :]
    _epochs(capsys, "restate", "plan", *words, says=before, ends=table)
    _epochs(capsys, "restate", "open", *words, "--reason", "twice", "--name", "harbour", says="domain")
    assert run(program.replace('("Harbour", 12), ', "", 1), "harbour") == computed
    _epochs(capsys, "restate", "diff", "harbour", ends=differs)
    _epochs(capsys, "restate", "publish", "harbour", says=published)


def test_a_pipeline_moves_over_and_equals_the_old_one(
    tmp_path: Path, connect_server: SparkConnectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's declarations and DAGs compute what the old tasks had, and its comparison finds a row that differs."""
    page = HOW_TO / "from-external-task-sensor.md"
    _connect_to(connect_server, monkeypatch)
    _save(tmp_path, blocks(page, "python"))
    (tmp_path / "landed").mkdir()
    for day in (1, 2):
        (tmp_path / "landed" / f"orders-2024-05-{day:02}.csv").write_text(
            "shop,amount\nA,3\nA,-1\nB,4\nA,3\n"
        )
    old = {"orders": [("A", 3), ("A", 3), ("B", 4)], "revenue": [("A", 6), ("B", 5)]}
    for table, rows in old.items():
        folder = tmp_path / table / "day=2024-05-01"
        folder.mkdir(parents=True)
        shops, amounts = zip(*rows, strict=True)
        pq.write_table(pa.table({"shop": shops, "amount": amounts}), folder / "part-0.parquet")
    names = runpy.run_path("dags/shop_dags.py")
    for day in (2, 3):
        for dag in ("orders_dag", "revenue_dag"):
            _run_tasks(names[dag], datetime(2024, 5, day, tzinfo=UTC))
    compare = runpy.run_path("compare.py")["differences"]
    with connect("epochs_default") as epochs:
        found = {
            table: compare(
                epochs, table, "shop, amount", f"{tmp_path}/{table}", datetime(2024, 5, 1, tzinfo=UTC)
            )
            for table in old
        }
    assert found == {"orders": (0, 0), "revenue": (1, 1)}
    report = _without_a_file(page)
    found_by_sensor = {"domain": "default", "barrier": "2024-05-03T00:00:00+00:00", "csn": 4}
    names = {"__name__": "a_dag_file"}
    exec(report, names)  # noqa: S102 - it is the page's
    assert names["report"].function(found_by_sensor) == 4


def test_days_that_were_taken_and_corrected_stay_when_the_program_runs_again(
    tmp_path: Path,
    classic_session: SparkSession,  # noqa: ARG001 - what the page starts by itself
) -> None:
    """The page's functions take two days, correct one of them, and take all of them again, with one day more."""
    for day in (1, 2, 3):
        folder = tmp_path / f"day=2024-01-{day:02}" / "region=north"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [day]}), folder / "part-0.parquet")
    take, correct, _ = (block.text for block in blocks(HOW_TO / "existing-tables.md", "python"))
    names: dict[str, Any] = {"__name__": "existing-tables"}
    exec(take.replace("/lake/events", str(tmp_path)) + correct, names)  # noqa: S102 - it is the page's
    first, second, third, end = (datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3, 4))
    names["take_days"](first, third)
    names["correct_day"](second, third, lambda spark: spark.sql("SELECT 22L AS id, 'south' AS region"))
    names["take_days"](first, end)
    with connect(local=".") as epochs:
        found = epochs.cut(["events"])["events"].to_arrow(["id", "region"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [(1, "north"), (3, "north"), (22, "south")]


def _without_a_file(page: Path) -> str:
    """The page's one block of Python that is no file."""
    (text,) = (block.text for block in blocks(page, "python") if not block.file)
    return text


def test_the_example_dags_compute_and_read_their_days(
    connect_server: SparkConnectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _connect_to(connect_server, monkeypatch)
    names = runpy.run_path(str(EXAMPLES / "example_epochs.py"))
    for day in (7, 8):
        for dag in ("loading", "counting"):
            _run_tasks(names[dag], datetime(2024, 5, day, tzinfo=UTC))
    context = task_context(run_date=datetime(2024, 5, 8, tzinfo=UTC))
    found = names["both"].execute(context)
    read = names["read_cut"].function(found)
    assert read == {"barrier": "2024-05-08T00:00:00+00:00", "rides": 6, "counted": 6}


def _save(folder: Path, found: list[Block]) -> None:
    for block in found:
        if not block.file:
            continue
        path = folder / block.file
        path.parent.mkdir(exist_ok=True)
        path.write_text(block.text)


def _land(folder: Path) -> None:
    """Run the tutorial's lines that write data."""
    for block in blocks(TUTORIAL, "console"):
        for line in block.text.splitlines():
            if line.startswith("printf "):
                subprocess.run(["sh", "-c", line], cwd=folder, check=True)


def _epochs(capsys: pytest.CaptureFixture[str], *arguments: str, says: str = "", ends: str = "") -> None:
    """Run ``airflow epochs`` in this process; its answer, for 80 columns, begins with *says*, and ends with *ends*."""
    capsys.readouterr()
    parsed = parser().parse_args(["epochs", *arguments])
    parsed.func(parsed)
    told = capsys.readouterr().out
    assert told.startswith(says)
    assert told.endswith(ends)


def test_the_walk_shows_the_records_that_an_epoch_leaves(
    tmp_path: Path, classic_session: SparkSession
) -> None:
    _save(tmp_path, blocks(TUTORIAL, "python"))
    _land(tmp_path)
    rides = importlib.import_module("rides")
    settings = Settings(store_url=f"sqlite:///{tmp_path}/epochs.db", warehouse=f"{tmp_path}/warehouse")
    days = [
        Interval(datetime(2024, 5, day, tzinfo=UTC), datetime(2024, 5, day + 1, tzinfo=UTC)) for day in (1, 2)
    ]
    query = next(line for line in _console(WALK) if line.startswith("sqlite3 ")).split('"')[1]

    def run(job: Job, compute: Callable[[EpochRun], None], day: Interval) -> set[str]:
        with epoch_run(job, day, spark=classic_session, settings=settings) as epoch:
            found = set(_rows(query))
            compute(epoch)
            return found | set(_rows(query))

    for day in days:
        run(rides.load, rides.load_rides, day)
    run(rides.count, rides.count_rides, days[0])
    seen = set(_rows(query)) | run(rides.count, rides.count_rides, days[1]) | set(_rows(query))
    shown = {line for text in _outputs(WALK) for line in text.splitlines() if line.count("|") == 5}
    assert {_but_version(line) for line in shown} - seen == {"kind|partition|item|csn|state"}


def _but_version(row: str) -> str:
    """Leave out the version: a slow run renews its lock more often, and each time the counter goes on."""
    parts = row.split("|")
    return "|".join([*parts[:3], *parts[4:]])


def _rows(query: str) -> list[str]:
    """What sqlite3 prints for *query*, without versions."""
    with closing(sqlite3.connect("epochs.db")) as database:
        rows = database.execute(query).fetchall()
    return [_but_version("|".join("" if value is None else str(value) for value in row)) for row in rows]


def _console(page: Path) -> list[str]:
    return [line for block in blocks(page, "console") for line in block.text.splitlines()]


DONE_AS_A_WHOLE = {"work-locally", "test-jobs", "from-external-task-sensor"}
"""Pages of files and commands: tests/slow/test_local_work.py does what the first two say, a test above the third."""


@pytest.mark.filterwarnings("ignore:The .airflow.utils.operator_helpers")  # of Airflow's own sensors
@pytest.mark.parametrize(
    "page",
    [page for page in sorted(HOW_TO.glob("*.md")) if page.stem not in DONE_AS_A_WHOLE],
    ids=lambda page: page.stem,
)
def test_the_python_of_the_how_tos_runs(page: Path) -> None:
    for block in blocks(page, "python"):
        exec(block.text, {"__name__": page.stem})  # noqa: S102
