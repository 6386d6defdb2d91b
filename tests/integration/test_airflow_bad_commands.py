"""``airflow epochs …`` with values that no user means, in every argument that takes text: one line, nothing written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from airflow.cli.cli_config import ActionCommand, GroupCommand

from airflow_provider.cli.definition import get_cli_commands
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain import errors
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.testing.arrow_attempts import write_rows
from tests.airflow_runs import epochs_connection, typed
from tests.hostile import NAMES, TEXTS, VALUES

ORIGIN, DAY = datetime(2013, 2, 6, tzinfo=UTC), timedelta(days=1)
JOB = Job("clean", outputs=[Table("flights")], cadence="@daily", origin=ORIGIN)
ENDS = Job("ends", outputs=[Table("last")], cadence="@daily", origin=ORIGIN)
AGAIN = Job("again", outputs=[Table("corrected")], cadence="@daily", origin=ORIGIN)
LEAVES = Job("leaves", outputs=[Table("left")], cadence="@daily", origin=ORIGIN)
WORDS = {name: value for name, value in VALUES.items() if isinstance(value, str)}
SKIP = "skip clean 2013-02-08 --reason gone"
LEASED = "cut flights --lease mine"

ARGUMENTS: dict[str, tuple[str, Iterable[str]]] = {
    "status --domain": ("status --domain=?", []),
    "status --hours": ("status --hours=?", []),
    "explain job": ("explain ?", []),
    "explain interval": ("explain clean ?", ["empty"]),
    "explain --domain": ("explain clean --domain=?", []),
    "lag tables": ("lag ?", []),
    "lag --domain": ("lag --domain=?", []),
    "provenance table": ("provenance ? 2013-02-07", []),
    "provenance barrier": ("provenance flights ?", []),
    "provenance --domain": ("provenance flights 2013-02-07 --domain=?", []),
    "impact names": ("impact ? --interval 2013-02-06", []),
    "impact --interval": ("impact clean --interval=?", []),
    "impact --domain": ("impact clean --interval 2013-02-06 --domain=?", []),
    "diff table": ("diff ? --from @0", []),
    "diff --from": ("diff flights --from=?", []),
    "diff --to": ("diff flights --from @1 --to=?", []),
    "diff --interval": ("diff flights --from @1 --interval=?", []),
    "diff --rows": ("diff flights --from @1 --rows=?", []),
    "diff --domain": ("diff flights --from @1 --domain=?", []),
    "topology --domain": ("topology --domain=?", []),
    "check path": ("check ?", []),
    "wait tables": ("wait ? --at 2013-02-07 --timeout 0s", []),
    "wait --at": ("wait flights --timeout 0s --at=?", []),
    "wait --timeout": ("wait flights --at 2013-02-07 --timeout=?", []),
    "wait --domain": ("wait flights --at 2013-02-07 --timeout 0s --domain=?", []),
    "locks jobs": ("locks ?", []),
    "locks --domain": ("locks --domain=?", NAMES),
    "show job": ("show ? 2013-02-06", []),
    "show interval": ("show clean ?", []),
    "show --domain": ("show clean 2013-02-06 --domain=?", []),
    "abort job": ("abort ? 2013-02-06 --reason gone --yes", []),
    "abort interval": ("abort clean ? --reason gone --yes", []),
    "abort --reason": ("abort clean 2013-02-06 --yes --reason=?", []),
    "abort --domain": ("abort clean 2013-02-06 --reason gone --yes --domain=?", []),
    "cut tables": ("cut ?", []),
    "cut --at": ("cut flights --at=?", ["empty"]),
    "cut --max-lag": ("cut flights --max-lag=?", []),
    "cut --max-staleness": ("cut flights --max-staleness=?", []),
    "cut --session": ("cut flights --session=?", []),
    "cut --lease": ("cut flights --owner=you --lease=?", NAMES),
    "cut --owner": ("cut flights --lease=other --owner=?", []),
    "cut --ttl": (f"{LEASED} --owner=me --ttl=?", []),
    "cut --domain": ("cut flights --domain=?", []),
    "skip job": ("skip ? 2013-02-08 --reason gone", []),
    "skip interval": ("skip clean ? --reason gone", []),
    "skip --reason": ("skip ends 2013-02-06 --reason=?", TEXTS),
    "skip --domain": (f"{SKIP} --domain=?", []),
    "bind source": ("bind ? 2013-02-08 --reason gone", []),
    "bind interval": ("bind landing ? --reason gone", []),
    "bind --reason": ("bind landing 2013-02-08 --reason=?", []),
    "bind --domain": ("bind landing 2013-02-08 --reason gone --domain=?", []),
    "retire job": ("retire ? --reason gone", []),
    "retire --reason": ("retire leaves --reason=?", TEXTS),
    "retire --table": ("retire clean --reason gone --table=?", []),
    "retire --domain": ("retire clean --reason gone --domain=?", []),
    "revive job": ("revive ?", []),
    "revive --domain": ("revive clean --domain=?", []),
    "drop name": ("drop job ? --reason gone --yes", []),
    "drop --reason": ("drop job clean --yes --reason=?", []),
    "rollback domain": ("rollback ? --to 1 --reason gone --yes", []),
    "rollback --to": ("rollback default --reason gone --yes --to=?", []),
    "rollback --reason": ("rollback default --to 1 --yes --reason=?", []),
    "drop --domain": ("drop job clean --reason gone --yes --domain=?", []),
    "recover --domain": ("recover --domain=?", []),
    "doctor --domain": ("doctor --domain=?", []),
    "changes --after": ("changes --after=?", []),
    "changes --domain": ("changes --domain=?", NAMES),
    "lease list --domain": ("lease list --domain=?", NAMES),
    "lease renew name": ("lease renew ? --owner me", []),
    "lease renew --owner": ("lease renew held --owner=?", []),
    "lease renew --ttl": ("lease renew held --owner me --ttl=?", []),
    "lease renew --domain": ("lease renew held --owner me --domain=?", []),
    "lease release name": ("lease release ? flights --owner me", []),
    "lease release tables": ("lease release held ? --owner me", []),
    "lease release --owner": ("lease release held flights --owner=?", []),
    "lease release --domain": ("lease release held flights --owner me --domain=?", []),
    "lease drop name": ("lease drop ? --owner me", []),
    "lease drop --owner": ("lease drop held --owner=?", []),
    "lease drop --domain": ("lease drop held --owner me --domain=?", []),
    "serve --host": ("serve --host=?", []),
    "serve --port": ("serve --port=?", []),
    "serve --token-file": ("serve --token-file=?", []),
    "restate plan names": ("restate plan ? --interval 2013-02-06", []),
    "restate plan --interval": ("restate plan clean --interval=?", []),
    "restate plan --domain": ("restate plan clean --interval 2013-02-06 --domain=?", []),
    "restate open names": ("restate open ? --interval 2013-02-06 --reason gone", []),
    "restate open --interval": ("restate open clean --reason gone --interval=?", []),
    "backfill names": ("backfill ? --interval 2013-02-08 --reason gone --yes", []),
    "backfill --interval": ("backfill clean --reason gone --yes --interval=?", []),
    "backfill --reason": ("backfill clean --interval 2014-01-01 --yes --reason=?", []),
    "backfill --name": ("backfill clean --interval 2014-01-01 --reason gone --yes --name=?", []),
    "backfill --deadline": ("backfill clean --interval 2014-01-01 --reason gone --yes --deadline=?", []),
    "backfill --max-active-runs": (
        "backfill clean --interval 2014-01-01 --reason gone --yes --max-active-runs=?",
        [],
    ),
    "backfill --domain": ("backfill clean --interval 2014-01-01 --reason gone --yes --domain=?", []),
    "restate open --reason": ("restate open clean --interval 2013-02-08 --reason=?", []),
    "restate open --name": ("restate open clean --interval 2013-02-08 --reason gone --name=?", []),
    "restate open --deadline": ("restate open clean --interval 2013-02-06 --reason gone --deadline=?", []),
    "restate open --domain": ("restate open clean --interval 2013-02-06 --reason gone --domain=?", []),
    "restate list --domain": ("restate list --domain=?", NAMES),
    "restate status name": ("restate status ?", []),
    "restate status --domain": ("restate status kept --domain=?", []),
    "restate diff name": ("restate diff ?", []),
    "restate diff --table": ("restate diff kept --table=?", []),
    "restate diff --rows": ("restate diff kept --rows=?", []),
    "restate diff --domain": ("restate diff kept --domain=?", []),
    "restate approve name": ("restate approve ? --digest 5e", []),
    "restate approve --digest": ("restate approve kept --digest=?", []),
    "restate approve --domain": ("restate approve kept --digest 5e --domain=?", []),
    "restate join name": ("restate join ? clean", []),
    "restate join jobs": ("restate join kept ?", []),
    "restate join --reason": ("restate join kept clean --reason=?", []),
    "restate join --domain": ("restate join kept clean --domain=?", []),
    "restate release name": ("restate release ? clean --reason gone", []),
    "restate release jobs": ("restate release kept ? --reason gone", []),
    "restate release --reason": ("restate release kept clean --reason=?", []),
    "restate release --domain": ("restate release kept clean --reason gone --domain=?", []),
    "restate publish name": ("restate publish ?", []),
    "restate publish --domain": ("restate publish kept --domain=?", []),
    "restate abandon name": ("restate abandon ? --reason gone", []),
    "restate abandon --reason": ("restate abandon dropped --reason=?", TEXTS),
    "restate abandon --domain": ("restate abandon kept --reason gone --domain=?", []),
    "restate revert name": ("restate revert ? --reason gone", []),
    "restate revert --reason": ("restate revert kept --reason=?", []),
    "restate revert --domain": ("restate revert kept --reason gone --domain=?", []),
    "retention keep tables": ("retention keep ?", []),
    "retention keep --newest": ("retention keep --newest=?", []),
    "retention keep --each": ("retention keep --each=?", []),
    "retention keep --most": ("retention keep --most=?", []),
    "retention keep --domain": ("retention keep --domain=?", NAMES),
    "retention expire table": ("retention expire ? 2013-02-07", []),
    "retention expire barrier": ("retention expire flights ?", []),
    "retention expire --domain": ("retention expire flights 2013-02-07 --domain=?", []),
    "retention vacuum --domain": ("retention vacuum --domain=?", NAMES),
    "compact table": ("compact ?", []),
    "compact --before": ("compact flights --before=?", []),
    "compact --since": ("compact flights --undo --since=?", []),
    "compact --unit": ("compact flights --unit=?", []),
    "compact --domain": ("compact flights --domain=?", []),
    "db move --from": ("db move --to other --from=?", []),
    "db move --to": ("db move --from epochs_default --to=?", []),
    "db move --domain": ("db move --from epochs_default --to other --domain=?", []),
}
"""For each command and argument what is typed, and which values it takes; those of ``--conn-id`` are below."""

WRITES = {"cut --lease", "skip --reason", "retire --reason", "restate abandon --reason"}
"""Arguments that take some of the values, which then are kept."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with committed epochs of three jobs, a job that never ran, two leases, and two restatements."""
    folder = tmp_path_factory.mktemp("commands")
    with opened(folder, "other"):
        pass
    with opened(folder, "store") as service:
        for job, day in (
            (JOB, ORIGIN),
            (JOB, ORIGIN + DAY),
            (ENDS, ORIGIN + DAY),
            (AGAIN, ORIGIN),
            (AGAIN, ORIGIN + DAY),
        ):
            owner = Owner(dag_id="flights", run_id=str(day))
            attempt = service.begin(job, Interval(day, day + DAY), owner)
            assert isinstance(attempt, Attempt)
            write_rows(service, attempt, job.outputs[0].name, pa.table({"x": [1]}))
            service.publish(attempt)
        for name, day in (("kept", ORIGIN), ("dropped", ORIGIN + DAY)):
            epoch = Interval(day, day + DAY)
            service.restatements.open("default", ["again"], epoch, name=name, reason="wrong", by="me")
        attempt = service.begin_within("kept", AGAIN, Interval(ORIGIN, ORIGIN + DAY), owner)
        assert isinstance(attempt, Attempt)
        write_rows(service, attempt, "corrected", pa.table({"x": [2]}))
        service.complete(attempt)
        service.stage(attempt)
        service.register(LEAVES)
        service.leases.cut("default", ["flights"], name="held", owner="me")
        service.leases.cut("default", ["flights"], name="other", owner="somebody")
    return folder


