"""How far a table is complete: the unbroken chain of committed epochs from its origin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from airflow_provider.domain.interval import Interval
from airflow_provider.domain.record_format import since


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Which time a table's committed epochs cover.

    :param origin: where the chain starts, and with it what readers see; None until the first commit when none was
        declared.
    :param islands: covered ranges, sorted, neither touching nor overlapping.
    :param declared: whether the job declares where the table begins: then there is nothing before that.
    :param reaches: where the table will begin, earlier than the origin, once the time between the two is whole: the
        origin that its job declares by now, or the earliest epoch that was committed below the origin. None where
        nothing is to come below the origin.
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
        """Before it there is nothing, which readers may take for a fact; None where no job declares that."""
        return self.start if self.declared else None

    @property
    def next_missing(self) -> datetime | None:
        """Start of the first epoch that is missing from :attr:`start` on; None where the table has no start yet."""
        start = self.start
        if start is None:
            return None
        return next((one.end for one in self.islands if one.start <= start < one.end), start)

    def covers(self, interval: Interval) -> bool:
        return any(one.start <= interval.start and interval.end <= one.end for one in self.islands)

    def lacks(self, interval: Interval) -> bool:
        """Whether *interval* lies where the table begins or later, and is not committed."""
        return self.start is not None and self.start <= interval.start and not self.covers(interval)

    def overlaps(self, interval: Interval) -> bool:
        return any(one.overlaps(interval) for one in self.islands)

    def adding(self, interval: Interval) -> Progress:
        """The progress after *interval* committed; adding what is covered changes nothing.

        The origin moves back in the commit that makes the chain touch what lies below it.
        """
        islands = merged((*self.islands, interval))
        origin = interval.start if self.origin is None else self.origin
        # Also where nothing is committed at the origin itself: what ends there is where the chain begins.
        start = next((one.start for one in islands if one.start <= origin <= one.end), origin)
        reaches = min(interval.start, origin if self.reaches is None else self.reaches)
        return Progress(
            origin=start,
            islands=islands,
            declared=self.declared,
            reaches=reaches if reaches < start else None,
        )

    def changed_by(self, interval: Interval) -> Interval | None:
        """The time of which a commit of *interval* changes what readers may have read; None where it changes nothing.

        A revision changes itself. What begins below the origin, and lower than all before it, tells those who read
        "nothing there" that they are wrong; what makes the chain touch shows all that it joins. A gap that is filled
        at the watermark or beyond, or below an origin that is known to move, was visible to no reader.
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

    def _ends_by(self, moment: datetime) -> bool:
        """Whether all that is covered is one chain from the origin to *moment* at most."""
        if self.reaches is not None or len(self.islands) != 1:
            return False
        chain = self.islands[0]
        return chain.start == self.origin and chain.end <= moment

    def declared_at(self, moment: datetime) -> Progress:
        """The progress once the job declares that the table begins at *moment*.

        Where no reader can see anything yet, the origin moves at once.
        """
        if self.origin is None or self.watermark is None:
            return replace(self, origin=moment, declared=True, reaches=None)
        reaches = min(moment, self.origin if self.reaches is None else self.reaches)
        return replace(self, declared=True, reaches=reaches if reaches < self.origin else None)


def merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Unite intervals that touch or overlap; sorted."""
    found: list[Interval] = []
    for one in sorted(intervals):
        if found and one.start <= found[-1].end:
            found[-1] = Interval(found[-1].start, max(found[-1].end, one.end))
        else:
            found.append(one)
    return tuple(found)
