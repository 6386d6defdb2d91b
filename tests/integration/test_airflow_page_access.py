"""Every route of the page by every role: who gets in, who sees what is there, and who decides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.restatement import RestatementState
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.plugins import grid as grid_package
from airflow_provider.plugins.grid.app import create_app, router
from tests.airflow_runs import epochs_connection
from tests.airflow_server import api_server
from tests.restated_rides import Rides, day

DOMAIN = "rides"
STATIC = Path(grid_package.__file__).parent / "static"
DAY = {"start": day(2).start.isoformat(), "end": day(2).end.isoformat()}
SPAN = f"{DAY['start']}/{DAY['end']}"
LISTS: dict[str, dict[str, str]] = {
    **{f"/static/{path.name}": {} for path in STATIC.glob("*.js")},
    **{f"/api/{name}": {} for name in ("connections", "domains", "grid", "restatements", "topology")},
}
"""Routes that answer each user who is signed in, with what that user may see: nothing, to a stranger."""
QUESTIONS = {
    "/api/epoch": {"job": "load_rides", **DAY},
    "/api/delay": {"table": "rides"},
    "/api/restatement": {"name": "mend"},
    "/api/restatement/differences": {"name": "mend"},
    "/api/restatement/plan": {"job": "load_rides", "interval": SPAN},
    "/api/restatement/revert/plan": {"name": "mend"},
}
"""Routes about one thing, which a stranger does not learn of."""
NOT_YET = {"/api/restatement/differences": 409, "/api/restatement/revert/plan": 400}
"""Refusals of what the open restatement has not got to: members are missing, nothing is published."""
DECISIONS: dict[str, dict[str, Any]] = {
    "/api/epoch/skip": {"job": "load_rides", **DAY, "reason": " "},
    "/api/epoch/abort": {"job": "load_rides", **DAY, "token": 1, "reason": " "},
    "/api/job/retire": {"job": "load_rides", "reason": " "},
    "/api/lease/release": {"name": "held", "reason": " "},
    "/api/restatement/open": {"job": "load_rides", "interval": SPAN, "name": "again", "reason": " "},
    "/api/restatement/approve": {"name": "mend", "output": "0" * 64},
    "/api/restatement/publish": {"name": "mend"},
    "/api/restatement/abandon": {"name": "mend", "reason": " "},
    "/api/restatement/revert": {"name": "mend", "reason": " "},
}
"""Routes that change something, with bodies that the package refuses: who gets so far may decide."""
ROLES = ("anonymous", "forged", "stranger", "viewer", "user", "op", "admin")
REFUSED = {400, 409}
SECRETS = ("load_rides", "station_totals", "mend")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, EpochService]]:
    """Rides with an open restatement and a lease; a user called ``stranger`` may edit all that is of other DAGs."""
    home = tmp_path_factory.mktemp("access")
    allowed = SimpleAuthManager.is_authorized_dag

    def is_authorized_dag(self: Any, *, user: Any, details: Any = None, **rest: Any) -> bool:
        if user.get_name() == "stranger" and (details is None or details.id != "other"):
            return False
        return allowed(self, user=user, details=details, **rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(home))
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", token_hex(64))
        patch.setattr(SimpleAuthManager, "is_authorized_dag", is_authorized_dag)
        with EpochsHook().get_conn() as service, api_server() as client:
            rides = Rides(service, DOMAIN)
            rides.commit(1, 2)
            rides.open("mend")
            service.leases.cut(DOMAIN, ["rides"], name="held", owner="load_rides/run")
            yield client, service


def headers(role: str) -> dict[str, str]:
    if role == "anonymous":
        return {}
    if role == "forged":
        return {"Authorization": "Bearer e30.e30.e30"}
    known = "user" if role == "stranger" else role
    jwt = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=role, role=known))
    return {"Authorization": f"Bearer {jwt}"}


def test_matrix_has_every_route() -> None:
    routes = {route.path: route.methods for route in router.routes if isinstance(route, APIRoute)}
    assert routes == {
        **{path: {"GET"} for path in (*LISTS, *QUESTIONS)},
        **{path: {"POST"} for path in DECISIONS},
    }
    assert {route.path for route in create_app().routes} == routes.keys()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("path", sorted([*LISTS, *QUESTIONS]))
def test_question_is_answered_by_what_the_role_may_see(
    world: tuple[TestClient, EpochService], path: str, role: str
) -> None:
    query = (LISTS | QUESTIONS)[path]
    answer = world[0].get(f"/epochs{path}", params={"domain": DOMAIN, **query}, headers=headers(role))
    status = {"anonymous": 401, "forged": 403, "stranger": 404 if path in QUESTIONS else 200}.get(role, 200)
    if status == 200:
        status = NOT_YET.get(path, 200)
    assert answer.status_code == status, answer.text
    if role in ("anonymous", "forged", "stranger") and path in LISTS and "/static/" not in path:
        assert not [word for word in SECRETS if word in answer.text]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("path", sorted(DECISIONS))
def test_decision_is_taken_by_editors_of_the_dags_only(
    world: tuple[TestClient, EpochService], path: str, role: str
) -> None:
    client, service = world
    answer = client.post(f"/epochs{path}", json={"domain": DOMAIN, **DECISIONS[path]}, headers=headers(role))
    status = {"anonymous": {401}, "forged": {403}, "stranger": {404}, "viewer": {403}}.get(role, REFUSED)
    assert answer.status_code in status, answer.text
    if role == "viewer":
        assert answer.json()["error"] == "NotAllowed"
        assert "load_rides" in answer.json()["message"]
    assert service.restatements.status(DOMAIN, "mend").record.state is RestatementState.OPEN
    assert service.leases.find(DOMAIN, "held") is not None


@pytest.mark.parametrize("path", sorted([*LISTS, *QUESTIONS, *DECISIONS]))
def test_route_has_one_method(world: tuple[TestClient, EpochService], path: str) -> None:
    for method in ("get" if path in DECISIONS else "post", "put", "patch", "delete"):
        assert getattr(world[0], method)(f"/epochs{path}", headers=headers("admin")).status_code == 405


@pytest.mark.parametrize("path", sorted(DECISIONS))
def test_decision_of_another_sites_page_is_refused(world: tuple[TestClient, EpochService], path: str) -> None:
    for more, status in (({"Content-Type": "text/plain"}, 415), ({"Sec-Fetch-Site": "cross-site"}, 403)):
        sent = headers("admin") | {"Content-Type": "application/json"} | more
        assert world[0].post(f"/epochs{path}", content="{}", headers=sent).status_code == status
