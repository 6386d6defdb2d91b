"""The contract of a table format.

A format stages rows where no reader can reach them, describes what was staged (the committable), contributes
a pointer swap to the publish transaction, reads a state, and deletes what was abandoned. It decides nothing:
which slices are current, what a reader gets and who may publish is decided above it (R17).

Rows travel as Arrow. In Spark the same writer runs inside each task (``spark.sinks``); what only failed or
speculative tasks wrote is never described, hence never published.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from airflow_provider.domain.columns import ColumnChange
from airflow_provider.domain.cut import State
from airflow_provider.domain.errors import FinalError, RetryableError
from airflow_provider.domain.identifiers import ChangeSetId, DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import EpochTable
from airflow_provider.domain.version import Committable, Shown, TableRef
from airflow_provider.stores.base import CatalogSwap
from airflow_provider.tables.standing import Compared
from airflow_provider.tables.statistics import Statistics

if TYPE_CHECKING:
    import pyarrow as pa

EPOCH_COLUMN = "_epoch"
"""Reserved column of every table: the barrier (end, UTC) of the epoch that a row belongs to."""


class TableCapability(StrEnum):
    """What a format can do (protocol section 11)."""

    PRIVATE_STAGING = "private staging"
    REBASE_SLICE = "rebase slice"
    SLICE_READ = "slice read"
    PIN = "pin"
    ATOMIC_GROUP = "atomic group"
    COLUMN_IDS = "column ids"
    COMPLETION_MARK = "completion mark"
    OUTSIDERS_SEE_UNCOMMITTED = "outsiders see uncommitted"
    SHARED_FILES = "shared files"
    """Other processes, Spark's workers among them, open its files by URI."""
    DRAFTS = "drafts"
    """It is a :class:`~airflow_provider.tables.drafts.DraftingFormat`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableInfo:
    """A table as its format knows it now.

    :param table_uuid: identity of the table. :param schema_id: id of its current schema.
    :param schema: that schema as the format writes it (kept in the store as a ``SchemaRecord``).
    :param version: the format's current version, 0 for an empty table.
    :param pointer: the catalog's pointer, which the next publish swaps.
    """

    name: TableName
    domain: DomainName
    table_uuid: str
    schema_id: int
    schema: str
    version: int
    pointer: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where one attempt stages the rows of one table; unique for each epoch of a job, token, participant and subtoken.

    :param by_end: its name lacks the start of the epoch, as all names did at first.
    """

    table: EpochTable
    job: JobName
    interval: Interval
    revision: int
    token: int
    participant: int
    uri: str
    subtoken: int = 0
    by_end: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Remains:
    """A place at which something lies, as its name says it.

    :param start: of the epoch; None in a name of the first kind, by the end alone, which epochs of two calendars may
        share.
    """

    start: datetime | None
    barrier: datetime
    revision: int
    token: int
    participant: int
    subtoken: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenFile:
    """A file as the task that wrote it describes it; plain values, so that it can travel through Spark.

    :param checksum: hash of its bytes, taken while writing.
    :param description: what the format needs to register it (Iceberg: partition and column statistics, JSON).
    """

    uri: str
    size_bytes: int
    rows: int
    checksum: str
    description: str


