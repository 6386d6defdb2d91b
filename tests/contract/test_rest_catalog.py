"""The catalog for engines: which cut a client gets, for how long, and what it is told otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote_plus

import pytest
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient
from pyiceberg.catalog import Catalog as Client
from pyiceberg.exceptions import NoSuchTableError

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import Conflict, NotReady, OutcomeUnknown, StoreUnavailable
from airflow_provider.domain.identifiers import lease_id
from airflow_provider.domain.read_options import READ_DEFAULTS, Consistency, ReadDefaults
from airflow_provider.domain.topology import Job, Table
from airflow_provider.rest_catalog import catalog as rest
from airflow_provider.rest_catalog.addresses import Prefix
from airflow_provider.rest_catalog.app import Open, create_app
from tests.contract.coordination_world import DOMAIN, ORIGIN, Backend, World, barrier, day, owner, values_of
from tests.services import catalog_server
from tests.services.catalog_server import connected, served

HOUR = timedelta(hours=1)


@pytest.fixture
def world(quick_path: Path, empty_sqlite: Path) -> Iterator[World]:
    world = Backend("iceberg", quick_path, empty_sqlite).world()
    yield world
    world.close()


def application(world: World, hidden: Sequence[str] = (), reading: ReadDefaults = READ_DEFAULTS) -> FastAPI:
    """The catalog for a user who may read every table but those *hidden*."""
    service = EpochService(world.store, world.formats, clock=world.clock, random=Random(0), reading=reading)
    return catalog_server.application(service, hidden=hidden)


@pytest.fixture
def client(world: World) -> Iterator[TestClient]:
    with TestClient(application(world), raise_server_exceptions=False) as opened:
        yield opened


def rows(client: Client, namespace: str, *tables: str) -> dict[str, list[tuple[int, int]]]:
    return {name: values_of(client.load_table((namespace, name)).scan().to_arrow()) for name in tables}


def two_tables(world: World) -> Any:
    job = world.job("j", [world.table("d"), world.table("f", kind="full")])
    world.run(job, day(1), [1])
    world.run(job, day(2), [2])
    return job


def prefix(client: TestClient, address: str) -> str:
    answer = client.get("/v1/config", params={"warehouse": address})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["overrides"]["prefix"])


def loaded(client: TestClient, base: str, table: str) -> Any:
    return client.get(f"{base}/namespaces/{DOMAIN}/tables/{table}")


# --- which cut -----------------------------------------------------------------------------------------------


def test_a_warehouse_is_one_cut_until_its_lease_ends(world: World) -> None:
    """LEA1: a client reads tables one after the other, and commits between two of them are not seen."""
    job = two_tables(world)
    with served(application(world)) as uri:
        held = connected(uri, f"{DOMAIN}?ttl=6h")
        before = rows(held, DOMAIN, "d")
        world.run(job, day(3), [3])
        world.run(job, day(2), [20], owner("again"))
        assert before | rows(held, DOMAIN, "f") == {"d": [(1, 1), (2, 2)], "f": [(2, 2)]}
        assert rows(connected(uri, DOMAIN), DOMAIN, "d", "f") == world.rows("d", "f")
        assert held.list_namespaces() == [(DOMAIN,)]
        assert held.list_tables(DOMAIN) == [(DOMAIN, "d"), (DOMAIN, "f")]
        said = held.load_namespace_properties(DOMAIN)
        assert (said["epochs.barrier"], said["epochs.csn"]) == (barrier(2).isoformat(), "2")
    leases = sorted(world.leases.all(DOMAIN), key=lambda lease: lease.until)
    assert [lease.owner for lease in leases] == ["catalog:ann"] * 2
    assert leases[1].until - leases[0].until == timedelta(hours=5)


def test_a_namespace_without_a_warehouse_is_the_newest_cut(world: World) -> None:
    """R20: at every load; an address with a time is at that barrier, whatever is newer."""
    job = two_tables(world)
    with served(application(world)) as uri:
        moving = connected(uri)
        assert moving.list_namespaces() == [(DOMAIN,)]
        assert rows(moving, DOMAIN, "d") == world.rows("d")
        world.run(job, day(3), [3])
        assert rows(moving, DOMAIN, "d", "f") == world.rows("d", "f")
        then = f"{DOMAIN}?at={barrier(1).isoformat()}".lower()
        assert rows(moving, then, "d", "f") == {"d": [(1, 1)], "f": [(1, 1)]}
        assert moving.table_exists((then, "d"))
        assert not moving.table_exists((then, "nothing"))
        with pytest.raises(NoSuchTableError):
            moving.load_table((DOMAIN, "nothing"))
    assert world.leases.all(DOMAIN) == []


def test_a_lease_of_others_has_an_address(world: World, client: TestClient) -> None:
    """LEA1: the cut that a task has leased, by its name."""
    job = two_tables(world)
    lease = world.leases.cut(DOMAIN, ["d"], name="report", owner="me", ttl=HOUR)
    world.run(job, day(3), [3])
    base = f"/v1/{prefix(client, f'{DOMAIN}?lease=report')}"
    assert (
        loaded(client, base, "d").json()["metadata"]["properties"]["epochs.barrier"] == barrier(2).isoformat()
    )
    assert loaded(client, base, "f").status_code == 404
    world.leases.drop(lease)
    assert loaded(client, base, "d").status_code == 422
    world.leases.cut(DOMAIN, ["d"], name="report", owner="me", ttl=HOUR)
    ended = loaded(client, base, "d")
    assert (ended.status_code, ended.json()["error"]["type"]) == (422, "LeaseExpired")
    assert "holds another cut now" in ended.json()["error"]["message"]
    other = f"/v1/{prefix(client, f'{DOMAIN}?lease=report')}"
    world.store.new_incarnation()  # type: ignore[attr-defined]
    assert "holds another cut now" in loaded(client, other, "d").text


def test_nothing_is_read_after_the_lease(world: World, client: TestClient) -> None:
    """R22: an error and no later rows; and no answer that the table is not there."""
    two_tables(world)
    base = f"/v1/{prefix(client, f'{DOMAIN}?ttl=1h')}"
    assert loaded(client, base, "d").status_code == 200
    world.clock.advance(HOUR + timedelta(seconds=1))
    for method, path in (("GET", "/tables/d"), ("HEAD", "/tables/d"), ("GET", "/tables"), ("HEAD", "")):
        assert client.request(method, f"{base}/namespaces/{DOMAIN}{path}").status_code == 422
    assert "connect again" in loaded(client, base, "d").json()["error"]["message"]


def test_states_differ_by_their_snapshots(world: World, client: TestClient) -> None:
    """R22: engines take two loads of one table for the same by the snapshot's id; also of one version."""
    two_tables(world)

    def ids(address: str, table: str) -> tuple[str, int]:
        said = client.get(f"/v1/namespaces/{quote_plus(address)}/tables/{table}").json()["metadata"]
        return said["table-uuid"], said["current-snapshot-id"]

    for table in "df":
        old, new = ids(f"{DOMAIN}?at={barrier(1).isoformat()}", table), ids(DOMAIN, table)
        assert old[0] == new[0]
        assert old[1] != new[1]
    assert ids(DOMAIN, "d")[0] != ids(DOMAIN, "f")[0]


