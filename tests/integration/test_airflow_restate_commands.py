"""``airflow epochs restate …`` as processes: from the plan to the commit, what is printed, and the exit code."""

from __future__ import annotations

import getpass
import json
import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.models.asset import (
    AssetActive,
    AssetDagRunQueue,
    AssetEvent,
    AssetModel,
    DagScheduleAssetReference,
)
from airflow.models.dag import DagModel
from airflow.providers.common.compat.sdk import AirflowFailException
from sqlalchemy.orm import Session

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Conflict, InvalidInput
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table, state
from airflow_provider.hooks import asset_events
from airflow_provider.operators.assets import asset_of
from airflow_provider.operators.restatements import RESTATED, PublishRestatementOperator
from airflow_provider.testing.arrow_attempts import write_rows
from tests.airflow_runs import Done, airflow_database, epochs_connection, task_context, typed
from tests.integration.flights import ORIGIN

FLIGHTS, TOTALS = Table("flights"), Table("totals", kind="full")
LOAD = Job("load", outputs=[FLIGHTS], cadence="@daily", origin=ORIGIN)
COUNT = Job("count", inputs=[state(FLIGHTS)], outputs=[TOTALS], cadence="@daily", origin=ORIGIN)
REPORT = Job(
    "report",
    inputs=[state(FLIGHTS, on_upstream_revision="hold")],
    outputs=[Table("reports")],
    cadence="@daily",
    origin=ORIGIN,
)
OWNER = Owner(dag_id="flights", run_id="backfill__2013-02-07")
NAMED = ("load", "--interval", "2013-02-06")
OPEN = ("open", *NAMED, "--reason", "the airport sent wrong hours", "--name", "hours")

Restate = Callable[..., Done]
Sessions = Callable[[], AbstractContextManager[Session]]


def day(number: int) -> Interval:
    start = ORIGIN + timedelta(days=number)
    return Interval(start, start + timedelta(days=1))


def opened(folder: Path) -> EpochService:
    return EpochService.open(
        Settings(store_url=f"sqlite:///{folder}/store.db", warehouse=f"file://{folder}/warehouse")
    )


def committed(service: EpochService, job: Job, number: int, hours: Sequence[int]) -> None:
    attempt = service.begin(job, day(number), OWNER)
    assert isinstance(attempt, Attempt)
    write_rows(service, attempt, job.outputs[0].name, rows(hours))
    service.publish(attempt)


def staged(service: EpochService, job: Job, number: int, hours: Sequence[int], generation: int = 0) -> None:
    attempt = service.begin_within("hours", job, day(number), replace(OWNER, generation=generation))
    assert isinstance(attempt, Attempt)
    write_rows(service, attempt, job.outputs[0].name, rows(hours))
    service.complete(attempt)
    service.stage(attempt)


def rows(hours: Sequence[int]) -> pa.Table:
    return pa.table({"carrier": [f"C{number}" for number in range(len(hours))], "hours": list(hours)})


@pytest.fixture(scope="module")
def cascade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two days of a job, and of one that reads all days up to its own."""
    folder = tmp_path_factory.mktemp("restate")
    with opened(folder) as service:
        for number in range(2):
            committed(service, LOAD, number, [1, 2])
            committed(service, COUNT, number, [3])
    return folder


@pytest.fixture
def home(cascade: Path) -> Path:
    """The cascade, as before each test: the store names files by their paths, so that it is put back in place."""
    kept = cascade.with_name("kept")
    if kept.exists():
        shutil.rmtree(cascade)
        shutil.copytree(kept, cascade)
    else:
        shutil.copytree(cascade, kept)
    return cascade


@pytest.fixture
def airflow() -> Sessions:
    """Airflow's database: a DAG writes the flights, another follows them, and no DAG of this Airflow has totals."""
    opening = airflow_database()
    with opening() as session:
        for dag_id in ("flights", "board"):
            session.add(DagModel(dag_id=dag_id, bundle_name="dags", is_paused=False, is_stale=False))
        session.add(asset := AssetModel(name=asset_of(FLIGHTS).name, uri=asset_of(FLIGHTS).uri))
        session.flush()
        session.add(AssetActive.for_asset(asset))
        session.add(DagScheduleAssetReference(asset_id=asset.id, dag_id="board"))
    return opening


