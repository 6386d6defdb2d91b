"""Two formats in one service: the store's transactions move the pointers of one, those of the other follow (R17)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import RLock

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider.coordination.reading.queries import Engine, queries
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.coordination.upkeep.audit import missing_files
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.move import move_domain
from airflow_provider.coordination.upkeep.recover import recover
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.records import table_key
from airflow_provider.domain.topology import Job, Table
from airflow_provider.spark.epoch_run import epoch_run, shared_epoch_run
from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.stores.factory import open_store, upgrade_schema
from airflow_provider.stores.memory import MemoryCatalog, forget, memory_catalog
from airflow_provider.tables.capabilities import TableCapability
from airflow_provider.tables.errors import TableDropped
from airflow_provider.tables.factory import TableFormats, open_formats
from airflow_provider.tables.iceberg.format import IcebergFormat
from airflow_provider.tables.memory import MemoryFormat
from airflow_provider.testing.arrow_attempts import stage_rows, write_rows
from airflow_provider.testing.manual_clock import ManualClock
from tests.contract.coordination_world import DOMAIN, World, day, owner, rows

FORMATS = ("iceberg", "memory")
"""Each table of these tests has the name of its format."""


def table(name: str) -> Table:
    return Table(name, domain=DOMAIN, format=name)


def job(*names: str) -> Job:
    return Job(
        "job",
        outputs=[table(name) for name in names],
        cadence="@daily",
        origin=day(1).start,
        on_rerun="new_revision",
    )


BOTH = job(*FORMATS)


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """A world with a table of each format.

    :param follows: the format whose pointers follow. :param rows: where memory tables keep their rows.
    :param catalog: URL of the database with the pointers of Iceberg tables.
    :param warehouse: URI below which Iceberg tables lie. :param twin: an empty world beside the same rows.
    """

    world: World
    follows: str
    rows: MemoryCatalog
    catalog: str
    warehouse: str
    twin: World

    @property
    def swaps(self) -> str:
        """The format whose pointers move with the commits."""
        return next(name for name in FORMATS if name != self.follows)

    def dies_after_its_commit(self, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Compute a day in a process that is killed between the commit and the pointers that follow."""
        with monkeypatch.context() as patched:
            for name in FORMATS:
                patched.setattr(self.world.formats[name], "published", lambda *_: None)
            self.world.run(BOTH, day(number), [number])

    def lagging(self, world: World | None = None) -> set[str]:
        """The tables whose pointer does not name the last commit."""
        world = world or self.world
        keys = {name: table_key(DOMAIN, name) for name in FORMATS}
        records = world.store.read(DOMAIN, list(keys.values())).records
        wanted = {name: records[key].record.ref.metadata for name, key in keys.items()}
        found = {name: world.formats[name].describe(table(name)) for name in FORMATS}
        return {name for name, info in found.items() if info is None or info.pointer != wanted[name]}

    def drop(self, name: str) -> None:
        """Drop a table from its catalog, as another program does."""
        if name == "memory":
            self.rows.drop(DOMAIN, name)
            return
        catalog = SqlCatalog(CATALOG_NAME, uri=self.catalog)
        catalog.drop_table((DOMAIN, name))
        catalog.engine.dispose()


@pytest.fixture(params=FORMATS)
def mixed(request: pytest.FixtureRequest, quick_path: Path) -> Iterator[Mixed]:
    """Memory tables beside a SQLite store with an Iceberg catalog; Iceberg beside a memory store with its tables."""
    warehouse, name = f"file://{quick_path}/warehouse", f"mixed-{uuid.uuid4().hex}"
    if request.param == "memory":
        places = [f"sqlite:///{quick_path}/{number}.db" for number in range(2)]
        for place in places:
            upgrade_schema(place)
        catalog, stored = places[0], MemoryCatalog(RLock())
        formats = [_formats(place, warehouse, stored, follows={"memory"}) for place in places]
    else:
        places = [f"memory://{name}-{number}" for number in range(2)]
        catalog, stored = f"sqlite:///{quick_path}/catalog.db", memory_catalog(f"{name}-0")
        elsewhere = _formats(catalog, warehouse, stored, follows={"memory", "iceberg"})
        formats = [open_formats(places[0], warehouse, catalog), elsewhere]
    clock = ManualClock()
    world, twin = (
        World(open_store(place, now=clock.now), found, stored, clock)
        for place, found in zip(places, formats, strict=True)
    )
    yield Mixed(
        world=world, follows=request.param, rows=stored, catalog=catalog, warehouse=warehouse, twin=twin
    )
    for opened in (world, twin):
        opened.close()
    for place in places:
        forget(place.removeprefix("memory://"))


