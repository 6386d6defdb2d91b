"""Records of tables: versions, committables, slices, commits, and rewrites."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache

from airflow_provider.domain.columns import AppliedChange
from airflow_provider.domain.format_marks import since
from airflow_provider.domain.identifiers import ChangeSetId, JobName, TableName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.watermark import Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRef:
    """Reference to one version of a table; enough to read it without the catalog.

    :param format: name of the table format.
    :param table_uuid: identity of the table: a table created anew under the same name has another one.
    :param version: the format's own number of the version (Iceberg: snapshot id).
    :param location: URI that leads to the files of the version (Iceberg: its manifest list).
    :param schema_id: the schema with which the version is read.
    """

    format: str
    table_uuid: str
    version: int
    location: str
    schema_id: int
    metadata: str = ""
    """URI of the table's whole description at that version (Iceberg: metadata.json), while that file exists."""

    def lasting(self) -> TableRef:
        """Return the reference without :attr:`metadata`, whose file is deleted earlier than the version."""
        return _lasting(self) if self.metadata else self


@lru_cache(maxsize=4096)
def _lasting(ref: TableRef) -> TableRef:
    """Return :meth:`TableRef.lasting`. Cached: every cut calls it for every table."""
    return replace(ref, metadata="")


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A description of staged files that a participant wrote (Iceberg: one manifest).

    :param description: facts that publish needs without reading the file (Iceberg: its partition summary).
    """

    uri: str
    size_bytes: int
    files: int
    rows: int
    description: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Committable:
    """The staged output of a sink, as WRITTEN records it: publish needs no more, and publishes nothing else.

    :param place: URI under which all files of the attempt lie.
    :param version: the format's number reserved for the version to be published (Iceberg: snapshot id).
    :param rows: rows in all files. :param files: number of files. :param size_bytes: total size of the files.
    :param checksum: hash over every file's own checksum, taken while the file was written.
    """

    format: str
    table_uuid: str
    place: str
    version: int
    parts: tuple[Part, ...]
    rows: int
    files: int
    size_bytes: int
    checksum: str
    schema_id: int


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldFile:
    """Data file of a version, with the epochs whose rows it has.

    :param low: least barrier of these epochs. :param high: greatest one; another than *low* for a unit file.
    :param partition: what else separates files, as text.
    :param layout: number of the partition spec, but for the epoch.
    :param obstacle: why its rows cannot be compacted; empty if they can. :param way_out: of the obstacle; may be empty.
    """

    uri: str
    low: datetime
    high: datetime
    rows: int
    size_bytes: int
    partition: str
    layout: int
    obstacle: str = ""
    way_out: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableVersion:
    """Origin, watermark and version of a table after the commit *csn*."""

    csn: int
    origin: datetime | None
    watermark: datetime | None
    ref: TableRef | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRecord:
    """Present state of a table: the record that every cut reads.

    :param earlier: former states, newest first, for readers of a slightly older head.
    :param ended: reason why no more epochs are committed to it; empty while they may be (R7).
    :param heard: time of its job's last epoch commit, if a later commit of another kind replaced the record's stamp;
        otherwise None.
    :param changes: changes of its columns, in order (R32).
    :param joins: cuts of the whole domain wait for it only beyond this barrier, which they had reached without it.
    :param expired: range that contains all its expired barriers (R24): a reader outside it reads no page of them.
    :param born: CSN of the commit that dropped the table which had the name before (R39); 0 if none had it.
    :param units: range of all epochs whose rows have been compacted into files of many epochs; others have files alone.
    """

    job: JobName
    kind: TableKind
    cadence: Cadence
    progress: Progress
    ref: TableRef | None = None
    earlier: tuple[TableVersion, ...] = ()
    ended: str = ""
    heard: datetime | None = None
    changes: tuple[AppliedChange, ...] = ()
    joins: datetime | None = field(default=None, metadata=since(2, optional=True))
    expired: Interval | None = field(default=None, metadata=since(2))
    born: int = field(default=0, metadata=since(2))
    units: Interval | None = field(default=None, metadata=since(2))


@dataclass(frozen=True, kw_only=True, slots=True)
class Rewrite:
    """A commit that changed what a reader may have read: *csn* touched ``[low, high)``.

    :param first: CSN of the oldest of the rewrites that were merged into it; 0 if it is a single one.
    """

    csn: int
    low: datetime
    high: datetime
    first: int = field(default=0, metadata=since(2, optional=True))

    @property
    def oldest(self) -> int:
        return self.first or self.csn


@dataclass(frozen=True, kw_only=True, slots=True)
class RewriteLog:
    """Log of the rewrites of a table's past; a forward commit never writes it (R13).

    :param latest: range of the newest rewrite; its CSN is this record's stamp.
    :param earlier: rewrites before it, newest first; each may be merged from several that were near each other.
    :param binds: :attr:`TopologyRecord.binds` when epochs of the table last fell behind their source: a decision that
        requires this record must be based on a topology of then or later.
    :param calendars: changes of the table's calendar, newest first, each from its ``low`` on: attempts that aligned
        with the calendar of before begin again. They change no row, so they are no rewrites.
    :param taken_back: what rollbacks have taken back, newest first: attempts that have read it begin again, also those
        that ignore upstream revisions.
    """

    latest: Interval | None = None
    earlier: tuple[Rewrite, ...] = ()
    binds: int = field(default=0, metadata=since(2))
    calendars: tuple[Rewrite, ...] = field(default=(), metadata=since(2, optional=True))
    taken_back: tuple[Rewrite, ...] = field(default=(), metadata=since(2))


TOLD_APART_SINCE = 2
"""First store format whose programs all distinguish the epochs that a version has from those that it shows."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The epochs whose rows the catalog's current version of a table has: those that end in ``(after, until]``."""

    after: datetime
    until: datetime

    def has(self, barrier: datetime) -> bool:
        return self.after < barrier <= self.until


