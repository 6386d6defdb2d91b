"""What is withdrawn, and which versions of a table nobody can claim any more (R23, R24). Pure decisions."""

from __future__ import annotations

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
class Superseded:
    """A version of a table that *csn* committed, that is no longer the newest, and whose files are still there."""

    table: TableName
    csn: int
    ref: TableRef


@dataclass(frozen=True, kw_only=True, slots=True)
class RetentionRecord:
    """What retention has taken back from readers: whoever makes a claim requires it as it was read.

    :param horizon: states resolved at a lower CSN may be gone, unless their version is still the table's newest.
    :param swept: versions committed at or before it are gone, or listed in ``remaining``.
    """

    horizon: int = 0
    swept: int = 0
    withdrawn: tuple[Withdrawn, ...] = ()
    remaining: tuple[Superseded, ...] = ()

    def ranges(self, table: TableName) -> tuple[Interval, ...]:
        return next((one.ranges for one in self.withdrawn if one.table == table), ())

    def range_at(self, table: TableName, barrier: datetime) -> Interval | None:
        """The withdrawn range that contains *barrier*, if any."""
        return next((one for one in self.ranges(table) if one.start < barrier <= one.end), None)

    def superseded(self, csn: int, ref: TableRef | None, newest: TableRef | None) -> bool:
        """Whether the version *ref*, resolved at *csn*, cannot be claimed any more."""
        return csn < self.horizon and ref is not None and ref != newest

    def withdrawing(self, table: TableName, epoch: Interval) -> RetentionRecord:
        """The record after the barrier at the end of *epoch* is withdrawn."""
        others = tuple(one for one in self.withdrawn if one.table != table)
        added = Withdrawn(table=table, ranges=merged((*self.ranges(table), epoch)))
        return replace(self, withdrawn=tuple(sorted((*others, added), key=lambda one: one.table)))


NOTHING_WITHDRAWN = RetentionRecord()
