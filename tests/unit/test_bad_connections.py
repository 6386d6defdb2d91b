"""A connection whose fields hold what no user means: each is refused in words, before anything is opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.hooks.connection import COMMON_EXTRAS, ConnectionFields, checked_conn_id, place_of
from airflow_provider.stores.factory import backends
from airflow_provider.stores.sql.postgresql.address import parsed as parsed_postgresql
from airflow_provider.stores.zookeeper.address import parsed as parsed_zookeeper
from tests.hostile import TEXTS, refused

WAREHOUSE = {"warehouse": "file:///srv/epochs/warehouse"}
SECRET = "s3cret-of-mine"  # noqa: S105 - of no account
SERVER = {"schema": "epochs", "login": "me", "password": SECRET}
KINDS: Mapping[str, dict[str, Any]] = {
    "sqlite": {"host": "/srv/epochs/epochs.db", "extra": WAREHOUSE},
    "postgresql": {"host": "db.example", **SERVER, "extra": WAREHOUSE | {"backend": "postgresql"}},
    "zookeeper": {
        "host": "zk.example",
        **SERVER,
        "extra": WAREHOUSE | {"backend": "zookeeper", "tls": "verify-full", "catalog": "other"},
    },
}
OWN = ("host", "schema", "login", "password", "port")
FIELDS = [(kind, name) for kind in KINDS for name in (*OWN, *COMMON_EXTRAS, *backends()[kind].extras)]
ABSENT = ["nothing", "empty"]
SECRETS = [*TEXTS, "blank"]
FILE = [*TEXTS, "blank", "empty"]
GOOD: dict[str, Iterable[str]] = {
    "sqlite schema": ABSENT,
    "sqlite login": ABSENT,
    "sqlite password": ABSENT,
    "sqlite port": ABSENT,
    "sqlite catalog": ["a path", "nothing"],
    "postgresql schema": SECRETS,
    "postgresql login": SECRETS,
    "postgresql password": [*SECRETS, *ABSENT],
    "postgresql port": ["nothing"],
    "postgresql catalog": ["a path", "nothing"],
    "postgresql sslmode": ["empty"],
    "postgresql sslrootcert": FILE,
    "postgresql sslcert": FILE,
    "postgresql sslkey": FILE,
    "postgresql pooled": ["empty", "true"],
    "zookeeper schema": ["300 characters"],
    "zookeeper login": SECRETS,
    "zookeeper password": SECRETS,
    "zookeeper port": ["nothing"],
    "zookeeper catalog": ["a path"],
    "zookeeper ca": FILE,
    "zookeeper cert": ["empty"],
    "zookeeper key": ["empty"],
    "zookeeper readers": ["empty"],
    "zookeeper session_timeout": ["a fraction"],
}
"""What a field takes of all that; beside these, a list of no capabilities."""


def opened(kind: str, name: str, value: Any) -> None:
    """What happens to a connection before its store is asked for anything."""
    fields = dict(KINDS[kind])
    if name in OWN:
        fields[name] = value
    else:
        fields["extra"] = fields["extra"] | {name: value}
    url = place_of(ConnectionFields(conn_id="mine", **fields)).store_url
    if kind != "sqlite":
        (parsed_postgresql if kind == "postgresql" else parsed_zookeeper)(url)


@pytest.mark.parametrize(("kind", "name"), FIELDS)
def test_invalid_field_of_a_connection_is_refused_with_a_message(kind: str, name: str) -> None:
    """Each field of each kind of connection; what opens a store looks at the rest of the address."""
    good = ["a list"] if name == "require" else GOOD.get(f"{kind} {name}", ())
    refused(lambda value: opened(kind, name, value), good)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_refusal_shows_a_password(kind: str) -> None:
    """Neither its own nor that of another field."""
    for name, value in (("password", f"{SECRET}\0"), ("host", "\0"), ("warehouse", [])):
        with pytest.raises(InvalidInput) as told:
            opened(kind, name, value)
        assert SECRET not in f"{told.value} {told.value.details}"


def test_an_id_that_no_connection_can_have_is_refused() -> None:
    refused(checked_conn_id, ["a path"])
