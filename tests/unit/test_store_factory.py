"""Which URLs are stores, and what is said about those that are not."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_provider.domain.errors import InvalidInput, StoreIncompatible
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.stores.base import MetadataStore, StoreCapability
from airflow_provider.stores.factory import catalog_properties, check_schema, open_store, redacted
from airflow_provider.stores.memory import MemoryStore, forget
from airflow_provider.stores.sql.dialect import SqlDialect
from airflow_provider.stores.sql.postgresql.address import parsed
from airflow_provider.stores.sql.postgresql.dialect import PostgresqlDialect
from airflow_provider.stores.sql.sqlite import SqliteDialect
from airflow_provider.stores.zookeeper import address as zookeeper_address
from airflow_provider.stores.zookeeper.store import ZookeeperStore

ODD = "s3cr@t:/%"
"""A password with everything in it that a URL gives a meaning to."""


@pytest.mark.parametrize(
    "url",
    [
        "",
        "sqlite",
        "nosuch://host/db",
        f"postgresql://user:{ODD}@db.example/epochs",
        f"zookeepers://user:{ODD}@zk.example:2181/epochs",
        "sqlite:relative.db",
        "SQLITE:////a.db",
        None,
        7,
    ],
)
def test_an_unknown_scheme_is_refused_with_the_known_ones(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        open_store(url)
    assert "memory://NAME" in refused.value.expected
    assert "sqlite:////" in refused.value.expected
    assert "s3cr" not in str(refused.value)
    assert "s3cr" not in repr(refused.value.details)


def test_a_store_without_its_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow_provider.stores.sql.postgresql.dialect", None)
    with pytest.raises(InvalidInput, match="installed driver") as refused:
        open_store("postgresql+psycopg://db.example/epochs")
    assert "extra 'postgres'" in refused.value.next_step
    assert "pip install -c constraints.txt '.[postgres]'" in refused.value.next_step


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite:////",
        "sqlite:///:memory:",
        "sqlite://:memory:",
        "sqlite:///relative.db",
        "sqlite://host/path.db",
        "sqlite:////tmp/directory/",
        "sqlite:////tmp/a.db?mode=memory",
        "sqlite:////tmp/a\0b.db",
        "memory://",
        "memory://a/b",
    ],
)
def test_an_address_that_cannot_be_shared_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="store url"):
        open_store(url)


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "/epochs",
        "user:secret@/epochs",
        "user:secret@db.example",
        "user:secret@db.example/",
        ":secret@db.example/epochs",
        "user:secret@db.example:port/epochs",
        f"user:{ODD}@db.example/epochs",
        "user:secret@one.example,/epochs",
        "user:secret@one.example,two.example:port/epochs",
        "user:secret@db.example/epochs?pooled=maybe",
        "user:secret@db.example/epochs?target_session_attrs=any",
        "user:secret@db.example/epochs?host=elsewhere",
        "user:secret@db.example/epochs?passfile=/etc/passwd",
        "user:secret@db.example/epochs?sslmode=maybe",
        "user:secret@db.example/epochs?sslmode=require&sslmode=disable",
    ],
)
def test_an_address_that_is_no_database_is_refused_without_its_password(rest: str) -> None:
    with pytest.raises(InvalidInput, match="postgresql\\+psycopg://USER:PASSWORD@HOST") as refused:
        open_store(f"postgresql+psycopg://{rest}")
    for shown in (str(refused.value), repr(refused.value.details)):
        assert "secret" not in shown
        assert "s3cr" not in shown


def test_an_address_of_a_database_is_read_whole() -> None:
    address = parsed(
        "postgresql+psycopg://me%40x:p%2Fw%25@[::1]:6432/e%20p?sslmode=verify-full&sslrootcert=/ca"
    )
    assert (address.user, address.password, address.host, address.port) == ("me@x", "p/w%", "::1", 6432)
    assert (address.database, address.tls) == ("e p", {"sslmode": "verify-full", "sslrootcert": "/ca"})
    assert address.location == "postgresql://[::1]:6432/e p"
    assert "p/w" not in repr(address)
    assert parsed("postgresql+psycopg://db.example/epochs").port == 5432


def test_an_address_may_name_a_primary_and_its_standbys() -> None:
    address = parsed("postgresql+psycopg://me:s@one.example,[::1]:6432,three:7/epochs?pooled=true")
    assert address.servers == (("one.example", 5432), ("::1", 6432), ("three", 7))
    assert address.places == {
        "host": "one.example,::1,three",
        "port": "5432,6432,7",
        "target_session_attrs": "read-write",
    }
    assert address.location == "postgresql://one.example:5432,[::1]:6432,three:7/epochs"
    assert (address.pooled, address.tls, address.sslmode) == (True, {}, "require")
    assert parsed("postgresql+psycopg://one.example/epochs").places == {"host": "one.example", "port": "5432"}


@pytest.mark.parametrize(
    ("host", "options", "mode"),
    [
        ("127.0.0.1", "", "prefer"),
        ("127.8.8.8", "", "prefer"),
        ("[::1]", "", "prefer"),
        ("localhost", "", "prefer"),
        ("LOCALHOST", "", "prefer"),
        ("localhost.example", "", "require"),
        ("db.example", "", "require"),
        ("10.0.0.7", "", "require"),
        ("[fe80::1]", "", "require"),
        ("db.example", "?sslmode=disable", "disable"),
        ("localhost", "?sslmode=verify-full", "verify-full"),
        ("db.example", "?sslrootcert=system", "verify-full"),
        ("db.example", "?sslmode=verify-ca&sslrootcert=/ca", "verify-ca"),
    ],
)
def test_remote_connections_are_encrypted_unless_the_url_says_otherwise(
    host: str, options: str, mode: str
) -> None:
    assert parsed(f"postgresql+psycopg://me:secret@{host}/epochs{options}").sslmode == mode


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "zk.example",
        "zk.example/",
        "zk.example:2181",
        "zk.example:0/epochs",
        "zk.example:port/epochs",
        "zk.example,/epochs",
        "zk.example/a//b",
        "zk.example/../b",
        "zk.example/zookeeper",
        "zk.example/a%2Fb%00",
        "zk.example/a b",
        "user:secret@zk.example",
        ":secret@zk.example/epochs",
        "secret@zk.example/epochs",
        f"user:{ODD}@zk.example:2181/epochs",
        "user:secret@zk.example/epochs?auth=kerberos",
        "user:secret@zk.example/epochs?password=secret",
        "user:secret@zk.example/epochs?tls=maybe",
        "user:secret@zk.example/epochs?tls=off&ca=/ca",
        "user:secret@zk.example/epochs?cert=/cert",
        "user:secret@zk.example/epochs?session_timeout=0",
        "user:secret@zk.example/epochs?session_timeout=5&session_timeout=6",
    ],
)
def test_an_address_that_is_no_ensemble_is_refused_without_its_password(rest: str) -> None:
    for use in (open_store, check_schema):
        with pytest.raises(InvalidInput, match=r"zookeeper://\[USER:PASSWORD@\]HOST") as refused:
            use(f"zookeeper://{rest}")
        for shown in (str(refused.value), repr(refused.value.details)):
            assert "secret" not in shown
            assert "s3cr" not in shown


def test_an_address_of_an_ensemble_is_read_whole() -> None:
    address = zookeeper_address.parsed(
        "zookeeper://me%40x:p%2Fw%25@one,[::1]:2182/prod/epochs?auth=sasl&ca=/ca&cert=/c&key=/k&session_timeout=20"
    )
    assert (address.user, address.password, address.hosts) == ("me@x", "p/w%", ("one:2181", "[::1]:2182"))
    assert (address.chroot, address.auth, address.tls) == ("/prod/epochs", "sasl", "verify-full")
    assert (address.ca, address.cert, address.key, address.session_timeout_s) == ("/ca", "/c", "/k", 20.0)
    assert address.location == "zookeeper://one:2181,[::1]:2182/prod/epochs"
    assert "p/w" not in repr(address)
    plain = zookeeper_address.parsed("zookeeper://one/epochs")
    assert (plain.user, plain.tls, plain.has_identity) == ("", "off", False)


def test_zookeeper_has_no_iceberg_catalog() -> None:
    with pytest.raises(InvalidInput, match="ZooKeeper has none"):
        catalog_properties("zookeeper://zk.example/epochs")


def test_a_missing_capability_is_named() -> None:
    with pytest.raises(StoreIncompatible, match="cluster-wide") as refused:
        open_store("memory://x", require={StoreCapability.CLUSTER, StoreCapability.WATCH})
    assert refused.value.missing == (StoreCapability.CLUSTER,)
    with pytest.raises(StoreIncompatible, match="snapshot read"):
        open_store("zookeeper://nowhere.invalid/epochs", require={StoreCapability.SNAPSHOT_READ})
    with pytest.raises(StoreIncompatible, match="cluster-wide"):
        open_store("sqlite:////nowhere/is/nothing.db", require={StoreCapability.CLUSTER})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql+psycopg://user:{ODD}@db.example:5432/epochs?sslmode=x", "db.example:5432/epochs"),
        (f"zookeeper://user:{ODD}@[::1]:2181,b/epochs", "[::1]:2181,b/epochs"),
        ("sqlite:////a@b/c.db", "sqlite:////a@b/c.db"),
    ],
)
def test_a_shown_url_has_no_secret(url: str, shown: str) -> None:
    assert redacted(url).endswith(shown)
    assert "user" not in redacted(url)
    assert "s3cr" not in redacted(url)
    assert "t:/%" not in redacted(url)


def test_memory_stores_of_one_name_are_one_store() -> None:
    moment = datetime(2013, 2, 8, tzinfo=UTC)
    one, two = open_store("memory://unit-one"), open_store("memory://unit-two", now=lambda: moment)
    again = open_store("memory://unit-one")
    domain = DomainName("d")
    assert one.read(domain, []).head == again.read(domain, []).head
    assert one.read(domain, []).head.incarnation != two.read(domain, []).head.incarnation
    assert two.read(domain, []).now == moment
    assert repr(one) == "MemoryStore(memory://unit-one)"
    for name in ("unit-one", "unit-two"):
        forget(name)


def test_a_memory_store_has_no_schema_and_no_iceberg_catalog() -> None:
    assert check_schema("memory://x") is None
    with pytest.raises(InvalidInput, match="format='memory'"):
        catalog_properties("memory://x")


def test_the_docs_table_of_stores_is_the_codes() -> None:
    stores: dict[str, type[MetadataStore | SqlDialect]] = {
        "memory": MemoryStore,
        "sqlite": SqliteDialect,
        "postgresql": PostgresqlDialect,
        "zookeeper": ZookeeperStore,
    }
    lines = (Path(__file__).parents[2] / "docs" / "reference" / "store.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert ["capability", *stores] in rows
    for capability in StoreCapability:
        expected = ["yes" if capability in store.capabilities else "no" for store in stores.values()]
        assert [capability.value, *expected] in rows
