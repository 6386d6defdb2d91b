"""Pointers in a catalog outside of the store: what readers see, and how the pointers catch up (R17, I10)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.coordination.upkeep.orphans import orphans
from airflow_provider.coordination.upkeep.recover import recover
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import AlreadyCommitted, Published
from airflow_provider.domain.errors import (
    Fenced,
    InvalidInput,
    StoreIncompatible,
    StoreUnavailable,
    UnknownName,
)
from airflow_provider.domain.records import table_key
from airflow_provider.stores.base import CATALOG_NAME, StoreCapability
from airflow_provider.stores.factory import open_store, upgrade_schema
from airflow_provider.testing.arrow_attempts import write_rows
from airflow_provider.testing.faults import Fault, FaultyStore, first
from tests.contract.coordination_world import (
    DOMAIN,
    Backend,
    SqlitePointers,
    World,
    day,
    owner,
    rows,
)
from tests.contract.interruptions import Died, interrupted


@pytest.fixture(params=["memory elsewhere", "iceberg elsewhere", "zookeeper"])
def world(request: Any, quick_path: Path, empty_sqlite: Path) -> Iterator[World]:
    """An empty domain whose pointers follow: memory tables and Iceberg, and Iceberg beside ZooKeeper."""
    url = request.getfixturevalue("zookeeper").url() if request.param == "zookeeper" else ""
    if url:
        upgrade_schema(url)
    world = Backend(request.param, quick_path, empty_sqlite, url).world()
    yield world
    world.close()


@pytest.fixture
def iceberg(quick_path: Path, empty_sqlite: Path) -> Iterator[World]:
    """The same, Iceberg alone."""
    world = Backend("iceberg elsewhere", quick_path, empty_sqlite).world()
    yield world
    world.close()


def die() -> None:
    raise Died


def dies_after_its_commit(world: World, number: int, *outputs: str) -> None:
    """Compute a day in a process that is killed between the commit and the pointers."""
    job = world.job("job", [world.table(name) for name in outputs or ("t",)])
    attempt = world.begin(job, day(number))
    world.write(attempt, [number])
    with suppress(Died):
        interrupted(world, die, "table.published").publish(attempt)
    assert world.store.read(DOMAIN, []).head.csn == number


def reached(world: World, table: str) -> bool:
    """Whether the pointer of *table* names what the store recorded."""
    record = world.store.read(DOMAIN, [table_key(DOMAIN, table)]).records[table_key(DOMAIN, table)]
    return bool(world.pointers.pointer(DOMAIN, table) == record.record.ref.metadata)


def outside(world: World, table: str) -> int:
    """Rows that pyiceberg finds by the catalog."""
    assert isinstance(world.pointers, SqlitePointers)
    catalog = SqlCatalog(CATALOG_NAME, uri=f"sqlite:///{world.pointers.path}")
    try:
        rows: int = catalog.load_table((DOMAIN, table)).scan().to_arrow().num_rows
    finally:
        catalog.engine.dispose()
    return rows


def test_cuts_read_the_commit_and_readers_by_catalog_the_one_before(iceberg: World) -> None:
    """R17: no cut asks the pointer."""
    world = iceberg
    world.run(world.job("job", [world.table("t")]), day(1))
    assert outside(world, "t") == 1
    dies_after_its_commit(world, 2)
    assert world.rows("t") == {"t": [(1, 1), (2, 2)]}
    assert outside(world, "t") == 1, "the catalog has the commit before, whole"
    world.begin(world.job("job", [world.table("t")]), day(3))
    assert outside(world, "t") == 2, "the next begin of the job has moved the pointer"


def test_the_retry_of_a_dead_publish_moves_the_pointers(world: World) -> None:
    """R17: its begin finds the commit, and lets them follow."""
    dies_after_its_commit(world, 1, "left", "right")
    assert not any(reached(world, name) for name in ("left", "right"))
    job = world.job("job", [world.table("left"), world.table("right")])
    answer = world.coordinator.begin(job, day(1), owner(try_number=2))
    assert isinstance(answer, AlreadyCommitted)
    assert all(reached(world, name) for name in ("left", "right"))


def test_repeated_publish_after_a_lost_reply_moves_the_pointers(world: World) -> None:
    """R15, R17: asking again does what the first call had yet to do."""
    attempt = world.begin(world.job("t"), day(1))
    world.write(attempt)
    store = FaultyStore(world.store, first("transact", Fault.REPLY_LOST))
    assert isinstance(world.worker(store).publish(attempt), Published)
    assert reached(world, "t")


def test_epochs_publish_while_pointers_lag(world: World) -> None:
    """R17: no publish needs the pointer: each version is made from what the store recorded."""
    job = world.job("t")
    attempts = [world.begin(job, day(number)) for number in range(1, 5)]
    for number, attempt in enumerate(attempts, 1):
        world.write(attempt, [number])
        with suppress(Died):
            interrupted(world, die, "table.published").publish(attempt)
    assert not reached(world, "t")
    assert world.rows("t") == {"t": [(number, number) for number in range(1, 5)]}
    assert [table.moved for table in recover(world.coordinator.context, DOMAIN).tables] == [True]
    assert reached(world, "t")


def test_recover_moves_and_reports_lagging_pointers(world: World) -> None:
    """R17: of all tables of the domain."""
    dies_after_its_commit(world, 1, "left", "right")
    world.coordinator.register(world.job("never run"))
    found = recover(world.coordinator.context, DOMAIN)
    assert found.csn == 1
    assert [(table.name, table.csn, table.moved, table.problem) for table in found.tables] == [
        ("left", 1, True, ""),
        ("right", 1, True, ""),
    ]
    assert all(reached(world, name) for name in ("left", "right"))
    again = recover(world.coordinator.context, DOMAIN)
    assert [table.moved for table in again.tables] == [False, False]


def test_recover_dies_at_any_call_and_is_repeated(world: World) -> None:
    """R17: what it has moved stays moved."""
    dies_after_its_commit(world, 1, "left", "right")
    for call in ("store.scan", "table.project"):
        with suppress(Died):
            recover(interrupted(world, die, call).context, DOMAIN)
    with suppress(Died):
        recover(interrupted(world, die, "table.project", 1).context, DOMAIN)
    assert (reached(world, "left"), reached(world, "right")) == (True, False)
    with suppress(Died):
        recover(interrupted(world, die, "store.read", 3).context, DOMAIN)  # all is done, no caller is told
    assert (reached(world, "left"), reached(world, "right")) == (True, True)
    assert [table.moved for table in recover(world.coordinator.context, DOMAIN).tables] == [False, False]


def test_recover_of_an_unknown_domain_is_refused(world: World) -> None:
    with pytest.raises(UnknownName, match="nowhere"):
        recover(world.coordinator.context, "nowhere")


def test_recover_names_the_table_that_it_cannot_repair(world: World) -> None:
    """R17: the others are repaired all the same."""
    dies_after_its_commit(world, 1, "left", "right")
    world.pointers.drop(DOMAIN, "left")
    key = table_key(DOMAIN, "left")
    lost = world.store.read(DOMAIN, [key]).records[key].record.ref.metadata
    if world.warehouse is not None:
        Path(lost.removeprefix("file://")).unlink()
    else:
        del world.pointers.objects[lost]
    left, right = recover(world.coordinator.context, DOMAIN).tables
    assert left.problem.startswith("Unavailable")
    assert (right.moved, right.problem) == (True, "")
    assert world.rows("right") == {"right": [(1, 1)]}


def test_recover_repairs_the_tables_of_a_retired_job(world: World) -> None:
    """R7, R17: no job declares them any more, and their readers go on."""
    dies_after_its_commit(world, 1, "left", "right")
    world.coordinator.retire(DOMAIN, "job", reason="replaced", by="ada")
    found = recover(world.coordinator.context, DOMAIN).tables
    assert [(table.name, table.moved, table.problem) for table in found] == [
        ("left", True, ""),
        ("right", True, ""),
    ]
    assert all(reached(world, name) for name in ("left", "right"))


def test_recover_names_tables_that_are_ahead_of_a_restored_store(iceberg: World, tmp_path: Path) -> None:
    """R33: the store of yesterday beside the tables of today."""
    world, backup = iceberg, tmp_path / "backup.db"
    assert world.path is not None
    world.run(world.job("t"), day(1))
    with closing(sqlite3.connect(world.path)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    for number in (2, 3):
        world.run(world.job("t"), day(number))
    assert recover(world.coordinator.context, DOMAIN).tables[0].problem == ""
    with open_store(f"sqlite:///{backup}") as restored:
        (found,) = recover(world.worker(restored).context, DOMAIN).tables
    assert found.problem.startswith("TablesAhead")
    assert not found.moved


def test_an_epoch_begins_and_publishes_while_the_pointer_was_moved_by_others(iceberg: World) -> None:
    """R17: cuts go on; the job is told at its publish, as it is with a catalog in the store's database."""
    world = iceberg
    dies_after_its_commit(world, 1)
    assert isinstance(world.pointers, SqlitePointers)
    world.pointers.execute("UPDATE iceberg_tables SET metadata_location = ?", ("file:///nowhere.json",))
    world.begin(world.job("job", [world.table("t")]), day(2))
    assert world.rows("t") == {"t": [(1, 1)]}
    assert "Unavailable" in recover(world.coordinator.context, DOMAIN).tables[0].problem


