"""Progress of a table: the unbroken chain of committed epochs from its origin, and its watermark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce

from airflow_provider.domain.format_marks import since
from airflow_provider.domain.interval import Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """The time that a table's committed epochs cover.

    :param origin: start of the chain, from which on readers see rows; None until the first commit if none was declared.
    :param islands: covered ranges, sorted, neither touching nor overlapping.
    :param declared: True if the job declares where the table begins: then there are no rows before.
    :param reaches: start of the table, earlier than the origin, once all epochs between the two are committed: the
        origin that its job declares now, or the earliest epoch that was committed below the origin. None if no epochs
        are expected below the origin.
    """

    origin: datetime | None = None
    islands: tuple[Interval, ...] = ()
    declared: bool = False
    reaches: datetime | None = field(default=None, metadata=since(2))

    @property
    def watermark(self) -> datetime | None:
        """End of the unbroken chain from the origin; None before the chain begins."""
        if self.origin is None:
            return None
        for island in self.islands:
            if island.start <= self.origin < island.end:
                return island.end
        return None

    @property
    def start(self) -> datetime | None:
        """Start of the first epoch that the table has, or waits for."""
        return self.origin if self.reaches is None else self.reaches

    @property
    def begins(self) -> datetime | None:
        """Time before which the table has no rows for certain; None if no job declares it."""
        return self.start if self.declared else None

    @property
    def next_missing(self) -> datetime | None:
        """Start of the first epoch that is missing from :attr:`start` on; None if the table has no start yet."""
        start = self.start
        if start is None:
            return None
        return next((island.end for island in self.islands if island.start <= start < island.end), start)

    def covers(self, interval: Interval) -> bool:
        return any(island.start <= interval.start and interval.end <= island.end for island in self.islands)

    def lacks(self, interval: Interval) -> bool:
        """Return True if *interval* starts at :attr:`start` or later, and is not committed."""
        return self.start is not None and self.start <= interval.start and not self.covers(interval)

    def overlaps(self, interval: Interval) -> bool:
        return any(island.overlaps(interval) for island in self.islands)

    def adding(self, *intervals: Interval) -> Progress:
        """Return the progress after *intervals* committed, in this order; a covered interval changes nothing.

        The origin moves back with the commit that joins the chain to the epochs below it.
        """
        return reduce(Progress._adding, intervals, self)

    def _adding(self, interval: Interval) -> Progress:
        if self.origin is not None and self.covers(interval):
            return self  # most epochs of a restatement
        islands = merged((*self.islands, interval))
        origin = interval.start if self.origin is None else self.origin
        # An island that ends at the origin joins the chain, also while no epoch is committed at the origin itself.
        start = next((island.start for island in islands if island.start <= origin <= island.end), origin)
        reaches = min(interval.start, origin if self.reaches is None else self.reaches)
        return Progress(
            origin=start,
            islands=islands,
            declared=self.declared,
            reaches=reaches if reaches < start else None,
        )

    def removing(self, *intervals: Interval) -> Progress:
        """Return the progress once *intervals* are not committed any more; the origin stays while others are."""
        islands = self.islands
        for gone in intervals:
            islands = tuple(
                Interval(start, end)
                for island in islands
                for start, end in (
                    (island.start, min(island.end, gone.start)),
                    (max(island.start, gone.end), island.end),
                )
                if start < end
            )
        if not islands:
            return Progress(origin=self.begins, declared=self.declared)
        return replace(self, islands=islands)

    def changed_by(self, interval: Interval) -> Interval | None:
        """Return the range in which a commit of *interval* changes rows that readers may have read, if any.

        A revision changes its own interval. A commit below the origin, and lower than all before it, contradicts the
        readers that found no rows there; a commit that joins epochs to the chain shows all of them. A gap that is
        filled at the watermark or beyond, or below an origin that is known to move, was visible to no reader.
        """
        if self.origin is None or self._ends_by(interval.start):
            return None
        after = self.adding(interval)
        moved = (after.origin, self.origin), (after.start, self.start)
        lows = [new for new, old in moved if new is not None and old is not None and new < old]
        if lows:
            return Interval(min(lows), max(self.origin, interval.end))
        visible = self.watermark is not None and self.origin <= interval.start < self.watermark
        return interval if visible or self.overlaps(interval) else None

    def told_with(self, after: Progress, interval: Interval) -> Interval:
        """Return *interval* with the time of earlier commits that readers see from the progress *after* on.

        They saw nothing of epochs beyond a gap, or below the origin, when these were committed.
        """
        low, high = interval.start, interval.end
        if after.origin is not None and self.origin is not None and after.origin < self.origin:
            low = min(low, after.origin)
        if after.watermark is not None and (self.watermark is None or self.watermark < after.watermark):
            high = max(high, after.watermark)
        return Interval(low, high)

    def _ends_by(self, moment: datetime) -> bool:
        """Return True if the table is one chain from the origin that ends at *moment* or earlier."""
        if self.reaches is not None or len(self.islands) != 1:
            return False
        chain = self.islands[0]
        return chain.start == self.origin and chain.end <= moment

    def declared_at(self, moment: datetime) -> Progress:
        """Return the progress after the job declares that the table begins at *moment*.

        While no row is visible to readers, the origin moves at once.
        """
        if self.origin is None or self.watermark is None:
            return replace(self, origin=moment, declared=True, reaches=None)
        reaches = min(moment, self.origin if self.reaches is None else self.reaches)
        return replace(self, declared=True, reaches=reaches if reaches < self.origin else None)


def merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Return the union of *intervals*, sorted: intervals that touch or overlap become one."""
    found: list[Interval] = []
    for interval in sorted(intervals):
        if found and interval.start <= found[-1].end:
            found[-1] = Interval(found[-1].start, max(found[-1].end, interval.end))
        else:
            found.append(interval)
    return tuple(found)
