"""A domain on each store that needs no server, with attempts that run without Spark."""

from __future__ import annotations

import re
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from threading import RLock, Thread
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import ManifestEntry
from pyiceberg.table import DataScan, StaticTable

from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.reading.leases import Leases
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.retention import Retention
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt, Published
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.records import SOURCE_CHAINS, Key, Kind, event_partition
from airflow_provider.domain.topology import Job, Table
from airflow_provider.domain.version import CommitRecord, Committable
from airflow_provider.stores.base import MetadataStore, pages
from airflow_provider.stores.codec import encode
from airflow_provider.stores.factory import open_store
from airflow_provider.stores.memory import MemoryCatalog, MemoryStore, forget, memory_catalog
from airflow_provider.tables.factory import TableFormats, open_formats
from airflow_provider.tables.iceberg import manifest_files, showing
from airflow_provider.tables.memory import MemoryFormat
from airflow_provider.tables.memory_versions import unpacked
from airflow_provider.testing.arrow_attempts import write_rows
from airflow_provider.testing.manual_clock import ManualClock
from tests.servers.pointers import StoreCatalog

DOMAIN = DomainName("cascade")
ORIGIN = datetime(2024, 1, 1, tzinfo=UTC)
PAST_TTL = DEFAULTS.lock_ttl + timedelta(seconds=1)

Rows = dict[str, list[tuple[int, int]]]


def barrier(number: float) -> datetime:
    """The barrier *number* days after the origin: the end of the daily epoch with that number."""
    return ORIGIN + timedelta(days=number)


def day(number: int) -> Interval:
    """The daily epoch that ends at :func:`barrier` of *number*; the first is 1."""
    return Interval(barrier(number - 1), barrier(number))


def owner(run: str = "scheduled", try_number: int = 1, generation: int = 0) -> Owner:
    """One try of a run."""
    return Owner(dag_id="dag", run_id=run, try_number=try_number, generation=generation)


class SqlitePointers(StoreCatalog):
    """Pointers of memory tables in a SQLite store's catalog; no connection stays, for the file may be put aside."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"sqlite:///{path}")
        self.path = path

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        try:
            return super().execute(statement, parameters)
        finally:
            self.close()


def execute(path: Path, statement: str, parameters: tuple[object, ...]) -> list[Any]:
    """Run one statement on a SQLite file, behind the package's back."""
    with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
        return connection.execute(statement, parameters).fetchall()


@dataclass(frozen=True, slots=True)
class Backend:
    """Where worlds are made: each has a store of its own.

    :param name: "memory", "sqlite" (with memory tables) or "iceberg" (on SQLite); with " elsewhere" behind it the
        catalog of the tables lies outside of the store, so that its pointers follow the commits.
    :param directory: for files. :param template: an empty SQLite store, copied for each world.
    :param store_url: of an empty store on a server, for "server elsewhere" (Iceberg, the catalog in SQLite).
    :param open_formats: opens the formats of Iceberg tables, which say how rows are written.
    """

    name: str
    directory: Path
    template: Path
    store_url: str = ""
    open_formats: Callable[..., TableFormats] = open_formats

    def world(self) -> World:
        """Return an empty world."""
        if self.store_url:
            return self._server()
        return self._memory() if self.store == "memory" else self._sqlite(self.template)

    def copy(self, world: World) -> World:
        """Return another world that is as *world* is now (memory tables only)."""
        if world.path is None:
            twin = self._memory()
            _copy_memory(world.store, twin.store)
        else:
            twin = self._sqlite(world.path)
        if twin.pointers is not world.pointers:
            twin.pointers.objects.update(_copied(world.pointers.objects))
            twin.pointers._pointers.update(world.pointers._pointers)
        twin.clock.advance(world.clock.now() - twin.clock.now())
        return twin

    @property
    def store(self) -> str:
        return "memory" if self.name.startswith("memory") else "sqlite"

    @property
    def elsewhere(self) -> bool:
        return self.name.endswith(" elsewhere")

    def _memory(self) -> World:
        name = f"world-{uuid.uuid4().hex}"
        clock = ManualClock()
        store = open_store(f"memory://{name}", now=clock.now)
        pointers = MemoryCatalog(RLock()) if self.elsewhere else memory_catalog(name)
        world = World(store, memory_tables(pointers, swaps=not self.elsewhere), pointers, clock)
        world.cleanup = lambda: forget(name)
        return world

    def _server(self) -> World:
        place = self.directory / uuid.uuid4().hex
        place.mkdir()
        formats = self.open_formats(
            self.store_url, f"file://{place}/warehouse", f"sqlite:///{place}/catalog.db"
        )
        world = World(
            open_store(self.store_url), formats, SqlitePointers(place / "catalog.db"), ManualClock()
        )
        world.table_format, world.warehouse = "iceberg", place / "warehouse"
        return world

    def _sqlite(self, template: Path) -> World:
        place = self.directory / uuid.uuid4().hex
        place.mkdir()
        path = place / "store.db"
        with closing(sqlite3.connect(template)) as source, closing(sqlite3.connect(path)) as target:
            source.backup(target)
        clock, url = ManualClock(), f"sqlite:///{path}"
        store = open_store(url, now=clock.now)
        if self.name.startswith("iceberg"):
            database = place / "catalog.db" if self.elsewhere else path
            formats = self.open_formats(url, f"file://{place}/warehouse", f"sqlite:///{database}")
            world = World(store, formats, SqlitePointers(database), clock)
            world.table_format, world.warehouse = "iceberg", place / "warehouse"
        else:
            pointers = MemoryCatalog(RLock()) if self.elsewhere else SqlitePointers(path)
            world = World(store, memory_tables(pointers, swaps=not self.elsewhere), pointers, clock)
        world.path = path
        return world