@contextmanager
def catalog_away(world: World) -> Iterator[None]:
    """Let no process open the catalog's database."""
    assert isinstance(world.pointers, SqlitePointers)
    path, aside = world.pointers.path, world.pointers.path.with_suffix(".aside")
    world.formats.close()
    path.rename(aside)
    path.mkdir()
    try:
        yield
    finally:
        world.formats.close()
        path.rmdir()
        aside.rename(path)


def test_while_the_catalog_is_away_cuts_go_on_and_publishing_waits(iceberg: World) -> None:
    world = iceberg
    job = world.job("t")
    world.run(job, day(1))
    attempt = world.begin(job, day(2))
    world.write(attempt, [2])
    with catalog_away(world):
        assert world.rows("t") == {"t": [(1, 1)]}
        assert world.begin(job, day(3)).revision == 1, "to begin asks the catalog nothing that it needs"
        with pytest.raises(StoreUnavailable, match="catalog"):
            world.coordinator.publish(attempt)
        with pytest.raises(StoreUnavailable, match="catalog"):
            recover(world.coordinator.context, DOMAIN)
    world.coordinator.publish(attempt)
    assert world.rows("t") == {"t": [(1, 1), (2, 2)]}
    assert reached(world, "t")


def test_commit_stays_when_the_catalog_goes_away(iceberg: World) -> None:
    world = iceberg
    job = world.job("t")
    world.run(job, day(1))
    attempt = world.begin(job, day(2))
    world.write(attempt, [2])
    with ExitStack() as outage:
        own = interrupted(world, lambda: outage.enter_context(catalog_away(world)), "table.published")
        assert own.publish(attempt).csn == 2
        assert world.rows("t") == {"t": [(1, 1), (2, 2)]}
    assert not reached(world, "t")
    assert recover(world.coordinator.context, DOMAIN).tables[0].moved
    assert reached(world, "t")


