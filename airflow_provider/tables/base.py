"""Contract of a table format.

A format stages rows where no reader can reach them, describes the staged files (the committable), contributes
a pointer swap to the publish transaction, reads a state, and deletes output without a commit. It decides nothing:
the layer above decides which slices are current, what a reader sees and which attempt may publish (R17).

Rows travel as Arrow. In Spark the same writer runs inside each task (``spark.sinks``); output of failed and
speculative tasks is never described, hence never published.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider.domain.columns import ColumnChange
from airflow_provider.domain.cut import State
from airflow_provider.domain.identifiers import ChangeSetId, DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import Committable, Shown, TableRef
from airflow_provider.stores.base import CatalogSwap
from airflow_provider.tables.capabilities import TableCapability
from airflow_provider.tables.filters import Filters
from airflow_provider.tables.pointer_status import Compared
from airflow_provider.tables.statistics import SizedFiles, Statistics
from airflow_provider.tables.written import Regrouped
from airflow_provider.tables.written import WrittenFile as WrittenFile  # noqa: PLC0414  (a part of the contract)

if TYPE_CHECKING:
    import pyarrow as pa

EPOCH_COLUMN = "_epoch"
"""Reserved column of every table: the barrier (end, UTC) of the epoch that a row belongs to."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableInfo:
    """Current description of a table in its catalog.

    :param table_uuid: identity of the table. :param schema_id: id of its current schema.
    :param schema: that schema as the format serialises it (the store keeps it as a ``SchemaRecord``).
    :param version: the format's current version, 0 for an empty table.
    :param pointer: the catalog's pointer, which the next publish swaps.
    :param altered: a sentence if another program has changed the columns since that version; else empty.
    """

    name: TableName
    domain: DomainName
    table_uuid: str
    schema_id: int
    schema: str
    version: int
    pointer: str
    altered: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StagingLocation:
    """Staging directory of one attempt for one table; unique per epoch of a job, token and participant attempt.

    :param by_end: the directory's name lacks the start of the epoch, as the names of earlier versions did.
    """

    table: Table
    job: JobName
    interval: Interval
    revision: int
    token: int
    participant: int
    uri: str
    participant_attempt: int = 0
    by_end: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class StagingFolder:
    """Staging directory that exists, parsed from its name.

    :param start: start of the epoch; None in a name of an earlier version, which has the end alone, so that epochs of
        two calendars may share it.
    """

    start: datetime | None
    barrier: datetime
    revision: int
    token: int
    participant: int
    participant_attempt: int = 0