# --- which tables --------------------------------------------------------------------------------------------


def test_tables_that_no_job_computes_hold_no_cut_back(world: World, client: TestClient) -> None:
    """R9: without `tables` an address means what running jobs compute; the others can be named."""
    two_tables(world)
    old = world.job("old")
    world.run(old, day(1), [9])
    world.coordinator.retire(DOMAIN, "old", reason="not read", by="me")
    world.coordinator.register(world.job("new"))

    def listed(address: str) -> Any:
        answer = client.get(f"/v1/namespaces/{quote_plus(address)}/tables").json()
        return [found["name"] for found in answer["identifiers"]]

    assert listed(DOMAIN) == ["d", "f"]
    assert listed(f"{DOMAIN}?tables=d,old") == ["d", "old"]
    assert "tables=" in loaded(client, "/v1", "old").json()["error"]["message"]


def test_hidden_tables_look_like_absent_ones(world: World) -> None:
    """No answer tells a hidden table from an absent one, and none is in the user's cuts."""
    two_tables(world)
    world.run(world.job("slow", [world.table("secret")]), day(1), [1])
    world.leases.cut(DOMAIN, ["d", "secret"], name="both", owner="me", ttl=HOUR)
    with TestClient(application(world, hidden=["secret"])) as client:
        assert [t["name"] for t in client.get(f"/v1/namespaces/{DOMAIN}/tables").json()["identifiers"]] == [
            "d",
            "f",
        ]
        held = f"/v1/{prefix(client, f'{DOMAIN}?lease=both')}"
        for base, namespace in (
            ("/v1", DOMAIN),
            (held, DOMAIN),
            ("/v1", quote_plus(f"{DOMAIN}?tables=secret")),
            ("/v1", quote_plus(f"{DOMAIN}?lease=both")),
        ):
            texts = {
                name: client.get(f"{base}/namespaces/{namespace.replace('secret', name)}/tables/{name}")
                for name in ("secret", "absent")
            }
            assert texts["secret"].status_code == texts["absent"].status_code == 404
            assert texts["secret"].text.replace("secret", "absent") == texts["absent"].text
        assert client.get("/v1/config", params={"warehouse": f"{DOMAIN}?tables=secret"}).status_code == 404
    with TestClient(application(world, hidden=["secret", "d", "f"])) as client:
        assert client.get("/v1/namespaces").json() == {"namespaces": []}
        assert client.get(f"/v1/namespaces/{DOMAIN}").status_code == 404
        for lease in ("both", "absent"):
            assert (
                client.get("/v1/config", params={"warehouse": f"{DOMAIN}?lease={lease}"}).status_code == 422
            )


