"""Real Airflow: scheduled, backfilled, manual, partitioned, retried and cleared runs, sensors, events, and secrets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import EpochRecord, EpochState
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Kind
from airflow_provider.domain.restatement import RestatementState
from demo.airflow_cluster import AirflowCluster
from demo.spark_connect import write_configuration
from tests.airflow_versions import AIRFLOW
from tests.documents import HOW_TO, blocks
from tests.servers.ports import free_port
from tests.servers.postgresql import PostgresqlServer
from tests.system.browser import Visitor, chromium
from tests.system.page_decisions import approve_and_publish

ROOT = Path(__file__).parents[2]

PROGRAM = Path(__file__).parent / "epoch_program.py"


class World:
    """An Airflow and its store.

    :param database: Airflow's own, on *server*.
    """

    def __init__(
        self, cluster: AirflowCluster, settings: Settings, server: PostgresqlServer, database: str
    ) -> None:
        self.cluster = cluster
        self.rest = cluster.rest
        self.settings = settings
        self.server, self.database = server, database

    def epoch(self, job: str, day: int) -> EpochRecord:
        with EpochService.open(self.settings) as service:
            start = datetime(2013, 2, day, tzinfo=UTC)
            records = service.store.scan("default", Kind.EPOCH, job)  # type: ignore[arg-type]
            return next(found.record for found in records if found.record.interval.start == start)

    def log(self, job: str, day: int) -> list[EpochState]:
        with EpochService.open(self.settings) as service:
            interval = Interval(datetime(2013, 2, day, tzinfo=UTC), datetime(2013, 2, day + 1, tzinfo=UTC))
            entries = service.barriers("default", job, interval)
            return [
                entry.record.state
                for entry in sorted(entries, key=lambda entry: entry.at)
                if not entry.record.sink
            ]

    def rows(self, table: str) -> list[int]:
        with EpochService.open(self.settings) as service:
            found = service.cuts.read(service.cuts.cut("default", [table]), table, ["day"])
            return sorted(found.column("day").to_pylist())

    def backfill(self, dag_id: str, first: int, last: int, **options: Any) -> list[str]:
        """Start the runs of some days; return their ids, in order."""
        days = date(2013, 2, first), date(2013, 2, last)
        self.await_backfills(dag_id)
        self.rest.backfill(dag_id, first=days[0], last=days[1], max_active_runs=2, **options)
        return sorted(str(run["dag_run_id"]) for run in self.rest.dag_runs(dag_id))

    def await_backfills(self, dag_id: str) -> None:
        """Wait until none of a DAG is under way: Airflow takes one at a time."""
        while any(started["completed_at"] is None for started in self.rest.backfills(dag_id)):
            self.cluster.check()
            time.sleep(0.5)

    def await_partitions(self, dag_id: str, keys: set[str]) -> set[str]:
        """Wait until runs of a DAG have these partition keys, and all of its runs have succeeded; return the runs."""
        deadline = time.monotonic() + 120
        while (found := {run["partition_key"] for run in self.rest.dag_runs(dag_id)}) != keys:
            assert time.monotonic() < deadline, f"{dag_id} has runs of {found}, expected {keys}"
            self.cluster.check()
            time.sleep(0.5)
        runs = {str(run["dag_run_id"]) for run in self.rest.dag_runs(dag_id)}
        assert {self.finished(dag_id, run) for run in runs} == {"success"}
        return runs

    def csn(self) -> int:
        """Return the number of the domain's last commit."""
        with EpochService.open(self.settings) as service:
            return service.cuts.cut("default", ["rows"]).csn

    def tables(self) -> dict[str, list[int]]:
        """Return the rows of a cascade of three tables."""
        return {table: self.rows(table) for table in ("rows", "copies", "tallies")}

    def run_of(self, dag_id: str, day: int) -> str:
        """Return the run of a DAG whose date is the midnight that begins *day*."""
        date_of = f"2013-02-{day:02}T00:00:00"
        runs = [run for run in self.rest.dag_runs(dag_id) if str(run["logical_date"]).startswith(date_of)]
        (found,) = {str(run["dag_run_id"]) for run in runs}
        return found

    def opened_by(self, dag_id: str) -> str:
        """Return the open restatement that runs of a DAG have opened."""
        with EpochService.open(self.settings) as service:
            known = service.restatements.all("default")
        records = {name: stamped.record for name, stamped in known}
        (found,) = [
            name
            for name, record in records.items()
            if record.rerun_of == dag_id and record.state is RestatementState.OPEN
        ]
        return found

    def events(self, table: str) -> list[dict[str, Any]]:
        """Return the asset events of a table."""
        found = self.rest.request("GET", "/assets/events", params={"limit": 100})["asset_events"]
        return [event for event in found if event["uri"] == f"epoch://default/{table}"]

    def epochs(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of ``airflow epochs``, which Airflow 3.1 does not load by itself."""
        if AIRFLOW >= (3, 2):
            return self.cluster.run("epochs", *words)
        return self.cluster.run(*words, program="airflow_provider.cli.program")

    def finished(self, dag_id: str, run_id: str) -> str:
        return self.rest.wait_for_run(dag_id, run_id, check=self.cluster.check)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start it first: where there is none, nothing of the story runs."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, postgresql: PostgresqlServer) -> Iterator[World]:
    """Start Airflow on PostgreSQL: on SQLite its own `backfill create` fails while the scheduler writes."""
    home = tmp_path_factory.mktemp("airflow")
    write_configuration(home / "conf")
    settings = Settings(store_url=f"sqlite:///{home}/store.db", warehouse=f"file://{home}/warehouse")
    connection = {
        "conn_type": "epochs",
        "host": f"{home}/store.db",
        "extra": {"warehouse": settings.warehouse},
    }
    dags = home / "dags"
    shutil.copytree(
        Path(__file__).parent / "airflow_dags", dags, ignore=shutil.ignore_patterns("__pycache__")
    )
    (page,) = [
        block for block in blocks(HOW_TO / "correct-a-day.md") if block.file == "publish_restatement.py"
    ]
    (dags / page.file).write_text(page.text.replace("poke_interval=60", "poke_interval=10"), encoding="utf-8")
    database = postgresql.create_database()
    cluster = AirflowCluster(
        home=home,
        dags=dags,
        database=postgresql.url(database),
        port=free_port(),
        python_path=[ROOT],
        environment={
            "AIRFLOW_CONN_EPOCHS_DEFAULT": json.dumps(connection),
            "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[1]"}',
            "SPARK_CONF_DIR": str(home / "conf"),
            "EPOCHS_TEST_PROGRAM": str(PROGRAM),
        },
    )
    cluster.migrate()
    cluster.start()
    try:
        cluster.wait_until_healthy()
        names = {"make", "copy", "share", "follow", "tally", "publish_restatement"}
        cluster.rest.wait_for_dags(names)
        for dag_id in sorted(names):
            cluster.rest.unpause(dag_id)
        yield World(cluster, settings, postgresql, database)
    finally:
        cluster.stop()


@pytest.mark.slow  # five minutes; the demo's day has a real scheduler, a backfill and a restatement, too
def test_runs_of_every_kind(browser: Browser, world: World) -> None:
    """One story, since starting Airflow is what takes long."""
    (shared,) = world.backfill("share", 8, 8)
    _a_waiting_run_goes_on_when_its_input_is_published(world)
    _a_failed_try_is_followed_by_one_that_publishes(world)
    _a_manual_run_computes_the_last_day_that_ended(world)
    _a_cleared_task_makes_the_next_revision(world)
    _participants_write_one_epoch_together(world, shared)
    _a_run_that_an_event_has_started_computes_the_day_of_the_event(world)
    _events_tell_what_was_published(world)
    _cleared_tasks_restate_a_day_that_was_read(world)
    _a_backfill_restates_days(world)
    _one_command_restates_a_cascade(world)
    _a_cleared_task_that_others_have_read_opens_a_restatement(world, browser)
    _a_backfill_of_days_that_others_have_read_opens_one_restatement(world, browser)
    _a_command_finishes_what_a_run_has_opened(world)
    if AIRFLOW >= (3, 3):
        _partitions_are_computed_and_restated(world)
    _nothing_secret_is_written_down(world)


def _a_waiting_run_goes_on_when_its_input_is_published(world: World) -> None:
    (copy,) = world.backfill("copy", 8, 8)
    while not world.rest.task_instances("copy", copy, state="deferred"):
        world.cluster.check()
    made = world.backfill("make", 8, 9)
    assert world.finished("copy", copy) == "success"
    assert world.rows("copies") == [7]
    _a_sensor_has_waited_without_a_worker(world, copy)
    assert {world.finished("make", run) for run in made} == {"success"}
    assert world.rows("rows") == [7, 8]


def _a_sensor_has_waited_without_a_worker(world: World, run: str) -> None:
    """Its only log is a triggerer's; its return value and its link are there all the same."""
    logs = list(world.cluster.airflow_home.glob("logs/dag_id=copy/**/task_id=wait/*"))
    of_triggerer = [log for log in logs if ".trigger." in log.name]
    assert of_triggerer
    begun_by_worker = [] if AIRFLOW >= (3, 3) else ["attempt=1.log"]
    assert [log.name for log in logs if log not in of_triggerer] == begun_by_worker
    instance = f"/dags/copy/dagRuns/{run}/taskInstances/wait"
    found = world.rest.request("GET", f"{instance}/xcomEntries/return_value")["value"]
    assert found["barrier"] == "2013-02-08T00:00:00+00:00", (
        "a mapping, as a task after it gets it, and no text"
    )
    links = world.rest.request("GET", f"{instance}/links")["extra_links"]
    assert "/plugin/epochs?" in links["Epochs"]


def _a_failed_try_is_followed_by_one_that_publishes(world: World) -> None:
    assert world.log("make", 8) == [
        EpochState.OPEN, EpochState.ABORTED, EpochState.OPEN, EpochState.WRITTEN, EpochState.COMMIT,
    ]  # fmt: skip
    committed = world.epoch("make", 8).committed
    assert committed is not None
    assert (committed.revision, committed.owner.generation, committed.owner.try_number) == (1, 0, 2)


def _a_manual_run_computes_the_last_day_that_ended(world: World) -> None:
    run = world.rest.trigger("make", logical_date="2013-02-10T13:05:00Z")
    assert world.finished("make", run) == "success"
    assert world.rows("rows") == [7, 8, 9]


def _a_cleared_task_makes_the_next_revision(world: World) -> None:
    (run,) = [dag_run["dag_run_id"] for dag_run in world.rest.dag_runs("copy")]
    world.rest.clear("copy", run, ["copy"])
    assert world.finished("copy", run) == "success"
    committed = world.epoch("copy", 7).committed
    assert committed is not None
    assert (committed.revision, committed.owner.run_id) == (2, run)
    assert world.rows("copies") == [7, 7]


def _participants_write_one_epoch_together(world: World, run: str) -> None:
    """R10: the retried one's first row is not there; clearing the mapped tasks after the commit changes nothing."""
    assert world.finished("share", run) == "success"
    assert world.rows("shares") == [1, 12]
    mapped = [
        instance
        for instance in world.rest.task_instances("share", run)
        if instance["task_id"] == "share.write"
    ]
    assert sorted((instance["map_index"], instance["try_number"]) for instance in mapped) == [(0, 1), (1, 2)]
    log = world.log("share", 7)
    joins = [EpochState.OPEN] * 4  # of participant 1 three: its failed try was ended by one
    assert log == [EpochState.OPEN, *joins, EpochState.WRITTEN, EpochState.COMMIT]
    world.rest.clear("share", run, ["share.write"])
    assert world.finished("share", run) == "success"
    assert world.log("share", 7) == log


def _a_run_that_an_event_has_started_computes_the_day_of_the_event(world: World) -> None:
    """AST1: it runs now, years after the day that the event tells of."""
    while not (runs := world.rest.dag_runs("follow")):
        world.cluster.check()
    assert {world.finished("follow", str(run["dag_run_id"])) for run in runs} == {"success"}
    assert world.rows("follows") == [7]


def _events_tell_what_was_published(world: World) -> None:
    copied = world.events("copies")
    assert [[epoch["revision"] for epoch in event["extra"]["epochs"]] for event in copied] in (
        [[1], [2]],
        [[2], [1]],
    )
    made = [event["extra"]["epochs"][0]["start"][:10] for event in world.events("rows")]
    assert sorted(made) == ["2013-02-07", "2013-02-08", "2013-02-09"]
    links = world.rest.request(
        "GET", f"/dags/copy/dagRuns/{copied[0]['source_run_id']}/taskInstances/copy/links"
    )
    assert "/plugin/epochs?" in links["extra_links"]["Epochs"]
    page = world.rest._client.get("/epochs/api/grid", params={"end": "2013-02-10"}).json()
    assert {row["table"] for row in page["rows"]} == {"rows", "copies", "shares", "follows"}


def _cleared_tasks_restate_a_day_that_was_read(world: World) -> None:
    """R28: both tasks are cleared at once; the reader waits for what the other one stages; one commit shows both."""
    made = next(run["dag_run_id"] for run in world.rest.dag_runs("make") if "2013-02-08" in run["dag_run_id"])
    (copied,) = [run["dag_run_id"] for run in world.rest.dag_runs("copy")]
    with EpochService.open(world.settings) as service:
        service.restatements.open("default", ["rows"], "2013-02-07", name="fix", reason="wrong", by="me")
    world.rest.clear("copy", copied, ["copy"])
    world.rest.clear("make", made, ["make"])
    assert world.finished("make", made) == "success"
    assert world.finished("copy", copied) == "success"
    assert (world.rows("rows"), world.rows("copies")) == ([7, 8, 9], [7, 7])
    with EpochService.open(world.settings) as service:
        service.restatements.publish("default", "fix")
    assert (world.rows("rows"), world.rows("copies")) == ([7, 7, 8, 9], [7, 7, 7])


def _a_backfill_restates_days(world: World) -> None:
    """R28: the configuration of its runs names the restatement, which a person approves in Airflow's UI."""
    with EpochService.open(world.settings) as service:
        service.restatements.open(
            "default",
            ["rows"],
            "2013-02-08/2013-02-10",
            name="again",
            reason="wrong",
            by="me",
            needs_approval=True,
        )
    publish = world.rest.trigger("publish_restatement", conf={"restatement": "again"})
    known = {str(run["dag_run_id"]) for run in world.rest.dag_runs("make")}
    world.backfill("make", 9, 10, reprocess_behavior="completed", dag_run_conf={"restatement": "again"})
    runs = [
        str(run["dag_run_id"])
        for run in world.rest.dag_runs("make")
        if (run["conf"] or {}).get("restatement") == "again"
    ]
    assert len(runs) == 2
    assert len(known & set(runs)) == 1
    assert {world.finished("make", run) for run in runs} == {"success"}
    assert world.rows("rows") == [7, 7, 8, 9]
    path = f"/dags/publish_restatement/dagRuns/{publish}/taskInstances/ask/-1/hitlDetails"
    _wait_until_asked(world)
    assert "- rows: 0 rows removed, 2 added" in world.rest.request("GET", path)["body"]
    world.rest.request("PATCH", path, json={"chosen_options": ["Approve"]})
    assert world.finished("publish_restatement", publish) == "success"
    assert world.rows("rows") == [7, 7, 8, 8, 9, 9]
    told = [event["extra"] for event in world.events("rows") if event["extra"].get("restatement")]
    span = {"start": "2013-02-08T00:00:00+00:00", "end": "2013-02-10T00:00:00+00:00"}
    assert [(extra["restatement"], extra["epochs"]) for extra in told] == [("again", [span])]
    assert all(event["extra"].get("epochs") for event in world.events("rows")), "of what is published alone"


def _one_command_restates_a_cascade(world: World) -> None:
    """R28: `airflow epochs backfill` has Airflow backfill two DAGs, and clears the runs of one without a calendar."""
    copied = world.backfill("copy", 9, 10)
    assert {world.finished("copy", run) for run in copied} == {"success"}
    tallied = [world.rest.trigger("tally", logical_date=f"2013-02-{day:02}T00:00:00Z") for day in (8, 9, 10)]
    assert {world.finished("tally", run) for run in tallied} == {"success"}
    before = world.tables()
    words = [
        "backfill",
        "rows",
        "--interval",
        "2013-02-08/2013-02-10",
        "--reason",
        "wrong",
        "--name",
        'all "wrong" hours',
        "--yes",
        "-o",
        "json",
    ]
    done = world.epochs(*words)
    assert json.loads(done.stdout)["dags"] == ["make", "copy", "tally"], done.stderr
    assert "all epochs are staged" in done.stderr
    assert world.tables() == {
        "rows": sorted([*before["rows"], 8, 9]),
        "copies": sorted([*before["copies"], 8, 9]),
        "tallies": sorted([*before["tallies"], 8, 9]),
    }


def _a_cleared_task_that_others_have_read_opens_a_restatement(world: World, browser: Browser) -> None:
    """R28: the cleared tasks of the two DAGs that have read the day finish it; the page approves and publishes it."""
    before = world.tables()
    runs = {dag_id: world.run_of(dag_id, 8) for dag_id in ("make", "copy", "tally")}
    world.rest.clear("make", runs["make"], ["make"])
    assert world.finished("make", runs["make"]) == "success"
    name = world.opened_by("make")
    for dag_id in ("copy", "tally"):
        world.rest.clear(dag_id, runs[dag_id], [dag_id])
    assert {world.finished(dag_id, run) for dag_id, run in runs.items()} == {"success"}
    assert world.tables() == before
    told = world.epochs("restate", "status", name, "-o", "json")
    status = json.loads(told.stdout)
    assert (status["by"], status["epochs"]) == (f"run {runs['make']} of DAG make", 3), told.stderr
    assert "a clearing of its task asks for what committed epochs have read" in status["reason"]
    _approve_and_publish(world, browser, name)
    assert world.tables() == {table: sorted([*days, 7]) for table, days in before.items()}


def _a_backfill_of_days_that_others_have_read_opens_one_restatement(world: World, browser: Browser) -> None:
    """R28: all its runs share it, also those that name one that was published; runs of its readers' DAGs finish it."""
    before = world.tables()
    words = ["--from-date", "2013-02-08", "--to-date", "2013-02-10", "--reprocess-behavior", "completed"]
    world.await_backfills("make")
    done = world.cluster.run("backfill", "create", "--dag-id", "make", *words, "--max-active-runs", "2")
    assert done.returncode == 0, done.stderr
    days = (8, 9, 10)
    assert {world.finished("make", world.run_of("make", day)) for day in days} == {"success"}
    name = world.opened_by("make")
    for dag_id in ("copy", "tally"):
        runs = [world.run_of(dag_id, day) for day in days]
        for run in runs:
            world.rest.clear(dag_id, run, [dag_id])
        assert {world.finished(dag_id, run) for run in runs} == {"success"}
    assert world.tables() == before
    assert json.loads(world.epochs("restate", "status", name, "-o", "json").stdout)["epochs"] == 9
    _approve_and_publish(world, browser, name)
    assert world.tables() == {table: sorted([*rows, 7, 8, 9]) for table, rows in before.items()}


def _approve_and_publish(world: World, browser: Browser, name: str) -> None:
    """By the page's buttons; one commit, under the approval."""
    csn = world.csn()
    with Visitor.come(browser, world.rest.base_url) as person:
        approve_and_publish(person, "default", name)
        assert person.errors == []
    published = json.loads(world.epochs("restate", "status", name, "-o", "json").stdout)
    assert (published["state"], published["csn"]) == ("published", csn + 1)
    assert published["approved_by"], published


def _a_command_finishes_what_a_run_has_opened(world: World) -> None:
    """R28: by its name; the command has Airflow compute the members that are not staged, and publishes all."""
    before = world.tables()
    run = world.run_of("make", 8)
    world.rest.clear("make", run, ["make"])
    assert world.finished("make", run) == "success"
    words = ["--interval", "2013-02-07", "--reason", "wrong", "--name", world.opened_by("make"), "--yes"]
    done = world.epochs("backfill", "rows", *words, "-o", "json")
    assert json.loads(done.stdout)["epochs"] == 3, done.stderr
    assert world.tables() == {table: sorted([*rows, 7]) for table, rows in before.items()}


def _partitions_are_computed_and_restated(world: World) -> None:
    """R28, R37: by a calendar of keys, by events with keys, and by a backfill, which adds runs to those of the keys."""
    for dag_id in ("split", "gather"):
        world.rest.unpause(dag_id)
    keys = {f"2013-02-{day:02}T00:00:00" for day in (7, 8)}
    gathered = world.await_partitions("gather", keys)
    assert (world.rows("splits"), world.rows("gathers")) == ([7, 8], [7, 8])
    told = {event["partition_key"]: event["extra"]["epochs"][0] for event in world.events("splits")}
    assert {key: epoch["start"][:19] for key, epoch in told.items()} == {key: key for key in keys}
    before = world.await_partitions("split", keys)
    world.backfill("split", 7, 8, reprocess_behavior="completed")
    world.await_backfills("split")
    again = world.await_partitions("split", keys) - before
    assert len(again) == len(keys)
    name = world.opened_by("split")
    for run in gathered:
        world.rest.clear("gather", run, ["gather"])
    assert {world.finished("gather", run) for run in gathered} == {"success"}
    assert (world.rows("splits"), world.rows("gathers")) == ([7, 8], [7, 8])
    with EpochService.open(world.settings) as service:
        service.restatements.publish("default", name)
    assert (world.rows("splits"), world.rows("gathers")) == ([7, 7, 8, 8], [7, 7, 8, 8])


def _wait_until_asked(world: World) -> None:
    """Wait until a person is asked, and the scheduler knows: it takes a task that goes on before that for failed."""
    log = world.cluster.home / "logs" / "airflow-scheduler.log"
    ended = "event with state success for task instance TaskInstanceKey(dag_id='publish_restatement', task_id='ask'"
    for _ in range(240):
        if ended in log.read_text():
            return
        time.sleep(0.5)
    pytest.fail("no user was asked to approve the restatement")


def _nothing_secret_is_written_down(world: World) -> None:
    """Triggers keep names only; logs name no launch spec file."""
    with world.server.connect(world.database) as connection:
        found = connection.execute(
            "SELECT rendered_fields::text FROM rendered_task_instance_fields"
        ).fetchall()
    assert found
    assert not any("store.db" in str(fields) for (fields,) in found)
    logs = [path for path in world.cluster.airflow_home.glob("logs/dag_id=*/**/*.log") if path.is_file()]
    assert logs
    assert not any("launch-spec-" in path.read_text() for path in logs)
    assert "EPOCHS_LAUNCH_SPEC" not in os.environ
