"""What tables consist of: references, committables, slices, commits, and what moved when."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache

from airflow_provider.domain.columns import AppliedChange
from airflow_provider.domain.identifiers import ChangeSetId, JobName, TableName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.record_format import since
from airflow_provider.domain.topology import TableKind
from airflow_provider.domain.watermark import Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRef:
    """Where a table format finds one version of a table; enough to read it without its catalog.

    :param format: name of the table format.
    :param table_uuid: identity of the table: a re-created table of the same name has another one.
    :param version: the format's own number of the version (Iceberg: snapshot id).
    :param location: URI from which the files of the version are found (Iceberg: its manifest list).
    :param schema_id: the schema with which the version is read.
    """

    format: str
    table_uuid: str
    version: int
    location: str
    schema_id: int
    metadata: str = ""
    """URI of the table's whole description at that version (Iceberg: metadata.json), while it is kept."""

    def lasting(self) -> TableRef:
        """The reference without what is kept for a while only, for records of the past."""
        return _lasting(self) if self.metadata else self


@lru_cache(maxsize=4096)
def _lasting(ref: TableRef) -> TableRef:
    """Remembered: every cut asks it of every table."""
    return replace(ref, metadata="")


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A description of staged files that a participant wrote (Iceberg: one manifest).

    :param description: what publish needs to know of it without reading it (Iceberg: its partition summary).
    """

    uri: str
    size_bytes: int
    files: int
    rows: int
    description: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Committable:
    """What WRITTEN records about a sink: all that publish needs, and nothing else is ever published.

    :param place: URI under which everything of the attempt lies.
    :param version: the format's number reserved for the version to be (Iceberg: snapshot id).
    :param rows: rows in all files. :param files: number of files. :param size_bytes: their sizes together.
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
class Moved:
    """Where a table stood after the commit *csn*."""

    csn: int
    origin: datetime | None
    watermark: datetime | None
    ref: TableRef | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRecord:
    """Where a table stands now: the record that every cut reads.

    :param earlier: where it stood before, newest first, for readers of a slightly older head.
    :param ended: why nothing more comes of it; empty while something may (R7).
    :param heard: when its job last moved it, where something else has moved it since; None where the stamp says so.
    :param changes: of its columns, in their order (R32).
    :param joins: cuts of the whole domain wait for it beyond this barrier only: they had come so far without it.
    :param withdrawn: contains all that is withdrawn of it (R24): who reads beyond it need not look further.
    """

    job: JobName
    kind: TableKind
    cadence: Cadence
    progress: Progress
    ref: TableRef | None = None
    earlier: tuple[Moved, ...] = ()
    ended: str = ""
    heard: datetime | None = None
    changes: tuple[AppliedChange, ...] = ()
    joins: datetime | None = field(default=None, metadata=since(2, optional=True))
    withdrawn: Interval | None = field(default=None, metadata=since(2))


@dataclass(frozen=True, kw_only=True, slots=True)
class Rewrite:
    """A commit that changed what a reader may have read: *csn* touched ``[low, high)``."""

    csn: int
    low: datetime
    high: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class FenceRecord:
    """When a table's past was last rewritten; forward commits never touch it (R13).

    :param latest: range of the newest rewrite; its CSN is this record's stamp.
    :param earlier: rewrites before it, newest first; each may stand for several that were near each other.
    :param binds: count of the domain when epochs of the table were last left behind their source: what is required
        of this record is not decided on a topology of before that.
    """

    latest: Interval | None = None
    earlier: tuple[Rewrite, ...] = ()
    binds: int = field(default=0, metadata=since(2))


TOLD_APART_SINCE = 2
"""Format of the stores all of whose users tell what a version has from what it shows."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Which epochs the catalog's current version of a table has rows of: those that end in ``(after, until]``."""

    after: datetime
    until: datetime

    def has(self, barrier: datetime) -> bool:
        return self.after < barrier <= self.until


ALL_SHOWN = Shown(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
NOTHING_SHOWN = Shown(datetime.min.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC))


def shown(record: TableRecord, progress: Progress, store_format: int) -> Shown:
    """What a cut of the table alone gets once it has come to *progress*.

    Engines that load the table from the catalog, without a cut, get the same: no older state of a full table, no epoch
    beyond a gap. In a store of format 1 they get all: there versions of the package may commit, too, that
    take what is shown for all that the table has.
    """
    if store_format < TOLD_APART_SINCE:
        return ALL_SHOWN
    until = progress.watermark
    if until is None or progress.origin is None:
        return NOTHING_SHOWN
    full = record.kind is TableKind.FULL
    return Shown(record.cadence.last_before(until) if full else progress.origin, until)


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceRecord:
    """What one revision of one epoch contributed to one table; its CSN is its change set's.

    :param schema_id: the schema that its rows were written with (R32).
    """

    interval: Interval
    revision: int
    token: int
    change_set: ChangeSetId
    rows: int
    files: int
    size_bytes: int
    schema_id: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TableDelta:
    """What a commit did to one table."""

    table: TableName
    interval: Interval
    revision: int
    watermark: datetime | None
    ref: TableRef | None
    rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One epoch revision of a change set."""

    job: JobName
    interval: Interval
    revision: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitRecord:
    """One published change set: the entry of the commit sequence, and the outgoing event (R35)."""

    change_set: ChangeSetId
    members: tuple[Member, ...]
    by: str
    tables: tuple[TableDelta, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaRecord:
    """A table's columns as the format writes them down (Iceberg: the schema's JSON)."""

    schema: str
