"""``airflow epochs …`` as people see it: no line wider than the terminal, and nothing left out."""

from __future__ import annotations

import importlib
import io
import json
import pkgutil
import re
import shlex
import shutil
import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.cli.cli_config import ActionCommand, GroupCommand
from airflow.utils import yaml
from rich.cells import cell_len

from airflow_provider import cli
from airflow_provider.cli import answer as answers
from airflow_provider.cli.definition import get_cli_commands
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Job, Table
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.tables.iceberg import publishing
from airflow_provider.testing.arrow_attempts import write_rows
from tests.airflow_runs import epochs_connection, typed
from tests.system.page_world import commit, day, fill

LONG = "archive"
"""A domain of 30 tables and jobs with names of 60 characters."""
NAMES = [
    f"{number:02}_north_western_region_passenger_flights_by_airport_".ljust(60, "x") for number in range(30)
]
LONG_JOB = f"job_{NAMES[0][4:]}"
NOTE = "[ERROR] SparkException: [bold]no[/bold] :warning: rows\n\tat Job.scala\rline \x1b[31mred\x1b[0m\n\n  at end"
ORIGIN = datetime(2013, 2, 1, tzinfo=UTC)
COMMANDS = [
    "status --domain city",
    "status --domain harbour",
    f"status --domain {LONG}",
    "explain load_flights 2013-02-08 --domain city",
    "explain load_ships 2013-02-05 --domain harbour",
    "explain load_rowboats --domain harbour",
    f"explain {LONG_JOB} --domain {LONG}",
    "lag --domain city",
    "lag ships rowboats pilots wharves --domain harbour",
    f"lag {NAMES[0]} slow --domain {LONG}",
    "provenance station_totals 2013-02-04 --domain rides",
    "provenance ships 2013-02-05 --domain harbour",
    f"provenance {NAMES[0]} 2013-02-02 --domain {LONG}",
    "impact rides --interval 2013-02-01/2013-02-04 --domain rides",
    f"impact {LONG_JOB} --interval 2013-02-01 --domain {LONG}",
    "diff rides --from 2013-02-02 --to 2013-02-04 --domain rides",
    "diff rides --from @1 --interval 2013-02-03 --domain rides",
    "diff --from @2 --domain rides",
    f"diff {NAMES[0]} --from 2013-02-02@1 --domain {LONG} --rows 2",
    f"diff --from @0 --domain {LONG}",
    "topology --domain rides",
    "topology --domain harbour",
    f"topology --domain {LONG}",
    "wait flights cancelled_flights --at 2013-02-08 --domain city",
    "locks --domain city",
    "locks --domain tandems",
    f"locks --domain {LONG}",
    "show load_flights 2013-02-06 --domain city",
    "show load_flights 2013-02-10 --domain city",
    "show load_ships 2013-02-05 --domain harbour",
    "show count_rides 2013-02-02 --domain rides",
    f"show {LONG_JOB} 2013-02-02 --domain {LONG}",
    "cut flights cancelled_flights --domain city --files",
    "cut flights cancelled_flights --domain city --level read_uncommitted",
    f"cut {NAMES[0]} slow --domain {LONG} --max-lag 2d",
    f"cut {' '.join(NAMES)} --domain {LONG}",
    f"cut {NAMES[0]} --domain {LONG} --lease quarterly-report --owner ada",
    "doctor --domain city",
    "doctor --domain harbour",
    f"doctor --domain {LONG}",
    f"recover --domain {LONG}",
    f"lease list --domain {LONG}",
    "lease list --domain city",
    "restate plan flights --interval 2013-02-05/2013-02-08 --domain city",
    f"restate plan {LONG_JOB} {NAMES[0]} --interval 2013-02-01 --domain {LONG}",
    "restate list --domain city",
    f"skip {LONG_JOB} 2013-03-01/2013-04-01 --reason closed --domain {LONG}",
    "retention keep --each @daily=3 --dry-run --domain harbour",
    "retention keep --dry-run --domain city",
    "compact flights --domain city",
    "retention vacuum --domain harbour",
    "db check",
    "db upgrade",
]
SOURCE = f"feed_{NAMES[0][5:]}"
CHANGES = [
    f"bind {SOURCE} 2013-02-01 --reason mended --domain {LONG}",
    f"abort {LONG_JOB} 2013-02-03 --reason stuck --yes --domain {LONG}",
    f"lease renew {NAMES[0]} --owner ada --ttl 3d --domain {LONG}",
    f"lease release {NAMES[0]} {NAMES[1]} --owner ada --domain {LONG}",
    f"lease drop audit --owner {NAMES[1]} --domain {LONG}",
    f"lease drop {NAMES[0]} --owner ada --domain {LONG}",
    f"restate open {LONG_JOB} --interval 2013-02-01 --reason mended --needs-approval --name {NAMES[1]} --domain {LONG}",
    f"restate status {NAMES[1]} --domain {LONG}",
    f"restate list --domain {LONG}",
    f"restate abandon {NAMES[1]} --reason '{NAMES[2]}' --domain {LONG}",
    f"restate status {NAMES[1]} --domain {LONG}",
    f"retire {LONG_JOB} --reason trial --domain {LONG}",
    f"revive {LONG_JOB} --domain {LONG}",
    "db restored",
    f"db move --from epochs_default --to new --domain {LONG}",
]
"""Those that change a store, in an order in which all can; ``retention expire`` is refused here."""
COMMAND_MODULES = [
    importlib.import_module(f"{cli.__name__}.{module.name}")
    for module in pkgutil.iter_modules(cli.__path__)
    if module.name != "answer"
]
ONLY_FOR_PROGRAMS = {
    "session",
    "deleted",
    "dry_run",
    "expired",
    "orphans",
    "expected_seconds",
    "members",
    "local_seconds",
    "global_seconds",
    "wall_clock_seconds",
    "end_to_end_seconds",
    "slowest",
    "writer",
    "age_seconds",
    "left_seconds",
    "on_upstream_revision",
    "version_location",
    "slices",
    "reader",
    "source_files",
}
"""What the tables leave out by intent: docs/reference/cli.md says so."""
RULING = set("|=+")
"""Characters that tables are drawn with, more or fewer of them."""


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A store with epochs in every state. Its path always has the same length, so that URIs fold alike."""
    folder = Path(tempfile.mkdtemp(prefix="epochs-", dir="/tmp"))
    snapshots = count(1_000_000_000_000_000_001)
    settings = Settings(store_url=f"sqlite:///{folder}/store.db", warehouse=f"file://{folder}/warehouse")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publishing, "new_snapshot_id", lambda: next(snapshots))
        fill(settings)
    with EpochService.open(settings) as service:
        fill_archive(service)
    yield folder
    shutil.rmtree(folder)


def fill_archive(service: EpochService) -> None:
    """Commit one day of many tables with long names, abort the next with an odd note, and hold two leases."""
    tables = [Table(name, domain=LONG) for name in NAMES]
    job = Job(LONG_JOB, outputs=tables, cadence="@daily", origin=ORIGIN)
    owner = Owner(dag_id=f"dag_of_{LONG_JOB}", run_id=f"scheduled__{ORIGIN.isoformat()}")
    commit(service, job, day(1))
    second = service.begin(job, day(2), owner)
    assert isinstance(second, Attempt)
    service.abort(second, NOTE)
    service.begin(job, day(3), owner)
    slow = [Table("slow", domain=LONG, kind="full")]
    commit(
        service,
        Job("load_slow", outputs=slow, cadence="@daily", origin=ORIGIN - timedelta(days=1)),
        day(0),
    )
    lent = timedelta(days=2)
    service.leases.cut(LONG, NAMES[:3], name=NAMES[0], owner="ada", ttl=lent)
    service.leases.cut(LONG, NAMES[:1], name="audit", owner=NAMES[1], ttl=lent)


@pytest.fixture(autouse=True)
def seen(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, str]]:
    """What the commands answer: the value for programs, and the text for people whose lines stay whole."""
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(home))
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    found: list[tuple[Any, str]] = []
    answer = answers.answer

    def spy(arguments: Namespace, value: Any, *parts: Any) -> None:
        with redirect_stdout(io.StringIO()) as whole, pytest.MonkeyPatch.context() as patch:
            patch.delenv("COLUMNS", raising=False)
            answers.show(*parts)
        found.append((json.loads(json.dumps(value, default=str)), whole.getvalue()))
        answer(arguments, value, *parts)

    for module in COMMAND_MODULES:
        if getattr(module, "answer", None) is answer:
            monkeypatch.setattr(module, "answer", spy)
    return found


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_is_too_long_and_nothing_is_left_out(
    seen: list[tuple[Any, str]], command: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    told = checked(command, columns)
    ((value, whole),) = seen
    assert characters(told) == characters(whole)
    assert [leaf for leaf in leaves(value) if not is_told(leaf, whole)] == []


def test_commands_that_change_a_store_fit_and_tell_all(
    seen: list[tuple[Any, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a store of their own, one after the other."""
    monkeypatch.setenv("COLUMNS", "80")
    warehouse = f"file://{tmp_path}/warehouse"
    new = json.loads(epochs_connection(tmp_path)) | {"host": f"{tmp_path}/new.db"}
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_NEW", json.dumps(new))
    with EpochService.open(
        Settings(store_url=f"sqlite:///{tmp_path}/store.db", warehouse=warehouse)
    ) as service:
        fill_archive(service)
        land(service, tmp_path)
    answered = []
    for command in CHANGES:
        told = checked(command, 80)
        if len(seen) > len(answered):
            answered.append(command.split()[:2])
            value, whole = seen[-1]
            assert characters(told) == characters(whole)
            assert [leaf for leaf in leaves(value) if not is_told(leaf, whole)] == []
    assert answered == [
        ["bind", SOURCE],
        ["abort", LONG_JOB],
        ["restate", "open"],
        ["restate", "status"],
        ["restate", "list"],
        ["restate", "status"],
        ["db", "restored"],
        ["db", "move"],
    ]


