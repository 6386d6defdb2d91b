"""Decisions on the page about epochs, jobs and leases: what they do, who is named, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from secrets import token_hex
from typing import Any

import pytest
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models import Log
from airflow.utils.session import create_session
from fastapi.testclient import TestClient

from airflow_provider.coordination.commits.declare import registered
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.topology import Job, Table, state
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.plugins.access import DagAccess
from tests.airflow_runs import epochs_connection
from tests.airflow_server import api_server
from tests.restated_rides import Rides, day, owner

_DOMAINS = count(1)
WHY = "the harbour was closed"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path_factory.mktemp("decisions")))
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", token_hex(64))
        with api_server() as opened:
            yield opened


@pytest.fixture
def rides(client: TestClient) -> Iterator[Rides]:  # noqa: ARG001 - the server has the connection
    with EpochsHook().get_conn() as opened:
        made = Rides(opened, f"rides-{next(_DOMAINS)}")
        made.commit(1, 2)
        yield made


def signed_in() -> dict[str, str]:
    jwt = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="ann", role="user"))
    return {"Authorization": f"Bearer {jwt}"}


def epoch(job: str, number: int) -> dict[str, str]:
    return {"job": job, "start": day(number).start.isoformat(), "end": day(number).end.isoformat()}


def get(client: TestClient, rides: Rides, path: str, **query: Any) -> Any:
    asked = {"domain": rides.domain, **query}
    return client.get(f"/epochs/api/{path}", params=asked, headers=signed_in())


def decide(client: TestClient, rides: Rides, path: str, **body: Any) -> Any:
    sent = {"domain": rides.domain, "reason": WHY, **body}
    return client.post(f"/epochs/api/{path}", json=sent, headers=signed_in())


def audited(rides: Rides, event: str) -> list[dict[str, Any]]:
    """What Airflow's audit log has of *event* in the domain, all of it by ann."""
    with create_session() as session:
        entries = session.query(Log).filter(Log.event == event, Log.owner == "ann").all()
        return [json.loads(str(entry.extra)) for entry in entries if rides.domain in (entry.extra or "")]


def test_skip_lets_readers_go_on(client: TestClient, rides: Rides) -> None:
    before = get(client, rides, "epoch", **epoch("load_rides", 3)).json()
    assert (before["state"], before["may_decide"], before["attempts"], before["leases"]) == ("", True, [], [])
    done = decide(client, rides, "epoch/skip", **epoch("load_rides", 3)).json()
    assert done == {"skipped": 1, "left": 0, "unread": [], "late": [], "stalled": []}
    after = get(client, rides, "epoch", **epoch("load_rides", 3)).json()
    assert after["state"] == "SKIPPED"
    assert WHY in after["summary"]
    assert "skip by ann" in json.dumps(after["log"])
    again = decide(client, rides, "epoch/skip", **epoch("load_rides", 3)).json()
    assert (again["skipped"], again["left"]) == (0, 1), "a second time changes nothing"
    assert [entry["reason"] for entry in audited(rides, "epochs_epoch_skip")] == [WHY, WHY]
    names = [row["table"] for row in get(client, rides, "grid").json()["rows"]]
    assert names == ["station_totals", "rides"], "its author is no DAG, and hides no table"


def test_abort_ends_the_attempt_that_was_shown(client: TestClient, rides: Rides) -> None:
    first = rides.service.begin(rides.load, day(3), owner(rides.load))
    newer = rides.service.begin(rides.load, day(3), owner(rides.load, generation=1))
    assert isinstance(first, Attempt)
    assert isinstance(newer, Attempt)
    shown = get(client, rides, "epoch", **epoch("load_rides", 3)).json()
    assert [attempt["token"] for attempt in shown["attempts"]] == [first.token, newer.token]
    assert shown["attempts"][-1]["ended"] is None
    old = decide(client, rides, "epoch/abort", **epoch("load_rides", 3), token=first.token)
    assert (old.status_code, old.json()["error"]) == (409, "Conflict")
    assert f"token {newer.token} is open" in old.json()["message"]
    done = decide(client, rides, "epoch/abort", **epoch("load_rides", 3), token=newer.token).json()
    assert done["ended"] == newer.token
    after = get(client, rides, "epoch", **epoch("load_rides", 3)).json()
    assert (after["state"], f"{WHY} (ann)" in after["summary"]) == ("ABORTED", True)
    over = decide(client, rides, "epoch/abort", **epoch("load_rides", 3), token=newer.token)
    assert (over.status_code, "no attempt at it is open" in over.json()["message"]) == (400, True)
    assert len(audited(rides, "epochs_epoch_abort")) == 3, "those that were refused, too"


