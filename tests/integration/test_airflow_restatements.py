"""Restatements on the page, in Airflow's own API server: who sees them, who decides, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from secrets import token_hex
from typing import Any

import pytest
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models import Log
from airflow.utils.session import create_session
from fastapi.testclient import TestClient

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import NotReady
from airflow_provider.domain.restatement import RestatementState
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.plugins.access import DagAccess
from airflow_provider.plugins.grid import differences, restatements
from tests.airflow_runs import epochs_connection
from tests.airflow_server import api_server
from tests.restated_rides import DECISIONS, WHY, Rides

Ask = Callable[..., Any]
_DOMAINS = count(1)
NO_DIGEST = "0" * 64


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    home = tmp_path_factory.mktemp("restatements")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(home))
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", token_hex(64))
        with api_server() as opened:
            yield opened


@pytest.fixture
def service(client: TestClient) -> Iterator[EpochService]:  # noqa: ARG001 - the server has the connection
    with EpochsHook().get_conn() as opened:
        yield opened


@pytest.fixture
def rides(service: EpochService) -> Rides:
    """Three days of a domain of its own."""
    made = Rides(service, f"rides-{next(_DOMAINS)}")
    made.commit(1, 2, 3)
    return made


@pytest.fixture(scope="module")
def untouched(client: TestClient) -> Iterator[Rides]:  # noqa: ARG001 - the server has the connection
    """A restatement that is open, and that no test changes."""
    with EpochsHook().get_conn() as opened:
        made = Rides(opened, "untouched")
        made.commit(1)
        made.open("mend")
        yield made


@pytest.fixture
def ask(client: TestClient, rides: Rides) -> Ask:
    """Ask as a user of a role, by default as ``ann``, who may clear tasks."""

    def asked(path: str, role: str = "user", **query: Any) -> Any:
        query = {"domain": rides.domain, **query}
        return client.get(f"/epochs/api/{path}", params=query, headers=signed_in(role))

    return asked


@pytest.fixture
def decide(client: TestClient, rides: Rides) -> Ask:
    def decided(what: str, role: str = "user", headers: dict[str, str] | None = None, **body: Any) -> Any:
        body = {"domain": rides.domain, "name": "mend", **body}
        sent = signed_in(role) | (headers or {})
        return client.post(f"/epochs/api/restatement/{what}", json=body, headers=sent)

    return decided


def signed_in(role: str) -> dict[str, str]:
    jwt = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=f"ann the {role}", role=role))
    return {"Authorization": f"Bearer {jwt}"}


def record(rides: Rides, name: str = "mend") -> Any:
    return rides.service.restatements.status(rides.domain, name).record


# --- who gets in -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "text/plain; application/json"}, 415),
        ({"Content-Type": ""}, 415),
        ({"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "application/json", "Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "application/json", "Sec-Fetch-Site": "none"}, 403),
        ({"Content-Type": "application/json; charset=utf-8", "Sec-Fetch-Site": "same-origin"}, 409),
        ({"Content-Type": "application/json"}, 409),
    ],
)
def test_decision_of_another_sites_page_is_refused(
    client: TestClient, untouched: Rides, headers: dict[str, str], status: int
) -> None:
    """With the cookie of a login, as a browser sends it; the last ones reach the restatement, which is not ready."""
    cookie = {"Cookie": f"_token={signed_in('user')['Authorization'].removeprefix('Bearer ')}"}
    body = json.dumps({"domain": untouched.domain, "name": "mend"})
    answer = client.post("/epochs/api/restatement/publish", content=body, headers=cookie | headers)
    assert answer.status_code == status, answer.text
    assert ("NotReady" in answer.text) is (status == 409)


def test_no_page_of_another_site_may_ask_for_a_decision(client: TestClient) -> None:
    asked = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"}
    answer = client.options("/epochs/api/restatement/publish", headers=asked)
    assert answer.status_code in (400, 405), "which of them depends on Airflow's version"
    assert "access-control-allow-origin" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers


# --- who decides -----------------------------------------------------------------------------------------------


def test_who_may_not_change_runs_sees_everything_and_decides_nothing(
    rides: Rides, ask: Ask, decide: Ask
) -> None:
    rides.open("mend", needs_approval=True)
    rides.stage("mend", 1, 2, 3)
    output = rides.output("mend")
    answers = {what: ask(what, "viewer", name="mend").json() for what in ("restatements", "restatement")}
    allowed = {what: ask(what, "user", name="mend").json() for what in answers}
    assert answers["restatement"].pop("may_decide") is False
    assert allowed["restatement"].pop("may_decide") is True
    assert answers["restatement"].pop("needs") == ["count_rides", "load_rides"]
    assert allowed["restatement"].pop("needs") == []
    for answer in (*answers.values(), *allowed.values()):
        answer.pop("now")
    assert answers == allowed, "nothing else is hidden"
    for path in DECISIONS:
        told = decide(path.rpartition("/")[2], "viewer", output=output, reason="no")
        assert (told.status_code, told.json()["error"]) == (403, "NotAllowed")
        assert "'count_rides', 'load_rides'" in told.json()["message"]
        assert told.json()["next_step"].startswith("ask a user who may")
    found = record(rides)
    assert (found.state, found.approved) == (RestatementState.OPEN, "")


def test_every_dag_of_its_jobs_counts(
    rides: Rides, ask: Ask, decide: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that the user may not read, whose name is not told."""
    rides.open("mend")
    rides.stage("mend", 1)
    with monkeypatch.context() as patch:
        patch.setattr(DagAccess, "may_read", lambda _self, dag_id: dag_id == "load_rides")
        missing = ask("restatement/differences", name="mend")
        assert (missing.status_code, missing.json()["error"]) == (409, "NotReady")
        assert "count_rides" not in missing.text
    rides.stage("mend", 2, 3)
    monkeypatch.setattr(DagAccess, "may_change_runs", lambda _self, dag_id: dag_id == "load_rides")
    assert ask("restatement", name="mend").json()["needs"] == ["count_rides"]
    told = decide("publish").json()
    assert (told["error"], "'count_rides'" in told["message"]) == ("NotAllowed", True)
    monkeypatch.setattr(DagAccess, "may_read", lambda _self, dag_id: dag_id == "load_rides")
    hidden = ask("restatement", name="mend").json()
    assert (hidden["may_decide"], hidden["needs"], hidden["jobs_hidden"]) == (False, [], 1)
    told = decide("publish")
    assert (told.status_code, "1 DAG that you may not read" in told.json()["message"]) == (403, True)
    for answer in (hidden, told.json(), ask("restatement/differences", name="mend").json()):
        assert "count_rides" not in json.dumps(answer)
        assert "station_totals" not in json.dumps(answer)
    assert record(rides).state is RestatementState.OPEN


