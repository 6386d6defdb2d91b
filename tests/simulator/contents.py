"""What the tables of the cascade hold at each CSN, from their slices alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from airflow_provider.domain.epoch import Provenance
from airflow_provider.domain.table_kind import TableKind
from tests.simulator.cascade import JOBS, KINDS, OWNERS, Rows, is_barrier, within
from tests.simulator.history import History, Slice


@dataclass(slots=True)
class Contents(History):
    """Rows, origins and watermarks of the tables.

    :ivar slowed: tables whose cadence has changed.
    """

    slowed: set[str] = field(default_factory=set)
    _chains: dict[tuple[str, int], tuple[datetime, datetime] | None] = field(default_factory=dict)

    def current(self, table: str, csn: int) -> dict[datetime, Slice]:
        """The newest slice of each epoch at *csn*, by barrier."""
        return {
            slice_.interval.end: slice_ for slice_ in self._slices[table] if slice_.csn <= csn < slice_.until
        }

    def slices(self, table: str) -> list[Slice]:
        """All revisions of all epochs of *table* that no rollback has taken back."""
        return [slice_ for slice_ in self._slices[table] if slice_.is_there(self.csn)]

    def rows(self, table: str, low: datetime | None, high: datetime, csn: int) -> Rows:
        """The rows of *table* in ``[low, high)`` at *csn*."""
        slices = self.current(table, csn)
        found = [(barrier, value) for barrier, slice_ in slices.items() for value in slice_.rows]
        return within(tuple(sorted(found)), low, high)

    def state(self, table: str, barrier: datetime, csn: int) -> Rows:
        """What a reader gets of *table*: all rows up to *barrier*, of a full table those of its last slice."""
        rows = self.visible(table, None, barrier, csn)
        full = KINDS[table] is TableKind.FULL
        return tuple(row for row in rows if row[0] == barrier) if full else rows

    def visible(self, table: str, low: datetime | None, high: datetime, csn: int) -> Rows:
        """The rows of *table* in ``[low, high)`` that its readers see: none of before its origin."""
        chain = self.chain(table, csn)
        starts = [start for start in (low, chain[0] if chain else None) if start is not None]
        return self.rows(table, max(starts, default=None), high, csn)

    def chain(self, table: str, csn: int) -> tuple[datetime, datetime] | None:
        """Origin and watermark of *table* at *csn*, which is no later than now; None before its chain begins."""
        if (table, csn) not in self._chains:
            self._chains[table, csn] = self._chain(table, csn)
        return self._chains[table, csn]

    def _chain(self, table: str, csn: int) -> tuple[datetime, datetime] | None:
        slices = self.current(table, csn)
        starts = {slice_.interval.start: slice_.interval.end for slice_ in slices.values()}
        simulated = JOBS[OWNERS[table]]
        if simulated.job.origin is not None:
            low = simulated.job.origin
        else:
            there = (slice_ for slice_ in self._slices[table] if slice_.is_there(csn))
            first = min(there, key=lambda slice_: slice_.csn, default=None)
            if first is None:
                return None
            low = first.interval.start
            ends = {end: start for start, end in starts.items()}
            while low in ends:
                low = ends[low]
        high = low
        while high in starts:
            high = starts[high]
        return (low, high) if high > low else None

    def common_barrier(self, tables: Iterable[str], csn: int, at: datetime | None) -> datetime | None:
        """The greatest barrier up to *at* that all *tables* have reached at *csn*."""
        chains = [self.chain(table, csn) for table in tables]
        known = [chain for chain in chains if chain is not None]
        if len(known) < len(chains):
            return None
        origin, highest = max(low for low, _ in known), min(high for _, high in known)
        ends = {end for table in tables for end in self.current(table, csn)}
        good = [
            end
            for end in ends
            if origin < end <= highest
            and (at is None or end <= at)
            and all(is_barrier(table, end, slowed=table in self.slowed) for table in tables)
        ]
        return max(good, default=None)

    # --- what was taken back ------------------------------------------------------------------------------------

    def is_gone_since(self, one: Slice, csn: int) -> bool:
        """Whether a rollback after *csn* has taken *one* back."""
        return one.csn <= csn < one.until <= self.csn

    def would_outdate(self, to: int) -> bool:
        """Whether attempts under way have read what a rollback to the CSN *to* would take back."""
        return any(
            slice_.csn > to and slice_.interval.meets(read.low, read.high)
            for epoch in self.epochs.values()
            if epoch.attempt is not None and epoch.attempt.aborted is None
            for read in epoch.attempt.inputs
            for slice_ in self.slices(str(read.table))
        )

    def takes_back(self, inputs: Iterable[Provenance]) -> bool:
        """Whether a rollback has taken back something of *inputs* since they were read."""
        return any(
            self.is_gone_since(slice_, read.csn) and slice_.interval.meets(read.low, read.high)
            for read in inputs
            for slice_ in self._slices[str(read.table)]
        )
