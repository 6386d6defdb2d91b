"""Where a connection leads, and what each wrong one is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import pytest
from airflow.sdk._shared.secrets_masker import redact
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.domain.errors import InvalidInput, UnknownConnection
from airflow_provider.hooks.connection import (
    ConnectionFields,
    catalog_url_of,
    database_url_of,
    parsed_extra,
    place_of,
)
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.stores.base import StoreCapability
from airflow_provider.stores.zookeeper.address import parsed as parsed_zookeeper
from airflow_provider.tables.iceberg.catalogs.connecting import shown_catalog
from airflow_provider.triggers.epochs import EpochTrigger

WAREHOUSE = "file:///srv/epochs/warehouse"
PLAIN, ODD = "secret", "p@ss:w/rd"


def connection(**fields: Any) -> ConnectionFields:
    extra = {"warehouse": WAREHOUSE, **fields.pop("extra", {})}
    return ConnectionFields(**{"conn_id": "epochs_default", "conn_type": "epochs", **fields, "extra": extra})


def postgres(**fields: Any) -> ConnectionFields:
    extra = {"backend": "postgresql", **fields.pop("extra", {})}
    return connection(**{"host": "db.example", "schema": "epochs", **fields, "extra": extra})


def test_sqlite_is_the_default_and_host_is_its_file() -> None:
    place = place_of(connection(host="/srv/epochs/epochs.db"))
    assert place.store_url == "sqlite:////srv/epochs/epochs.db"
    assert place.warehouse == WAREHOUSE


def test_postgresql() -> None:
    place = place_of(postgres(login="epochs", password=PLAIN, port=6432))
    assert place.store_url == "postgresql+psycopg://epochs:secret@db.example:6432/epochs"


def test_postgresql_with_tls() -> None:
    extra = {"sslmode": "verify-full", "sslrootcert": "/etc/ssl/our ca.pem"}
    url = place_of(postgres(extra=extra)).store_url
    assert dict(parse_qsl(urlsplit(url).query)) == extra


@pytest.mark.parametrize("host", ["::1", "[::1]", "2001:db8::7"])
def test_an_ipv6_address_works_with_and_without_brackets(host: str) -> None:
    parts = urlsplit(place_of(postgres(host=host)).store_url)
    assert parts.hostname == host.strip("[]")
    assert parts.port == 5432


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=40))
def test_any_password_survives_the_url(password: str) -> None:
    url = place_of(postgres(login="a@b:c/d", password=password)).store_url
    parts = urlsplit(url)
    assert unquote(parts.password or "") == password
    assert unquote(parts.username or "") == "a@b:c/d"
    assert (parts.hostname, parts.port, parts.path) == ("db.example", 5432, "/epochs")


def test_printed_fields_hold_no_secret() -> None:
    fields = postgres(login="epochs", password=ODD)
    assert "p@ss" not in repr(fields)
    assert "p%40ss" not in repr(place_of(fields))
    with pytest.raises(InvalidInput) as caught:
        place_of(postgres(login="epochs", password=ODD, host="db.example:port"))
    assert "p@ss" not in str(caught.value)
    assert "p@ss" not in repr(caught.value.details)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"conn_type": "sqlite", "host": "/a/b.db"}, "conn_type"),
        ({"host": None}, "host"),
        ({"host": ""}, "host"),
        ({"host": "epochs.db"}, "host"),
        ({"host": "sqlite:////a/b.db"}, "host"),
        ({"host": ":memory:"}, "host"),
        ({"host": "/"}, "host"),
        ({"host": "/srv/../etc/epochs.db"}, "host"),
        ({"host": "/srv/e.db?mode=ro"}, "host"),
        ({"host": "/srv/e\x00.db"}, "host"),
        ({"host": "/a/b.db", "login": "me"}, "login"),
        ({"host": "/a/b.db", "password": "secret"}, "password"),
        ({"host": "/a/b.db", "port": 1}, "port"),
        ({"host": "/a/b.db", "schema": "x"}, "schema"),
        ({"host": "/a/b.db", "extra": {"backend": "oracle"}}, "backend"),
        ({"host": "/a/b.db", "extra": {"backend": "zk://"}}, "backend"),
        ({"host": "/a/b.db", "extra": {"backend": ["sqlite"]}}, "backend"),
        ({"host": "/a/b.db", "extra": {"back_end": "sqlite"}}, "extra"),
        ({"host": "/a/b.db", "extra": {"sslmode": "require"}}, "extra"),
        ({"host": "/a/b.db", "extra": {"warehouse": None}}, "warehouse"),
        ({"host": "/a/b.db", "extra": {"warehouse": 3}}, "warehouse"),
        ({"host": "/a/b.db", "extra": {"warehouse": "/srv/warehouse"}}, "warehouse"),
        ({"host": "/a/b.db", "extra": {"warehouse": "file://srv/warehouse"}}, "warehouse"),
        ({"host": "/a/b.db", "extra": {"warehouse": "file:///srv/../etc"}}, "warehouse"),
        ({"host": "/a/b.db", "extra": {"warehouse": "file:///srv/%2e%2e/etc"}}, "warehouse"),
        ({"host": "/a/b.db", "extra": {"warehouse": "gopher://x/y"}}, "warehouse"),
        ({"host": "/a/b.db", "extra": {"warehouse": "s3://key:secret@bucket/x"}}, "warehouse"),
        ({"host": "/a/b.db", "extra": {"warehouse": "s3://[::1"}}, "warehouse"),
        ({"host": "/a/b.db", "extra": {"warehouse": "gopher://secret@x/y"}}, "warehouse"),
        ({"host": "/a/b.db", "extra": {"warehouse": "gs://key@bucket/x"}}, "warehouse"),
        ({"host": "/a/b.db", "extra": {"warehouse": "s3://"}}, "warehouse"),
        ({"host": "/a/b.db", "extra": {"warehouse": "file:///srv/ware%20house"}}, "warehouse"),
    ],
)
def test_a_wrong_connection_is_refused_by_the_fields_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        place_of(connection(**fields))
    assert caught.value.details["field"] == field
    assert f"field {field}" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.next_step


def test_the_refusal_of_a_store_that_is_not_served_yet_names_those_that_are() -> None:
    warehouse = "abfss://lake@account1.dfs.core.windows.net/epochs"
    with pytest.raises(
        InvalidInput, match=r"\['file', 'gs', 's3'\]: tables on abfss:// are not supported yet"
    ):
        place_of(connection(host="/a/b.db", extra={"warehouse": warehouse}))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"host": None}, "host"),
        ({"host": "postgresql://db.example"}, "host"),
        ({"host": "db.example:port"}, "host"),
        ({"host": "db.example:65536"}, "host"),
        ({"host": "one.example,"}, "host"),
        ({"host": "db.example/x"}, "host"),
        ({"host": "::zz"}, "host"),
        ({"host": "db example"}, "host"),
        ({"schema": None}, "schema"),
        ({"port": 0}, "port"),
        ({"port": 65_536}, "port"),
        ({"port": -1}, "port"),
        ({"password": "secret"}, "login"),
        ({"extra": {"sslmode": 1}}, "sslmode"),
        ({"extra": {"pooled": "perhaps"}}, "pooled"),
        ({"extra": {"ssl_mode": "require"}}, "extra"),
    ],
)
def test_a_wrong_postgresql_connection_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        place_of(postgres(**fields))
    assert caught.value.details["field"] == field
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["{", "[]", "1", '"x"', '{"backend": "a", "backend": "b"}', "[" * 100_000, "secret", "\ud800"]
)
def test_an_extra_that_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parsed_extra("epochs_default", text)
    assert caught.value.details["field"] == "extra"
    assert "secret" not in str(caught.value)


def zookeeper(**fields: Any) -> ConnectionFields:
    extra = {"backend": "zookeeper", "catalog": "epochs_catalog", **fields.pop("extra", {})}
    return connection(
        **{"host": "zk1.example,zk2.example:2182", "schema": "services/epochs", **fields, "extra": extra}
    )


def test_zookeeper() -> None:
    place = place_of(zookeeper(port=2183))
    assert place.store_url == "zookeeper://zk1.example:2183,zk2.example:2182/services/epochs"
    assert (place.catalog, place.warehouse) == ("epochs_catalog", WAREHOUSE)
    assert parsed_zookeeper(place.store_url).hosts == ("zk1.example:2183", "zk2.example:2182")
    assert parsed_zookeeper(place_of(zookeeper(host="[::1]", schema="/epochs/")).store_url).hosts == (
        "[::1]:2181",
    )


def test_zookeeper_with_an_identity_and_tls() -> None:
    extra = {"auth": "sasl", "tls": "verify-ca", "ca": "/etc/ssl/our ca.pem", "session_timeout": 20}
    address = parsed_zookeeper(place_of(zookeeper(login="a@b:c/d", password=ODD, extra=extra)).store_url)
    assert (address.user, address.password, address.auth) == ("a@b:c/d", ODD, "sasl")
    assert (address.tls, address.ca, address.session_timeout_s) == ("verify-ca", "/etc/ssl/our ca.pem", 20)


@pytest.mark.parametrize(
    "fields",
    [
        {"extra": {"tls": "off"}},
        {"extra": {"ca": "/etc/ssl/ca.pem"}},
        {"host": "127.0.0.1:2181,[::1],localhost"},
    ],
)
def test_zookeeper_login_is_sent_with_a_chosen_authentication(fields: dict[str, Any]) -> None:
    place = place_of(zookeeper(login="me", password=PLAIN, **fields))
    assert parsed_zookeeper(place.store_url).user == "me"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"host": None}, "host"),
        ({"host": "zk1.example,,zk2.example"}, "host"),
        ({"host": "zookeeper://zk1.example"}, "host"),
        ({"host": "zk1.example:99999"}, "host"),
        ({"host": "zk1 example"}, "host"),
        ({"host": "zk1.example", "port": 0}, "port"),
        ({"schema": None}, "schema"),
        ({"schema": "a/../b"}, "schema"),
        ({"schema": "a//b"}, "schema"),
        ({"schema": "zookeeper"}, "schema"),
        ({"login": "me"}, "password"),
        ({"password": "secret"}, "login"),
        ({"extra": {"catalog": None}}, "catalog"),
        ({"extra": {"catalog": 1}}, "catalog"),
        ({"extra": {"catalog": "epochs_default"}}, "catalog"),
        ({"extra": {"tls": ["on"]}}, "tls"),
        ({"extra": {"tls": "on"}}, "tls"),
        ({"extra": {"auth": "basic"}}, "auth"),
        ({"extra": {"cert": "/etc/ssl/cert.pem"}}, "cert"),
        ({"extra": {"readers": "all"}}, "readers"),
        ({"extra": {"session_timeout": 0.5}}, "session_timeout"),
        ({"login": "me", "password": "secret"}, "tls"),
        ({"login": "me", "password": "secret", "host": "127.0.0.1,zk2.example"}, "tls"),
        ({"extra": {"sslmode": "require"}}, "extra"),
        ({"extra": {"require": "cluster-wide"}}, "require"),
        ({"extra": {"require": ["fast"]}}, "require"),
    ],
)
def test_a_wrong_zookeeper_connection_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        place_of(zookeeper(**fields))
    assert caught.value.details["field"] == field
    assert "secret" not in str(caught.value)


def test_required_capabilities_of_the_store() -> None:
    assert place_of(postgres()).require == frozenset()
    required = place_of(
        postgres(extra={"require": ["cluster-wide", "atomic with an Iceberg catalog", "server time"]})
    ).require
    assert required == {StoreCapability.CLUSTER, StoreCapability.CATALOG_SWAP}, "every store has server time"


@pytest.mark.parametrize("host", ["db.example.", "_db.example", "zk-0.zk.svc.cluster.local."])
def test_a_host_may_end_with_a_dot_and_begin_with_an_underscore(host: str) -> None:
    assert f"//{host}:5432/epochs" in place_of(postgres(host=host)).store_url


def test_a_catalog_needs_no_warehouse_and_no_catalog() -> None:
    assert catalog_url_of(replace(postgres(), extra={"backend": "postgresql"})).endswith(
        "db.example:5432/epochs"
    )
    with pytest.raises(InvalidInput) as caught:
        catalog_url_of(zookeeper())
    assert caught.value.details["field"] == "backend"
    with pytest.raises(InvalidInput) as caught:
        catalog_url_of(postgres(extra={"catalog": "another"}))
    assert caught.value.details["field"] == "catalog"


def hive(**given: Any) -> ConnectionFields:
    fields = {"host": "a.example,b.example:9084", "extra": {"backend": "hive"}, **given}
    return ConnectionFields(conn_id="metastore", **fields)


def glue(**given: Any) -> ConnectionFields:
    return ConnectionFields(conn_id="lake", extra={"backend": "glue", "region": "eu-central-1", **given})


def rest(**given: Any) -> ConnectionFields:
    fields = {"host": "catalog.example", "extra": {"backend": "rest"}, **given}
    return ConnectionFields(conn_id="rest", **fields)


def test_a_rest_catalog_has_a_path_a_name_and_a_secret() -> None:
    assert catalog_url_of(rest()) == "rest://catalog.example:443"
    extra = {"backend": "rest", "name": "a lake", "scope": "PRINCIPAL_ROLE:ALL"}
    found = catalog_url_of(rest(schema="/api/catalog", login="a/b", password="s@:t", extra=extra))  # noqa: S106
    assert found == (
        "rest://a%2Fb:s%40%3At@catalog.example:443/api/catalog?name=a+lake&scope=PRINCIPAL_ROLE%3AALL"
    )
    assert shown_catalog(found) == "rest://catalog.example:443/api/catalog?name=a+lake"
    found = catalog_url_of(rest(password="token", extra={"backend": "rest", "https": "off"}))  # noqa: S106
    assert found == "rest://:token@catalog.example:80?https=off"


def test_a_catalog_may_be_outside_of_the_stores() -> None:
    assert catalog_url_of(hive()) == "hive://a.example:9083,b.example:9084"
    assert catalog_url_of(hive(login="ada l", port=9085)) == "hive://ada%20l@a.example:9085,b.example:9084"
    assert catalog_url_of(glue()) == "glue://eu-central-1"
    assert catalog_url_of(glue(account="123456789012")) == "glue://123456789012@eu-central-1"


@pytest.mark.parametrize(
    ("connection", "field"),
    [
        (hive(host="metastore:x"), "host"),
        (hive(password="secret"), "password"),  # noqa: S106
        (hive(schema="default"), "schema"),
        (hive(extra={"backend": "hive", "sslmode": "require"}), "extra"),
        (glue(region="nowhere"), "region"),
        (glue(region=7), "region"),
        (glue(account=123456789012), "account"),
        (glue(account="123"), "account"),
        (rest(host="a.example,b.example"), "host"),
        (rest(login="me"), "login"),
        (rest(extra={"backend": "rest", "https": "no"}), "https"),
        (rest(extra={"backend": "rest", "name": 7}), "name"),
        (rest(extra={"backend": "rest", "region": "eu-central-1"}), "extra"),
        (replace(glue(), host="glue.example"), "host"),
        (replace(glue(), password="secret"), "password"),  # noqa: S106
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_wrong_field_of_a_catalog_is_named(connection: ConnectionFields, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        catalog_url_of(connection)
    assert caught.value.details["field"] == field
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("hive://ada@b.example:9083,a.example:9084", "hive://a.example:9084,b.example:9083"),
        ("glue://123456789012@eu-central-1", "glue://123456789012@eu-central-1"),
        (
            "postgresql://me:secret@db.example:5432/epochs?sslmode=require",
            "postgresql://db.example:5432/epochs",
        ),
        ("sqlite:////srv/epochs/catalog.db", "sqlite:////srv/epochs/catalog.db"),
    ],
)
def test_a_catalogs_address_has_no_user_and_an_order(url: str, address: str) -> None:
    """R33: a domain remembers it, and compares it as text."""
    assert shown_catalog(url) == address


@pytest.mark.parametrize("connection", [hive(), glue(), rest()], ids=["hive", "glue", "rest"])
def test_a_catalog_alone_is_neither_a_store_nor_a_source(connection: ConnectionFields) -> None:
    warehouse = {**connection.extra, "warehouse": WAREHOUSE}
    for refuse in (
        lambda: place_of(replace(connection, extra=warehouse)),
        lambda: database_url_of(connection),
    ):
        with pytest.raises(InvalidInput) as caught:
            refuse()
        assert caught.value.details["field"] == "backend"


def test_a_source_names_a_database_by_airflows_own_connection() -> None:
    fields = replace(postgres(), conn_type="postgres", extra={"sslmode": "verify-full"})
    url = database_url_of(fields)
    assert url.startswith("postgresql+psycopg://")
    assert url.endswith("sslmode=verify-full")
    assert database_url_of(
        ConnectionFields(conn_id="lake", conn_type="sqlite", host="/srv/lake.db")
    ).endswith("/srv/lake.db")
    assert database_url_of(replace(postgres(), extra={"backend": "postgresql"})) == url.partition("?")[0]
    for wrong in (
        replace(fields, conn_type="mysql"),
        replace(fields, extra={"cursor": "x"}),
        replace(fields, schema=""),
    ):
        with pytest.raises(InvalidInput, match=fields.conn_id):
            database_url_of(wrong)


def test_hook_looks_up_the_connections_of_a_jobs_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """The password is masked in logs, and shown nowhere."""
    store = {"conn_type": "epochs", "host": "/srv/epochs.db", "extra": {"warehouse": WAREHOUSE}}
    shop = {"conn_type": "postgres", "host": "db", "schema": "s", "login": "a", "password": "sh0p/pw"}
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", json.dumps(store))
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(shop))
    settings = EpochsHook().get_settings(connections=["shop"])
    assert settings.connections == {"shop": "postgresql+psycopg://a:sh0p%2Fpw@db:5432/s"}
    said = redact(f"sh0p/pw {settings.connections['shop']} {settings!r}")
    assert not [secret for secret in ("sh0p/pw", "sh0p%2Fpw") if secret in said]


def test_the_hook_looks_the_catalog_up_and_masks_both_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    store = {
        "conn_type": "epochs",
        "host": "zk.example",
        "schema": "epochs",
        "login": "me",
        "password": "s3cret/1",
    }
    extra = {
        "backend": "zookeeper",
        "warehouse": WAREHOUSE,
        "catalog": "epochs_catalog",
        "tls": "verify-full",
    }
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", json.dumps({**store, "extra": extra}))
    catalog = {
        "conn_type": "epochs",
        "host": "db.example",
        "schema": "epochs",
        "login": "me",
        "password": ODD,
    }
    monkeypatch.setenv(
        "AIRFLOW_CONN_EPOCHS_CATALOG", json.dumps({**catalog, "extra": {"backend": "postgresql"}})
    )
    settings = EpochsHook().get_settings()
    assert settings.catalog_url is not None
    assert settings.catalog_url.startswith("postgresql+psycopg://me:")
    assert asyncio.run(EpochsHook().aget_settings()) == settings
    said = redact(f"{ODD} s3cret/1 {settings.store_url} {settings.catalog_url} {settings!r}")
    assert not [secret for secret in (ODD, "s3cret", "p%40ss", "s3cret%2F1") if secret in said]


def test_the_hook_masks_the_password_as_it_is_and_as_the_url_writes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = {"conn_type": "epochs", "host": "db.example", "schema": "epochs", "login": "me", "password": ODD}
    extra = {"backend": "postgresql", "warehouse": WAREHOUSE}
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", json.dumps({**fields, "extra": extra}))
    settings = EpochsHook().get_settings()
    assert quote(ODD, safe="") in settings.store_url
    assert "p%40ss" not in repr(settings)
    said = redact(f"{ODD} and {settings.store_url}")
    assert ODD not in said
    assert "p%40ss" not in said


def test_connection_test_names_the_invalid_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", '{"conn_type": "epochs", "host": "relative.db"}')
    works, message = EpochsHook().test_connection()
    assert not works
    assert "field host" in message


def test_a_connection_that_airflow_does_not_know_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's, its catalog's or a source's; the trigger says so instead of waiting for it."""
    store = {"conn_type": "epochs", "host": "/srv/epochs.db", "extra": {"warehouse": WAREHOUSE}}
    monkeypatch.setenv("AIRFLOW_CONN_SQLITE", json.dumps(store))
    server = {"conn_type": "epochs", "host": "zk.example", "schema": "epochs", "login": "me", "password": "p"}
    extra = {"backend": "zookeeper", "warehouse": WAREHOUSE, "catalog": "nobody", "tls": "verify-full"}
    monkeypatch.setenv("AIRFLOW_CONN_ZOOKEEPER", json.dumps({**server, "extra": extra}))
    trigger = EpochTrigger(
        domain="default", tables=["a"], barrier="2013-02-08T00:00:00+00:00", epochs_conn_id="nobody"
    )
    ways: list[Callable[[], object]] = [
        EpochsHook("nobody").get_settings,
        EpochsHook("nobody").get_conn,
        EpochsHook("zookeeper").get_settings,
        lambda: EpochsHook("sqlite").get_settings(connections=["nobody"]),
        lambda: asyncio.run(EpochsHook("nobody").aget_settings()),
        lambda: asyncio.run(EpochsHook("zookeeper").aget_settings()),
        lambda: asyncio.run(anext(trigger.run())),
    ]
    for ask in ways:
        with pytest.raises(UnknownConnection, match="airflow connections add nobody") as told:
            ask()
        assert told.value.conn_id == "nobody"
    works, message = EpochsHook("nobody").test_connection()
    assert (works, "'nobody'" in message) == (False, True)


def test_a_hook_looks_nothing_up_until_it_is_asked() -> None:
    assert EpochsHook("no_such_connection").epochs_conn_id == "no_such_connection"


def test_empty_extras_count_as_absent() -> None:
    assert parsed_extra("epochs_default", '{"backend": "", "warehouse": null}') == {}
    assert parsed_extra("epochs_default", None) == {}
