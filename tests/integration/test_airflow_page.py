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
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.coordination.upkeep.dags import dags_of_jobs
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.grid import grid
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import UnknownName
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.plugins import grid as grid_package
from airflow_provider.plugins.access import DagAccess
from airflow_provider.plugins.epochs_plugin import EpochsPlugin
from airflow_provider.plugins.grid.answers import domains_answer, epoch_answer, grid_answer
from airflow_provider.plugins.grid.app import create_app as create_page
from airflow_provider.plugins.grid.app import router
from airflow_provider.plugins.recent import PageBusy, Recent
from airflow_provider.testing.arrow_attempts import write_rows
from tests.airflow_runs import epochs_connection
from tests.airflow_server import api_server
from tests.restated_rides import DECISIONS, QUESTIONS

DAY = Interval(datetime(2013, 2, 7, tzinfo=UTC), datetime(2013, 2, 8, tzinfo=UTC))
ORIGIN = DAY.start
MINE = Job("mine", outputs=[Table("my_table")], cadence="@daily", origin=ORIGIN)
THEIRS = Job("theirs", outputs=[Table("their_table")], cadence="@daily", origin=ORIGIN)
IDLE = Job("idle", outputs=[Table("idle_table")], cadence="@daily", origin=ORIGIN)
RAIL = Job("rail", outputs=[Table("trains", domain="rail")], cadence="@daily", origin=ORIGIN)
EPOCH = {"job": "mine", "start": DAY.start.isoformat(), "end": DAY.end.isoformat()}
STATIC = Path(grid_package.__file__).parent / "static"
ROUTES: dict[str, dict[str, str]] = {
    **{f"/static/{path.name}": {} for path in STATIC.glob("*.js")},
    "/api/connections": {},
    "/api/domains": {},
    "/api/grid": {},
    "/api/epoch": EPOCH,
}
"""Every route that reads, with the query of a question that has an answer; but for those on restatements."""


@pytest.fixture(scope="module")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store in which two DAGs worked on a job each, and nobody on a third."""
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


# --- who gets in ---------------------------------------------------------------------------------------------


def test_the_matrix_has_every_route() -> None:
    routes = {route.path for route in router.routes if isinstance(route, APIRoute)}
    assert routes == {*ROUTES, *QUESTIONS, *DECISIONS}
    assert {route.path for route in create_page().routes} == routes
    assert {one.path: one.methods for one in router.routes if isinstance(one, APIRoute)} == {
        **{path: {"GET"} for path in (*ROUTES, *QUESTIONS)},
        **{path: {"POST"} for path in DECISIONS},
    }


@pytest.mark.parametrize("path", sorted(ROUTES))
@pytest.mark.parametrize(
    ("role", "status"),
    [(None, 401), ("forged", 403), ("viewer", 200), ("user", 200), ("op", 200), ("admin", 200)],
)
def test_every_route_needs_a_signed_in_user(
    client: TestClient, path: str, role: str | None, status: int
) -> None:
    headers = {None: {}, "forged": {"Authorization": "Bearer e30.e30.e30"}}.get(role)
    answer = client.get(
        f"/epochs{path}", params=ROUTES[path], headers=token(str(role)) if headers is None else headers
    )
    assert answer.status_code == status
    if status != 200:
        assert "table" not in answer.text


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
@pytest.mark.parametrize("path", sorted(ROUTES))
def test_nothing_is_changed_by_what_reads(client: TestClient, path: str, method: str) -> None:
    assert getattr(client, method)(f"/epochs{path}", headers=token("admin")).status_code == 405


@pytest.mark.parametrize(
    "path", ["/docs", "/redoc", "/openapi.json", "/static/", "/static/../app.py", "/static/%2e%2e/app.py"]
)
def test_there_is_nothing_else(client: TestClient, path: str) -> None:
    assert client.get(f"/epochs{path}", headers=token("admin")).status_code in (404, 405)


# --- who sees what -------------------------------------------------------------------------------------------


def access(*dags: str | None) -> Any:
    """Somebody who may read *dags*; None among them stands for all."""
    return SimpleNamespace(may_read=lambda dag_id: dag_id in dags or None in dags)


def shown(service: EpochService, *dags: str | None) -> dict[str, set[str]]:
    answer = grid_answer(grid(service.store, "default", end=DAY.end), access(*dags))
    return {row["table"]: {cell["state"] for cell in row["cells"]} for row in answer["rows"]}


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
        found = grid(service.store, "default")
    (row,) = grid_answer(found, access(None))["rows"]
    assert [(one["state"], one["committed"]["rows"]) for one in row["cells"]] == [
        ("COMMIT", 1),
        ("COMMIT", 1),
    ]
    assert row["cells"][0]["owner"] is None
    (row,) = grid_answer(found, access("dag_successor"))["rows"]
    assert [one["state"] for one in row["cells"]] == ["", "COMMIT"]
    assert set(row["cells"][0]) == {"start", "end", "state"}


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
    hidden = grid_answer(grid(service.store, DomainName("rail")), access("dag_mine"))
    absent = grid_answer(grid(service.store, DomainName("nowhere")), access("dag_mine"))
    told = {"domain", "now", "start", "end"}
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
    table = grid_answer(grid(service.store, "default", end=day.end), access("dag_mine"))
    assert "secret" not in json.dumps(table)


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
    assert [one.status_code for one in answers.values()] == [400, 400]
    assert "hidden.db" in answers["op"].text
    assert "hidden.db" not in answers["viewer"].text


# --- the plugin ----------------------------------------------------------------------------------------------


def test_airflows_ui_is_told_of_the_page(client: TestClient) -> None:
    answer = client.get("/api/v2/plugins", headers=token("viewer")).json()
    (plugin,) = [one for one in answer["plugins"] if one["name"] == EpochsPlugin.name]
    (page,) = plugin["react_apps"]
    assert (page["destination"], page["url_route"]) == ("nav", "epochs")
    script = (Path(__file__).parents[2] / "airflow_provider/plugins/grid/static/epochs.js").read_text()
    assert f"globalThis.{page['name']} =" in script
    assert issubclass(EpochsPlugin, AirflowPlugin)