def land(service: EpochService, folder: Path) -> None:
    """Compute an epoch from a file, and replace the file."""
    file = folder / "2013-02-01.csv"
    file.write_text("1")
    source = FileSource(SOURCE, f"{folder}/{{start:%Y-%m-%d}}.csv")
    raw = [Table("raw", domain=LONG)]
    job = Job("land", inputs=[source], outputs=raw, cadence="@daily", origin=ORIGIN)
    owner = Owner(dag_id="landing", run_id="first")
    attempt = service.begin(job, day(1), owner, sources=SourceReaders())
    assert isinstance(attempt, Attempt)
    write_rows(service, attempt, "raw", pa.table({"x": [1]}))
    service.publish(attempt)
    file.write_text("22")


def checked(command: str, columns: int) -> str:
    """Type *command*: no line of its answer is wider than *columns*, or ends in blanks."""
    done = typed(*shlex.split(command))
    lines = done.stdout.splitlines()
    assert lines, (command, done.stderr)
    assert [line for line in lines if cell_len(line) > columns or line != line.rstrip()] == []
    return done.stdout


def characters(text: str) -> Counter[str]:
    """All characters of *text* but blanks, line ends and rulings: the same ones, however it is folded."""
    return Counter(character for character in text if not character.isspace() and character not in RULING)


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, part in value.items():
            if name not in ONLY_FOR_PROGRAMS:
                yield from leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part)
    elif value not in (None, "") and not isinstance(value, bool) and value != 0:
        yield value