def test_retire_ends_the_job(client: TestClient, rides: Rides) -> None:
    assert decide(client, rides, "job/retire", job="load_rides").json() == {"retired": "load_rides"}
    record = registered(rides.service.store, rides.domain, "load_rides")
    assert record.retired == f"{WHY} (ann)"
    shown = get(client, rides, "epoch", **epoch("load_rides", 2)).json()
    assert shown["retired"] == f"{WHY} (ann)"
    assert [entry["job"] for entry in audited(rides, "epochs_job_retire")] == ["load_rides"]


def test_lease_is_shown_with_the_epoch_and_released(
    client: TestClient, rides: Rides, monkeypatch: pytest.MonkeyPatch
) -> None:
    rides.service.leases.cut(rides.domain, ["rides"], name="report", owner="reports/run 7", at=day(1).end)
    (lease,) = get(client, rides, "epoch", **epoch("load_rides", 1)).json()["leases"]
    assert (lease["name"], lease["owner"], lease["may_release"]) == ("report", "reports/run 7", True)
    assert lease["barrier"] == day(1).end.isoformat()
    assert get(client, rides, "epoch", **epoch("load_rides", 2)).json()["leases"] == []
    with monkeypatch.context() as patch:
        patch.setattr(DagAccess, "may_read", lambda _self, dag_id: dag_id == "load_rides")
        (hidden,) = get(client, rides, "epoch", **epoch("load_rides", 1)).json()["leases"]
        assert (hidden["name"], hidden["owner"], hidden["may_release"]) == ("", "", False)
        absent = decide(client, rides, "lease/release", name="nothing")
        refused = decide(client, rides, "lease/release", name="report")
        assert (absent.status_code, refused.status_code) == (404, 404)
        assert refused.text == absent.text.replace("nothing", "report")
    monkeypatch.setattr(DagAccess, "may_change_runs", lambda _self, dag_id: dag_id == "load_rides")
    refused = decide(client, rides, "lease/release", name="report")
    assert (refused.status_code, "'reports'" in refused.json()["message"]) == (403, True)
    monkeypatch.undo()
    assert decide(client, rides, "lease/release", name="report").json() == {"released": "report"}
    assert rides.service.leases.find(rides.domain, "report") is None