@pytest.fixture
def in_memory() -> Iterator[World]:
    """A world whose store and tables are in memory, both opened by their URL."""
    name, clock = f"formats-{uuid.uuid4().hex}", ManualClock()
    url = f"memory://{name}"
    store = open_store(url, now=clock.now)
    yield World(store, open_formats(url, "/warehouse"), memory_catalog(name), clock)
    forget(name)


def _formats(catalog: str, warehouse: str, stored: MemoryCatalog, *, follows: set[str]) -> TableFormats:
    return TableFormats(
        {
            "memory": lambda: MemoryFormat(stored, swaps=False),
            "iceberg": lambda: IcebergFormat(catalog, warehouse, swaps="iceberg" not in follows),
        },
        following=follows,
        warehouse=warehouse,
    )


def both(*values: tuple[int, int]) -> dict[str, list[tuple[int, int]]]:
    return {name: list(values) for name in FORMATS}


def test_one_commit_has_tables_of_two_formats(mixed: Mixed) -> None:
    """R3, R17: one CSN; each pointer names it, moved by the transaction or after it."""
    first, second = (mixed.world.run(BOTH, day(number), [number]) for number in (1, 2))
    assert (first.csn, second.csn) == (1, 2)
    assert mixed.world.formats.following == {mixed.follows}
    assert mixed.lagging() == set()
    assert mixed.world.rows(*FORMATS) == both((1, 1), (2, 2))


