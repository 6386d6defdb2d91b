"""``airflow epochs …`` as processes: what is typed, what is printed, and the exit code."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from airflow.cli import cli_parser
from airflow.models.dagrun import DagRun
from sqlalchemy import StaticPool, create_engine, insert
from sqlalchemy.orm import Session

from airflow_provider.cli.definition import get_cli_commands
from airflow_provider.coordination.commits.sealed import DomainMoved
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.checks import in_range
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import CheckFailed
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Job, Table
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.testing.arrow_attempts import write_rows
from tests.airflow_runs import Done, epochs_connection, typed
from tests.airflow_versions import since
from tests.integration.flights import ORIGIN, begun, published

READER = Job("report", inputs=[Table("flights")], outputs=[Table("totals")], cadence="@daily", origin=ORIGIN)


Run = Callable[..., Done]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one committed and one aborted epoch, and a job that never ran."""
    folder = tmp_path_factory.mktemp("commands")
    settings = Settings(store_url=f"sqlite:///{folder}/store.db", warehouse=f"file://{folder}/warehouse")
    with EpochService.open(settings) as service:
        published(service, 0)
        service.abort(begun(service, 1), "SparkException: it failed")
        service.register(READER)
    return folder


@pytest.fixture
def epochs(home: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command with a connection to *home*, or another one."""
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")

    def run(*arguments: str, connection: str | None = None) -> Done:
        monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", connection or epochs_connection(home))
        return typed(*arguments)

    return run


def test_status(epochs: Run) -> None:
    done = epochs("status", "--output", "json")
    assert done.returncode == 0, done.stderr
    flights, totals = json.loads(done.stdout)["tables"]
    assert (flights["table"], flights["complete_to"], flights["committed"], flights["aborted"]) == (
        "flights",
        "2013-02-07T00:00:00+00:00",
        1,
        1,
    )
    assert (totals["job"], totals["complete_to"], totals["nothing"]) == ("report", None, 2)
    table = epochs("status")
    assert table.returncode == 0
    assert "flights" in table.stdout


def test_status_counts_every_epoch_of_its_hours(epochs: Run, tmp_path: Path) -> None:
    """Of a fine cadence, too: all that are due, not the latest thousand."""
    settings = Settings(store_url=f"sqlite:///{tmp_path}/store.db", warehouse=f"file://{tmp_path}/warehouse")
    minutely = Job("minutely", outputs=[Table("ticks")], cadence="* * * * *", origin=ORIGIN)
    with EpochService.open(settings) as service:
        published(service, 0)
        service.register(minutely)
    done = epochs("status", "--output", "json", connection=epochs_connection(tmp_path))
    tables = {table["table"]: table for table in json.loads(done.stdout)["tables"]}
    assert tables["ticks"]["nothing"] == 24 * 60


def test_explain(epochs: Run) -> None:
    aborted = epochs("explain", "clean")
    assert aborted.returncode == 0, aborted.stderr
    assert "SparkException: it failed" in aborted.stdout
    assert "next step" in aborted.stdout
    waiting = json.loads(epochs("explain", "report", "2013-02-07", "-o", "json").stdout)
    assert waiting["state"] == ""
    assert "flights" in waiting["waiting_for"][0]


def test_explain_names_the_run_of_the_missing_input_and_its_end(
    epochs: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that was marked success by hand leaves its epoch open; Airflow's database knows that its run has ended."""
    settings = Settings(store_url=f"sqlite:///{tmp_path}/store.db", warehouse=f"file://{tmp_path}/warehouse")
    with EpochService.open(settings) as service:
        published(service, 0)
        holder = begun(service, 1).owner
        service.register(READER)
    airflow = create_engine("sqlite://", poolclass=StaticPool)
    DagRun.metadata.tables["dag_run"].create(airflow)
    monkeypatch.setattr("airflow.utils.session.create_session", lambda: Session(airflow))
    connection = epochs_connection(tmp_path)
    told = epochs("explain", "report", "2013-02-07", connection=connection).stdout
    assert f"flights: brought by job clean of DAG {holder.dag_id}, begun by run {holder.run_id}" in told
    assert "ended as" not in told
    with Session(airflow) as session:
        run = {"id": 1, "dag_id": holder.dag_id, "run_id": holder.run_id, "state": "success"}
        session.execute(insert(DagRun).values(**run, run_type="manual", run_after=ORIGIN, log_template_id=1))
        session.commit()
    for job in ("report", "clean"):
        words = f"Run {holder.run_id} of DAG {holder.dag_id} ended as success while its epoch is open"
        assert words in epochs("explain", job, "2013-02-07", connection=connection).stdout
        plain = json.loads(epochs("explain", job, "2013-02-07", "-o", "json", connection=connection).stdout)
        assert words in plain["ended_runs"][0]


def test_explain_shows_refused_output_and_its_folder(epochs: Run, home: Path) -> None:
    """R14: check, figure, rows and folder; status counts it."""
    settings = Settings(store_url=f"sqlite:///{home}/store.db", warehouse=f"file://{home}/warehouse")
    table = Table("checked", domain="checks")
    job = Job(
        "check", outputs=[table], cadence="@daily", origin=ORIGIN, checks=[in_range(table, "x", at_most=1)]
    )
    with EpochService.open(settings) as service:
        start = Interval(ORIGIN, ORIGIN + timedelta(days=1))
        attempt = service.begin(job, start, Owner(dag_id="flights", run_id="run"))
        assert isinstance(attempt, Attempt)
        write_rows(service, attempt, "checked", pa.table({"x": [1, 2]}))
        with pytest.raises(CheckFailed):
            service.publish(attempt)
    told = epochs("explain", "check", "--domain", "checks")
    assert told.returncode == 0, told.stderr
    for words in (
        "CHECK_FAILED, revision 1",
        "checked.x at most 1",
        "1 values in 2 rows",
        "{'x': 2}",
        "clear the task",
    ):
        assert words in told.stdout
    plain = json.loads(epochs("explain", "check", "--domain", "checks", "-o", "json").stdout)
    assert [finding["sample"] for finding in plain["findings"]] == [["{'x': 2}"]]
    (place,) = plain["places"]
    assert list(Path(place.removeprefix("file://")).glob("*.parquet"))
    (line,) = json.loads(epochs("status", "--domain", "checks", "-o", "json").stdout)["tables"]
    assert (line["check_failed"], line["aborted"], line["committed"]) == (1, 0, 0)


def test_skip(epochs: Run, home: Path) -> None:
    """R5: as typed by a user who decides it; said again, nothing changes."""
    settings = Settings(store_url=f"sqlite:///{home}/store.db", warehouse=f"file://{home}/warehouse")
    job = Job("load", outputs=[Table("loaded", domain="gaps")], cadence="@daily", origin=ORIGIN)
    with EpochService.open(settings) as service:
        third = Interval(ORIGIN + timedelta(days=2), ORIGIN + timedelta(days=3))
        attempt = service.begin(job, third, Owner(dag_id="flights", run_id="run"))
        assert isinstance(attempt, Attempt)
        write_rows(service, attempt, "loaded", pa.table({"x": [1, 2]}))
        service.publish(attempt)
    asked = ("skip", "load", "2013-02-06/2013-02-09", "--reason", "the source was down", "--domain", "gaps")
    done = epochs(*asked, "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [len(found["skipped"]), len(found["left"])] == [2, 1]
    assert epochs(*asked).stdout.startswith("skipped")
    (line,) = json.loads(epochs("status", "--domain", "gaps", "-o", "json").stdout)["tables"]
    assert (line["complete_to"], line["committed"], line["skipped"]) == ("2013-02-09T00:00:00+00:00", 1, 2)
    told = epochs("explain", "load", "2013-02-07", "--domain", "gaps").stdout
    assert "SKIPPED, revision 1" in told
    assert "the source was down" in told
    unknown = epochs("skip", "not_there", "2013-02-06", "--reason", "x")
    assert (unknown.returncode, "not_there" in unknown.stderr) == (1, True)


def test_bind(epochs: Run, home: Path, tmp_path: Path) -> None:
    """I11: as typed by a user who decides that a file that was replaced is to be read."""
    settings = Settings(store_url=f"sqlite:///{home}/store.db", warehouse=f"file://{home}/warehouse")
    landed = tmp_path / "2013-02-06.csv"
    source = FileSource("landed", f"{tmp_path}/{{start:%Y-%m-%d}}.csv")
    job = Job(
        "land", inputs=[source], outputs=[Table("raw", domain="lands")], cadence="@daily", origin=ORIGIN
    )
    landed.write_text("1")
    with EpochService.open(settings) as service:
        first = Interval(ORIGIN, ORIGIN + timedelta(days=1))
        owner = Owner(dag_id="flights", run_id="run")
        attempt = service.begin(job, first, owner, sources=SourceReaders())
        assert isinstance(attempt, Attempt)
        write_rows(service, attempt, "raw", pa.table({"x": [1]}))
        service.publish(attempt)
    landed.write_text("22")
    asked = ("bind", "landed", "2013-02-06", "--reason", "it was mended", "--domain", "lands")
    done = epochs(*asked, "-o", "json")
    assert done.returncode == 0, done.stderr
    (clear,) = json.loads(done.stdout)["clear"]
    assert clear.startswith("land [2013-02-06")
    told = epochs(*asked).stdout
    assert (told.splitlines()[0].split(), "clear the tasks of  land [2013-02-06" in told) == (
        ["revision", "2"],
        True,
    )


def test_retire_and_revive(epochs: Run, home: Path) -> None:
    """R7: as typed by a user who ends a job, and takes it back."""
    settings = Settings(store_url=f"sqlite:///{home}/store.db", warehouse=f"file://{home}/warehouse")
    job = Job("ends", outputs=[Table("ended", domain="ends")], cadence="@daily", origin=ORIGIN)
    with EpochService.open(settings) as service:
        service.register(job)
    done = epochs("retire", "ends", "--reason", "it was a trial", "--domain", "ends")
    assert (done.returncode, done.stdout.split()) == (0, ["retired", "ends"]), done.stderr
    (line,) = json.loads(epochs("status", "--domain", "ends", "-o", "json").stdout)["tables"]
    assert line["retired"].startswith("it was a trial (")
    explained = epochs("explain", "ends", "--domain", "ends").stdout
    assert "it was a trial" in explained
    assert "`airflow epochs revive ends --domain ends`" in explained, "a command that can be typed as it is"
    left = epochs("retire", "ends", "--reason", "x", "--table", "ended", "--domain", "ends")
    assert (left.returncode, "no longer declares" in left.stderr) == (1, True)
    assert epochs("revive", "ends", "--domain", "ends").returncode == 0
    (line,) = json.loads(epochs("status", "--domain", "ends", "-o", "json").stdout)["tables"]
    assert line["retired"] is None


def test_drop_and_start_over(epochs: Run, home: Path) -> None:
    """R39: what goes is shown first; no question can be asked here; the name is free for another cadence."""
    settings = Settings(store_url=f"sqlite:///{home}/store.db", warehouse=f"file://{home}/warehouse")
    outputs = [Table("first", domain="anew")]
    reader = Job(
        "reads", inputs=[outputs[0]], outputs=[Table("read", domain="anew")], cadence="@daily", origin=ORIGIN
    )
    with EpochService.open(settings) as service:
        service.register(Job("wrong", outputs=outputs, cadence="@daily", origin=ORIGIN))
        service.register(reader)
    asked = ("drop", "job", "wrong", "--reason", "wrong cadence", "--domain", "anew")
    refused = epochs(*asked, "--yes")
    assert (refused.returncode, "job reads would lose tables" in refused.stderr) == (1, True), refused.stderr
    assert "job reads has read its tables" in refused.stdout
    unheard = epochs(*asked, "--cascade")
    assert (unheard.returncode, "standard input is no terminal" in unheard.stderr) == (1, True), (
        unheard.stderr
    )
    assert "2 jobs with 2 tables" in unheard.stdout
    done = epochs(*asked, "--cascade", "--yes", "-o", "json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["jobs"], told["tables"], told["left_in_catalog"]) == (
        ["reads", "wrong"],
        ["first", "read"],
        [],
    )
    with EpochService.open(settings) as service:
        service.register(Job("wrong", outputs=outputs, cadence="@hourly", origin=ORIGIN + timedelta(hours=5)))
    (line,) = json.loads(epochs("status", "--domain", "anew", "-o", "json").stdout)["tables"]
    assert line["table"] == "first"
    dropped = epochs("drop", "domain", "anew", "--reason", "x", "--yes")
    assert "`airflow epochs retention vacuum --domain anew`" in dropped.stdout, dropped.stderr
    gone = epochs("drop", "domain", "nowhere", "--reason", "x", "--yes")
    assert (gone.returncode, gone.stderr.startswith("UnknownName: domain 'nowhere' has no jobs")) == (1, True)


def test_rollback(epochs: Run, home: Path) -> None:
    """R30: a dry run changes nothing; no question can be asked here; afterwards the epochs are not committed."""
    settings = Settings(store_url=f"sqlite:///{home}/store.db", warehouse=f"file://{home}/warehouse")
    job = Job("late", outputs=[Table("late", domain="back")], cadence="@daily", origin=ORIGIN)
    with EpochService.open(settings) as service:
        for number in range(3):
            start = ORIGIN + timedelta(days=number)
            attempt = service.begin(
                job, Interval(start, start + timedelta(days=1)), Owner(dag_id="dag", run_id="run")
            )
            assert isinstance(attempt, Attempt)
            write_rows(service, attempt, "late", pa.table({"value": [number]}))
            service.complete(attempt)
            service.publish(attempt)
    asked = ("rollback", "back", "--to", "1", "--reason", "wrong code")
    shown = epochs(*asked, "--dry-run", "-o", "json")
    told = json.loads(shown.stdout)
    assert (shown.returncode, told["dry_run"], told["in_the_way"]) == (0, True, [])
    assert [(span["job"], span["epochs"]) for span in told["epochs"]] == [("late", 2)]
    assert (told["tables"][0]["rows"], told["csn"]) == (2, None)
    unheard = epochs(*asked)
    assert (unheard.returncode, "no question can be asked" in unheard.stderr) == (1, True), unheard.stderr
    assert "2 epochs of 1 job" in unheard.stdout
    done = json.loads(epochs(*asked, "--yes", "-o", "json").stdout)
    assert (done["csn"], done["epochs"]) == (4, told["epochs"])
    epoch = f"{ORIGIN + timedelta(days=1):%Y-%m-%d}"
    cut = json.loads(epochs("cut", "late", "--domain", "back", "-o", "json").stdout)
    assert cut["barrier"].startswith(epoch)
    again = epochs(*asked, "--yes")
    assert (again.returncode, "committed still" in again.stderr) == (1, True), again.stderr
    assert "ROLLED_BACK" in epochs("show", "late", epoch, "--domain", "back", "-o", "json").stdout


def test_cut(epochs: Run) -> None:
    found = json.loads(epochs("cut", "flights", "--files", "-o", "json").stdout)
    assert (found["barrier"], found["csn"]) == ("2013-02-07T00:00:00+00:00", 1)
    (table,) = found["tables"]
    assert [Path(uri.removeprefix("file://")).exists() for uri in table["files"]] == [True]
    assert found["notes"] == []


def test_a_cut_of_tables_that_begin_at_different_times(epochs: Run, home: Path) -> None:
    """Section 6: a user who joins the tables sees from when on each has rows."""
    settings = Settings(store_url=f"sqlite:///{home}/store.db", warehouse=f"file://{home}/warehouse")
    with EpochService.open(settings) as service:
        for name, days in (("long", 2), ("short", 1)):
            origin = ORIGIN + timedelta(days=2 - days)
            table = Table(name, domain="uneven")
            job = Job(f"load_{name}", outputs=[table], cadence="@daily", origin=origin)
            for number in range(days):
                start = origin + timedelta(days=number)
                epoch = Interval(start, start + timedelta(days=1))
                attempt = service.begin(job, epoch, Owner(dag_id="loads", run_id=str(start)))
                assert isinstance(attempt, Attempt)
                write_rows(service, attempt, name, pa.table({"x": [1]}))
                service.publish(attempt)
    note = "short: no rows before 2013-02-07T00:00:00+00:00, while long has rows from 2013-02-06T00:00:00+00:00 on"
    told = epochs("cut", "long", "short", "--domain", "uneven").stdout
    assert f"note {note}" in " ".join(told.split()), "however wide the terminal is"
    found = json.loads(epochs("cut", "long", "short", "--domain", "uneven", "-o", "json").stdout)
    assert found["notes"] == [note]
    lows = {"long": "2013-02-06T00:00:00+00:00", "short": "2013-02-07T00:00:00+00:00"}
    assert {table["table"]: table["low"] for table in found["tables"]} == lows


def test_recover(epochs: Run) -> None:
    done = epochs("recover", "-o", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["tables"] == [{"table": "flights", "csn": 1, "pointer": "up to date", "problem": ""}]


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """A connection to a store whose catalog lies in a file of its own, and that file."""
    file, extra = tmp_path / "catalog.db", {"warehouse": f"file://{tmp_path}/warehouse", "catalog": "apart"}
    monkeypatch.setenv("AIRFLOW_CONN_APART", json.dumps({"conn_type": "epochs", "host": str(file)}))
    fields = {"conn_type": "epochs", "host": f"{tmp_path}/store.db", "extra": extra}
    return json.dumps(fields), file


def settings_apart(folder: Path, file: Path) -> Settings:
    """What the connection of :func:`apart` says."""
    return Settings(
        store_url=f"sqlite:///{folder}/store.db",
        warehouse=f"file://{folder}/warehouse",
        catalog_url=f"sqlite:///{file}",
    )


def test_recover_moves_a_pointer_that_lags(epochs: Run, apart: tuple[str, Path], tmp_path: Path) -> None:
    connection, file = apart
    settings = settings_apart(tmp_path, file)
    with EpochService.open(settings) as service:
        published(service, 0)
    with closing(sqlite3.connect(file)) as catalog, catalog:
        # As a process leaves it that is killed between the store's commit and the pointer.
        catalog.execute("UPDATE iceberg_tables SET metadata_location = previous_metadata_location")
    done = epochs("recover", "-o", "json", connection=connection)
    assert done.returncode == 0, done.stderr
    assert [table["pointer"] for table in json.loads(done.stdout)["tables"]] == ["moved"]
    assert "up to date" in epochs("recover", connection=connection).stdout
    with closing(sqlite3.connect(file)) as catalog, catalog:
        catalog.execute("DELETE FROM iceberg_tables")
    done = epochs("recover", connection=connection)
    assert done.returncode == 0, done.stderr
    assert "registered again" in done.stdout
    assert "up to date" in epochs("recover", connection=connection).stdout


def test_recover_fails_where_a_table_is_ahead_of_a_restored_store(
    epochs: Run, apart: tuple[str, Path], tmp_path: Path
) -> None:
    connection, file = apart
    settings = settings_apart(tmp_path, file)
    with EpochService.open(settings) as service:
        published(service, 0)
    backup = (tmp_path / "store.db").read_bytes()
    with EpochService.open(settings) as service:
        published(service, 1)
    (tmp_path / "store.db").write_bytes(backup)
    broken = epochs("recover", connection=connection)
    assert broken.returncode == 1
    assert "not repaired" in broken.stdout
    assert "flights" in broken.stderr


def test_db_makes_a_catalog_elsewhere(epochs: Run, apart: tuple[str, Path]) -> None:
    connection, file = apart
    assert (
        json.loads(epochs("db", "upgrade", "-o", "json", connection=connection).stdout)["catalog"]
        == "current"
    )
    assert epochs("db", "check", connection=connection).returncode == 0
    file.unlink()
    done = epochs("db", "check", connection=connection)
    assert done.returncode == 1
    assert "db upgrade" in done.stderr


def test_cut_with_all_that_a_reader_may_ask(epochs: Run) -> None:
    asked = ("--max-lag", "6h", "--max-staleness", "99999999d", "--consistency", "rolling", "-o", "json")
    first = json.loads(epochs("cut", "flights", *asked).stdout)
    assert (first["level"], first["tables"][0]["barrier"]) == ("read_committed", "2013-02-07T00:00:00+00:00")
    again = epochs("cut", "flights", "--session", first["session"], "-o", "json")
    assert json.loads(again.stdout)["session"] == first["session"]
    ahead = first["session"].replace("2013-02-07", "2013-02-08")
    assert "this session has seen 2013-02-08" in epochs("cut", "flights", "--session", ahead).stderr
    text = epochs("cut", "flights", "--sql", "duckdb").stdout
    assert text.startswith("-- flights\nSELECT")
    assert "read_parquet" in text


def test_leases(epochs: Run) -> None:
    held = ("--lease", "report", "--owner", "me", "--ttl", "2h")
    assert json.loads(epochs("cut", "flights", *held, "-o", "json").stdout)["lease"] == "report"
    assert "held by 'me'" in epochs("cut", "flights", "--lease", "report", "--owner", "other").stderr
    (before,) = json.loads(epochs("lease", "list", "-o", "json").stdout)
    assert (before["owner"], before["tables"], before["csn"]) == ("me", ["flights"], 1)
    assert epochs("lease", "renew", "report", "--owner", "me", "--ttl", "3h").returncode == 0
    (after,) = json.loads(epochs("lease", "list", "-o", "json").stdout)
    assert after["until"] > before["until"]
    assert "held by 'me'" in epochs("lease", "drop", "report", "--owner", "other").stderr
    assert epochs("lease", "drop", "report", "--owner", "me").returncode == 0
    assert "UnknownName" in epochs("lease", "drop", "report", "--owner", "me").stderr
    assert "report" not in epochs("lease", "list").stdout


def test_retention(epochs: Run) -> None:
    refused = epochs("retention", "expire", "flights", "2013-02-07T00:00:00+00:00")
    assert "a barrier before the table's newest one" in refused.stderr
    planned = json.loads(epochs("retention", "keep", "--each", "@daily=3", "--dry-run", "-o", "json").stdout)
    assert (planned["dry_run"], planned["expired"], planned["needed"], planned["more"]) == (True, [], [], 0)
    assert "expired      nothing" in epochs("retention", "keep", "--newest", "5").stdout
    vacuumed = json.loads(epochs("retention", "vacuum", "-o", "json").stdout)
    assert (vacuumed["deleted"], vacuumed["claimed"]) == ([], 0)
    assert epochs("retention", "vacuum").returncode == 0


def test_db_move(epochs: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"warehouse": f"file://{tmp_path}/warehouse"}
    for name in ("old", "new"):
        fields = {"conn_type": "epochs", "host": f"{tmp_path}/{name}.db", "extra": extra}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(fields))
    settings = Settings(store_url=f"sqlite:///{tmp_path}/old.db", warehouse=extra["warehouse"])
    with EpochService.open(settings) as service:
        published(service, 0)
    done = epochs("db", "move", "--from", "old", "--to", "new", "-o", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["CSN"], answer["tables"]) == (1, ["flights"])
    found = json.loads(epochs("cut", "flights", "--conn-id", "new", "--files", "-o", "json").stdout)
    assert (found["csn"], len(found["tables"][0]["files"])) == (1, 1)
    with EpochService.open(settings) as service, pytest.raises(DomainMoved, match=r"new\.db"):
        begun(service, 1)
    other = {"conn_type": "epochs", "host": f"{tmp_path}/new.db", "extra": {"warehouse": "file:///elsewhere"}}
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps(other))
    refused = epochs("db", "move", "--from", "old", "--to", "other")
    assert refused.returncode == 1
    assert "warehouse of connection other" in refused.stderr
    assert "add --warehouse" in refused.stderr


def test_db_move_to_a_copy_of_the_warehouse(
    epochs: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("old", "new"):
        extra = {"warehouse": f"file://{tmp_path}/{name}"}
        fields = {"conn_type": "epochs", "host": f"{tmp_path}/{name}.db", "extra": extra}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(fields))
    settings = Settings(store_url=f"sqlite:///{tmp_path}/old.db", warehouse=f"file://{tmp_path}/old")
    with EpochService.open(settings) as service:
        published(service, 0)
    move = ("db", "move", "--from", "old", "--to", "new", "--warehouse", "-o", "json")
    assert "copy file:" in epochs(*move).stderr
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    done = epochs(*move)
    assert done.returncode == 0, done.stderr
    found = json.loads(epochs("cut", "flights", "--conn-id", "new", "--files", "-o", "json").stdout)
    assert found["tables"][0]["files"][0].startswith(f"file://{tmp_path}/new/")


def test_db(epochs: Run) -> None:
    assert epochs("db", "check").returncode == 0
    assert json.loads(epochs("db", "upgrade", "-o", "json").stdout)["schema"] == "current"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("status", "--domain", "other"), ["other", "default"]),
        (("status", "--hours", "0"), ["--hours"]),
        (("status", "--conn-id", "absent"), ["absent", "airflow connections add"]),
        (("explain", "nobody"), ["UnknownName", "nobody"]),
        (("explain", "clean", "2013-02-07T05:00"), ["interval", "such as 2013-02-07T00:00:00+00:00"]),
        (("explain", "clean", "yesterday"), ["yesterday", "2013-02-07"]),
        (("explain", "clean", "2013-02-06/2013-02-08"), ["one epoch"]),
        (("cut", "flights", "totals"), ["NotReady", "totals"]),
        (("cut", "flights", "--at", "noon"), ["noon"]),
        (("cut", "nothing"), ["UnknownName", "nothing"]),
        (("cut", "flights", "--max-staleness", "1h"), ["NotReady", "flights", "local"]),
        (("cut", "flights", "--max-lag", "soon"), ["max-lag", "6h"]),
        (("cut", "flights", "--session", "{}"), ["session"]),
        (("cut", "flights", "--level", "repeatable_read"), ["--lease", "--owner"]),
        (("cut", "flights", "--lease", "x", "--owner", "me", "--level", "read_uncommitted"), ["--level"]),
        (("cut", "flights", "--lease", "x", "--owner", "me", "--ttl", "99d"), ["ttl", "31 days"]),
    ],
)  # fmt: skip
def test_a_mistake_is_one_message_and_exit_code_1(
    epochs: Run, arguments: tuple[str, ...], words: list[str]
) -> None:
    done = epochs(*arguments)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert all(word in done.stderr for word in words), done.stderr