def test_what_holds_it_is_told_to_those_who_may_see_it(
    service: EpochService, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R28: with the commands that decide; others learn that something does."""
    held = Rides(service, f"held-{next(_DOMAINS)}", counts="hold")
    held.commit(1, 2)
    held.open("mend")
    held.stage("mend", 1)
    query, headers = {"domain": held.domain, "name": "mend"}, signed_in("user")
    seen = client.get("/epochs/api/restatement", params=query, headers=headers).json()
    assert [(holder["job"], holder["epochs"], holder["tables"]) for holder in seen["held"]] == [
        ("count_rides", 2, ["rides"])
    ]
    assert "restate join mend count_rides" in seen["next_step"][0]
    refused = client.post("/epochs/api/restatement/publish", json=query, headers=headers)
    assert (refused.status_code, refused.json()["error"]) == (409, "NotReady")
    monkeypatch.setattr(DagAccess, "may_read", lambda _self, dag_id: dag_id == "load_rides")
    hidden = client.get("/epochs/api/restatement", params=query, headers=headers).json()
    assert (hidden["held"], hidden["is_held"]) == ([], True)
    refused = client.post("/epochs/api/restatement/publish", json=query, headers=headers)
    for answer in (hidden, refused.json()):
        assert "count_rides" not in json.dumps(answer)


def test_hidden_restatement_and_an_absent_one_are_told_alike(
    rides: Rides, ask: Ask, decide: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    rides.open("mend")
    absent = [ask("restatement", name="absent"), decide("publish", name="absent")]
    assert [answer.status_code for answer in absent] == [404, 404]
    monkeypatch.setattr(DagAccess, "may_read", lambda _self, _dag_id: False)
    hidden = [ask("restatement", name="mend"), decide("publish")]
    assert [answer.text.replace("absent", "mend") for answer in absent] == [answer.text for answer in hidden]
    assert ask("restatements").json()["restatements"] == []


# --- questions -------------------------------------------------------------------------------------------------


def test_a_domain_without_restatements_gives_the_command(rides: Rides, ask: Ask) -> None:
    answer = ask("restatements").json()
    assert (answer["restatements"], answer["total"]) == ([], 0)
    assert answer["command"] == (
        f"airflow epochs restate open TABLE --interval FROM/TO --domain {rides.domain} --reason …"
    )


def test_list_has_open_ones_first_and_its_pages(
    rides: Rides, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in (("abandoned", 1), ("published", 3), ("mend", 2)):
        rides.open(name, number)
        if name == "abandoned":
            rides.service.restatements.abandon(rides.domain, name, reason="a test", by="bob")
        if name == "published":
            rides.stage(name, 3)
            csn = rides.service.restatements.publish(rides.domain, name)
    rides.stage("mend", 2)
    answer = ask("restatements").json()
    found = {restatement["name"]: restatement for restatement in answer["restatements"]}
    assert list(found) == ["mend", "published", "abandoned"]
    assert {
        name: (restatement["state"], restatement["staged"], restatement["epochs"], restatement["csn"])
        for name, restatement in found.items()
    } == {
        "mend": ("open", 2, 3, None),
        "published": ("published", None, 2, csn),
        "abandoned": ("abandoned", None, 4, None),
    }
    assert found["abandoned"]["ended"] == "a test (bob)"
    assert (found["mend"]["reason"], found["mend"]["by"], found["mend"]["jobs"]) == (WHY, "ada", 2)
    monkeypatch.setattr(restatements, "_PAGE", 2)
    page = ask("restatements", offset=2).json()
    assert ([restatement["name"] for restatement in page["restatements"]], page["total"]) == (
        ["abandoned"],
        3,
    )


def test_members_are_counted_and_listed_by_page(
    rides: Rides, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    rides.open("mend")
    rides.stage("mend", 1)
    answer = ask("restatement", name="mend").json()
    assert answer["states"] == {"staged": 2, "outdated": 0, "computing": 0, "waiting": 2}
    assert [(member["job"], member["epochs"], member["staged"]) for member in answer["members"]] == [
        ("count_rides", 3, 1),
        ("load_rides", 1, 1),
    ]
    assert [(asked["job"], asked["start"], asked["epochs"]) for asked in answer["asked"]] == [
        ("load_rides", "2013-02-01T00:00:00+00:00", 1)
    ]
    assert [(member["job"], member["start"][:10], member["state"]) for member in answer["listed"]] == [
        ("count_rides", "2013-02-01", "staged"),
        ("load_rides", "2013-02-01", "staged"),
        ("count_rides", "2013-02-02", "waiting"),
        ("count_rides", "2013-02-03", "waiting"),
    ]
    run = {"dag_id": "count_rides", "run_id": "restated", "generation": 0, "try_number": 1}
    assert answer["listed"][0]["owner"] == run
    (step,) = answer["next_step"]
    assert step.startswith('compute its epochs: by runs with the configuration {"restatement": "mend"}')
    unchanged = ask("restatement", name="mend", since=answer["tag"]).json()
    assert unchanged == {"unchanged": True, "tag": answer["tag"]}
    monkeypatch.setattr(restatements, "_PAGE", 1)
    waiting = ask("restatement", name="mend", state="unstaged", offset=1).json()
    assert [member["start"][:10] for member in waiting["listed"]] == ["2013-02-03"]
    assert (waiting["total"], waiting["offset"]) == (2, 1)
    assert ask("restatement", name="mend", job="load_rides", state="waiting").json()["total"] == 0


def test_outdated_member_says_why_and_its_run_is_for_its_readers(
    rides: Rides, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    rides.open("mend")
    rides.stage("mend", 1, 2, 3)
    rides.stage_one("mend", rides.load, 1, generation=1)
    answer = ask("restatement", name="mend", state="outdated").json()
    assert answer["states"]["outdated"] == 3
    assert {member["why"] for member in answer["listed"]} == {"rides was computed again since"}
    # The job's latest epoch is of a DAG that the user may read; the run within the restatement is not.
    monkeypatch.setattr(DagAccess, "may_read", lambda _self, dag_id: dag_id == "count_rides")
    monkeypatch.setattr(
        restatements, "recent_dags", lambda *_: {"load_rides": "count_rides", "count_rides": "count_rides"}
    )
    listed = ask("restatement", name="mend", job="load_rides").json()["listed"]
    assert [(member["state"], member["owner"], member["why"]) for member in listed] == [("staged", None, "")]


@pytest.mark.parametrize(
    ("phase", "is_told"), [(timedelta(hours=1), True), (timedelta(microseconds=1), False)]
)
def test_closing_phase_is_told_until_it_is_over(
    rides: Rides, ask: Ask, service: EpochService, phase: timedelta, is_told: bool
) -> None:
    """R29: the record keeps the time, at which new readers begin again."""
    rides.open("mend", 3)
    rides.stage("mend", 3)
    rides.commit(4)
    defaults = replace(service.defaults, closing_phase=phase)
    publisher = EpochService(service.store, service.formats, defaults=defaults)
    with pytest.raises(NotReady):
        publisher.restatements.publish(rides.domain, "mend")
    assert record(rides).closing_until is not None
    assert (ask("restatement", name="mend").json()["closing_until"] is not None) is is_told


def test_differences_are_numbers_and_no_rows(rides: Rides, ask: Ask) -> None:
    rides.open("mend")
    rides.stage("mend", 1)
    missing = ask("restatement/differences", name="mend")
    assert (missing.status_code, missing.json()["error"]) == (409, "NotReady")
    assert "2 of 4 epochs are not computed" in missing.json()["message"]
    assert missing.json()["next_step"]
    rides.stage("mend", 2, 3)
    answer = ask("restatement/differences", name="mend").json()
    assert answer == {
        "output": rides.output("mend"),
        "jobs_hidden": 0,
        "tables": [
            {"table": "station_totals", "rows": 1, "added": 1, "removed": 1},
            {"table": "rides", "rows": 3, "added": 0, "removed": 1},
        ],
    }
    assert "Harbour" not in json.dumps(answer)


def test_tables_with_too_many_rows_are_left_to_the_command(
    rides: Rides, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    rides.open("mend")
    rides.stage("mend", 1, 2, 3)
    monkeypatch.setattr(differences.RowCounts.__init__, "__kwdefaults__", {"max_rows": 2})
    answer = ask("restatement/differences", name="mend").json()
    command = f"airflow epochs restate diff mend --table rides --domain {rides.domain}"
    assert answer["tables"][1] == {
        "table": "rides",
        "rows": 3,
        "added": None,
        "removed": None,
        "command": command,
    }


def test_grid_marks_the_members_of_an_open_restatement(rides: Rides, ask: Ask) -> None:
    def marked() -> set[tuple[str, str]]:
        rows = ask("grid", end="2013-02-04").json()["rows"]
        return {
            (row["table"], cell["start"][:10])
            for row in rows
            for cell in row["cells"]
            if "restatement" in cell
        }

    assert marked() == set()
    rides.open("mend", 2)
    assert marked() == {
        ("rides", "2013-02-02"),
        ("station_totals", "2013-02-02"),
        ("station_totals", "2013-02-03"),
    }
    rides.service.restatements.abandon(rides.domain, "mend", reason="a test", by="ada")
    assert marked() == set(), "at once, although no commit was made"


# --- decisions -------------------------------------------------------------------------------------------------


def test_restatement_is_approved_published_and_reverted(rides: Rides, ask: Ask, decide: Ask) -> None:
    rides.open("mend", needs_approval=True)
    unfinished = decide("publish")
    assert (unfinished.status_code, unfinished.json()["error"]) == (409, "NotReady")
    assert unfinished.json()["next_step"]
    rides.stage("mend", 1, 2, 3)
    unapproved = decide("publish")
    assert (unapproved.status_code, "it has no approval" in unapproved.json()["message"]) == (400, True)
    other = decide("approve", output=NO_DIGEST)
    assert (other.status_code, other.json()["error"]) == (409, "Conflict")
    assert decide("approve", output="json").status_code == 400
    assert record(rides).approved == ""
    assert decide("approve", output=rides.output("mend")).json() == {"approved": rides.output("mend")}
    assert record(rides).approved_by == "ann the user"
    seen = ask("restatement", name="mend").json()
    assert (seen["approved"], seen["approved_by"]) == (True, "ann the user")
    assert seen["next_step"] == [f"airflow epochs restate publish mend --domain {rides.domain}"]
    done = decide("publish").json()
    csn = done["csn"]
    assert done["events"] == 0, "no DAG of this Airflow has its tables"
    seen = ask("restatement", name="mend").json()
    assert (seen["state"], seen["csn"], seen["next_step"], seen["reverted_by"]) == (
        "published",
        csn,
        [],
        None,
    )
    assert [member["owner"]["run_id"] for member in seen["listed"]] == ["restated"] * 4
    assert decide("abandon", reason="too late").status_code == 400
    assert decide("revert", reason="  ").json()["error"] == "InvalidInput"
    back = decide("revert", reason="the first rows were right").json()
    assert (back["within"], back["csn"], back["events"]) == ("mend-reverted", csn + 1, 0)
    seen = ask("restatement", name="mend").json()
    assert seen["reverted_by"] == {"name": "mend-reverted", "state": "published"}
    back_record = record(rides, "mend-reverted")
    assert (back_record.by, back_record.reverts) == ("ann the user", "mend")
    assert ask("restatement", name="mend-reverted").json()["reverts"] == "mend"


def test_abandon_keeps_reason_and_author(rides: Rides, ask: Ask, decide: Ask) -> None:
    rides.open("mend")
    assert decide("abandon", reason="another way was found").json() == {"abandoned": "mend"}
    seen = ask("restatement", name="mend").json()
    assert (seen["state"], seen["because"]) == ("abandoned", "another way was found (ann the user)")
    assert decide("publish").json()["message"].startswith("restatement 'mend' was abandoned")


def test_decisions_are_in_airflows_audit_log(rides: Rides, decide: Ask) -> None:
    rides.open("mend")
    decide("publish")
    with create_session() as session:
        found = session.query(Log).filter(Log.event == "epochs_restatement_publish").all()
        (entry,) = [logged for logged in found if rides.domain in (logged.extra or "")]
        assert entry.owner == "ann the user"
        assert json.loads(str(entry.extra))["name"] == "mend"


@pytest.mark.parametrize(
    ("what", "body", "answers"),
    [
        ("publish", {"name": "absent"}, (404, "no restatement")),
        ("publish", {"name": "a/b"}, (400, "restatement")),
        ("publish", {"name": "x" * 300}, (422, "255")),
        ("publish", {"conn_id": "sqlite:////etc/passwd"}, (404, "not shown")),
        ("publish", {"domain": "../x"}, (400, "domain")),
        ("approve", {}, (422, "output")),
        ("abandon", {}, (422, "reason")),
        ("abandon", {"reason": ""}, (400, "reason")),
        ("abandon", {"reason": "x" * 3000}, (422, "2000")),
        ("revert", {"reason": "not published"}, (400, "a published restatement")),
    ],
)
def test_invalid_decision_is_answered_with_its_error(
    client: TestClient, untouched: Rides, what: str, body: dict[str, str], answers: tuple[int, str]
) -> None:
    sent = {"domain": untouched.domain, "name": "mend", **body}
    answer = client.post(f"/epochs/api/restatement/{what}", json=sent, headers=signed_in("user"))
    status, word = answers
    assert answer.status_code == status
    assert word in answer.text
    assert record(untouched).state is RestatementState.OPEN