def is_told(leaf: Any, text: str) -> bool:
    """Return whether *text* has a value; a time may lack its zone, or its day where the title has it."""
    if isinstance(leaf, int):
        return re.search(rf"\b{leaf}\b", text) is not None
    if re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", leaf):
        time = datetime.fromisoformat(leaf)
        short = [time.isoformat(timespec="seconds"), f"{time:%Y-%m-%d %H:%M:%S}"]
        if not time.second:
            short.append(f"{time:%Y-%m-%d %H:%M}")
        stamp = f"{time:%H:%M:%S}.{time.microsecond // 1000:03}"
        return any(form in text for form in short) or (f"{time:%Y-%m-%d}" in text and stamp in text)
    told = "".join(text.split())
    return all("".join(line.split()) in told for line in printable(leaf).split("\n"))


def printable(leaf: str) -> str:
    return leaf.replace("\r", "\\r").replace("\x1b", "\\x1b")


def test_notes_are_printed_as_they_are() -> None:
    """No markup and no emoji is made of them, and no control character reaches the terminal."""
    told = typed("explain", LONG_JOB, "--domain", LONG).stdout
    assert "SparkException: [bold]no[/bold] :warning: rows" in told
    assert "line \\x1b[31mred\\x1b[0m" in told
    assert "\x1b" not in told
    assert "\r" not in told


