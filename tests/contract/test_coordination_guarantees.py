"""What docs/reference/guarantees.md states of each kind of table, on each store, with each catalog, is so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.domain.table_kind import TableKind
from tests.contract.coordination_world import Backend, World
from tests.guarantees import PAGE, PROMISES, SETTINGS, Promise, Setting, page

STORES = {"memory": "memory", "sqlite": "SQLite", "postgresql": "PostgreSQL", "zookeeper": "ZooKeeper"}
KINDS = pytest.mark.parametrize("kind", list(TableKind), ids=lambda kind: kind.value)
EACH = pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.observed.__name__)


@pytest.fixture(params=["iceberg", pytest.param("iceberg elsewhere", marks=pytest.mark.thorough)])
def iceberg(request: pytest.FixtureRequest, quick_path: Path, empty_sqlite: Path) -> Iterator[World]:
    """A domain with Iceberg tables on SQLite."""
    world = Backend(request.param, quick_path, empty_sqlite).world()
    yield world
    world.close()


@KINDS
@EACH
def test_a_promise_stands_as_the_page_says(
    world: World, backend: Backend, promise: Promise, kind: TableKind
) -> None:
    """R2, R3, R4, R5, R7, R10, R14, R16, R17, R18, R19, R22, R24, R32, R33, I11: what engines see, and what cuts
    read.
    """
    store, elsewhere = STORES[backend.name.split()[0]], world.follows
    assert (store, elsewhere) in SETTINGS
    assert promise.observed(world, kind) is promise.stated(
        Setting(kind=kind, store=store, elsewhere=elsewhere)
    )


@KINDS
@EACH
def test_a_promise_stands_for_iceberg_tables(iceberg: World, promise: Promise, kind: TableKind) -> None:
    """R2, R3, R4, R5, R7, R10, R14, R16, R17, R18, R19, R22, R24, R32, R33, I11: rows in files that other programs
    read.
    """
    setting = Setting(kind=kind, store="SQLite", elsewhere=iceberg.follows)
    assert promise.observed(iceberg, kind) is promise.stated(setting)


def test_guarantees_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.guarantees"