@pytest.fixture
def restate(home: Path, airflow: Sessions, monkeypatch: pytest.MonkeyPatch) -> Restate:
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(home))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(asset_events, "create_session", airflow)
    return lambda *arguments: typed("restate", *arguments)


def answer(done: Done) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def complete(home: Path, restate: Restate) -> Path:
    """The cascade, with a restatement that needs an approval and whose epochs are all staged."""
    assert restate(*OPEN, "--needs-approval").returncode == 0
    with opened(home) as service:
        staged(service, LOAD, 0, [1, 5])
        staged(service, COUNT, 0, [6])
        staged(service, COUNT, 1, [9])
    return home


PLAN = """\
domain         default
asked for      load: 2 epochs, 2013-02-06 00:00 to 2013-02-08 00:00 UTC
members        4 epochs of 2 jobs
not committed  1 epoch of the interval: normal runs compute them
next step      airflow epochs restate open flights --interval
               2013-02-06/2013-02-09 --reason …

job   | from (UTC)       | to (UTC)         | epochs
======+==================+==================+=======
count | 2013-02-06 00:00 | 2013-02-08 00:00 |      2
load  | 2013-02-06 00:00 | 2013-02-08 00:00 |      2
"""


def test_plan_of_a_table_lists_its_job_and_the_readers(
    restate: Restate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R28: merged spans with counts; the expected time depends on the host, and is left out here."""
    asked = ("plan", "flights", "--interval", "2013-02-06/2013-02-09")
    done = restate(*asked)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines(keepends=True) if not line.startswith("expected time")]
    assert re.sub(r" +", " ", "".join(lines)) == re.sub(r" +", " ", PLAN)
    found = answer(restate(*asked, "-o", "json"))
    assert [(span["job"], span["epochs"]) for span in found["members"]] == [("count", 2), ("load", 2)]
    assert (found["epochs"], found["uncommitted"], found["obstacles"]) == (4, 1, [])
    monkeypatch.delenv("COLUMNS")
    assert f"{found['next_step']}\n" in restate(*asked).stdout


def test_plan_with_an_obstacle_prints_it_and_exits_with_1(restate: Restate) -> None:
    assert restate(*OPEN).returncode == 0
    done = restate("plan", *NAMED, "-o", "json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert ["restatement 'hours' computes" in obstacle for obstacle in found["obstacles"]] == [True]
    assert found["next_step"] == ""
    assert done.stderr.startswith("TopologyError: 1 obstacle in the way")
    refused = restate("open", *NAMED, "--reason", "again")
    assert (refused.returncode, "restatement 'hours'" in refused.stderr) == (1, True)


def test_open_makes_a_name_and_may_be_repeated(restate: Restate) -> None:
    found = answer(restate(*OPEN[:-2], "--deadline", "2d", "-o", "json"))
    assert re.fullmatch(r"load-2013-02-06-[0-9a-f]{4}", found["restatement"])
    assert (found["epochs"], found["by"]) == (3, getpass.getuser())
    length = datetime.fromisoformat(found["deadline"]) - datetime.now(UTC)
    assert timedelta(days=1, hours=23) < length <= timedelta(days=2)
    assert f'{{"restatement": "{found["restatement"]}"}}' in found["next_step"]
    again = answer(restate(*OPEN[:-1], found["restatement"], "-o", "json"))
    assert again["deadline"] == found["deadline"]


def test_status_counts_members_and_lists_those_that_are_not_staged(restate: Restate, home: Path) -> None:
    assert restate(*OPEN).returncode == 0
    with opened(home) as service:
        staged(service, LOAD, 0, [1, 5])
        attempt = service.begin_within("hours", COUNT, day(0), OWNER)
        assert isinstance(attempt, Attempt)
    found = answer(restate("status", "hours", "-o", "json"))
    assert [
        [job[name] for name in ("job", "staged", "computing", "waiting")] for job in found["progress"]
    ] == [
        ["count", 0, 1, 1],
        ["load", 1, 0, 0],
    ]
    assert [(member["job"], member["state"]) for member in found["members"]] == [
        ("count", "computing"),
        ("count", "waiting"),
        ("load", "staged"),
    ]
    assert (found["state"], found["output"], found["csn"]) == ("open", "", None)
    told = restate("status", "hours").stdout
    for words in (
        "2 epochs not staged\n",
        "  count 2013-02-06 00:00 to 2013-02-07 00:00 UTC\n    state  computing\n    owner  flights/backfill__",
        "epoch_runs(…, restatement='hours')",
    ):
        assert words in told
    refused = restate("diff", "hours")
    assert (refused.returncode, refused.stderr.partition(":")[0]) == (1, "NotReady")


def test_status_lists_the_first_five(cascade: Path, restate: Restate) -> None:
    with opened(cascade) as service:
        for number in range(2, 8):
            committed(service, LOAD, number, [1])
    assert restate("open", "load", "--interval", "2013-02-06/2013-02-14", *OPEN[4:]).returncode == 0
    told = restate("status", "hours").stdout
    assert "10 epochs not staged, the first 5 (-o json has all)\n" in told
    assert told.count("state  waiting") == 5


DIFF = """\
table   | rows added | rows removed
========+============+=============
totals  |          1 |            1
flights |          1 |            1

totals
  - _epoch: 2013-02-08T00:00:00+00:00, carrier: C0, hours: 3
  + _epoch: 2013-02-08T00:00:00+00:00, carrier: C0, hours: 9

flights
  - _epoch: 2013-02-07T00:00:00+00:00, carrier: C1, hours: 2
  + _epoch: 2013-02-07T00:00:00+00:00, carrier: C1, hours: 5
"""


@pytest.mark.usefixtures("complete")
def test_diff_shows_the_rows_of_each_table(restate: Restate) -> None:
    """R29: of the newest states, which is the second day's of a full table."""
    assert restate("diff", "hours").stdout.endswith(DIFF)
    found = answer(restate("diff", "hours", "--table", "flights", "--rows", "0", "-o", "json"))
    assert found["tables"] == [
        {"table": "flights", "added": 1, "removed": 1, "rows_added": [], "rows_removed": []}
    ]
    assert found["output"] == answer(restate("status", "hours", "-o", "json"))["output"]
    for option, value in (("--table", "others"), ("--rows", "many"), ("--rows", "1001")):
        refused = restate("diff", "hours", option, value)
        assert (refused.returncode, "InvalidInput" in refused.stderr) == (1, True)


def test_output_is_approved_and_published_once(restate: Restate, complete: Path) -> None:
    """R29: what is computed again after an approval is not published by it."""
    assert "it has no approval" in restate("publish", "hours").stderr
    first = answer(restate("status", "hours", "-o", "json"))["output"]
    assert restate("approve", "hours", "--digest", first).returncode == 0
    with opened(complete) as service:
        staged(service, COUNT, 1, [7], generation=1)
    assert restate("publish", "hours").returncode == 1
    done = restate("status", "hours")
    assert f"of the output {first}" in " ".join(done.stdout.split())
    second = answer(restate("status", "hours", "-o", "json"))["output"]
    assert restate("approve", "hours", "--digest", first).stderr.startswith("Conflict")
    assert "64 hexadecimal digits" in restate("approve", "hours", "--digest", "json").stderr
    assert "restate publish hours" in restate("approve", "hours", "--digest", second).stdout
    found = answer(restate("publish", "hours", "-o", "json"))
    assert (found["csn"], found["epochs"]) == (5, 3)
    assert answer(restate("publish", "hours", "-o", "json")) == found
    ended = answer(restate("status", "hours", "-o", "json"))
    assert (ended["state"], ended["csn"], ended["approved_by"]) == ("published", 5, getpass.getuser())
    assert ended["next_step"] == ""
    assert restate("abandon", "hours", "--reason", "late").returncode == 1
    with opened(complete) as service:
        cut = service.cuts.cut("default", ["totals"])
        assert service.cuts.read(cut, "totals", ["hours"]).to_pylist() == [{"hours": 7}]


def test_one_asset_event_of_each_table_follows_the_commit(
    restate: Restate, home: Path, airflow: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R28, R35: it names the time that was computed again, and starts the DAGs that follow the table; a repetition and
    a revert send one, too; one that Airflow's database did not take is sent by a repetition.
    """
    assert restate(*OPEN).returncode == 0
    with opened(home) as service:
        staged(service, LOAD, 0, [1, 5])
        staged(service, COUNT, 0, [6])
        staged(service, COUNT, 1, [9])
    monkeypatch.setattr(asset_events, "create_session", lost)
    failed = restate("publish", "hours")
    assert failed.returncode == 1
    assert "'hours' is published at CSN 5, and Airflow's database did not take its asset events: lost" in (
        failed.stderr
    )
    assert "`airflow epochs restate publish hours`" in failed.stderr
    given = restate("publish", "hours", "--conn-id", "epochs_default")
    assert "`airflow epochs restate publish hours --conn-id epochs_default`" in given.stderr
    monkeypatch.setattr(asset_events, "create_session", airflow)
    assert answer(restate("publish", "hours", "--no-events", "-o", "json"))["events"] is None
    assert told(airflow) == []
    assert answer(restate("publish", "hours", "-o", "json"))["events"] == 1
    (event,) = told(airflow)
    assert event == {
        "domain": "default",
        "table": "flights",
        "job": "load",
        "csn": 5,
        "restatement": "hours",
        "epochs": [{"start": "2013-02-06T00:00:00+00:00", "end": "2013-02-07T00:00:00+00:00"}],
    }
    with airflow() as session:
        assert [queued.target_dag_id for queued in session.query(AssetDagRunQueue)] == ["board"]
    assert "asset events  1" in restate("revert", "hours", "--reason", "the first hours were right").stdout
    assert [extra["csn"] for extra in told(airflow)] == [5, 6]


@pytest.mark.usefixtures("complete")
def test_an_operator_approves_publishes_and_tells_of_each_table(restate: Restate) -> None:
    """R29, R35: what a person has looked at, in the person's name; a retry sends the same events."""
    seen = answer(restate("status", "hours", "-o", "json"))["output"]
    options = {"task_id": "publish", "restatement": "hours", "outlets": [asset_of(FLIGHTS)]}
    with pytest.raises(AirflowFailException, match="it has no approval"):
        PublishRestatementOperator(**options).execute(task_context())
    with pytest.raises(Conflict, match="was looked at"):
        PublishRestatementOperator(**options, digest="0" * 64).execute(task_context())
    operator = PublishRestatementOperator(**options, digest=seen, by="ann")
    assert operator.outlets == [asset_of(FLIGHTS), RESTATED]
    extras = []
    for number in (1, 2):
        context = task_context(try_number=number)
        assert operator.execute(context) == 5
        events = context["outlet_events"][RESTATED].asset_alias_events
        assert [event.dest_asset_key.name for event in events] == ["default.flights", "default.totals"]
        extras.append([event.extra for event in events])
    assert extras[0] == extras[1]
    assert [len(extra["epochs"]) for extra in extras[0]] == [1, 1], "two days that touch are one range"
    assert answer(restate("status", "hours", "-o", "json"))["approved_by"] == "ann"
    assert PublishRestatementOperator(
        task_id="one", restatement="hours", outlets=asset_of(FLIGHTS)
    ).outlets == [asset_of(FLIGHTS), RESTATED]
    with pytest.raises(InvalidInput, match="restatement"):
        PublishRestatementOperator(task_id="publish", restatement=" ")


def lost() -> Session:
    raise ConnectionError("lost\nin detail")


def told(airflow: Sessions) -> list[dict[str, Any]]:
    with airflow() as session:
        return [event.extra for event in session.query(AssetEvent).order_by(AssetEvent.id)]


def test_held_epochs_are_named_until_a_user_decides(restate: Restate, home: Path) -> None:
    """R28: plan, status and the error at publish name them; two commands end it, and the record says who and why."""
    with opened(home) as service:
        for number in range(2):
            committed(service, REPORT, number, [1])
    held = "held report: 2 epochs, 2013-02-06 00:00 to 2013-02-08 00:00 UTC, read flights"
    assert held in " ".join(restate("plan", *NAMED).stdout.split())
    assert restate(*OPEN).returncode == 0
    found = answer(restate("status", "hours", "-o", "json"))
    assert [(span["job"], span["epochs"], span["tables"]) for span in found["held"]] == [
        ("report", 2, ["flights"])
    ]
    assert found["next_step"].split("\n") == [
        "airflow epochs restate join hours report",
        "airflow epochs restate release hours report --reason …",
    ]
    with opened(home) as service:
        staged(service, LOAD, 0, [1, 5])
        staged(service, COUNT, 0, [6])
        staged(service, COUNT, 1, [9])
    refused = restate("publish", "hours")
    assert (refused.returncode, "restate release hours report" in refused.stderr) == (1, True)
    assert restate("release", "hours", "load", "--reason", "sent").stderr.startswith("InvalidInput")
    done = answer(restate("release", "hours", "report", "--reason", "it was sent", "-o", "json"))
    assert (done["released"][0]["epochs"], done["next_step"]) == (2, "airflow epochs restate status hours")
    found = answer(restate("status", "hours", "-o", "json"))
    (made,) = found["decisions"]
    assert (found["held"], made["job"], made["decision"]) == ([], "report", "released")
    assert (made["by"], made["reason"]) == (getpass.getuser(), "it was sent")
    told = " ".join(restate("status", "hours").stdout.split())
    assert f"released by {getpass.getuser()}: it was sent" in told
    joined = answer(restate("join", "hours", "report", "-o", "json"))
    assert (joined["joined"][0]["epochs"], "epoch_runs" in joined["next_step"]) == (2, True)
    assert restate("join", "hours", "report").stdout.count("decided before") == 1


@pytest.mark.usefixtures("complete")
def test_abandoned_restatement_is_listed_with_its_reason(restate: Restate) -> None:
    assert restate("abandon", "hours", "--reason", "the hours were right").stdout == "abandoned  hours\n"
    (found,) = answer(restate("list", "-o", "json"))
    assert (found["restatement"], found["state"]) == ("hours", "abandoned")
    assert found["ended"] == f"the hours were right ({getpass.getuser()})"
    told = restate("list").stdout
    assert told.startswith("hours\n  state     abandoned\n")
    assert "because   the hours were right" in told
    assert restate("publish", "hours").returncode == 1


def test_expired_restatement_is_to_be_abandoned(restate: Restate) -> None:
    assert restate(*OPEN, "--deadline", "1s").returncode == 0
    time.sleep(1.1)
    found = answer(restate("status", "hours", "-o", "json"))
    assert found["state"] == "expired"
    assert found["next_step"] == "airflow epochs restate abandon hours --reason …"
    assert [restatement["state"] for restatement in answer(restate("list", "-o", "json"))] == ["expired"]
    assert "because      restatement 'hours' is past its deadline" in restate("status", "hours").stdout


def test_no_restatements(restate: Restate) -> None:
    assert restate("list").stdout == "no restatements\n"
    assert restate("list", "--domain", "elsewhere", "-o", "json").stdout == "[]\n"
    refused = restate("status", "nothing")
    assert (refused.returncode, refused.stderr.partition(":")[0]) == (1, "UnknownName")