def test_later_readers_are_computed_within_a_revert(
    client: TestClient, rides: Rides, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who decide see them beforehand, and may change runs of their DAGs; an answer says how many are awaited."""
    totals = state(Table("station_totals", domain=rides.domain, kind="full"))
    report = Table("report", domain=rides.domain)
    tell = Job("tell", inputs=[totals], outputs=[report], cadence="@daily", origin=day(3).start)
    rides.open("mend", 2)
    rides.stage("mend", 2)
    rides.service.restatements.publish(rides.domain, "mend")

    def planned() -> dict[str, Any]:
        return dict(get(client, rides, "restatement/revert/plan", name="mend").json())

    assert (planned()["epochs"], planned()["readers"], planned()["members"]) == (2, 0, [])
    rides.commit(3)
    rides.commit_one(tell, 3)
    found = planned()
    assert {span["job"]: span["epochs"] for span in found["members"]} == {"count_rides": 1, "tell": 1}
    assert (found["readers"], found["jobs_hidden"], found["may_decide"]) == (2, 0, True)
    refused = decide(client, rides, "restatement/revert", name="mend")
    assert (refused.status_code, refused.json()["error"]) == (409, "DependentReaders")

    monkeypatch.setattr(DagAccess, "may_change_runs", lambda _self, dag_id: dag_id not in (None, "tell"))
    assert planned()["needs"] == ["tell"]
    monkeypatch.setattr(DagAccess, "may_read", lambda _self, dag_id: dag_id not in (None, "tell"))
    found = planned()
    assert [span["job"] for span in found["members"]] == ["count_rides"]
    assert (found["jobs_hidden"], found["may_decide"], found["needs"]) == (1, False, [])
    refused = decide(client, rides, "restatement/revert", name="mend", with_readers=True)
    assert (refused.status_code, refused.json()["error"]) == (403, "NotAllowed")
    assert "tell" not in refused.text
    monkeypatch.undo()

    opened = decide(client, rides, "restatement/revert", name="mend", with_readers=True)
    assert (opened.status_code, opened.json()) == (200, {"opened": "mend-reverted", "epochs": 2})
    for job in (rides.count, tell):
        rides.stage_one("mend-reverted", job, 3)
    done = decide(client, rides, "restatement/revert", name="mend", with_readers=True).json()
    assert done["within"] == "mend-reverted"
    shown = get(client, rides, "restatement", name="mend").json()["reverted_by"]
    assert shown == {"name": "mend-reverted", "state": "published"}
    listed = get(client, rides, "restatements").json()["restatements"]
    assert {entry["name"]: entry["taken_back"] for entry in listed} == {"mend": True, "mend-reverted": False}


def test_lease_that_a_revert_needs_is_kept(client: TestClient, rides: Rides) -> None:
    rides.open("mend", 2)
    rides.stage("mend", 2)
    rides.service.restatements.publish(rides.domain, "mend")
    (lease,) = get(client, rides, "epoch", **epoch("load_rides", 1)).json()["leases"]
    assert (lease["owner"], lease["may_release"]) == ("restatement mend", False)
    refused = decide(client, rides, "lease/release", name=lease["name"])
    assert (refused.status_code, "its revert needs them" in refused.json()["message"]) == (400, True)
    assert rides.service.leases.find(rides.domain, lease["name"]) is not None


def test_staged_attempt_is_told_as_such(client: TestClient, rides: Rides) -> None:
    rides.open("mend", 2)
    rides.stage("mend", 2)
    shown = get(client, rides, "epoch", **epoch("load_rides", 2)).json()
    assert [attempt["staged"] for attempt in shown["attempts"]] == [False, True]


def test_restatement_is_planned_and_opened(client: TestClient, rides: Rides) -> None:
    span = f"{day(1).start.isoformat()}/{day(1).end.isoformat()}"
    plan = get(client, rides, "restatement/plan", job="load_rides", interval=span).json()
    assert (plan["epochs"], plan["jobs"], plan["obstacles"], plan["may_decide"]) == (3, 2, [], True)
    assert {(member["job"], member["epochs"]) for member in plan["members"]} == {
        ("load_rides", 1),
        ("count_rides", 2),
    }
    body = {"job": "load_rides", "interval": span, "name": plan["name"], "needs_approval": True}
    opened = decide(client, rides, "restatement/open", **body).json()
    assert (opened["opened"], opened["epochs"]) == (plan["name"], 3)
    record = rides.service.restatements.status(rides.domain, plan["name"]).record
    assert (record.by, record.reason, record.needs_approval) == ("ann", WHY, True)
    assert decide(client, rides, "restatement/open", **body).json() == opened, "a repetition finds it"
    other = get(client, rides, "restatement/plan", job="load_rides", interval=span).json()
    assert other["name"] != plan["name"]
    assert plan["name"] in " ".join(other["obstacles"])
    refused = decide(client, rides, "restatement/open", **(body | {"name": other["name"]}))
    assert (refused.status_code, refused.json()["error"]) == (409, "TopologyError")
    assert [entry["name"] for entry in audited(rides, "epochs_restatement_open")][:1] == [plan["name"]]


def test_restatement_is_opened_by_users_who_may_change_all_its_dags(
    client: TestClient, rides: Rides, monkeypatch: pytest.MonkeyPatch
) -> None:
    span = f"{day(1).start.isoformat()}/{day(1).end.isoformat()}"
    asked = {"job": "load_rides", "interval": span}
    monkeypatch.setattr(DagAccess, "may_change_runs", lambda _self, dag_id: dag_id == "load_rides")
    plan = get(client, rides, "restatement/plan", **asked).json()
    assert (plan["may_decide"], plan["needs"]) == (False, ["count_rides"])
    monkeypatch.setattr(DagAccess, "may_read", lambda _self, dag_id: dag_id == "load_rides")
    hidden = get(client, rides, "restatement/plan", **asked).json()
    assert (hidden["needs"], hidden["jobs_hidden"], hidden["epochs"]) == ([], 1, 3)
    refused = decide(client, rides, "restatement/open", **asked, name="mine")
    assert refused.status_code == 403
    assert "count_rides" not in json.dumps([hidden, refused.json()])
    assert rides.service.restatements.all(rides.domain) == []


def test_job_that_no_dag_has_worked_on_needs_the_permission_on_all_dags(
    client: TestClient, rides: Rides, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = Rides(rides.service, f"{rides.domain}-fresh")
    rides.service.register(fresh.load)
    monkeypatch.setattr(DagAccess, "may_change_runs", lambda _self, dag_id: dag_id is not None)
    refused = decide(client, fresh, "job/retire", job="load_rides")
    assert (refused.status_code, "all DAGs" in refused.json()["message"]) == (403, True)
    monkeypatch.undo()
    assert decide(client, fresh, "job/retire", job="load_rides").status_code == 200


def test_drawer_has_inputs_slices_and_attempts(client: TestClient, rides: Rides) -> None:
    shown = get(client, rides, "epoch", **epoch("count_rides", 2)).json()
    assert [(read["table"], read["to"], read["csn"]) for read in shown["inputs"]] == [
        ("rides", day(2).end.isoformat(), 3)
    ]
    assert [(written["table"], written["rows"], written["files"]) for written in shown["slices"]] == [
        ("station_totals", 1, 1)
    ]
    assert [attempt["state"] for attempt in shown["attempts"]] == ["COMMIT"]


def test_topology_is_drawn_from_left_to_right(
    client: TestClient, rides: Rides, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = get(client, rides, "topology").json()
    columns = {node["name"]: node["column"] for node in found["nodes"]}
    assert columns == {"load_rides": 0, "rides": 1, "count_rides": 2, "station_totals": 3}
    names = {node["id"]: node["name"] for node in found["nodes"]}
    assert [(names[arrow["start"]], names[arrow["end"]]) for arrow in found["arrows"]] == [
        ("rides", "count_rides"),
        ("count_rides", "station_totals"),
        ("load_rides", "rides"),
    ]
    assert get(client, rides, "topology", since=found["tag"]).json() == {
        "unchanged": True,
        "tag": found["tag"],
    }
    monkeypatch.setattr(DagAccess, "may_read", lambda _self, dag_id: dag_id == "count_rides")
    part = get(client, rides, "topology").json()
    about = {node["name"]: node["about"] for node in part["nodes"]}
    assert about["rides"] == "of a job that is not shown"
    assert "load_rides" not in about


def test_delay_is_counted_from_the_end_to_the_first_publish(client: TestClient, rides: Rides) -> None:
    found = get(client, rides, "delay", table="rides").json()
    assert [published["end"] for published in found["epochs"]] == [
        day(1).end.isoformat(),
        day(2).end.isoformat(),
    ]
    assert all(published["delay_s"] > 0 for published in found["epochs"])
    assert found["lag"]["complete_to"] == day(2).end.isoformat()
    few = get(client, rides, "delay", table="rides", epochs=1).json()
    assert few["epochs"] == found["epochs"][1:]
    assert (
        get(client, rides, "delay", table="rides", end=day(1).end.isoformat()).json()["epochs"]
        == (found["epochs"][:1])
    )


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("epoch/skip", {"job": "load_rides"}, (422, "start")),
        ("epoch/skip", {**epoch("load_rides", 3), "start": "soon"}, (400, "soon")),
        ("epoch/skip", {**epoch("load_rides", 3), "job": "nothing"}, (404, "nothing")),
        ("epoch/skip", {**epoch("load_rides", 3), "end": "2013-02-03T12:00:00Z"}, (400, "interval")),
        ("epoch/skip", {**epoch("load_rides", 3), "reason": "x" * 2001}, (422, "2000")),
        ("epoch/abort", epoch("load_rides", 2), (422, "token")),
        ("epoch/abort", {**epoch("load_rides", 2), "token": 1}, (400, "is committed")),
        ("job/retire", {"job": "a\x00b"}, (400, "job")),
        ("job/retire", {"job": "load_rides", "domain": "../x"}, (400, "domain")),
        ("lease/release", {"name": "x" * 300}, (422, "255")),
        ("lease/release", {"name": "x", "conn_id": "sqlite:////etc/passwd"}, (404, "not shown")),
        ("restatement/open", {"job": "load_rides", "interval": "x", "name": "a"}, (400, "interval")),
        (
            "restatement/open",
            {"job": "load_rides", "interval": "2013-02-01", "name": "a/b"},
            (400, "restatement"),
        ),
    ],
)
def test_invalid_decision_is_answered_with_its_error(
    client: TestClient, rides: Rides, path: str, body: dict[str, Any], told: tuple[int, str]
) -> None:
    answer = decide(client, rides, path, **body)
    assert (answer.status_code, told[1] in answer.text) == (told[0], True), answer.text
