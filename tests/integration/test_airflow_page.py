"""The page's routes in Airflow's own API server: who gets in, who sees what, what a wrong question is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from secrets import token_hex
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.plugins_manager import AirflowPlugin
from fastapi.testclient import TestClient

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.coordination.upkeep.dags import dags_of_jobs
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.grid import grid
from airflow_provider.coordination.upkeep.grid_frame import frame
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import UnknownName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.plugins.access import DagAccess
from airflow_provider.plugins.epochs_plugin import EpochsPlugin
from airflow_provider.plugins.grid.answers import domains_answer, grid_answer, is_visible
from airflow_provider.plugins.grid.epoch_answers import epoch_answer
from airflow_provider.plugins.recent import PageBusy, Recent
from airflow_provider.testing.arrow_attempts import write_rows
from tests.airflow_runs import epochs_connection
from tests.airflow_server import api_server

DAY = Interval(datetime(2013, 2, 7, tzinfo=UTC), datetime(2013, 2, 8, tzinfo=UTC))
ORIGIN = DAY.start
MINE = Job("mine", outputs=[Table("my_table")], cadence="@daily", origin=ORIGIN)
THEIRS = Job("theirs", outputs=[Table("their_table")], cadence="@daily", origin=ORIGIN)
IDLE = Job("idle", outputs=[Table("idle_table")], cadence="@daily", origin=ORIGIN)
RAIL = Job("rail", outputs=[Table("trains", domain="rail")], cadence="@daily", origin=ORIGIN)
EPOCH = {"job": "mine", "start": DAY.start.isoformat(), "end": DAY.end.isoformat()}
ROUTES = {"/api/domains": {}, "/api/grid": {}, "/api/epoch": EPOCH}


@pytest.fixture(scope="module")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store in which three DAGs worked on a job each, and no DAG on a fourth."""
    home = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(home))
        patch.setenv("AIRFLOW_CONN_EPOCHS_SECRET", epochs_connection(home))
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", token_hex(64))
        with EpochsHook().get_conn() as service:
            for job in (MINE, THEIRS, RAIL):
                attempt = service.begin(job, DAY, Owner(dag_id=f"dag_{job.name}", run_id="run"))
                assert isinstance(attempt, Attempt)
                service.abort(attempt, "SparkException: it failed")
            service.register(IDLE)
        yield home


@pytest.fixture
def service(_home: Path) -> Iterator[EpochService]:
    with EpochsHook().get_conn() as opened:
        yield opened


@pytest.fixture(scope="module")
def client(_home: Path) -> Iterator[TestClient]:
    with api_server() as opened:
        yield opened


def token(role: str) -> dict[str, str]:
    jwt = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=role, role=role))
    return {"Authorization": f"Bearer {jwt}"}


# --- what is there -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/docs", "/redoc", "/openapi.json", "/static/", "/static/../app.py", "/static/%2e%2e/app.py"]
)
def test_there_is_nothing_else(client: TestClient, path: str) -> None:
    assert client.get(f"/epochs{path}", headers=token("admin")).status_code in (404, 405)


# --- who sees what -------------------------------------------------------------------------------------------


def access(*dags: str | None) -> Any:
    """A user who may read *dags*; None among them stands for all."""
    return SimpleNamespace(may_read=lambda dag_id: dag_id in dags or None in dags)


def rows(service: EpochService, *dags: str | None, domain: str = "default") -> list[dict[str, Any]]:
    """The rows that a user who may read *dags* sees."""
    seen = frame(service.store, domain).where(lambda row: is_visible(row, access(*dags)))
    names = [row.table for row in seen.rows]
    found = grid(service.store, domain, tables=names) if names else None
    return grid_answer(found, {}, access(*dags))["rows"] if found else []


def shown(service: EpochService, *dags: str | None) -> dict[str, set[str]]:
    return {row["table"]: {cell["state"] for cell in row["cells"]} for row in rows(service, *dags)}


