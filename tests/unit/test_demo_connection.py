"""What the readers' processes take from their environment is what the store's connections lead to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider.domain.errors import InvalidInput
from demo.connection import (
    CATALOG_CONN_ID,
    CONN_ID,
    Connections,
    connection,
    environment_of,
    settings_from_environment,
    settings_of,
)
from demo.stores import SqliteStore

WAREHOUSE = "file:///srv/nyc/warehouse"
ELSEWHERE: Connections = {
    CONN_ID: connection(
        backend="zookeeper",
        host="127.0.0.1:2181,127.0.0.1:2182",
        schema="epochs",
        extra={"warehouse": WAREHOUSE, "catalog": CATALOG_CONN_ID},
    ),
    CATALOG_CONN_ID: connection(backend="sqlite", host="/srv/nyc/catalog.db", extra={}),
}
SERVER: Connections = {
    CONN_ID: connection(
        backend="postgresql",
        host="127.0.0.1",
        port=5433,
        schema="nyc",
        login="epochs",
        password="a/b?c",  # noqa: S106 - of no account
        extra={"warehouse": WAREHOUSE},
    )
}


@pytest.mark.parametrize(
    ("connections", "store_url", "catalog_url"),
    [
        (
            SqliteStore(home=Path("/srv/nyc"), warehouse=WAREHOUSE).connections,
            "sqlite:////srv/nyc/epochs/epochs.db",
            None,
        ),
        (SERVER, "postgresql+psycopg://epochs:a%2Fb%3Fc@127.0.0.1:5433/nyc", None),
        (ELSEWHERE, "zookeeper://127.0.0.1:2181,127.0.0.1:2182/epochs", "sqlite:////srv/nyc/catalog.db"),
    ],
    ids=["sqlite", "postgresql", "zookeeper"],
)
def test_the_environment_leads_to_the_same_store(
    connections: Connections, store_url: str, catalog_url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in environment_of(connections).items():
        monkeypatch.setenv(name, text)
    settings = settings_from_environment()
    assert settings == settings_of(connections)
    assert (settings.store_url, settings.catalog_url) == (store_url, catalog_url)
    assert settings.warehouse == WAREHOUSE


def test_airflow_finds_the_connections_under_their_names() -> None:
    found = environment_of(ELSEWHERE)
    assert sorted(found) == ["AIRFLOW_CONN_EPOCHS_CATALOG", "AIRFLOW_CONN_EPOCHS_DEFAULT"]
    assert json.loads(found["AIRFLOW_CONN_EPOCHS_DEFAULT"])["conn_type"] == "epochs"


def test_a_store_that_holds_no_pointers_needs_a_catalog() -> None:
    alone = {
        CONN_ID: connection(backend="zookeeper", host="127.0.0.1", schema="e", extra={"warehouse": WAREHOUSE})
    }
    with pytest.raises(InvalidInput, match="catalog"):
        settings_of(alone)