def test_a_setting_for_the_whole_domain_asks_for_no_hidden_table(world: World) -> None:
    """R20: `altogether` would wait for tables that the user may not read, and name them."""
    two_tables(world)
    world.run(world.job("slow", [world.table("secret")]), day(1), [1])
    altogether = ReadDefaults(consistency=Consistency.ALTOGETHER)
    with TestClient(application(world, hidden=["secret"], reading=altogether)) as client:
        answer = client.get(f"/v1/namespaces/{DOMAIN}").json()
    assert answer["properties"]["epochs.barrier"] == barrier(2).isoformat()


def test_released_tables_end_a_prefix(world: World, client: TestClient) -> None:
    """LEA1: a client must not take a table for absent that its session has had."""
    two_tables(world)
    lease = world.leases.cut(DOMAIN, ["d", "f"], name="report", owner="me", ttl=HOUR)
    base = f"/v1/{prefix(client, f'{DOMAIN}?lease=report')}"
    world.leases.release(lease, ["f"])
    for table in "df":
        assert loaded(client, base, table).status_code == 422


def test_a_domain_whose_name_is_no_address_is_left_out(world: World, client: TestClient) -> None:
    """Its name would be read as an address of another domain."""
    two_tables(world)
    odd = Job(
        "odd",
        outputs=[Table("d", domain=f"{DOMAIN}?tables=d", format="iceberg")],
        cadence="@daily",
        origin=ORIGIN,
    )
    world.run(odd, day(1), [999])
    assert client.get("/v1/namespaces").json() == {"namespaces": [[DOMAIN]]}


@pytest.mark.parametrize("name", ["a b", "a+b", "zürich", "100%", "a?b", "a.b"])
def test_names_are_escaped_once(world: World, client: TestClient, name: str) -> None:
    """Java's clients write a blank as a plus; Python's write it as %20."""
    world.run(world.job("j", [world.table(name)]), day(1), [1])
    for text in {quote_plus(name), quote_plus(name).replace("+", "%20")}:
        answer = loaded(client, "/v1", text)
        assert answer.status_code == 200, answer.text
        assert answer.json()["metadata"]["properties"]["epochs.table"] == name


# --- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "status", "words"),
    [
        ("nothing", 404, "nothing"),
        (f"{DOMAIN}?lease=nothing", 422, "lease list"),
        (f"{DOMAIN}?tables=nothing", 404, "nothing"),
        (f"{DOMAIN}?at=yesterday", 400, "yesterday"),
        (f"{DOMAIN}?at=", 400, "at"),
        (f"{DOMAIN}?at=1999-01-01T00:00:00Z", 422, "no common barrier"),
        (f"{DOMAIN}?max_lag=soon", 400, "max_lag"),
        (f"{DOMAIN}?until=2024", 400, "until=2024"),
        (f"{DOMAIN}?ttl", 400, "ttl"),
        (f"{DOMAIN}?ttl=0s", 400, "ttl"),
        (f"{DOMAIN}?ttl=1h&ttl=2h", 400, "each once"),
        (f"{DOMAIN}?lease=a&ttl=2h", 400, "no other option"),
        (f"{DOMAIN}?tables=", 400, "table"),
        ("?tables=d", 400, "domain"),
    ],
)
def test_a_wrong_address_is_refused(
    world: World, client: TestClient, address: str, status: int, words: str
) -> None:
    two_tables(world)
    for answer in (
        client.get(f"/v1/namespaces/{quote_plus(address)}/tables/d"),
        client.get("/v1/config", params={"warehouse": address}),
    ):
        assert answer.status_code == status, answer.text
        assert answer.json()["error"]["code"] == status
        assert words in answer.json()["error"]["message"]
    assert world.leases.all(DOMAIN) == []


