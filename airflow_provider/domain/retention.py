"""Retention: expired barriers, versions that a vacuum deletes or keeps, states that jobs still need (R23, R24).

Pure decisions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from airflow_provider.domain.cut import edge_range
from airflow_provider.domain.format_marks import formerly
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.version import TableRecord, TableRef
from airflow_provider.domain.watermark import merged


@dataclass(frozen=True, kw_only=True, slots=True)
class Expired:
    """Barriers of one table at which no cut can be made: those in ``(start, end]`` of each range."""

    table: TableName
    ranges: tuple[Interval, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RetentionRecord:
    """The states that retention has expired. A claim requires this record unchanged since it was read.

    :param horizon: states resolved at a lower CSN may be deleted, unless their version is still the table's newest.
    :param expired: expired barriers of the whole domain, in a store whose format has no pages for them.
    """

    horizon: int = 0
    expired: tuple[Expired, ...] = field(default=(), metadata=formerly("withdrawn"))

    def ranges(self, table: TableName) -> tuple[Interval, ...]:
        return next((entry.ranges for entry in self.expired if entry.table == table), ())

    def range_at(self, table: TableName, barrier: datetime) -> Interval | None:
        """Return the expired range that contains *barrier*, if any."""
        return next((gone for gone in self.ranges(table) if gone.start < barrier <= gone.end), None)

    def expired_at(self, barriers: Mapping[TableName, datetime]) -> tuple[TableName, ...]:
        """Return the tables of *barriers* whose barrier is expired, sorted."""
        found = []
        for entry in self.expired:
            barrier = barriers.get(entry.table)
            if barrier and any(gone.start < barrier <= gone.end for gone in entry.ranges):
                found.append(entry.table)
        return tuple(sorted(found))

    def superseded(self, csn: int, ref: TableRef | None, newest: TableRef | None) -> bool:
        """Return True if the version *ref*, resolved at *csn*, cannot be claimed any more.

        *newest* may be superseded and deleted before the claim is made. The deletion moves the horizon first, so that
        the claim's requirement on this record fails.
        """
        same = ref is None or (newest is not None and ref.lasting() == newest.lasting())
        return csn < self.horizon and not same

    def expiring(self, table: TableName, epoch: Interval) -> RetentionRecord:
        """Return the record after the barrier at the end of *epoch* is expired."""
        others = tuple(entry for entry in self.expired if entry.table != table)
        added = Expired(table=table, ranges=merged((*self.ranges(table), epoch)))
        return replace(self, expired=tuple(sorted((*others, added), key=lambda entry: entry.table)))


NOTHING_EXPIRED = RetentionRecord()


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """A version of a table, committed at *csn*, whose files are not deleted."""

    csn: int
    ref: TableRef


Claimed = Mapping[TableName, Sequence[TableRef]]
"""The versions of each table that a lease, an attempt or an open epoch needs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Superseded:
    """The versions of one page that the table has moved on from.

    :param gone: unclaimed versions, to be deleted.
    :param kept: versions whose files must stay, also those that they share with *gone*.
    :param claimed: number of versions that are superseded, but claimed.
    :param ref: the table's present version; None for a table that was dropped. :param kind: of the table.
    """

    gone: tuple[Version, ...] = ()
    kept: tuple[TableRef, ...] = ()
    claimed: int = 0
    ref: TableRef | None = None
    kind: TableKind = TableKind.INCREMENTAL


NOTHING_SUPERSEDED = Superseded()


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionsRecord:
    """A page of the versions of a table that are not deleted, oldest first."""

    versions: tuple[Version, ...] = ()

    def with_commits(self, commits: Iterable[Version], most: int) -> tuple[VersionsRecord, ...]:
        """Return this page with later commits, and the pages after it, of at most *most* versions each.

        Commits that the page has already change nothing.
        """
        known = self.versions[-1].csn if self.versions else 0
        versions = (*self.versions, *(version for version in commits if version.csn > known))
        first = max(most, len(self.versions))
        starts = (0, *range(first, len(versions), most))
        ends = (*starts[1:], len(versions))
        return tuple(
            VersionsRecord(versions=versions[start:end]) for start, end in zip(starts, ends, strict=True)
        )

    def newest_at(self, horizon: int) -> Version | None:
        """Return the newest version of this page that was committed at or before *horizon*."""
        return next((version for version in reversed(self.versions) if version.csn <= horizon), None)

    def superseded(self, horizon: int, newest: Version | None) -> tuple[Version, ...]:
        """Return the versions of this page that were not the newest any more at *horizon*.

        :param newest: the newest version of the whole table at *horizon*, in whichever page.
        """
        return tuple(version for version in self.versions if version.csn <= horizon and version != newest)

    def divided(
        self,
        horizon: int,
        newest: Version | None,
        needed: Collection[TableRef],
        ref: TableRef | None,
        kind: TableKind,
    ) -> Superseded:
        """Divide the versions of this page into those that a vacuum deletes, and those whose files must stay.

        Files shared with later pages either go with those pages, or are in ``kept``.

        :param newest: the newest version of the whole table at *horizon*, in whichever page; None if it was dropped.
        :param needed: claims on the table. :param ref: its present version. :param kind: of the table.
        """
        old = self.superseded(horizon, newest)
        gone = tuple(version for version in old if version.ref not in needed)
        staying = [version.ref for version in (*([newest] if newest else []), *self.without(gone).versions)]
        kept = (*needed, *staying, *([ref] if ref else []))
        return Superseded(gone=gone, kept=kept, claimed=len(old) - len(gone), ref=ref, kind=kind)

    def without(self, gone: Collection[Version]) -> VersionsRecord:
        return VersionsRecord(versions=tuple(version for version in self.versions if version not in gone))


def still_needed(
    job: JobRecord, outputs: Sequence[TableRecord], table: TableName, record: TableRecord, barrier: datetime
) -> bool:
    """Return True if an epoch that *job* has not committed yet may read *table* at *barrier*.

    A job that declares no origin and has committed nothing may begin anywhere: it keeps no barrier. So does its new
    output, which begins at its first commit; what its other tables read next stays.
    """
    marks = [output.progress.next_missing for output in outputs if output.progress.islands]
    if job.origin is not None and len(marks) < max(len(outputs), 1):
        marks = [job.origin]
    start = min((mark for mark in marks if mark is not None), default=None)
    if start is None:
        return False
    epoch = job.cadence.ending_at(job.cadence.next_after(start))
    return any(edge_range(edge, epoch, record)[1] <= barrier for edge in job.all_edges if edge.table == table)


def full_states_read(
    job: JobRecord, epoch: Interval, tables: Mapping[TableName, TableRecord]
) -> list[tuple[TableName, datetime]]:
    """Return table and barrier of the states of full tables that *job* reads for *epoch*, committed or not.

    :param tables: records of the tables that the job reads; those of other kinds keep all rows.
    """
    full = {name: record for name, record in tables.items() if record.kind.loses_expired}
    edges = (edge for edge in job.all_edges if edge.table in full)
    return [(edge.table, edge_range(edge, epoch, full[edge.table])[1]) for edge in edges]