def memory_tables(catalog: MemoryCatalog, *, swaps: bool) -> TableFormats:
    """Memory tables alone, with pointers that the store's transactions move, or that follow."""
    tables = MemoryFormat(catalog, swaps=swaps)
    return TableFormats(
        {"memory": lambda: tables}, following=() if swaps else {"memory"}, warehouse="memory:///warehouse"
    )


def _copied(objects: Mapping[str, Any]) -> dict[str, Any]:
    """The contents of a memory warehouse; all but the counter of its names never change."""
    return {uri: copy(found) for uri, found in objects.items()}


def _copy_memory(source: MetadataStore, target: MetadataStore) -> None:
    assert isinstance(source, MemoryStore)
    assert isinstance(target, MemoryStore)
    old, new = source._server, target._server
    new.incarnation, new.last_version = old.incarnation, old.last_version
    new.entries.update(old.entries)
    new.items.update({partition: list(items) for partition, items in old.items.items()})
    new.heads.update(old.heads)
    new.catalog._pointers.update(old.catalog._pointers)
    new.catalog.objects.update(_copied(old.catalog.objects))


class World:
    """One domain: its store, tables, clock, and who works in it.

    :param pointers: what the catalog's pointers and, for memory tables, the warehouse look like.
    :ivar path: the store's file, None in memory and on a server.
    :ivar server: where the store is on a server; None elsewhere.
    :ivar warehouse: where the files of Iceberg tables lie; None with memory tables.
    """

    def __init__(
        self,
        store: MetadataStore,
        formats: TableFormats,
        pointers: MemoryCatalog,
        clock: ManualClock,
    ) -> None:
        self.store = store
        self.formats = formats
        self.pointers = pointers
        self.clock = clock
        self.table_format = "memory"
        self.path: Path | None = None
        self.server: Any = None
        self.warehouse: Path | None = None
        self.coordinator = self.worker()
        self.cuts = Cuts(store, formats)
        self.leases = self.reader()
        self.retention = self.keeper()
        self.cleanup: Callable[[], None] = lambda: None

    def worker(self, store: Any = None, formats: TableFormats | None = None, seed: int = 0) -> EpochService:
        """Return a coordinator of another process, on *store* and *formats* if given."""
        return EpochService(
            store or self.store,
            formats or self.formats,
            clock=self.clock,
            random=Random(seed),
        )

    def reader(self, store: Any = None, seed: int = 0) -> Leases:
        """Return the leases of another process, on *store* if given."""
        store = store or self.store
        return Leases(store, Cuts(store, self.formats), clock=self.clock, random=Random(seed))

    def keeper(self, store: Any = None, seed: int = 0) -> Retention:
        """Return the retention of another process, on *store* if given."""
        return Retention(store or self.store, self.formats, clock=self.clock, random=Random(seed))

    @property
    def follows(self) -> bool:
        """True if the pointers of its tables follow the commits (R17)."""
        return self.table_format in self.formats.following

    def close(self) -> None:
        self.formats.close()
        self.store.close()
        self.cleanup()

    # --- declaring -------------------------------------------------------------------------------------------

    def table(self, name: str, **options: Any) -> Table:
        return Table(name, domain=DOMAIN, format=self.table_format, **options)

    def job(self, name: str, outputs: Sequence[Table] = (), **options: Any) -> Job:
        """Declare a daily job from the origin on, which computes again what it is asked for again.

        It owns a table of its own name unless *outputs* says else.
        """
        declared = {"cadence": "@daily", "origin": ORIGIN, "on_rerun": "new_revision", **options}
        return Job(name, outputs=list(outputs) or [self.table(name)], **declared)

    # --- working ---------------------------------------------------------------------------------------------

    def begin(self, job: Job, epoch: Interval, by: Owner | None = None, **options: Any) -> Attempt:
        """Begin, and expect an attempt."""
        attempt = self.coordinator.begin(job, epoch, by or owner(), **options)
        assert isinstance(attempt, Attempt), attempt
        return attempt

    def write(
        self, attempt: Attempt, values: Sequence[int] = (1,), *, sinks: Sequence[str] | None = None
    ) -> dict[str, Committable]:
        """Write *values* into all sinks, or into those named."""
        return {
            sink.name: write_rows(self.coordinator, attempt, sink.name, rows(values, attempt.token))
            for sink in attempt.sinks
            if sinks is None or sink.name in sinks
        }

    def run(
        self, job: Job, epoch: Interval, values: Sequence[int] = (1,), by: Owner | None = None
    ) -> Published:
        """Compute one epoch from its beginning to its end."""
        attempt = self.begin(job, epoch, by)
        if not attempt.adopted:
            self.write(attempt, values)
            self.coordinator.complete(attempt)
        return self.coordinator.publish(attempt)

    def plant(self, key: Key, body: bytes) -> None:
        """Write over the body of the record at *key*, behind the store's back."""
        if isinstance(self.store, MemoryStore):
            self.store._server.entries[key].body = body
            return
        if self.server is not None:
            self.server.plant(key, body)
            return
        assert self.path is not None
        execute(
            self.path,
            "UPDATE epochs_record SET body = ? WHERE domain = ? AND kind = ? AND partition = ? AND item = ?",
            (body.decode(), key.domain, key.kind, key.partition, key.item),
        )

    def restore(self) -> None:
        """Give the store another incarnation, as a restore does."""
        if isinstance(self.store, MemoryStore):
            self.store._server.incarnation = "restored"
        elif self.server is not None:
            self.server.restored()
        else:
            assert self.path is not None
            execute(self.path, "UPDATE epochs_store SET incarnation = ?", ("restored",))

    def lose(self, uri: str) -> None:
        """Delete one file behind the package's back."""
        if self.warehouse is not None:
            Path(uri.removeprefix("file://")).unlink()
        else:
            del self.pointers.objects[uri]

    # --- looking ---------------------------------------------------------------------------------------------

    def cut(self, *tables: str, at: datetime | None = None, level: Level = Level.READ_COMMITTED) -> Cut:
        return self.cuts.cut(DOMAIN, tables, at=at, level=level)

    def rows(self, *tables: str, at: datetime | None = None, level: Level = Level.READ_COMMITTED) -> Rows:
        """Each table's rows in a cut, as (number of the day, value), sorted."""
        return self.rows_of(self.cut(*tables, at=at, level=level))

    def engine_rows(self, table: str) -> list[tuple[int, int]]:
        """The rows of *table* as an engine reads them that loads it from the catalog, without a cut."""
        pointer = str(self.pointers.pointer(DOMAIN, table))
        if self.warehouse is not None:
            return values_of(StaticTable.from_metadata(pointer).scan().to_arrow())
        shown = self.pointers.objects[pointer].shown
        return sorted(row for _, uri in shown for row in values_of(self.pointers.objects[uri]))

    def engine_columns(self, table: str) -> list[str]:
        """The columns of *table* as an engine sees them that loads it from the catalog."""
        pointer = str(self.pointers.pointer(DOMAIN, table))
        if self.warehouse is not None:
            return [field.name for field in StaticTable.from_metadata(pointer).schema().fields]
        version = self.pointers.objects[pointer]
        return list(unpacked(version.schemas[version.schema_id]).names)

    def rows_of(self, cut: Cut) -> Rows:
        return {name: values_of(self.cuts.read(cut, name)) for name in cut.states}

    def commits(self) -> list[Any]:
        """The commit sequence, checked for gaps (I2)."""
        found = list(pages(self.store, DOMAIN, CommitRecord))
        assert [commit.csn for commit in found] == list(range(1, len(found) + 1))
        return found

    def data(self) -> set[str]:
        """URIs of all files with rows."""
        if self.warehouse is not None:
            return {f"file://{path}" for path in self.warehouse.rglob("*.parquet")}
        return {uri for uri, found in self.pointers.objects.items() if isinstance(found, pa.Table)}

    def newest_data(self, *tables: str) -> set[str]:
        """URIs of the files with rows that the newest version of *tables* names."""
        pointers = [str(self.pointers.pointer(DOMAIN, table)) for table in tables]
        if self.warehouse is not None:
            return {uri for pointer in pointers for uri in _files(StaticTable.from_metadata(pointer).scan())}
        return {uri for pointer in pointers for _, uri in self.pointers.objects[pointer].slices}

    def staged(self) -> list[str]:
        """URIs of files with rows that no committed version names."""
        if self.warehouse is not None:
            metadata = [self.pointers.pointer(DOMAIN, name) for name in self.pointers.tables(DOMAIN)]
            tables = [StaticTable.from_metadata(str(location)) for location in metadata]
            lists = [
                _every_slice(table, snapshot.manifest_list)
                for table in tables
                for snapshot in table.snapshots()
            ]
            named = {entry.data_file.file_path for found in lists for entry in found}
        else:
            versions = [version for version in self.pointers.objects.values() if hasattr(version, "slices")]
            named = {uri for version in versions for _, uri in version.slices}
        return [uri for uri in self.data() if uri not in named]

    def content(self) -> dict[Any, Any]:
        """Everything that the store and the catalog hold, but for stamps and ids."""
        found = {
            stamped.key: (blurred(encode(stamped.key, stamped.record).decode()), stamped.csn)
            for stamped in self.records()
        }
        names = self.pointers.tables(DOMAIN)
        moved = {name: blurred(str(self.pointers.pointer(DOMAIN, name))) for name in names}
        return {**found, "pointers": moved, "head": self.store.read(DOMAIN, []).head.csn}

    def exactly(self) -> dict[Any, Any]:
        """Everything that the store and the catalog hold, with stamps and ids."""
        names = self.pointers.tables(DOMAIN)
        moved = {name: self.pointers.pointer(DOMAIN, name) for name in names}
        return {**{record.key: record for record in self.records()}, "pointers": moved}

    def records(self) -> Iterator[Any]:
        """Every record of the domain."""
        jobs = [stamped.record for stamped in self.store.scan(DOMAIN, Kind.JOB, "")]
        tables = [table.name for job in jobs for table in job.outputs]
        for kind in (
            Kind.TOPOLOGY,
            Kind.JOB,
            Kind.TABLE,
            Kind.REWRITE_LOG,
            Kind.COMMIT,
            Kind.LEASE,
            Kind.RETENTION,
            Kind.VERSIONS,
            Kind.RESERVATION,
        ):
            yield from self.store.scan(DOMAIN, kind, "")
        yield from self.store.scan(DOMAIN, Kind.REWRITE_LOG, SOURCE_CHAINS)
        for table in tables:
            for kind in (Kind.SCHEMA, Kind.SLICE, Kind.VERSIONS, Kind.EXPIRED):
                yield from self.store.scan(DOMAIN, kind, table)
        for job in jobs:
            yield from self.store.scan(DOMAIN, Kind.LOCK, job.name)
            for source in job.sources:
                yield from self.store.scan(DOMAIN, Kind.SOURCE, source.name)
            for epoch in self.store.scan(DOMAIN, Kind.EPOCH, job.name):
                yield epoch
                partition = event_partition(job.name, epoch.record.interval.start)
                yield from self.store.scan(DOMAIN, Kind.EVENT, partition)