def test_a_user_holds_a_number_of_cuts_for_a_day_at_most(
    world: World, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LEA1: leases keep files, and any user who may read a table may ask for them; the same cut is held once."""
    two_tables(world)
    too_long = client.get("/v1/config", params={"warehouse": f"{DOMAIN}?ttl=2d"})
    assert (too_long.status_code, "at most 1 day" in too_long.text) == (400, True)
    refused_in_a_namespace = client.get(f"/v1/namespaces/{DOMAIN}%3Fttl%3D1h/tables/d")
    assert (refused_in_a_namespace.status_code, "warehouse" in refused_in_a_namespace.text) == (400, True)
    monkeypatch.setattr(rest, "MOST_HELD", 2)
    first = prefix(client, f"{DOMAIN}?ttl=1h")
    assert first == prefix(client, f"{DOMAIN}?ttl=1h") != prefix(client, f"{DOMAIN}?ttl=1h&tables=d")
    more = client.get("/v1/config", params={"warehouse": f"{DOMAIN}?tables=f"})
    assert (more.status_code, "catalog:ann" in more.text) == (400, True)
    assert prefix(client, DOMAIN) == first
    world.clock.advance(HOUR + timedelta(seconds=1))
    assert prefix(client, f"{DOMAIN}?tables=f")


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("namespaces/{domain}%1Fd/tables/files", 404, "NoSuchTableException"),
        ("namespaces/{domain}/tables/a%2Fb", 404, "HTTPException"),
        ("namespaces/{domain}%2Ftables/d", 404, "HTTPException"),
        ("{many}/namespaces/{domain}/tables/d", 400, "BadRequestException"),
        ("namespaces/{domain}/tables/%00", 404, "NoSuchTableException"),
        ("namespaces/{domain}%1Fd", 404, "NoSuchNamespaceException"),
        ("nothing/namespaces/{domain}/tables/d", 400, "BadRequestException"),
        ("e30/namespaces/{domain}/tables/d", 400, "BadRequestException"),
        ("namespaces/namespaces", 404, "NoSuchNamespaceException"),
        ("nothing", 404, "HTTPException"),
    ],
)
def test_what_is_not_there_is_told_in_the_form_of_the_specification(
    world: World, client: TestClient, path: str, status: int, kind: str
) -> None:
    """Spark takes ``t.files`` for a table of the namespace ``t`` first, and goes on if there is none."""
    two_tables(world)
    answer = client.get(f"/v1/{path.format(domain=DOMAIN, many='W' * 20_000)}")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (status, status, kind)
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("error", "status", "again"),
    [
        (StoreUnavailable("no answer."), 503, "1"),
        (Conflict("others were faster."), 503, "1"),
        (OutcomeUnknown("no answer."), 503, "1"),
        (NotReady("no barrier yet.", missing=()), 422, None),
        (HTTPException(401, "who are you?"), 401, None),
    ],
)
def test_what_may_pass_is_asked_again(error: Exception, status: int, again: str | None) -> None:
    """Iceberg's clients repeat a request after 503."""

    def opened() -> Open:
        def fails() -> Any:
            raise error

        return fails

    with TestClient(create_app(opened)) as client:
        answer = client.get("/v1/namespaces")
    assert (answer.status_code, answer.headers.get("retry-after")) == (status, again)
    assert answer.json()["error"]["code"] == status


def test_only_reads_are_declared_and_served(world: World, client: TestClient) -> None:
    two_tables(world)
    declared = client.get("/v1/config").json()
    assert (declared["defaults"], declared["overrides"]) == ({}, {})
    base = f"/v1/{prefix(client, DOMAIN)}"
    before = world.content()
    for said in declared["endpoints"]:
        method, path = said.split()
        assert method in ("GET", "HEAD")
        real = path.replace("/v1/{prefix}", base).replace("{namespace}", DOMAIN).replace("{table}", "d")
        assert client.request(method, real).status_code in (200, 204)
        for other in ("POST", "PUT", "DELETE"):
            assert client.request(other, real).status_code == 405
    assert world.content() == before


def test_asking_whether_a_table_exists_writes_no_file(world: World, client: TestClient) -> None:
    two_tables(world)
    assert world.warehouse is not None
    before = sorted(world.warehouse.rglob("*"))
    assert client.head(f"/v1/namespaces/{DOMAIN}/tables/d").status_code == 204
    assert client.head(f"/v1/namespaces/{DOMAIN}/tables/absent").status_code == 404
    assert sorted(world.warehouse.rglob("*")) == before


def test_a_prefix_names_its_cut() -> None:
    said = Prefix(domain=DOMAIN, lease=lease_id("ä lease?of=all~"), cut="7")
    assert Prefix.parse(str(said)) == said
    assert set(str(said)) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
