"""The benchmarks in their smallest size: every line of them runs, on every store; their figures mean nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_provider.stores.factory import upgrade_schema
from benchmarks.__main__ import ONCE, PARTS, SLOW
from benchmarks.sizes import Size
from benchmarks.stores import STORES, Store

WITH_SPARK = {"share"}
"""Parts that the integration tier runs, beside its Spark."""
SERVERS = {"sqlite": None, "postgresql": "postgresql", "zookeeper_1": "zookeeper", "zookeeper_3": "zookeeper"}


@pytest.fixture(scope="module", params=sorted(set(SERVERS) - {"zookeeper_3"}))
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store on a server that the tests have started anyway."""
    url = f"sqlite:///{tmp_path_factory.mktemp('bench')}/store.db"
    if SERVERS[request.param]:
        server = request.getfixturevalue(SERVERS[request.param])
        is_postgresql = request.param == "postgresql"
        url = server.url(server.create_database()) if is_postgresql else server.url()
    upgrade_schema(url)
    return Store(name=request.param, url=url)


def figures(capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """What was printed for programs."""
    found = re.findall(r"^figure (\S+) (\S+)$", capsys.readouterr().out, re.MULTILINE)
    return {name: float(value) for name, value in found}


@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_part_runs_on_every_store(store: Store, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    PARTS[part](store, Size.SMALLEST)
    found = figures(capsys)
    assert found
    assert all(f".{store.name}." in name for name in found)


@pytest.mark.parametrize("part", sorted(SLOW))
def test_a_slow_part_runs(part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    upgrade_schema(url)
    SLOW[part](Store(name="sqlite", url=url), Size.SMALLEST)
    assert figures(capsys)


@pytest.mark.parametrize("part", sorted(set(ONCE) - WITH_SPARK))
def test_a_part_of_one_store_runs(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    ONCE[part](Size.SMALLEST)
    assert figures(capsys)


def test_every_store_that_is_measured_is_tried_here() -> None:
    assert set(SERVERS) == set(STORES)
