"""What is withdrawn, and which versions of a table nobody can claim any more (R23, R24). Pure decisions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.version import TableRef
from airflow_provider.domain.watermark import merged


@dataclass(frozen=True, kw_only=True, slots=True)
class Withdrawn:
    """Barriers of one table at which no cut can be had: those in ``(start, end]`` of each range."""

    table: TableName
    ranges: tuple[Interval, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RetentionRecord:
    """What retention has taken back from readers: whoever makes a claim requires it as it was read.

    :param horizon: states resolved at a lower CSN may be gone, unless their version is still the table's newest.
    :param withdrawn: of the whole domain, where the store's format has no pages for it.
    """

    horizon: int = 0
    withdrawn: tuple[Withdrawn, ...] = ()

    def ranges(self, table: TableName) -> tuple[Interval, ...]:
        return next((one.ranges for one in self.withdrawn if one.table == table), ())

    def range_at(self, table: TableName, barrier: datetime) -> Interval | None:
        """The withdrawn range that contains *barrier*, if any."""
        return next((one for one in self.ranges(table) if one.start < barrier <= one.end), None)

    def withdrawn_at(self, barriers: Mapping[TableName, datetime]) -> tuple[TableName, ...]:
        """Those of the tables of *barriers* whose barrier there is withdrawn, sorted."""
        found = []
        for one in self.withdrawn:
            barrier = barriers.get(one.table)
            if barrier and any(gone.start < barrier <= gone.end for gone in one.ranges):
                found.append(one.table)
        return tuple(sorted(found))

    def superseded(self, csn: int, ref: TableRef | None, newest: TableRef | None) -> bool:
        """Whether the version *ref*, resolved at *csn*, cannot be claimed any more.

        A version that is the newest now, and not when the claim is made, has moved the horizon meanwhile if it
        is gone: the claim's requirement fails.
        """
        same = ref is None or (newest is not None and ref.lasting() == newest.lasting())
        return csn < self.horizon and not same

    def withdrawing(self, table: TableName, epoch: Interval) -> RetentionRecord:
        """The record after the barrier at the end of *epoch* is withdrawn."""
        others = tuple(one for one in self.withdrawn if one.table != table)
        added = Withdrawn(table=table, ranges=merged((*self.ranges(table), epoch)))
        return replace(self, withdrawn=tuple(sorted((*others, added), key=lambda one: one.table)))


NOTHING_WITHDRAWN = RetentionRecord()


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """A version of a table, committed at *csn*, whose files are still there."""

    csn: int
    ref: TableRef


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionsRecord:
    """A page of the versions of a table that are not deleted, oldest first."""

    versions: tuple[Version, ...] = ()

    def with_commits(self, commits: Iterable[Version], most: int) -> tuple[VersionsRecord, ...]:
        """This page with later commits, and the pages after it, of at most *most* versions each.

        Commits that it has already change nothing.
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
        """The newest version of this page that was committed at or before *horizon*."""
        return next((version for version in reversed(self.versions) if version.csn <= horizon), None)

    def superseded(self, horizon: int, newest: Version | None) -> tuple[Version, ...]:
        """Those that were not the newest any more at *horizon*.

        :param newest: of the whole table at *horizon*, whichever page it is in.
        """
        return tuple(one for one in self.versions if one.csn <= horizon and one != newest)

    def without(self, gone: Collection[Version]) -> VersionsRecord:
        return VersionsRecord(versions=tuple(one for one in self.versions if one not in gone))