def test_a_wrong_connection_is_told_by_its_field(epochs: Run) -> None:
    wrong = json.dumps({"conn_type": "epochs", "host": "relative.db", "password": "planted-secret"})
    done = epochs("db", "check", connection=wrong)
    assert done.returncode == 1
    assert "field host" in done.stderr
    assert "planted-secret" not in done.stderr + done.stdout


def test_a_connection_in_airflows_database_is_found_by_the_process(home: Path) -> None:
    from airflow.models import Connection
    from airflow.utils import db
    from airflow.utils.session import create_session

    db.initdb()
    fields = json.loads(epochs_connection(home))
    with create_session() as session:
        session.add(
            Connection(
                conn_id="epochs_kept",
                conn_type="epochs",
                host=fields["host"],
                extra=json.dumps(fields["extra"]),
            )
        )
    done = subprocess.run(
        [sys.executable, "-m", "airflow_provider.cli.program", "db", "check", "--conn-id", "epochs_kept"],
        capture_output=True,
        text=True,
        check=False,
    )
    of_airflow = (
        "[info ",
        "DeprecationWarning: ",
        "DeprecatedImportWarning: ",
    )  # 3.1 says such things at start
    told = [line for line in done.stderr.splitlines() if not any(word in line for word in of_airflow)]
    assert (done.returncode, told) == (0, [])
    assert "current" in done.stdout


@since(3, 2)
def test_airflows_parser_knows_the_commands() -> None:
    (group,) = get_cli_commands()
    parser = cli_parser.get_parser()
    assert group.name == "epochs"
    assert parser.parse_args(["epochs", "explain", "job"]).interval is None