def _files(scan: DataScan) -> set[str]:
    """URIs of the files with rows that a scan of an Iceberg table reads."""
    return {task.file.file_path for task in scan.plan_files()}


def _every_slice(table: StaticTable, manifest_list: str) -> Iterator[ManifestEntry]:
    """What a version lists, those of its files among them that engines without cuts do not see."""
    every = showing.states_list(manifest_list)
    found = every if table.io.new_input(every).exists() else manifest_list
    for manifest in manifest_files.read_list(table.io, found):
        yield from manifest_files.entries(table.io, manifest)


def rows(values: Sequence[int], token: int = 0) -> pa.Table:
    """Rows that say which attempt wrote them."""
    return pa.table(
        {"value": pa.array(values, pa.int64()), "by": pa.array([token] * len(values), pa.int64())}
    )


def values_of(found: pa.Table) -> list[tuple[int, int]]:
    """Rows as (number of the day, value), sorted."""
    return sorted(((row["_epoch"] - ORIGIN).days, row["value"]) for row in found.to_pylist())


_IDS = [
    (re.compile(r"""(request_id["']?[:=]["'])[0-9a-f]*"""), r"\1"),
    (re.compile(r"""((?:table_uuid)["']?[:=]["'])[^"']*"""), r"\1"),
    (re.compile(r"""((?:version|fence)["']?[:=])\d+"""), r"\1"),
    (re.compile(r"(metadata/|p\d/)\d{10}"), r"\1"),
    (re.compile(r"\bat=datetime\.datetime\([^)]*\)"), "at"),
]


def blurred(text: object) -> str:
    """*text* without ids and times that another run would give otherwise."""
    found = str(text)
    for pattern, replacement in _IDS:
        found = pattern.sub(replacement, found)
    return found


def side_by_side(*works: Callable[[], object]) -> list[object]:
    """Run *works* in threads; return what each returned or raised, in their order."""
    found: list[object] = [None] * len(works)

    def work(number: int) -> None:
        try:
            found[number] = works[number]()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            found[number] = error

    threads = [Thread(target=work, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
