"""``airflow epochs wait`` and ``abort`` as they are typed: exit codes, questions, and what they leave."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.errors import Fenced
from airflow_provider.domain.interval import Cadence
from airflow_provider.domain.topology import Job, Table
from tests.airflow_runs import epochs_connection, typed
from tests.integration.flights import ORIGIN, begun, published


@pytest.fixture(autouse=True)
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EpochService:
    """A store with one committed epoch, which the default connection leads to."""
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    settings = Settings(store_url=f"sqlite:///{tmp_path}/store.db", warehouse=f"file://{tmp_path}/warehouse")
    service = EpochService.open(settings)
    published(service, 0)
    return service


def test_wait_ends_at_once_where_the_barrier_is_reached() -> None:
    """Section 6: exit code 0."""
    done = typed("wait", "flights", "--at", "2013-02-07", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["barrier"] == "2013-02-07T00:00:00+00:00"


def test_wait_has_an_exit_code_of_its_own_for_the_time_out() -> None:
    """R21: 3, with what was missing; a barrier that the table never has, and an unknown table are errors."""
    done = typed("wait", "flights", "--at", "2013-02-08", "--timeout", "1s")
    assert (done.returncode, done.stdout) == (3, "")
    assert "flights: its watermark is 2013-02-07" in done.stderr
    assert typed("wait", "flights", "--at", "2013-02-08T05", "--timeout", "1s").returncode == 1
    assert typed("wait", "flight", "--at", "2013-02-07", "--timeout", "1s").returncode == 1


def test_lag_names_the_epoch_as_its_job_counts_days(service: EpochService) -> None:
    """Section 10: a day from midnight to midnight in UTC is no day of a job in another time zone."""
    cadence = Cadence("0 1 * * *", "Europe/Vienna")
    service.register(Job("vienna", outputs=[Table("trams")], cadence=cadence, origin=ORIGIN))
    (holder,) = json.loads(typed("lag", "trams", "-o", "json").stdout)["held_back_by"]
    assert (holder["job"], holder["start"]) == ("vienna", ORIGIN.isoformat())
    told = typed(*shlex.split(holder["next_step"])[2:], "-o", "json")
    assert (told.returncode, told.stderr) == (0, "")
    assert json.loads(told.stdout)["start"] == ORIGIN.isoformat()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("\n", 1), ("y\n", 0)])
def test_abort_asks_before_it_ends_an_attempt(
    service: EpochService, answer: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R10: anything but yes changes nothing."""
    attempt = begun(service, 1)
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    done = typed("abort", "clean", "2013-02-07", "--reason", "stuck")
    assert done.returncode == code, done
    assert str(attempt.owner) in done.stderr
    if code:
        service.heartbeat(attempt)
        return
    with pytest.raises(Fenced, match="stuck"):
        service.heartbeat(attempt)


def test_abort_is_refused_where_no_user_can_be_asked(service: EpochService) -> None:
    """R10: a script says --yes."""
    attempt = begun(service, 1)
    assert typed("abort", "clean", "2013-02-07", "--reason", "stuck").returncode == 1
    service.heartbeat(attempt)
    done = typed("abort", "clean", "2013-02-07", "--reason", "stuck", "--yes", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["token"] == attempt.token
    again = typed("abort", "clean", "2013-02-07", "--reason", "stuck", "--yes")
    assert again.returncode == 1
    assert "has ended: stuck" in again.stderr


def test_a_lease_releases_some_tables_and_ends_with_the_last(service: EpochService) -> None:
    """R23: only those that it holds, and only for its owner."""
    service.leases.cut("default", ["flights"], name="held", owner="me")
    for words in ("held nix --owner me", "held flights --owner you", "other flights --owner me"):
        assert typed("lease", "release", *words.split()).returncode == 1
    assert service.leases.find("default", "held") is not None
    done = typed("lease", "release", "held", "flights", "--owner", "me")
    assert (done.returncode, "it has ended" in done.stdout) == (0, True)
    assert service.leases.find("default", "held") is None