def test_versions_that_the_pointer_may_name_are_not_deleted(iceberg: World) -> None:
    world = iceberg
    job = world.job("t")
    world.run(job, day(1))
    named = Path(str(world.pointers.pointer(DOMAIN, "t")).removeprefix("file://"))
    attempts = [world.begin(job, day(number)) for number in range(2, 32)]
    for number, attempt in enumerate(attempts, 2):
        world.write(attempt, [number])  # before the first publish: a write repairs a pointer that lags
    for attempt in attempts:
        with suppress(Died):
            interrupted(world, die, "table.published").publish(attempt)
    assert named.exists()
    assert outside(world, "t") == 1
    assert recover(world.coordinator.context, DOMAIN).tables[0].moved
    assert outside(world, "t") == 31


def test_a_service_may_insist_on_one_transaction(tmp_path: Path) -> None:
    both = Settings(
        store_url=f"sqlite:///{tmp_path}/store.db",
        warehouse=f"{tmp_path}/warehouse",
        require=frozenset({StoreCapability.CATALOG_SWAP}),
    )
    EpochService.open(both).close()
    elsewhere = replace(both, catalog_url=f"sqlite:///{tmp_path}/catalog.db")
    with pytest.raises(StoreIncompatible, match="atomic with an Iceberg catalog") as refused:
        EpochService.open(elsewhere)
    assert refused.value.missing == (StoreCapability.CATALOG_SWAP,)
    with EpochService.open(replace(elsewhere, require=frozenset())) as service:
        assert service.formats.following == {"iceberg"}


def test_zookeeper_is_refused_where_one_transaction_is_wanted(tmp_path: Path) -> None:
    """By name, before anything is opened: no server is there."""
    settings = Settings(
        store_url="zookeeper://nowhere.invalid/epochs",
        warehouse=f"{tmp_path}/warehouse",
        require=frozenset({StoreCapability.CATALOG_SWAP}),
    )
    with pytest.raises(
        StoreIncompatible, match="nowhere.invalid/epochs is not atomic with an Iceberg catalog"
    ):
        EpochService.open(settings)


@pytest.mark.parametrize(
    "warehouse", ["", "warehouse", "./warehouse", "s3:/bucket", "s3://[::1", "file://srv/warehouse"]
)
def test_a_warehouse_that_cannot_be_is_refused_before_the_store_is_made(
    tmp_path: Path, warehouse: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        EpochService.open(Settings(store_url=f"sqlite:///{tmp_path}/store.db", warehouse=warehouse))
    assert (refused.value.field, refused.value.value) == ("warehouse", warehouse)
    assert refused.value.next_step
    assert not list(tmp_path.iterdir())


def test_a_catalog_that_is_no_database_is_refused(tmp_path: Path) -> None:
    settings = Settings(
        store_url=f"sqlite:///{tmp_path}/store.db", warehouse=f"{tmp_path}/w", catalog_url="memory://here"
    )
    with EpochService.open(settings) as service, pytest.raises(InvalidInput, match="Iceberg catalog"):
        service.formats["iceberg"]


def test_lagging_pointer_does_not_hide_orphans(world: World) -> None:
    """R16, R17: what the store recorded is what was published, wherever the pointer is."""
    job = world.job("job", [world.table("t")])
    zombie = world.begin(job, day(1))
    world.run(job, day(1), [1], owner(try_number=2))
    with suppress(Fenced):
        write_rows(world.coordinator, zombie, "t", rows([99], zombie.token))
    dies_after_its_commit(world, 2)
    soon = replace(DEFAULTS, orphan_grace=timedelta(milliseconds=1))
    world.clock.advance(soon.orphan_grace)
    assert len(list(orphans(world.store, world.formats, DOMAIN, soon))) == 1
    assert not reached(world, "t")