def test_only_the_pointer_that_follows_is_behind_after_a_kill(
    mixed: Mixed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R17: doctor names it, cuts do not need it, and the next begin moves it."""
    mixed.world.run(BOTH, day(1))
    mixed.dies_after_its_commit(2, monkeypatch)
    assert mixed.lagging() == {mixed.follows}
    assert mixed.world.rows(*FORMATS) == both((1, 1), (2, 2))
    found = examine(mixed.world.store, mixed.world.formats, DOMAIN).symptoms
    assert [symptom.subject for symptom in found] == [f"table {mixed.follows}"]
    attempt = mixed.world.begin(BOTH, day(3))
    assert mixed.lagging() == set()
    mixed.world.write(attempt, [3])
    mixed.world.coordinator.publish(attempt)
    assert mixed.world.rows(*FORMATS) == both((1, 1), (2, 2), (3, 3))
    assert not examine(mixed.world.store, mixed.world.formats, DOMAIN).symptoms


def test_recovery_moves_the_pointers_that_follow(mixed: Mixed, monkeypatch: pytest.MonkeyPatch) -> None:
    """R17: it answers for both, and registers what was dropped."""
    mixed.world.run(BOTH, day(1))
    mixed.dies_after_its_commit(2, monkeypatch)
    mixed.drop(mixed.swaps)
    recovered = recover(mixed.world.coordinator.context, DOMAIN).tables
    assert {found.name: (found.moved, found.restored) for found in recovered} == {
        mixed.follows: (True, False),
        mixed.swaps: (False, True),
    }
    assert mixed.lagging() == set()


@pytest.mark.parametrize("dropped", FORMATS)
def test_a_dropped_table_is_refused_in_either_format(mixed: Mixed, dropped: str) -> None:
    """R17: before any work, whichever way its pointer moves."""
    mixed.world.run(BOTH, day(1))
    mixed.drop(dropped)
    with pytest.raises(TableDropped, match=dropped):
        mixed.world.begin(BOTH, day(2))


def test_a_vacuum_deletes_old_versions_of_both_formats(mixed: Mixed) -> None:
    """R16, R24, I6: superseded versions and orphans go; no file of a readable one does."""
    world = mixed.world
    zombie = world.begin(BOTH, day(1))
    for value in range(1, 4):
        world.run(BOTH, day(1), [value], owner(try_number=1 + value, generation=value))
    for name in FORMATS:
        stage_rows(world.coordinator, zombie, name, rows([99], zombie.token))
    world.clock.advance(max(DEFAULTS.retention_grace, DEFAULTS.orphan_grace) * 2)
    vacuumed = world.retention.vacuum(DOMAIN)
    for name in FORMATS:
        assert any(f"/{name}/" in uri for uri in vacuumed.deleted), vacuumed
        assert any(f"/{name}/" in uri for uri in vacuumed.orphans), vacuumed
    assert world.rows(*FORMATS) == both((1, 3))
    assert not list(missing_files(world.store, world.formats, DOMAIN))
    assert mixed.lagging() == set()


def test_a_moved_domain_has_both_formats(mixed: Mixed) -> None:
    """R17: the target's catalogs name the tables, and the next epoch goes on there."""
    mixed.world.run(BOTH, day(1))
    here, there = mixed.world.coordinator.context, mixed.twin.coordinator.context
    moved = move_domain(here, there, DOMAIN, source_place="here", target_place="there")
    assert moved.tables == FORMATS
    mixed.twin.run(BOTH, day(2), [2])
    assert mixed.twin.rows(*FORMATS) == both((1, 1), (2, 2))
    assert mixed.lagging(mixed.twin) == set()


@pytest.mark.parametrize("left", FORMATS)
def test_a_begin_rolls_back_output_in_a_left_table(mixed: Mixed, left: str) -> None:
    """R7, R16: the format of a table that was never committed is recorded nowhere."""
    kept = next(name for name in FORMATS if name != left)
    attempt = mixed.world.begin(BOTH, day(1))
    mixed.world.write(attempt, [1])
    mixed.world.coordinator.abort(attempt, "another declaration")
    staged = mixed.world.formats[left].staged
    assert staged(table(left), JobName("job")) == []
    attempt = mixed.world.begin(BOTH, day(1), owner("second"))
    write_rows(mixed.world.coordinator, attempt, left, rows([1], attempt.token))
    assert len(staged(table(left), JobName("job"))) == 1
    mixed.world.begin(job(kept), day(1), owner("second", try_number=2))
    assert staged(table(left), JobName("job")) == []


def test_a_begin_after_a_left_table_asks_no_format_that_the_store_cannot_serve(quick_path: Path) -> None:
    """R16: a SQLite store has no memory tables, so none is rolled back there."""
    url = f"sqlite:///{quick_path}/store.db"
    upgrade_schema(url)
    settings = Settings(store_url=url, warehouse=f"file://{quick_path}/warehouse")
    with EpochService.open(settings) as service:
        left, kept = (Table(name, domain=DOMAIN) for name in ("left", "kept"))
        declared = [
            Job("job", outputs=outputs, cadence="@daily", origin=day(1).start)
            for outputs in ([left, kept], [kept])
        ]
        first = service.begin(declared[0], day(1), owner())
        assert isinstance(first, Attempt)
        write_rows(service, first, "left", rows([1], first.token))
        assert len(service.formats["iceberg"].staged(left, JobName("job"))) == 1
        service.begin(declared[1], day(1), owner(try_number=2))
        assert service.formats["iceberg"].staged(left, JobName("job")) == []


def test_spark_is_refused_before_an_epoch_of_a_format_without_shared_files_begins(in_memory: World) -> None:
    """R16: nothing is registered or begun that could not be written."""
    settings = Settings(store_url=str(in_memory.store)[len("MemoryStore(") : -1], warehouse="/warehouse")
    run = epoch_run(job("memory"), "2024-01-01", settings=settings)
    shared = shared_epoch_run(job("memory"), "2024-01-01", settings=settings, participants=2)
    for refused in (run, shared):
        with (
            pytest.raises(InvalidInput, match="format 'memory' lacks the capability 'shared files'") as error,
            refused,  # type: ignore[attr-defined]
        ):
            pass
        assert error.value.missing == (TableCapability.SHARED_FILES,)
    assert in_memory.store.domains() == []


@pytest.mark.parametrize(
    ("engine", "missing"),
    [
        (Engine.DUCKDB, TableCapability.SHARED_FILES),
        (Engine.SPARK, TableCapability.CATALOG_SNAPSHOTS),
        (Engine.TRINO, TableCapability.CATALOG_SNAPSHOTS),
    ],
)
def test_an_engine_is_refused_a_format_that_it_cannot_read(
    in_memory: World, engine: Engine, missing: TableCapability
) -> None:
    in_memory.run(job("memory"), day(1))
    with pytest.raises(InvalidInput, match=missing.value) as refused:
        queries(in_memory.cuts, in_memory.cut("memory"), engine)
    assert (refused.value.missing, refused.value.table) == ((missing,), "memory")


def test_the_docs_table_of_formats_is_the_codes() -> None:
    lines = (Path(__file__).parents[2] / "docs" / "reference" / "tables.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    for capability in TableCapability:
        has = ["yes" if capability in known.capabilities else "no" for known in (IcebergFormat, MemoryFormat)]
        assert [capability.value, *has] in cells


@pytest.mark.parametrize(
    ("url", "catalog", "unfit", "why", "warehouse"),
    [
        ("sqlite:////nowhere/store.db", None, "memory", "memory tables live in one process", "/warehouse"),
        ("memory://unfit", None, "iceberg", "a store in memory has none", "/warehouse"),
        ("memory://unfit", "sqlite:////c.db", "iceberg", "a place for files", "memory:///warehouse"),
        ("zookeeper://nowhere.invalid/epochs", None, "iceberg", "ZooKeeper has none", "/warehouse"),
    ],
)
def test_a_format_that_the_store_cannot_serve_is_refused_when_it_is_declared(
    url: str, catalog: str | None, unfit: str, why: str, warehouse: str
) -> None:
    """By name, before anything is opened."""
    formats = open_formats(url, warehouse, catalog)
    assert unfit not in list(formats)
    with pytest.raises(InvalidInput, match=why):
        formats.writable(job(unfit))