ALL_SHOWN = Shown(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
NOTHING_SHOWN = Shown(datetime.min.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC))


def shown(record: TableRecord, progress: Progress, store_format: int) -> Shown:
    """Return the epochs that a cut of the table alone has at *progress*.

    Engines that load the table from the catalog, without a cut, get the same: no older state of a full table, no epoch
    beyond a gap. In a store of format 1 they get all epochs: older versions of the package may commit there, and take
    the epochs that are shown for all that the table has. See docs/decisions/shown.md.
    """
    if store_format < TOLD_APART_SINCE:
        return ALL_SHOWN
    until = progress.watermark
    if until is None or progress.origin is None:
        return NOTHING_SHOWN
    return Shown(progress.origin if record.kind.accumulates else record.cadence.last_before(until), until)


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceRecord:
    """The slice that one revision of one epoch added to one table; its CSN is that of its change set.

    :param schema_id: the schema with which its rows were written (R32).
    :param taken_back: True once a rollback has taken it from readers; its CSN is that of the rollback then. The record
        stays: its files go with the versions that have them, and are no orphans.
    """

    interval: Interval
    revision: int
    token: int
    change_set: ChangeSetId
    rows: int
    files: int
    size_bytes: int
    schema_id: int
    taken_back: bool = field(default=False, metadata=since(2))


@dataclass(frozen=True, kw_only=True, slots=True)
class TableDelta:
    """Effect of a commit on one table.

    :param interval: its epoch, or the time from the first to the last of several: also of earlier commits that
        readers see from this one on.
    :param revision: of its epoch; 0 for several, and for rows of another program.
    """

    table: TableName
    interval: Interval
    revision: int
    watermark: datetime | None
    ref: TableRef | None
    rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One epoch revision of a change set.

    :param anew: True if nothing was committed before it, since a rollback had taken the earlier revisions back.
    """

    job: JobName
    interval: Interval
    revision: int
    anew: bool = field(default=False, metadata=since(2))

    @property
    def is_first(self) -> bool:
        """True if the epoch was not committed before."""
        return self.revision == 1 or self.anew


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitRecord:
    """One published change set: the entry of the commit sequence, and the outgoing event (R35).

    :param dropped: tables that it has taken from readers for good (R39).
    """

    change_set: ChangeSetId
    members: tuple[Member, ...]
    by: str
    tables: tuple[TableDelta, ...]
    dropped: tuple[TableName, ...] = field(default=(), metadata=since(2))


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaRecord:
    """A table's columns as the format writes them down (Iceberg: the schema's JSON)."""

    schema: str