TaskWriter = Callable[[Iterable["pa.RecordBatch"]], Iterator[WrittenFile]]
"""Writes the batches of one task into files of its own names; may be pickled and sent to Spark's workers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """What publishing one change set does to one table.

    :param base: the version that the store holds for current; None before the first commit.
    :param removes: barriers of epochs whose earlier slice goes.
    :param adds: the slices that come, with the interval of each.
    :param shows: the epochs of which engines without cuts see rows after this commit; states find the others, too.
    :param changes: what becomes of the columns, in order; rows in other slices are not touched (R32).
    :param csn: the number that the commit will take. The rest is written into the table's metadata (R33).
    :param adopts: another program's version, on which the commit is made: its rows are taken over (R17).
    :param pointed: the catalog's pointer was read with the base, and names it: the transaction requires it.
    """

    table: EpochTable
    base: TableRef | None
    removes: tuple[datetime, ...]
    adds: tuple[tuple[Interval, Committable], ...]
    shows: Shown
    csn: int
    incarnation: str
    change_set: ChangeSetId
    revision: int
    token: int
    adopts: int | None = None
    changes: tuple[ColumnChange, ...] = ()
    pointed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A publication ready for the transaction: the new version exists, and nothing points at it yet.

    :param schema: the schema of ``ref.schema_id``, as in :attr:`TableInfo.schema`.
    :param swap: what the transaction does to the catalog's pointer; None where the catalog lies outside of the
        store's database: then the transaction alone is the commit, and the pointer follows it
        (:meth:`TableFormat.project`).
    :param made_from: URI of the description that the version was made from: what the pointer names, unless it lags.
    :param obsolete: URIs of metadata that nobody needs once the pointer has moved (:meth:`TableFormat.published`).
    """

    ref: TableRef
    schema: str
    swap: CatalogSwap | None
    made_from: str
    obsolete: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Projected:
    """Where a table's pointer in the catalog stands.

    :param moved: whether this call moved it. :param csn: the commit that its version carries now.
    :param ahead: that commit is not the one that was recorded when this was asked, but a later one.
    """

    moved: bool
    csn: int
    ahead: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingFile:
    """A file that a version or staged output names and that is not there.

    :param barrier: of the epoch whose rows it holds; None for a file that describes others.
    """

    uri: str
    barrier: datetime | None = None


class TablesAhead(FinalError):
    """A table's metadata names a CSN that the store has not given out (R33); ``found_csn`` says which."""


class TableDropped(FinalError):
    """The store has commits of the table, and the catalog does not know it: another program dropped it."""


class TableRecreated(FinalError):
    """The table was dropped and made again: it is no longer the one that the store recorded."""


class WarehouseUnavailable(RetryableError):
    """Files of the warehouse cannot be read or written now (disk full, no permission, no network)."""


