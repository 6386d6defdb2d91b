"""``connect``: every way to say where store and tables are leads to the same rows, or says what is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider import (
    EpochError,
    Epochs,
    InvalidInput,
    Job,
    LocalEpochs,
    MissingLibrary,
    Settings,
    StoreUnavailable,
    Table,
    UnknownConnection,
    UnknownName,
    WrongWarehouse,
    connect,
)

pytestmark = pytest.mark.usefixtures("nothing_handed_over")

pytest_plugins = ["airflow_provider.testing.pytest_plugin"]

RIDES = Table("rides", domain="city")
LOAD = Job("load", outputs=[RIDES], cadence="@daily")
ROWS: list[dict[str, Any]] = [{"station": "Harbour"}]

WAYS: dict[str, Callable[[LocalEpochs], Epochs]] = {
    "url": lambda local: connect(f"sqlite:///{local.folder}/epochs.db", domain="city"),
    "url with its warehouse": lambda local: connect(
        f"sqlite:///{local.folder}/epochs.db", warehouse=f"file://{local.folder}/warehouse", domain="city"
    ),
    "folder": lambda local: connect(local=local.folder, domain="city"),
    "fixture": lambda local: connect(local=local, domain="city"),
    "settings": lambda local: connect(local.settings, domain="city"),
    "connection": lambda _: connect("epochs_default", domain="city"),
}


@pytest.mark.parametrize("way", sorted(WAYS))
def test_each_way_leads_to_the_same_rows(local_connections: LocalEpochs, way: str) -> None:
    local_connections.commit(LOAD, "2024-05-01", {RIDES: ROWS})
    with WAYS[way](local_connections) as epochs:
        cut = epochs.cut(["rides"])
        assert cut["rides"].to_arrow(["station"]).to_pylist() == ROWS
        assert epochs.cut(RIDES).states == cut.states
        with pytest.raises(UnknownName):
            epochs.cut("rides", domain="default")


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda _: connect(), InvalidInput, "place"),
        (lambda _: connect("epochs_default", local="."), InvalidInput, "place"),
        (lambda _: connect(7), InvalidInput, "place"),  # type: ignore[arg-type]
        (lambda _: connect("sqlite:///epochs.db"), InvalidInput, "absolute"),
        (lambda _: connect("mysql://host/db"), InvalidInput, "store url"),
        (lambda _: connect("postgresql+psycopg://me:secret@host/db"), InvalidInput, "warehouse"),
        (lambda _: connect(local="/nowhere/at/all"), InvalidInput, "local"),
        (lambda path: connect(local=path, warehouse="file:///w"), InvalidInput, "warehouse"),
        (
            lambda _: connect("epochs_default", catalog_url="postgresql://me:secret@h/d"),
            InvalidInput,
            "catalog",
        ),
        (lambda path: connect(local=path, domain=""), InvalidInput, "domain"),
        (lambda path: connect(local=path), StoreUnavailable, "epochs.db"),
        (lambda path: connect(f"sqlite:///{path}/epochs.db"), StoreUnavailable, "epochs.db"),
        (lambda _: connect("no such connection"), InvalidInput, "connection"),
        (lambda _: connect("nowhere"), UnknownConnection, "nowhere"),
    ],
)
def test_a_place_that_leads_nowhere_is_refused(
    tmp_path: Path, ask: Callable[[Path], Epochs], error: type[EpochError], words: str
) -> None:
    """And nothing is made there; no message has a password."""
    with pytest.raises(error, match=words) as refused:
        ask(tmp_path)
    assert type(refused.value) is error
    assert "secret" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_another_warehouse_is_refused(local_epochs: LocalEpochs) -> None:
    local_epochs.commit(LOAD, "2024-05-01", {RIDES: ROWS})
    url = f"sqlite:///{local_epochs.folder}/epochs.db"
    with connect(url, warehouse="file:///elsewhere") as epochs, pytest.raises(WrongWarehouse):
        epochs.cut(RIDES)


def test_closed_connection_reads_no_rows(local_epochs: LocalEpochs) -> None:
    local_epochs.commit(LOAD, "2024-05-01", {RIDES: ROWS})
    with connect(local=local_epochs) as epochs:
        cut = epochs.cut(RIDES)
    epochs.close()
    with pytest.raises(InvalidInput, match="an open store"):
        cut["rides"].to_arrow()


def test_a_connections_id_needs_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow", None)
    with pytest.raises(MissingLibrary, match="pip install 'apache-airflow"):
        connect("epochs_default")


def test_settings_say_the_rest_themselves(tmp_path: Path) -> None:
    settings = Settings.local(tmp_path)
    with pytest.raises(InvalidInput, match="leave it out"):
        connect(settings, warehouse="file:///w")