@pytest.mark.parametrize("command", COMMANDS[:39])
def test_programs_get_everything_however_narrow_the_terminal_is(
    seen: list[tuple[Any, str]], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    printed = {form: typed(*shlex.split(command), "-o", form).stdout for form in ("json", "yaml", "plain")}
    values = dict(zip(printed, (value for value, _ in seen), strict=True))
    assert json.loads(printed["json"]) == values["json"]
    assert yaml.safe_load(printed["yaml"]) == values["yaml"]
    assert [leaf for leaf in leaves(values["plain"]) if one_line(leaf) not in printed["plain"]] == []


def one_line(leaf: Any) -> str:
    return printable(str(leaf)).replace("\n", "\\n").replace("\t", "\\t")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("wanted", [True, False])
def test_no_color_and_no_terminal_mean_no_colours(wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headings are bold on a terminal; elsewhere there is text alone."""
    monkeypatch.setenv("TERM", "xterm-256color")
    if wanted:
        monkeypatch.delenv("NO_COLOR", raising=False)
    else:
        monkeypatch.setenv("NO_COLOR", "1")
    with redirect_stdout(Terminal()) as printed:
        answers.show(answers.table(["table"], [["flights"]], title="tables"))
    assert "\x1b[1mtables" in printed.getvalue()
    assert wanted or not re.search(r"\x1b\[(?:\d+;)*[349]\d", printed.getvalue())
    assert "\x1b" not in typed("status", "--domain", "city").stdout


def test_help_fits_into_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but what Airflow writes: the usage, which argparse folds between options, and its own ``--output``."""
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("", *names(get_cli_commands())):
        _, _, printed = typed(*command.split(), "-h").stdout.partition("\n\n")
        long = [line for line in printed.splitlines() if len(line) > 80 and "Output format." not in line]
        assert (command, long) == (command, [])


def names(commands: Iterable[ActionCommand | GroupCommand], before: str = "") -> Iterator[str]:
    for command in commands:
        name = f"{before} {command.name}".removeprefix(" epochs")
        yield name
        if isinstance(command, GroupCommand):
            yield from names(command.subcommands, name)


# --- what it looks like --------------------------------------------------------------------------------------------

STATUS = """\
domain city, CSN 8 as of ????-??-?? ??:??:?? UTC
epochs from 2013-02-05 00:00 to 2013-02-12 00:00 UTC

job and tables             | complete to (UTC) | CSN | cadence and epochs
===========================+===================+=====+==========================
load_flights               |                   |     | 0 0 * * * UTC
  flights                  | 2013-02-08 00:00  |   4 | 3 committed, 4 open,
                           |                   |     | 1 aborted
  cancelled_flights        | 2013-02-08 00:00  |   4 | 3 committed, 4 open,
                           |                   |     | 1 aborted
load_weather               |                   |     | 0 * * * * UTC
  weather                  | 2013-02-01 03:00  |   7 | 168 not begun
odd & <b>ends              |                   |     | 0 0 * * * UTC
  größe & "co" <img src=x  | 2013-02-10 00:00  |   8 | 1 committed, 2 not begun
  onerror=globalThis.plant |                   |     |
  ed=1>                    |                   |     |
"""
CUT = """\
domain          city
barrier         2013-02-08T00:00:00+00:00
CSN             8
level           read_committed
readable until  ????-??-??T??:??:??+00:00
incarnation     ????????????????????????????????
format          iceberg

table             | from (UTC)       |             version
==================+==================+====================
flights           | 2013-02-05 00:00 | 1000000000000000007
cancelled_flights | 2013-02-05 00:00 | 1000000000000000008

location of flights
  file:///tmp/epochs-????????/warehouse/city/flights/metadata/snap-1000000000000
  000007-????????????????????????????????.avro
location of cancelled_flights
  file:///tmp/epochs-????????/warehouse/city/cancelled_flights/metadata/snap-100
  0000000000000008-????????????????????????????????.avro
"""
EXPLAIN = """\
job        harbour/load_ships
epoch      2013-02-05 00:00 to 2013-02-06 00:00 UTC
state      CHECK_FAILED, revision 1
because    check failed: rows of ships at least 1: 0 rows
kept in    file:///tmp/epochs-????????/warehouse/harbour/ships/data/load_ships/2
           0130205T000000.000000Z-20130206T000000.000000Z-r1-t0000000001-p0/
next step  look at the rows that are kept; then mend the job, its data or the
           check, and clear the task.

refused by check rows of ships at least 1
  table  ships
  found  0 rows

state log, ????-??-?? UTC
token 1, city_day/scheduled__2013-02-06T00:00:00+00:00 (generation 0, try 1)
  ??:??:??.???  OPEN          (all)  revision 1, input generation 1
  ??:??:??.???  PROCESSED     ships
  ??:??:??.???  WRITTEN       ships
  ??:??:??.???  WRITTEN       (all)
  ??:??:??.???  CHECK_FAILED  (all)  rows of ships at least 1: 0 rows
"""


@pytest.mark.parametrize(
    ("command", "golden"),
    [
        ("status --domain city", STATUS),
        ("cut flights cancelled_flights --domain city", CUT),
        ("explain load_ships 2013-02-05 --domain harbour", EXPLAIN),
    ],
    ids=["status", "cut", "explain"],
)
def test_it_looks_like_this_at_80_columns(command: str, golden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question mark stands for a character that each run makes anew."""
    monkeypatch.setenv("COLUMNS", "80")
    told = typed(*shlex.split(command)).stdout
    alike = [
        "?" if wanted == "?" and found != "\n" else found for wanted, found in zip(golden, told, strict=False)
    ]
    assert "".join(alike) + told[len(golden) :] == golden
