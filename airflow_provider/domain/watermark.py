"""How far a table is complete: the unbroken chain of committed epochs from its origin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from airflow_provider.domain.interval import Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Which time a table's committed epochs cover.

    :param origin: where the chain starts; None until the first commit when none was declared.
    :param islands: covered ranges, sorted, neither touching nor overlapping.
    :param declared: whether the job declares the origin: then there is nothing before it.
    """

    origin: datetime | None = None
    islands: tuple[Interval, ...] = ()
    declared: bool = False

    @property
    def watermark(self) -> datetime | None:
        """End of the unbroken chain from the origin; None before the chain begins."""
        if self.origin is None:
            return None
        for island in self.islands:
            if island.start <= self.origin < island.end:
                return island.end
        return None

    def covers(self, interval: Interval) -> bool:
        return any(one.start <= interval.start and interval.end <= one.end for one in self.islands)

    def overlaps(self, interval: Interval) -> bool:
        return any(one.overlaps(interval) for one in self.islands)

    def adding(self, interval: Interval) -> Progress:
        """The progress after *interval* committed; adding what is covered changes nothing.

        An undeclared origin moves back when the chain grows at its start.
        """
        islands = merged((*self.islands, interval))
        origin = interval.start if self.origin is None else self.origin
        start = next((one.start for one in islands if one.start <= origin < one.end), origin)
        return Progress(origin=start, islands=islands, declared=self.declared)

    def rewritten_by(self, interval: Interval) -> bool:
        """Whether a commit of *interval* changes what a reader up to the watermark may have read.

        True for a revision of covered time and for time before the watermark, or before the origin while there
        is none; a gap that is filled at or beyond it was visible to nobody.
        """
        known = self.watermark or self.origin
        return self.overlaps(interval) or (known is not None and interval.start < known)


def merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Unite intervals that touch or overlap; sorted."""
    found: list[Interval] = []
    for one in sorted(intervals):
        if found and one.start <= found[-1].end:
            found[-1] = Interval(found[-1].start, max(found[-1].end, one.end))
        else:
            found.append(one)
    return tuple(found)