def opened(folder: Path, store: str) -> EpochService:
    url = f"sqlite:///{folder}/{store}.db"
    return EpochService.open(Settings(store_url=url, warehouse=f"file://{folder}/warehouse"))


@pytest.fixture(autouse=True)
def connections(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One to that store, and one to another, which is empty."""
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(home))
    other = json.loads(epochs_connection(home)) | {"host": f"{home}/other.db"}
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps(other))


def records(home: Path) -> list[object]:
    """All that is in the two stores, and which files the tables have."""
    found: list[object] = sorted((home / "warehouse").rglob("*"))
    for name in ("store", "other"):
        with closing(sqlite3.connect(home / f"{name}.db")) as store:
            found.extend(store.iterdump())
    return found


@pytest.mark.parametrize("what", sorted(ARGUMENTS))
def test_invalid_value_prints_one_line_and_writes_nothing(home: Path, what: str) -> None:
    """Each argument says what it expects, whatever it is given."""
    before = records(home)
    words, good = ARGUMENTS[what]
    for name, value in WORDS.items():
        done = typed(*(part.replace("?", value) for part in words.split()))
        if name in set(good):
            assert done.returncode == 0, (name, done.stderr)
        else:
            is_one_refusal(done.stderr, f"{name}: {done}")
            assert done.returncode == 1, name
    assert records(home) == before or what in WRITES


def is_one_refusal(told: str, why: str) -> None:
    """One line that can be printed: the error's class, and at its end the next step."""
    kind = getattr(errors, told.partition(":")[0], None)
    assert isinstance(kind, type), why[:2000]
    assert issubclass(kind, errors.EpochError)
    assert told.count("\n") == 1, why[:2000]
    assert "Next step: " in told, why[:2000]
    assert len(told) < 1000, why[:2000]
    assert told.rstrip("\n").isprintable(), why[:2000]


@pytest.mark.parametrize("where", ["--conn-id", "configured"])
def test_a_connection_of_no_good_name_is_refused(
    home: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typed, or configured."""
    before = records(home)
    for name, value in WORDS.items():
        if where == "configured" and "\0" not in value and "\ud800" not in value and len(value) < 100_000:
            monkeypatch.setenv("AIRFLOW__EPOCHS__CONN_ID", value)
            done = typed("db", "check")
        else:
            done = typed("db", "check", f"--conn-id={value}")
        if name == "empty" and where == "--conn-id":
            continue
        assert done.returncode == 1, name
        assert done.stderr.count("\n") == 1, (name, done.stderr[:2000])
        assert len(done.stderr) < 1000, name
        assert "Next step" in done.stderr, (name, done.stderr)
    assert records(home) == before


def test_an_argument_too_many_prints_the_help_of_its_command() -> None:
    """Not the list of all commands, which Airflow's parser would print."""
    for command in leaves(get_cli_commands(), ""):
        done = typed(*command.split(), "--unheard-of")
        assert (done.returncode, done.stdout[:7]) == (2, "Usage: ")
        assert " ".join(done.stdout.split()).startswith(f"Usage: airflow epochs {command} "), command
    found = typed("status", "shop").stderr
    assert found == "\nairflow epochs status command error: unrecognized arguments: shop, see help above.\n"


def leaves(commands: Iterable[ActionCommand | GroupCommand], prefix: str) -> Iterator[str]:
    for command in commands:
        name = f"{prefix} {command.name}".strip().removeprefix("epochs").strip()
        if isinstance(command, GroupCommand):
            yield from leaves(command.subcommands, name)
        else:
            yield name


def test_every_argument_that_takes_text_is_tried() -> None:
    """A new command or option stands in the table above."""
    assert set(arguments(get_cli_commands(), "")) == {*ARGUMENTS}


def arguments(commands: Iterable[ActionCommand | GroupCommand], prefix: str) -> Iterator[str]:
    for command in commands:
        name = f"{prefix} {command.name}".strip().removeprefix("epochs").strip()
        if isinstance(command, GroupCommand):
            yield from arguments(command.subcommands, name)
            continue
        for argument in command.args:
            flag = argument.flags[-1]
            takes_text = (
                argument.kwargs.get("action", "append") == "append" and "choices" not in argument.kwargs
            )
            if takes_text and flag != "--conn-id":
                yield f"{name} {flag}"
