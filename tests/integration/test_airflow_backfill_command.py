"""``airflow epochs backfill``: the runs that it starts, and what it refuses before anything is opened."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG

from airflow_provider.cli import airflow_dags
from airflow_provider.cli.airflow_dags import ScheduledDag
from airflow_provider.cli.program import parser
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.testing.arrow_attempts import write_rows
from tests.airflow_runs import airflow_database, epochs_connection, typed
from tests.airflow_versions import CronDataIntervalTimetable, DagSerialization, partitioned, since
from tests.integration.flights import JOB, ORIGIN, published

FIRST = datetime(2024, 1, 1, tzinfo=UTC)
DAILY, HOURLY = Cadence("@daily"), Cadence("@hourly")
WORDS = ("flights", "--interval", "2013-02-06", "--reason", "wrong hours")


def may(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2024, 5, day, hour, minute, tzinfo=UTC)


def scheduled(schedule: Any) -> ScheduledDag:
    """The DAG as Airflow's scheduler has it, which reads what the DAG processor has serialized."""
    dag = DAG("load", schedule=schedule, start_date=FIRST)
    return ScheduledDag("load", DagSerialization.from_dict(DagSerialization.to_dict(dag)))


@pytest.mark.parametrize(
    ("schedule", "first", "last"),
    [
        ("@daily", may(2), may(4)),
        ("30 5 * * *", may(2, 5, 30), may(4, 5, 30)),
        ("0 0 * * 0", may(5), may(5)),
        (CronDataIntervalTimetable("@daily", timezone="UTC"), may(1), may(3)),
        pytest.param(partitioned("@daily", timezone="UTC"), may(1), may(3), marks=since(3, 2)),
    ],
    ids=["date", "date-within-the-day", "weekly-batch", "data-interval", "partition"],
)
def test_the_dates_of_the_runs_that_compute_epochs(schedule: Any, first: datetime, last: datetime) -> None:
    """A run computes what has ended by its date, its data interval, or what its partition's key names."""
    dag = scheduled(schedule)
    assert dag.dates(DAILY, [Interval(may(day), may(day + 1)) for day in (3, 1)]) == (first, last)
    hours = [Interval(may(day, 5), may(day, 6)) for day in (1, 3)]
    assert dag.dates(HOURLY, hours) == (first, last), "one run computes all hours of its day or week"


def test_epochs_before_the_first_run_and_after_the_last() -> None:
    ended = DAG("load", schedule="@daily", start_date=FIRST, end_date=may(3))
    dag = ScheduledDag("load", DagSerialization.from_dict(DagSerialization.to_dict(ended)))
    with pytest.raises(
        InvalidInput, match=r"has no run, up to now, that computes the epoch which ends at 2999"
    ):
        dag.dates(DAILY, [Interval(datetime(2998, 12, 31, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC))])
    assert not scheduled(None).is_periodic


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store with a committed day, and an Airflow that has parsed no DAG."""
    settings = Settings(store_url=f"sqlite:///{tmp_path}/store.db", warehouse=f"file://{tmp_path}/warehouse")
    with EpochService.open(settings) as service:
        published(service, 0)
    monkeypatch.setattr(airflow_dags, "create_session", airflow_database())
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ((), "no question can be asked: standard input is no terminal"),
        (("--yes",), "Airflow has no DAG 'flights'.* Next step: deploy the DAG, or open a restatement"),
        (("--yes", "--max-active-runs", "0"), "--max-active-runs: '0' .* expected a number from 1 to 1000"),
        (("--yes", "--interval", "2014-01-01"), "interval: '2014-01-01' is not accepted"),
        (("--yes", "--deadline", "soon"), "deadline: 'soon' is not accepted"),
        (("--yes", "--name", "a\nb"), r"restatement: 'a\\nb' is not accepted"),
    ],
)
@pytest.mark.usefixtures("home")
def test_what_is_refused_before_anything_is_opened(more: tuple[str, ...], told: str) -> None:
    done = typed("backfill", *WORDS, *more)
    assert done.returncode == 1
    assert re.search(told, done.stderr), done.stderr
    assert typed("restate", "list").stdout == "no restatements\n"


@pytest.mark.usefixtures("home")
def test_the_name_of_a_restatement_that_has_ended_is_refused() -> None:
    assert typed("restate", "open", *WORDS, "--name", "hours").returncode == 0
    assert typed("restate", "abandon", "hours", "--reason", "no").returncode == 0
    done = typed("backfill", *WORDS, "--name", "hours", "--yes")
    assert done.returncode == 1
    assert re.search("--name: 'hours' .* expected a new name, .*; this one is abandoned", done.stderr), (
        done.stderr
    )


@pytest.mark.usefixtures("home")
def test_an_open_restatement_of_other_epochs_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R28: what it publishes is what was asked for, with the approval that was asked for."""
    settings = Settings(store_url=f"sqlite:///{tmp_path}/store.db", warehouse=f"file://{tmp_path}/warehouse")
    with EpochService.open(settings) as service:
        published(service, 1)
    assert typed("restate", "open", *WORDS, "--name", "hours").returncode == 0
    gone_on = list[Any]()
    monkeypatch.setattr("airflow_provider.cli.backfill._work", lambda *given: gone_on.append(given))
    named = (*WORDS, "--name", "hours", "--yes")
    for more, told in (
        (("--interval", "2013-02-07"), "--name: 'hours' .*computes none of the epochs of clean"),
        (("--needs-approval",), "--needs-approval: .*'hours' was opened without it"),
    ):
        done = typed("backfill", *named, *more)
        assert (done.returncode, gone_on) == (1, [])
        assert re.search(told, done.stderr), done.stderr
    done = typed("backfill", *named, "--interval", "2013-02-06/2013-02-08")
    assert (done.returncode, len(gone_on)) == (0, 1)
    assert "left as they are: clean [2013-02-07T00:00:00" in done.stderr


