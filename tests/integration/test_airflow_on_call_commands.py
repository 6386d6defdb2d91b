"""``airflow epochs wait`` as it is typed: exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider.coordination.service import EpochService, Settings
from tests.airflow_runs import epochs_connection, typed
from tests.integration.flights import published


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