TaskWriter = Callable[[Iterable["pa.RecordBatch"]], Iterator[WrittenFile]]
"""Writes the batches of one task to files with unique names; can be pickled and sent to Spark's workers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """Effect of publishing one change set on one table.

    :param base: the current version by the store's record; None before the first commit.
    :param removes: the epochs whose present slice is removed.
    :param adds: the slices to add, each with its interval.
    :param shows: the epochs whose rows engines without cuts see after this commit; states contain the others, too.
    :param changes: changes of columns, in order; rows in other slices are not touched (R32).
    :param csn: the number that the commit will take. The fields after it go into the table's metadata (R33).
    :param adopts: another program's version that the commit is based on: its rows are adopted (R17).
    :param pointed: the catalog's pointer was read with the base and names it; the transaction requires that.
    :param regroups: files that the version has in place of others, with the same rows (a compaction).
    """

    table: Table
    base: TableRef | None
    removes: tuple[Interval, ...]
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
    regroups: Regrouped | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """Publication ready for the transaction: the new version exists, and nothing points at it yet.

    :param schema: the schema of ``ref.schema_id``, as in :attr:`TableInfo.schema`.
    :param swap: the transaction's change of the catalog's pointer; None where the catalog lies outside of the
        store's database: then the transaction alone is the commit, and the pointer follows it
        (:meth:`TableFormat.project`).
    :param made_from: URI of the description that the version was made from: the pointer's target, unless it lags.
    :param obsolete: URIs of metadata that is unused once the pointer has moved (:meth:`TableFormat.published`).
    """

    ref: TableRef
    schema: str
    swap: CatalogSwap | None
    made_from: str
    obsolete: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Projected:
    """Position of a table's pointer in the catalog after :meth:`TableFormat.project`.

    :param moved: whether this call moved the pointer. :param csn: CSN of the version that the pointer names now.
    :param ahead: that CSN is later than the one recorded before the call.
    """

    moved: bool
    csn: int
    ahead: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingFile:
    """File that a version or staged output names and that does not exist.

    :param barrier: barrier of the epoch whose rows the file holds, or whose files it names; None if it does not say.
    :param since: least barrier of a file with the rows of many epochs, whose greatest one is *barrier*.
    """

    uri: str
    barrier: datetime | None = None
    since: datetime | None = None

    @property
    def epochs(self) -> str:
        """The epochs whose rows it holds, or whose files it names, in words; empty if it does not say."""
        if self.barrier is None:
            return ""
        if self.since is None:
            return f"the epoch that ends at {self.barrier.isoformat()}"
        return f"all epochs that end from {self.since.isoformat()} to {self.barrier.isoformat()}"


class TableFormat(ABC):
    """Table format in one warehouse.

    All methods may raise :class:`~airflow_provider.tables.errors.WarehouseUnavailable` and
    :class:`~airflow_provider.domain.errors.StoreUnavailable`; nothing is published then.
    """

    name: str
    capabilities: frozenset[TableCapability]
    moves_together: bool = False
    """Whether :meth:`published_together` can move pointers of several tables at once."""

    @abstractmethod
    def describe(self, table: Table) -> TableInfo | None:
        """Return the table's current description in the catalog, or None if it does not exist."""

    def identities(self, tables: Sequence[Table]) -> list[str | None]:
        """Return ``table_uuid`` of :meth:`describe` for each of *tables*, by a single query where possible."""
        return [None if info is None else info.table_uuid for info in map(self.describe, tables)]

    @abstractmethod
    def create(self, table: Table, schema: pa.Schema) -> TableInfo:
        """Create the empty table with the columns of *schema* and :data:`EPOCH_COLUMN`, or return the existing one.

        Idempotent; of two racing calls one wins and both return the same table.

        :raises SchemaMismatch: the table exists with other columns; names the first difference.
        :raises InvalidInput: a column is named :data:`EPOCH_COLUMN`, or has a type that the format lacks.
        """

    @abstractmethod
    def replace(self, table: Table, unpublished: TableInfo, schema: pa.Schema) -> TableInfo:
        """Replace a table that was never published by an empty one with the columns of *schema*.

        The new table has another identity: output staged for the old one cannot be published
        (``TableRecreated``). If the table is no longer *unpublished* (it was published or replaced meanwhile),
        this is :meth:`create`.

        :param unpublished: the table as :meth:`describe` returned it, at version 0.
        :raises SchemaMismatch: another attempt published or replaced it meanwhile, with other columns.
        :raises InvalidInput: as in :meth:`create`; also if *unpublished* has a version.
        """

    @abstractmethod
    def register(self, table: Table, pointer: str) -> None:
        """Register a table of another catalog in this one, at *pointer*; idempotent. Its files stay where they are.

        :raises ForeignCommit: this catalog has a table of that name with another pointer.
        :raises Unavailable: no metadata exists at *pointer*.
        """

    @abstractmethod
    def place(
        self,
        table: Table,
        *,
        job: JobName,
        interval: Interval,
        revision: int,
        token: int,
        participant: int = 0,
        participant_attempt: int = 0,
        by_end: bool = False,
    ) -> StagingLocation:
        """Return the staging directory of an attempt; a pure function of its arguments, creates nothing.

        :param by_end: return the directory that an earlier version of the package used, in order to delete it.
        """

    @abstractmethod
    def task_writer(self, place: StagingLocation, info: TableInfo) -> TaskWriter:
        """Return the writer that each task runs over its batches.

        Input: batches with the table's columns except :data:`EPOCH_COLUMN`, which the writer adds; columns are
        matched by name, in any order. Output: one :class:`WrittenFile` for each file; a task without rows writes
        none. File names are unique per task and try; no file is renamed.
        """

    @abstractmethod
    def describe_output(
        self, place: StagingLocation, info: TableInfo, files: Sequence[WrittenFile]
    ) -> Committable:
        """Turn the files of the successful tasks into the committable that WRITTEN records (Iceberg: their manifest).

        No reader can reach it. A repeated call returns an equal committable: same rows, files and checksum.
        """

    @abstractmethod
    def verify(self, table: Table, output: Sequence[Committable]) -> None:
        """Check, before *output* is published, that all its files exist; faster than :meth:`missing`.

        Compares names and sizes with one listing of each staging directory. Skips files that a slice shares with an
        earlier one.

        :raises Unavailable: a file is missing or has another size; see ``uri``.
        """

    @abstractmethod
    def prepare(self, publication: Publication) -> Prepared:
        """Write the next version: the head with slices replaced and added, and columns changed.

        Slices are immutable: their rows are found by column id, whatever this version calls the columns. The version
        consists of all slices; the catalog's pointer shows those that ``publication.shows`` names. Showing or hiding
        a slice copies no rows.

        The head is the version that the catalog's pointer names. Where the pointer lags behind ``publication.base``
        (a catalog outside of the store's database, and a crash before :meth:`project`), the base is the head. A
        head that another program made of the base is accepted if each epoch has the same rows (a compaction).

        If the transaction fails, the files written here are garbage; preparing again is always allowed.

        The base is compared first; the table's marks say why it differs. On ForeignCommit and TablesAhead the caller
        reads the store again: if its head has moved meanwhile, another publish was faster.

        :raises ForeignCommit: the catalog's current version has other rows than ``publication.base`` and is not
            ``publication.adopts`` (R17); see ``foreign``.
        :raises TablesAhead: the current version carries this domain's marks and a CSN that the store has not
            issued before ``publication.csn`` (R33); see ``found_csn``.
        :raises TableDropped: the catalog lacks the table, though there is a base.
        :raises TableRecreated: the table's identity differs from that of the base or of the slices.
        :raises SchemaMismatch: a column change is impossible for the head's columns; names the column.
        :raises Unavailable: a slice shares files with an earlier one, and the head has lost them.
        """

    @abstractmethod
    def published(self, publication: Publication, prepared: Prepared) -> None:
        """Move the pointer if it follows the store (:meth:`project`), then delete obsolete metadata files.

        Called after the commit is visible; best effort, never raises: the next touch of the table does the rest.
        """

    def published_together(self, published: Sequence[tuple[Publication, Prepared]]) -> None:
        """Do what :meth:`published` does for the tables of one commit; their pointers move at once where they can."""
        for publication, prepared in published:
            self.published(publication, prepared)

    @abstractmethod
    def compare(self, table: Table, recorded: TableRef | None) -> Compared:
        """Compare the catalog's pointer with the store's last record of the table; read-only (R17).

        :param recorded: the last commit; None if the store has none of the table.
        :raises TableRecreated: the pointer names a table of another identity.
        :raises TableDropped: the catalog lacks the table, though there was a commit.
        :raises Unavailable: a metadata file is missing.
        """

    @abstractmethod
    def project(self, table: Table, recorded: TableRef) -> Projected:
        """Move the catalog's pointer to the commit that the store recorded last (R17).

        Forward only, in CSN order, by compare-and-set, idempotent; a pointer that is further already (another
        commit was recorded meanwhile) stays. Where the store's own transaction moves the pointer, this call moves
        nothing and reports its position. Never call it with a version that the store has not recorded (I10).

        :raises ForeignCommit: another program made the version that the pointer names, with other rows.
        :raises TableRecreated: the pointer names another table. :raises TableDropped: the catalog lacks the table.
        :raises Unavailable: a metadata file is missing.
        """

    @abstractmethod
    def restore(self, table: Table, recorded: TableRef) -> bool:
        """Register a dropped table again, at *recorded*; return whether it was missing.

        Replaces an empty table of that name that was created since. Idempotent; loses no rows.

        :raises TableRecreated: the catalog has another table of that name, with rows.
        :raises Unavailable: the metadata file of *recorded* was deleted, too.
        """

    @abstractmethod
    def forget(
        self, table: Table, recorded: TableRef | None, lasts: Callable[[], bool] = lambda: True
    ) -> bool:
        """Remove the entry of a table that the store has dropped; return whether none of that table is left.

        Only by compare-and-delete, only an entry of that identity, and only without rows of other programs. No file is
        deleted. Idempotent.

        :param recorded: its last commit; None for a table that was never published.
        :param lasts: returns whether the drop has not ended: after it the entry may be that of another table.
        """

    @abstractmethod
    def staged(self, table: Table, job: JobName) -> list[StagingFolder]:
        """Return the staging directories of *job* in *table* that exist, published or not."""

    @abstractmethod
    def roll_back(self, place: StagingLocation) -> None:
        """Delete everything staged under *place*; idempotent. Never call it for published output."""

    @abstractmethod
    def vacuum(self, table: Table, expired: Sequence[TableRef], kept: Sequence[TableRef]) -> list[str]:
        """Delete the data and metadata files that only *expired* versions contain; return their URIs.

        Files of a version in *kept* stay, as do those that the catalog still refers to (its current version,
        branches, tags). Files that no version ever contained, such as staged output, are ignored. Idempotent; after
        a crash, a repeated call deletes the rest.

        :raises Unavailable: a kept version cannot be read; nothing was deleted.
        """

    @abstractmethod
    def missing(
        self, table: Table, refs: Sequence[TableRef], staged: Sequence[Committable] = ()
    ) -> list[MissingFile]:
        """Return the missing files of the versions *refs* and of *staged* output, each once.

        Looks up each file's name in the warehouse and reads no rows. Files that only a missing metadata file names
        cannot be found.
        """

    @abstractmethod
    def files(self, state: State) -> list[str]:
        """Return the URIs of the data files that hold exactly the rows of *state*, derived from its ref alone."""

    def sized(self, state: State, filters: Filters | None = None) -> SizedFiles:  # noqa: ARG002
        """Return the files of *state*, sized for estimates; any that have no row for *filters* may be left out."""
        return SizedFiles(files=self.files(state))

    @abstractmethod
    def shown_files(self, table: Table) -> list[str]:
        """Return the URIs of the data files that an engine reads when it loads *table* from the catalog now.

        :raises UnknownName: the catalog lacks the table. :raises Unavailable: a metadata file is missing.
        """

    @abstractmethod
    def is_shown(self, state: State) -> bool:
        """Return whether an engine finds all rows of *state* by time travel to its version in the catalog."""

    @abstractmethod
    def read(self, state: State, schema: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of *state* with the columns of *schema*, matched by column id, and the epoch column.

        :param schema: the ``SchemaRecord`` of ``state.ref.schema_id``; a slice that lacks a column yields nulls.
        :raises Unavailable: a file of the state is missing. Partial results are never returned.
        """

    def scan(
        self,
        state: State,
        schema: str,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,  # noqa: ARG002
    ) -> Iterator[pa.Table]:
        """Yield the result of :meth:`read` in pieces, so that not all rows need to fit into memory.

        :param filters: files that have no row for them may be left out; the pieces have other rows, too.

        :raises Unavailable: as :meth:`read`, but only at the piece concerned: use no row before the last piece.
        """
        yield self.read(state, schema, columns)

    def statistics(self, state: State, schema: str) -> Statistics:
        """Return the number of rows of *state*, and the column statistics of its files.

        :raises Unavailable: a metadata file is missing.
        """
        rows = sum(piece.num_rows for piece in self.scan(state, schema, [EPOCH_COLUMN]))
        return Statistics(rows=rows, columns={})

    @abstractmethod
    def arrow_schema(self, schema: str) -> pa.Schema:
        """Return *schema* as Arrow, each field with its column id in the metadata (``PARQUET:field_id``)."""

    def close(self) -> None:  # noqa: B027  (a format without connections has nothing to give back)
        """Close connections; the format must not be used afterwards. May be called twice."""
