"""``airflow epochs doctor``, ``changes`` and ``db restored`` as they are typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.service import EpochService, Settings
from tests.airflow_runs import Done, epochs_connection, typed
from tests.integration.flights import JOB, begun, published

Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def service(tmp_path: Path) -> Any:
    settings = Settings(store_url=f"sqlite:///{tmp_path}/store.db", warehouse=f"file://{tmp_path}/warehouse")
    with EpochService.open(settings) as service:
        published(service, 0)
        yield service


@pytest.fixture
def epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    return typed


def test_each_finding_of_doctor_names_a_command(service: EpochService, epochs: Run) -> None:
    """R17: exit code 0 while no user has to act, 1 when a user has to; each finding names a command."""
    code, printed, _ = epochs("doctor")
    assert code == 0
    assert "all is as it should be" in printed
    service.abort(begun(service, 1), "SparkException: it failed")
    code, printed, failed = epochs("doctor", "-o", "json")
    assert code == 1
    assert "1 of 1 findings" in failed
    (found,) = json.loads(printed)["symptoms"]
    assert (found["urgent"], "SparkException" in found["found"]) == (True, True)
    command = found["next_step"].split("`")[1].split()
    assert command[:3] == ["airflow", "epochs", "explain"]
    code, printed, failed = epochs(*command[2:])
    assert code == 0, failed
    assert "SparkException" in printed


def test_commands_of_doctor_lead_to_the_store_that_it_has_looked_at(
    service: EpochService, epochs: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R17: also where that is not the store of the default connection."""
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", epochs_connection(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path / "elsewhere"))
    service.abort(begun(service, 1), "SparkException: it failed")
    (found,) = json.loads(epochs("doctor", "--conn-id", "other", "-o", "json")[1])["symptoms"]
    code, printed, failed = epochs(*found["next_step"].split("`")[1].split()[2:])
    assert (code, "SparkException" in printed) == (0, True), failed


def test_changes_are_printed_once_with_a_kept_position(epochs: Run) -> None:
    """R35: one line of JSON a table; behind its position there is nothing; a position that is none is named."""
    code, printed, _ = epochs("changes")
    (line,) = (json.loads(text) for text in printed.splitlines())
    assert (code, line["csn"], line["table"], line["rows"]) == (0, 1, "flights", 2)
    assert epochs("changes", "--after", line["position"])[:2] == (0, "")
    code, _, failed = epochs("changes", "--after", "yesterday")
    assert code == 1
    assert "position" in failed


def test_a_restored_store_gets_another_incarnation(service: EpochService, epochs: Run) -> None:
    """R33: said once, what was begun before is over; a position of before is refused."""
    before = json.loads(epochs("changes")[1])
    code, printed, failed = epochs("db", "restored", "-o", "json")
    assert code == 0, failed
    said = json.loads(printed)
    assert said["ahead"] == []
    assert said["incarnation"] not in ("", before["incarnation"])
    assert service.store.read(JOB.domain, []).head.incarnation == said["incarnation"]
    code, _, failed = epochs("changes", "--after", before["position"])
    assert code == 1
    assert "restored" in failed
