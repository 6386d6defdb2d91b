"""Backend that a format's author provides to the contract suite, and helpers of its cases."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.domain.columns import ColumnChange
from airflow_provider.domain.cut import Staged, State
from airflow_provider.domain.identifiers import ChangeSetId, DomainName, JobName, TableName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.records import table_key
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import (
    ALL_SHOWN,
    CommitRecord,
    Committable,
    Member,
    Shown,
    TableDelta,
    TableRecord,
    TableRef,
)
from airflow_provider.domain.watermark import Progress
from airflow_provider.stores.base import (
    Absent,
    CatalogSwap,
    Exists,
    MetadataStore,
    Number,
    Put,
    RequirementFailed,
    Transaction,
)
from airflow_provider.tables.base import (
    EPOCH_COLUMN,
    Prepared,
    Publication,
    StagingLocation,
    TableFormat,
    TableInfo,
)
from airflow_provider.tables.pointer_status import Compared, PointerStatus

ORIGIN = datetime(2013, 2, 1, tzinfo=UTC)
JOB = JobName("job")
DAILY = Cadence("@daily")
COLUMNS = pa.schema([("id", pa.int64()), ("label", pa.string())])

Row = tuple[datetime, int]
"""Barrier and id of a row."""

Slices = Mapping[int, Iterable[int]]
"""Number of a day, and the ids of its rows."""


class TableBackend(ABC):
    """A format in an empty or used warehouse, and the store that moves its pointers."""

    @abstractmethod
    def format(self) -> TableFormat:
        """Return the format under test."""

    @abstractmethod
    def store(self) -> MetadataStore:
        """Return the store in whose transactions the pointers move."""

    @abstractmethod
    def drop(self, table: Table) -> None:
        """Drop *table* in the catalog, bypassing the format."""

    @abstractmethod
    def engine_rows(self, table: Table) -> list[Row]:
        """Return barrier and id, sorted, of each row that another program reads from *table* through the catalog."""

    @abstractmethod
    def rename_column(self, table: Table, old: str, new: str) -> None:
        """Rename a column as another program does: the id stays."""

    @abstractmethod
    def commit_foreign(self, table: Table, operation: str, slices: Slices) -> None:
        """Commit *slices* as another program does, in new files.

        :param operation: operation that the commit names; ``append`` keeps all present rows, any other replaces them.
        """

    @abstractmethod
    def lose(self, uri: str) -> None:
        """Delete one file, bypassing the format."""


def day(number: int) -> Interval:
    """Return the epoch of the day *number* after the origin."""
    return Interval(ORIGIN + timedelta(days=number), ORIGIN + timedelta(days=number + 1))


def batch(ids: Iterable[int]) -> pa.RecordBatch:
    """Return rows of :data:`COLUMNS`, one for each id."""
    numbers = list(ids)
    return pa.record_batch([numbers, [f"row {number}" for number in numbers]], schema=COLUMNS)


def slice_rows(slices: Slices) -> list[tuple[datetime, pa.Table]]:
    """Return barrier and rows of each of *slices*, with the epoch column, for another program to write."""
    found = []
    for number, ids in slices.items():
        rows = pa.Table.from_batches([batch(ids)])
        barriers = pa.array([day(number).end] * rows.num_rows, pa.timestamp("us", tz="UTC"))
        found.append((day(number).end, rows.append_column(EPOCH_COLUMN, barriers)))
    return found


class Publisher:
    """Stage and publish as coordination does, in one domain; remember each table's newest ref and schema."""

    def __init__(self, table_format: TableFormat, store: MetadataStore, domain: DomainName) -> None:
        self.format = table_format
        self.store = store
        self.domain = domain
        self.refs: dict[Table, TableRef] = {}
        self.schemas: dict[Table, str] = {}
        self._tokens = 0

    def table(
        self,
        name: str = "flights",
        *,
        kind: TableKind = TableKind.INCREMENTAL,
        declared: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Table:
        """Declare a table of the domain."""
        options: dict[str, Any] = dict(declared or {})
        return Table(TableName(name), domain=self.domain, format=self.format.name, kind=kind, **options)

    def create(self, table: Table, columns: pa.Schema = COLUMNS) -> TableInfo:
        return self.format.create(table, columns)

    def place(self, table: Table, interval: Interval, revision: int = 1) -> StagingLocation:
        """Return a place under a new token."""
        self._tokens += 1
        return self.format.place(table, job=JOB, interval=interval, revision=revision, token=self._tokens)

    def stage(
        self,
        table: Table,
        interval: Interval,
        *tasks: Sequence[pa.RecordBatch],
        place: StagingLocation | None = None,
        info: TableInfo | None = None,
    ) -> Committable:
        """Write the batches of each task and describe the output.

        :param info: the table with the columns of the rows; by default the table as it is now, created if needed.
        """
        info = info or self.create(table, tasks[0][0].schema if tasks and tasks[0] else COLUMNS)
        place = place or self.place(table, interval)
        writer = self.format.task_writer(place, info)
        files = [file for batches in tasks for file in writer(batches)]
        return self.format.describe_output(place, info, files)

    def head(self) -> int:
        return self.store.read(self.domain, []).head.csn

    def publication(
        self,
        table: Table,
        *adds: tuple[Interval, Committable],
        removes: Iterable[Interval] = (),
        changes: Sequence[ColumnChange] = (),
        shows: Shown = ALL_SHOWN,
    ) -> Publication:
        """Return the publication of *adds* as the domain's next commit."""
        head = self.store.read(self.domain, []).head
        return Publication(
            table=table,
            base=self.refs.get(table),
            removes=tuple(removes),
            adds=adds,
            shows=shows,
            csn=head.csn + 1,
            incarnation=head.incarnation,
            change_set=ChangeSetId(f"{table.name}@{head.csn + 1}"),
            revision=1,
            token=self._tokens,
            changes=tuple(changes),
        )

    def change(self, table: Table, *changes: ColumnChange) -> TableInfo:
        """Publish *changes* of the columns alone; return the changed table."""
        publication = self.publication(table, changes=changes)
        self.commit((publication, self.format.prepare(publication)))
        info = self.format.describe(table)
        assert info is not None
        return info

    def commit(self, *published: tuple[Publication, Prepared]) -> int:
        """Commit all tables in one transaction, with their pointers or before them; return its CSN."""
        csn = self.record(*published)
        self.format.published_together(published)
        return csn

    def record(self, *published: tuple[Publication, Prepared]) -> int:
        """Commit as :meth:`commit` does, but die after the transaction: the format does not hear of it."""
        first = published[0][0]
        deltas = tuple(
            TableDelta(
                table=publication.table.name,
                interval=day(0),
                revision=1,
                watermark=None,
                ref=prepared.ref,
                rows=0,
            )
            for publication, prepared in published
        )
        record = CommitRecord(
            change_set=first.change_set,
            members=(Member(job=JOB, interval=day(0), revision=1),),
            by="contract",
            tables=deltas,
        )
        requires, updates = self._changes(published)
        receipt = self.store.transact(
            Transaction(
                domain=self.domain,
                requires=requires,
                updates=updates,
                number=Number(record, expected=first.csn),
            )
        )
        for publication, prepared in published:
            self.refs[publication.table] = prepared.ref
            self.schemas[publication.table] = prepared.schema
        assert receipt.csn is not None
        return receipt.csn

    def _changes(
        self, published: Sequence[tuple[Publication, Prepared]]
    ) -> tuple[tuple[Exists | Absent, ...], tuple[Put | CatalogSwap, ...]]:
        """Return the transaction's requirements and updates: pointer swaps, or tables' records if pointers follow.

        :raises RequirementFailed: a table was published since its publication was prepared.
        """
        updates: list[Put | CatalogSwap] = [
            prepared.swap for _, prepared in published if prepared.swap is not None
        ]
        requires: list[Exists | Absent] = []
        for publication, prepared in published:
            if prepared.swap is not None:
                continue
            key = table_key(self.domain, publication.table.name)
            stamped = self.store.read(self.domain, [key]).get(key)
            recorded = None if stamped is None else stamped.record.ref
            requires.append(Absent(key) if stamped is None else Exists(key, stamped.version))
            if recorded != publication.base:
                raise RequirementFailed.of(requires[-1], None if recorded is None else recorded.version)
            updates.append(Put(key, _recorded(publication.table, prepared.ref)))
        return tuple(requires), tuple(updates)

    def spoiled(self, publication: Publication, prepared: Prepared) -> tuple[Publication, Prepared]:
        """Return the publication with a requirement that does not hold, so that its transaction is refused."""
        if prepared.swap is not None:
            return publication, replace(prepared, swap=replace(prepared.swap, expected="elsewhere"))
        return replace(publication, base=prepared.ref), prepared

    def publish(
        self,
        table: Table,
        interval: Interval,
        ids: Iterable[int],
        *,
        replaces: bool = False,
        shows: Shown = ALL_SHOWN,
    ) -> TableRef:
        """Stage and publish one epoch; return the table's new version."""
        staged = self.stage(table, interval, [batch(ids)])
        removes = [interval] if replaces else []
        publication = self.publication(table, (interval, staged), removes=removes, shows=shows)
        self.commit((publication, self.format.prepare(publication)))
        return self.refs[table]

    def follow(self, table: Table, found: Compared, *, shows: Shown) -> TableRef:
        """Commit on top of another program's commit: a compaction, or rows that the publication adopts."""
        adopts = found.version if found.status is PointerStatus.FOREIGN else None
        publication = replace(self.publication(table, shows=shows), adopts=adopts)
        self.commit((publication, self.format.prepare(publication)))
        return self.refs[table]

    def state(
        self,
        table: Table,
        until: int,
        *,
        since: int | None = None,
        ref: TableRef | None = None,
        staged: Sequence[Staged] = (),
    ) -> State:
        """Return the state at the end of day *until*; *since* is the day that ends at its lower bound."""
        return State(
            table=table.name,
            kind=table.kind,
            barrier=day(until).end,
            low=None if since is None else day(since).end,
            csn=self.head(),
            ref=ref or self.refs.get(table),
            staged=tuple(staged),
        )

    def rows(self, table: Table, until: int, **options: Any) -> list[Row]:
        """Return barrier and id of each row of a state, sorted."""
        state = self.state(table, until, **options)
        found = self.format.read(state, self.schemas.get(table) or self.create(table).schema)
        return rows_of(found)


def rows_of(found: pa.Table) -> list[Row]:
    """Return barrier and id of each row of *found*, sorted."""
    return sorted(
        (row[EPOCH_COLUMN].astimezone(UTC), row["id"])
        for row in found.select(["id", EPOCH_COLUMN]).to_pylist()
    )


def _recorded(table: Table, ref: TableRef) -> TableRecord:
    """Return a table's record with its ref and no progress."""
    return TableRecord(job=JOB, kind=table.kind, cadence=DAILY, progress=Progress(), ref=ref)


def expected(*days: tuple[int, Iterable[int]]) -> list[Row]:
    """Return the rows of whole days in the form of :meth:`Publisher.rows`."""
    return sorted((day(number).end, row_id) for number, ids in days for row_id in ids)


class TableCases:
    """The fixtures of all cases; a suite overrides :meth:`backend`."""

    @pytest.fixture
    def backend(self) -> TableBackend:
        """The backend under test."""
        raise NotImplementedError

    @pytest.fixture
    def publisher(self, backend: TableBackend) -> Publisher:
        """A publisher for a new domain."""
        return new_publisher(backend)

    @pytest.fixture
    def table(self, publisher: Publisher) -> Table:
        """An incremental table that does not exist yet."""
        return publisher.table()

    @pytest.fixture
    def full_table(self, table: Table) -> Table:
        """A full table that does not exist yet."""
        return replace(table, name=TableName("totals"), kind=TableKind.FULL)


def new_publisher(backend: TableBackend) -> Publisher:
    """Return a publisher for a new domain."""
    return Publisher(backend.format(), backend.store(), DomainName(f"d{uuid.uuid4().hex[:12]}"))