@pytest.mark.parametrize(
    ("limit", "rows", "told"),
    [
        (2, [3], "flights: 2 rows removed, 1 added"),
        (2, [1, 2], "no rows change"),
        (
            1,
            [3],
            "flights: 2 rows are committed in its time; `airflow epochs restate diff hours --table flights` comp",
        ),
    ],
)
@pytest.mark.usefixtures("home")
def test_rows_are_compared_unasked_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, rows: list[int], told: str
) -> None:
    """A restatement of a large table is published without all of its rows in the command's memory."""
    assert typed("restate", "open", *WORDS, "--name", "hours").returncode == 0
    settings = Settings(store_url=f"sqlite:///{tmp_path}/store.db", warehouse=f"file://{tmp_path}/warehouse")
    with EpochService.open(settings) as service:
        day = Interval(ORIGIN, ORIGIN + timedelta(days=1))
        attempt = service.begin_within("hours", JOB, day, Owner(dag_id="flights", run_id="again"))
        assert isinstance(attempt, Attempt)
        write_rows(service, attempt, "flights", pa.table({"x": rows}))
        service.complete(attempt)
        service.stage(attempt)
    monkeypatch.setattr("airflow_provider.cli.backfill.dags_of", lambda *_: [])
    monkeypatch.setattr("airflow_provider.cli.backfill.MOST_COMPARED", limit)
    done = typed("backfill", *WORDS, "--name", "hours", "--yes")
    assert done.returncode == 0, done.stderr
    assert told in done.stderr, done.stderr
    assert ("no rows change" in done.stderr) == (rows == [1, 2]), done.stderr


@pytest.mark.usefixtures("home")
def test_an_interrupted_command_names_the_one_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shell takes it, with the options and the quotes that it needs."""

    def interrupted(*_given: Any) -> None:
        raise KeyboardInterrupt

    assert typed("restate", "open", *WORDS, "--name", "all 'wrong' hours").returncode == 0
    monkeypatch.setattr("airflow_provider.cli.backfill._work", interrupted)
    words = [*WORDS, "--name", "all 'wrong' hours", "--yes", "--conn-id", "epochs_default"]
    done = typed("backfill", *words)
    assert done.returncode == 130
    goes_on = shlex.split(done.stderr.partition("goes on with them: ")[2])
    assert goes_on[:3] == ["airflow", "epochs", "backfill"]
    parsed = parser().parse_args(goes_on[1:])
    assert (parsed.names, parsed.interval, parsed.name) == (["flights"], "2013-02-06", "all 'wrong' hours")
    assert parsed.conn_id == "epochs_default"