class TableFormat(ABC):
    """One table format in one warehouse.

    All methods may raise :class:`WarehouseUnavailable` and
    :class:`~airflow_provider.domain.errors.StoreUnavailable`; nothing is published then.
    """

    name: str
    capabilities: frozenset[TableCapability]

    @abstractmethod
    def describe(self, table: EpochTable) -> TableInfo | None:
        """Return the table as the catalog has it now, or None when it does not exist."""

    def identities(self, tables: Sequence[EpochTable]) -> list[str | None]:
        """Return ``table_uuid`` of :meth:`describe` for each of *tables*; asks the catalog once where it can."""
        return [None if one is None else one.table_uuid for one in map(self.describe, tables)]

    @abstractmethod
    def create(self, table: EpochTable, schema: pa.Schema) -> TableInfo:
        """Make the empty table with the columns of *schema* and :data:`EPOCH_COLUMN`, or return it as it is.

        Idempotent; of two racing calls one wins and both return the same table.

        :raises SchemaMismatch: the table exists with other columns; names the first one.
        :raises InvalidInput: a column named :data:`EPOCH_COLUMN`, or a type that the format lacks.
        """

    @abstractmethod
    def replace(self, table: EpochTable, unpublished: TableInfo, schema: pa.Schema) -> TableInfo:
        """Put an empty table with the columns of *schema* in the place of one that was never published.

        It is another table: what was staged for the one before cannot be published (:class:`TableRecreated`).
        When the table is no longer *unpublished* (it was published or replaced meanwhile), this is
        :meth:`create`.

        :param unpublished: the table as :meth:`describe` returned it, at version 0.
        :raises SchemaMismatch: somebody published or replaced it meanwhile, with other columns.
        :raises InvalidInput: as in :meth:`create`; also when *unpublished* has a version.
        """

    @abstractmethod
    def register(self, table: EpochTable, pointer: str) -> None:
        """Make a table that another catalog has known to this one, at *pointer*; again it changes nothing.

        Its files stay where they are.

        :raises ForeignCommit: this catalog has a table of that name which is elsewhere.
        :raises Unavailable: there is nothing at *pointer*.
        """

    @abstractmethod
    def place(
        self,
        table: EpochTable,
        *,
        job: JobName,
        interval: Interval,
        revision: int,
        token: int,
        participant: int = 0,
        subtoken: int = 0,
        by_end: bool = False,
    ) -> Place:
        """Return where an attempt stages; a pure function of its arguments, makes nothing.

        :param by_end: by the first kind of name, under which nothing is staged any more: for what is to be deleted.
        """

    @abstractmethod
    def task_writer(self, place: Place, info: TableInfo) -> TaskWriter:
        """Return the writer that each task runs over its own batches.

        Input: batches with the table's columns but :data:`EPOCH_COLUMN`, which it adds; names decide, order
        does not. Output: one :class:`WrittenFile` for each file; a task without rows writes none.
        Files get names that no other task or try uses; nothing is renamed.
        """

    @abstractmethod
    def describe_output(self, place: Place, info: TableInfo, files: Sequence[WrittenFile]) -> Committable:
        """Turn the files of the successful tasks into what WRITTEN records (Iceberg: writes their manifest).

        No reader can reach it. Repeating it makes an equal committable with the same rows, files and checksum.
        """

    @abstractmethod
    def verify(self, table: EpochTable, output: Sequence[Committable]) -> None:
        """Look that all that *output* names is there: before it is published, and quicker than :meth:`missing`.

        By name and size, from one listing of each place. Files that a slice shares with an earlier one are left out.

        :raises Unavailable: something is missing, or has another size; ``uri`` says what.
        """

    @abstractmethod
    def prepare(self, publication: Publication) -> Prepared:
        """Write the version that results from replacing and adding slices, and changing columns, on the current head.

        A slice stays what it was: its rows are found by column id, whatever the columns are called in this version.
        The version consists of all slices; what the catalog's pointer will show of it is what ``publication.shows``
        names. No rows are copied when a slice appears there or leaves.

        The head is what the catalog's pointer names. Where the pointer lags behind ``publication.base`` (a
        catalog outside of the store's database, and a crash before :meth:`project`), it is the base. A head that
        another program made of the base is as good when it has the same rows, epoch by epoch (a compaction).

        What it wrote is garbage when the transaction fails; preparing again is always allowed.

        The base is compared first; only when it differs do the table's own marks say why. Whoever gets one of
        these two errors reads the store once more: when its head moved meanwhile, another publish was faster.

        :raises ForeignCommit: the catalog's current version has other rows than ``publication.base`` and is not
            ``publication.adopts`` (R17); ``foreign`` says what was done.
        :raises TablesAhead: the current version carries this domain's marks and a CSN that the store has not
            given out before ``publication.csn`` (R33): ``found_csn``.
        :raises TableDropped: the catalog has no such table, though there is a base.
        :raises TableRecreated: the table is another one than that of the base or of the slices.
        :raises SchemaMismatch: the head's columns cannot be changed so; names the column.
        :raises Unavailable: a slice names files of an earlier one that are no longer in the head.
        """

    @abstractmethod
    def published(self, publication: Publication, prepared: Prepared) -> None:
        """Move the pointer where it follows (:meth:`project`), then delete old metadata files.

        Called after the commit is visible; best effort, never raises: what is left is done by the next touch.
        """

    @abstractmethod
    def compare(self, table: EpochTable, recorded: TableRef | None) -> Compared:
        """Say where the catalog's pointer stands, seen from what the store recorded last; changes nothing (R17).

        :param recorded: None when the store has no commit of the table.
        :raises TableRecreated: the pointer names another table.
        :raises TableDropped: there is no pointer, though there was a commit.
        :raises Unavailable: a metadata file is missing.
        """

    @abstractmethod
    def project(self, table: EpochTable, recorded: TableRef) -> Projected:
        """Let the catalog's pointer follow the commit that the store recorded last (R17).

        Forward only, in CSN order, by compare-and-set, idempotent; a pointer that is further already (another
        commit was recorded meanwhile) stays. Where the store's own transaction moves the pointer, nothing is
        moved, and the answer says how it stands. Never call it with what the store has not recorded (I10).

        :raises ForeignCommit: the pointer names a version with other rows that another program made.
        :raises TableRecreated: the pointer names another table. :raises TableDropped: there is no pointer.
        :raises Unavailable: a metadata file is missing.
        """

    @abstractmethod
    def restore(self, table: EpochTable, recorded: TableRef) -> bool:
        """Make the catalog know a table again that another program dropped, at *recorded*; return whether it was gone.

        A table of that name that was made since gives way as long as it is empty. Idempotent; nothing is lost by it.

        :raises TableRecreated: the catalog has another table of that name, with rows.
        :raises Unavailable: the metadata file of *recorded* is missing: it was deleted, too.
        """

    @abstractmethod
    def staged(self, table: EpochTable, job: JobName) -> list[Remains]:
        """Return the places of *job* in *table* at which something lies, published or not; else nothing."""

    @abstractmethod
    def discard(self, place: Place) -> None:
        """Delete everything staged under *place*; idempotent. Never call it for what was published."""

    @abstractmethod
    def reclaim(
        self, table: EpochTable, withdrawn: Sequence[TableRef], kept: Sequence[TableRef]
    ) -> list[str]:
        """Delete what only *withdrawn* versions consist of: data, and what describes it; return the URIs.

        What a version in *kept* contains stays, and what the catalog itself still points at (its current version,
        branches, tags). What no version ever contained, such as staged output, is not looked at. Idempotent; after
        a crash, repeating it deletes the rest.

        :raises Unavailable: a kept version cannot be read; nothing was deleted.
        """

    @abstractmethod
    def missing(
        self, table: EpochTable, refs: Sequence[TableRef], staged: Sequence[Committable] = ()
    ) -> list[MissingFile]:
        """Return the files of the versions *refs* and of *staged* output that are not there, each once.

        Looks for each file by its name, at the warehouse itself, and reads no row. What only a missing description
        names cannot be told.
        """

    @abstractmethod
    def files(self, state: State) -> list[str]:
        """Return the URIs of the data files that hold exactly the rows of *state*, found from its ref alone."""

    @abstractmethod
    def shown_files(self, table: EpochTable) -> list[str]:
        """Return the URIs of the data files that an engine reads which loads *table* from the catalog now.

        :raises UnknownName: the catalog has no such table. :raises Unavailable: what names the files is missing.
        """

    @abstractmethod
    def is_shown(self, state: State) -> bool:
        """Whether an engine that travels to the version of *state* in the catalog finds all of its rows there."""

    @abstractmethod
    def read(self, state: State, schema: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of *state* with the columns of *schema*, matched by column id, and the epoch column.

        :param schema: the ``SchemaRecord`` of ``state.ref.schema_id``; a slice without a column gives nulls.
        :raises Unavailable: a file of the state is missing. Partial rows are never returned.
        """

    def scan(self, state: State, schema: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Return what :meth:`read` returns in pieces, so that not all rows need to be in memory.

        :raises Unavailable: as :meth:`read`, when the piece comes up: use no row before the last piece was there.
        """
        yield self.read(state, schema, columns)

    def statistics(self, state: State, schema: str) -> Statistics:
        """Return how many rows *state* has, and what its files say about their columns.

        :raises Unavailable: what describes the files is missing.
        """
        rows = sum(piece.num_rows for piece in self.scan(state, schema, [EPOCH_COLUMN]))
        return Statistics(rows=rows, columns={})

    @abstractmethod
    def arrow_schema(self, schema: str) -> pa.Schema:
        """Return *schema* as Arrow, each field with its column id in the metadata (``PARQUET:field_id``)."""

    def close(self) -> None:  # noqa: B027  (a format without connections has nothing to give back)
        """Give back connections; the format must not be used afterwards. May be called twice."""