def test_table_is_shown_only_with_access_to_its_dag(service: EpochService) -> None:
    assert shown(service, None) == {"my_table": {"ABORTED"}, "their_table": {"ABORTED"}, "idle_table": {""}}
    assert shown(service, "dag_mine") == {"my_table": {"ABORTED"}}
    assert shown(service) == {}


def test_epochs_of_an_earlier_job_are_shown_only_with_access_to_all_dags(tmp_path: Path) -> None:
    before, successor = (
        Job(name, outputs=[Table("inherited")], cadence="@daily", origin=ORIGIN)
        for name in ("before", "successor")
    )
    with EpochService.open(Settings.local(tmp_path)) as service:
        publish(service, before, DAY)
        service.retire("default", "before", reason="renamed", by="ada")
        publish(service, successor, Interval(DAY.end, DAY.end + timedelta(days=1)))
        (row,), (own,) = rows(service, None), rows(service, "dag_successor")
    assert [(cell["state"], cell["committed"]["rows"]) for cell in row["cells"]] == [
        ("COMMIT", 1),
        ("COMMIT", 1),
    ]
    assert row["cells"][0]["owner"] is None
    assert [cell["state"] for cell in own["cells"]] == ["", "COMMIT"]
    assert set(own["cells"][0]) == {"start", "end", "state"}


def publish(service: EpochService, job: Job, interval: Interval) -> None:
    attempt = service.begin(job, interval, Owner(dag_id=f"dag_{job.name}", run_id="run"))
    assert isinstance(attempt, Attempt)
    write_rows(service, attempt, job.outputs[0].name, pa.table({"value": [1]}))
    service.complete(attempt)
    service.publish(attempt)


def test_domain_is_named_only_with_access_to_one_of_its_dags(service: EpochService) -> None:
    known = {name: dags_of_jobs(service.store, name).values() for name in service.store.domains()}
    dags = {name: partial(list, found) for name, found in known.items()}
    assert domains_answer(dags, access(None)) == ["default", "rail"]
    assert domains_answer(dags, access("dag_mine")) == ["default"]
    assert domains_answer(dags, access("dag_rail")) == ["rail"]
    assert domains_answer(dags, access()) == []


def test_hidden_domain_and_an_absent_one_are_told_alike(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DagAccess, "may_read", lambda _self, dag_id: dag_id == "dag_mine")
    hidden, absent = (get(client, "grid", domain=name).json() for name in ("rail", "nowhere"))
    assert hidden["rows"] == []
    told = {"domain", "now", "start", "end", "from", "to"}
    assert {name: hidden[name] for name in hidden.keys() - told} == {
        name: absent[name] for name in absent.keys() - told
    }
    assert (hidden["end"], absent["end"]) == (hidden["now"], absent["now"])


def test_epoch_is_unknown_without_access_to_its_dag(service: EpochService) -> None:
    found = explain(service.store, "default", "mine", DAY)
    answer = epoch_answer(found, access("dag_mine"))
    assert answer["summary"] == "aborted: SparkException: it failed"
    assert [entry["state"] for entry in answer["log"]] == ["OPEN", "ABORTED"]
    with pytest.raises(UnknownName) as caught:
        epoch_answer(found, access("dag_theirs"))
    assert "dag_mine" not in str(caught.value)


