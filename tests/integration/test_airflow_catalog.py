"""The catalog for engines in Airflow's own API server: who gets in, and who sees which tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

import pytest
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi.testclient import TestClient

from airflow_provider.coordination.commits.places import WrongWarehouse
from airflow_provider.coordination.commits.sealed import DomainMoved, DomainMoving
from airflow_provider.coordination.reading.leases import Leases
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import EpochError, OutcomeUnknown, StoreUnavailable
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.plugins.access import DagAccess
from airflow_provider.testing.arrow_attempts import write_rows
from tests.airflow_runs import epochs_connection
from tests.airflow_server import api_server

DAY = Interval(datetime(2013, 2, 7, tzinfo=UTC), datetime(2013, 2, 8, tzinfo=UTC))
JOBS = [
    Job(name, outputs=[Table(f"{name}_table")], cadence="@daily", origin=DAY.start)
    for name in ("mine", "theirs")
]
BASE = "/epochs/catalog/epochs_default/v1"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """An API server over a store in which two DAGs have committed a table each."""
    import pyarrow as pa

    home = tmp_path_factory.mktemp("catalog")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(home))
        patch.setenv("AIRFLOW_CONN_OTHER", epochs_connection(home))
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", token_hex(64))
        with EpochsHook().get_conn() as service:
            for job in JOBS:
                attempt = service.begin(job, DAY, Owner(dag_id=f"dag_{job.name}", run_id="run"))
                assert isinstance(attempt, Attempt)
                write_rows(service, attempt, f"{job.name}_table", pa.table({"n": [1, 2]}))
                service.complete(attempt)
                service.publish(attempt)
        with api_server() as opened:
            yield opened


@pytest.fixture
def token(client: TestClient) -> str:  # noqa: ARG001 - the server has its secret
    user = SimpleAuthManagerUser(username="ann", role="viewer")
    return str(get_auth_manager().generate_jwt(user))


@pytest.fixture
def signed_in(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def tables(client: TestClient, headers: dict[str, str], base: str = BASE) -> Any:
    answer = client.get(f"{base}/namespaces/default/tables", headers=headers)
    return [found["name"] for found in answer.json()["identifiers"]]


def test_a_user_of_airflow_reads_a_held_cut(client: TestClient, signed_in: dict[str, str]) -> None:
    answer = client.get(f"{BASE}/config", params={"warehouse": "default?ttl=1h"}, headers=signed_in)
    base = f"{BASE}/{answer.json()['overrides']['prefix']}"
    assert tables(client, signed_in, base) == ["mine_table", "theirs_table"]
    loaded = client.get(f"{base}/namespaces/default/tables/mine_table", headers=signed_in).json()
    assert loaded["metadata"]["snapshots"][0]["summary"]["total-records"] == "2"
    with EpochsHook().get_conn() as service:
        (lease,) = service.leases.all("default")
        assert lease.owner == "catalog:ann"
        service.leases.drop(lease)


@pytest.mark.parametrize(
    "path", ["/config?warehouse=default", "/namespaces", "/namespaces/default/tables/mine_table"]
)
def test_a_token_in_the_header_is_needed(client: TestClient, token: str, path: str) -> None:
    """A browser sends its cookie with what another site asks for."""
    for headers, status in (
        ({}, 401),
        ({"Authorization": "Bearer e30.e30.e30"}, 403),
        ({"Cookie": f"_token={token}"}, 401),
        ({"Authorization": "Basic YW5uOmFubg=="}, 401),
        ({"Authorization": "Bearer ", "Cookie": f"_token={token}"}, 401),
    ):
        answer = client.get(f"{BASE}{path}", headers=headers)
        assert answer.status_code == status, (headers, answer.text)
        assert answer.json()["error"]["code"] == status
        assert "mine" not in answer.text
    with EpochsHook().get_conn() as service:
        assert service.leases.all("default") == []


def test_a_user_sees_the_tables_of_the_dags_that_the_user_may_read(
    client: TestClient, signed_in: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DagAccess, "may_read", lambda _, dag_id: dag_id == "dag_mine")
    assert tables(client, signed_in) == ["mine_table"]
    for name in ("theirs_table", "absent"):
        assert client.get(f"{BASE}/namespaces/default/tables/{name}", headers=signed_in).status_code == 404
    monkeypatch.setattr(DagAccess, "may_read", lambda _, dag_id: dag_id == "dag_other")
    assert client.get(f"{BASE}/namespaces", headers=signed_in).json() == {"namespaces": []}


@pytest.mark.parametrize(
    "kind", [DomainMoved, DomainMoving, OutcomeUnknown, StoreUnavailable, WrongWarehouse]
)
def test_the_address_of_a_store_is_for_users_who_may_read_its_connection(
    client: TestClient, signed_in: dict[str, str], monkeypatch: pytest.MonkeyPatch, kind: type[EpochError]
) -> None:
    """Some errors are raised only where a session takes its lease."""

    def refuse(*_: object, **__: object) -> object:
        needed = {entry.name: "" for entry in fields(kind) if entry.kw_only and entry.default is MISSING}
        raise kind("db.example/secret does not answer.", **needed)

    monkeypatch.setattr(Leases, "acquire", refuse)
    answer = client.get(f"{BASE}/config", params={"warehouse": "default"}, headers=signed_in)
    assert answer.status_code in (422, 503)
    assert "secret" not in answer.text
    assert "ask an administrator" in answer.text


def test_only_listed_connections_are_opened(client: TestClient, signed_in: dict[str, str]) -> None:
    answer = client.get("/epochs/catalog/other/v1/namespaces", headers=signed_in)
    assert (answer.status_code, "[epochs] connections" in answer.text) == (403, True)


def test_the_page_has_its_own_routes(client: TestClient, signed_in: dict[str, str]) -> None:
    """The catalog's path begins like the page's."""
    assert client.get("/epochs/api/domains", headers=signed_in).json() == {"domains": ["default"]}
    for method in ("post", "put", "delete"):
        assert getattr(client, method)(f"{BASE}/namespaces", headers=signed_in).status_code == 405