def test_a_job_that_is_not_there_and_one_of_another_dag_are_told_alike(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = get(client, "epoch", **{**EPOCH, "job": "nobody"})
    monkeypatch.setattr(DagAccess, "may_read", lambda _self, _dag_id: False)
    hidden = get(client, "epoch", **EPOCH)
    assert (absent.status_code, hidden.status_code) == (404, 404)
    assert absent.text.replace("nobody", "mine") == hidden.text
    assert get(client, "domains").json() == {"domains": []}


def test_attempts_of_an_unreadable_dag_are_left_out(service: EpochService) -> None:
    day = Interval(DAY.end, DAY.end + timedelta(days=1))
    for dag in ("dag_mine", "dag_secret"):
        attempt = service.begin(MINE, day, Owner(dag_id=dag, run_id="run"))
        assert isinstance(attempt, Attempt)
        service.abort(attempt, f"{dag} failed")
    answer = epoch_answer(explain(service.store, "default", "mine", day), access("dag_mine"))
    assert "secret" not in json.dumps(answer)
    assert "secret" not in json.dumps(rows(service, "dag_mine"))
    (row,) = rows(service, "dag_secret")
    assert [cell["state"] for cell in row["cells"]] == ["", "ABORTED"]


# --- questions and answers -----------------------------------------------------------------------------------


def get(client: TestClient, path: str, **query: str) -> Any:
    return client.get(f"/epochs/api/{path}", params=query, headers=token("viewer"))


def test_the_grid_and_an_epoch(client: TestClient) -> None:
    answer = get(client, "grid", end="2013-02-08", hours="24").json()
    assert {row["table"]: [cell["state"] for cell in row["cells"]] for row in answer["rows"]} == {
        "my_table": ["ABORTED"],
        "their_table": ["ABORTED"],
        "idle_table": [""],
    }
    epoch = get(client, "epoch", **EPOCH).json()
    assert (epoch["state"], epoch["log"][0]["owner"]["dag_id"]) == ("ABORTED", "dag_mine")
    assert get(client, "domains").json() == {"domains": ["default", "rail"]}
    assert get(client, "connections").json() == {"connections": ["epochs_default"]}
    script = client.get("/epochs/static/epochs.js", headers=token("viewer"))
    assert script.headers["content-type"].startswith("text/javascript")


def test_an_answer_that_is_there_already_is_not_sent_again(client: TestClient) -> None:
    query = {"end": "2013-02-08", "hours": "23"}
    first = get(client, "grid", **query).json()
    assert get(client, "grid", **query, since=first["tag"]).json() == {"unchanged": True, "tag": first["tag"]}
    assert get(client, "grid", **query).json() == first
    other = get(client, "grid", **query, words="MY", since=first["tag"]).json()
    assert [row["table"] for row in other["rows"]] == ["my_table"]


def test_grid_is_answered_by_windows_of_tables_and_times(client: TestClient) -> None:
    whole = get(client, "grid", hours="72", end="2013-02-10").json()
    names = [row["table"] for row in whole["rows"]]
    assert (names, whole["total"], whole["tables"]) == (["idle_table", "my_table", "their_table"], 3, 3)
    assert (whole["start"], whole["end"]) == (DAY.start.isoformat(), "2013-02-10T00:00:00+00:00")
    assert (whole["from"], whole["to"], whole["shortest_s"]) == (whole["start"], whole["end"], 86_400)
    query = {"hours": "72", "end": "2013-02-10", "offset": "1", "limit": "1"}
    part = get(client, "grid", **query, **{"from": "2013-02-08", "to": "2013-02-09"}).json()
    assert ([row["table"] for row in part["rows"]], part["offset"], part["total"]) == (["my_table"], 1, 3)
    assert [cell["start"][:10] for cell in part["rows"][0]["cells"]] == ["2013-02-08"]
    assert (part["start"], part["end"]) == (whole["start"], whole["end"]), "the axis stays"
    latest = get(client, "grid", **query, cells="1").json()
    assert [cell["start"][:10] for cell in latest["rows"][0]["cells"]] == ["2013-02-09"]
    named = get(client, "grid", words="their", hours="72").json()
    assert ([row["table"] for row in named["rows"]], named["total"], named["tables"]) == (
        ["their_table"],
        1,
        3,
    )
    beyond = get(client, "grid", offset="3").json()
    assert (beyond["rows"], beyond["total"]) == ([], 3)


def test_the_page_works_on_few_questions_at_once() -> None:
    """A question that is answered at the same head is not worked on again; a further one is told to wait."""
    recent, worked = Recent(at_once=1, timeout_s=0.05), list[int]()

    def work() -> str:
        worked.append(1)
        with pytest.raises(PageBusy):
            recent.answer("another", 7, lambda: "")
        return "answer"

    first = recent.answer("question", 7, work)
    assert recent.answer("question", 7, work) is first
    assert len(worked) == 1
    assert recent.answer("question", 8, work).tag != first.tag


@pytest.mark.parametrize(
    ("path", "query", "status", "word"),
    [
        ("grid", {"conn_id": "epochs_secret"}, 404, "epochs_secret"),
        ("grid", {"conn_id": "sqlite:////etc/passwd"}, 404, "not shown"),
        ("grid", {"end": "soon"}, 400, "end"),
        ("grid", {"end": "0001-01-01"}, 400, "UTC"),
        ("grid", {"hours": "0"}, 422, "hours"),
        ("grid", {"hours": "1e9"}, 422, "hours"),
        ("grid", {"words": "x" * 300}, 422, "255"),
        ("grid", {"limit": "101"}, 422, "100"),
        ("grid", {"offset": "-1"}, 422, "offset"),
        ("grid", {"cells": "0"}, 422, "cells"),
        ("grid", {"from": "2013-02-08", "to": "2013-02-07"}, 400, "to"),
        ("grid", {"from": "early"}, 400, "from"),
        ("grid", {"domain": "../x"}, 400, "domain"),
        ("grid", {"domain": "a\x00b"}, 400, "domain"),
        ("grid", {"domain": "x" * 300}, 422, "255"),
        ("epoch", {**EPOCH, "job": "nobody"}, 404, "nobody"),
        ("epoch", {**EPOCH, "start": EPOCH["end"]}, 400, "interval"),
        ("epoch", {**EPOCH, "start": "x"}, 400, "at"),
        ("epoch", {"job": "mine"}, 422, "start"),
    ],
)
def test_invalid_query_is_answered_with_its_error(
    client: TestClient, path: str, query: dict[str, str], status: int, word: str
) -> None:
    answer = get(client, path, **query)
    assert answer.status_code == status
    assert word in answer.text


def test_an_unknown_domain_is_empty(client: TestClient) -> None:
    assert get(client, "grid", domain="elsewhere").json()["rows"] == []


@pytest.mark.parametrize(
    ("role", "told"), [("admin", True), ("op", True), ("user", False), ("viewer", False)]
)
def test_place_of_an_unreadable_store_is_shown_only_with_access_to_its_connection(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, role: str, told: bool
) -> None:
    (tmp_path / "store.db").write_bytes(b"this is no database, and not by accident" * 100)
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    for path in ("grid", "domains", "epoch"):
        answer = client.get(f"/epochs/api/{path}", params=ROUTES[f"/api/{path}"], headers=token(role))
        assert (answer.status_code, answer.json()["error"]) == (500, "StoreIncompatible")
        assert answer.json()["next_step"]
        assert (str(tmp_path) in answer.text) is told


def test_fields_of_an_invalid_connection_are_shown_only_with_access_to_it(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"conn_type": "epochs", "host": "hidden.db", "extra": {"warehouse": "file:///w"}}
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", json.dumps(wrong))
    answers = {role: client.get("/epochs/api/grid", headers=token(role)) for role in ("op", "viewer")}
    assert [answer.status_code for answer in answers.values()] == [400, 400]
    assert "hidden.db" in answers["op"].text
    assert "hidden.db" not in answers["viewer"].text


# --- the plugin ----------------------------------------------------------------------------------------------


def test_airflows_ui_is_told_of_the_page(client: TestClient) -> None:
    answer = client.get("/api/v2/plugins", headers=token("viewer")).json()
    (plugin,) = [known for known in answer["plugins"] if known["name"] == EpochsPlugin.name]
    (page,) = plugin["react_apps"]
    assert (page["destination"], page["url_route"]) == ("nav", "epochs")
    script = (Path(__file__).parents[2] / "airflow_provider/plugins/grid/static/epochs.js").read_text()
    assert f"globalThis.{page['name']} =" in script
    assert issubclass(EpochsPlugin, AirflowPlugin)
