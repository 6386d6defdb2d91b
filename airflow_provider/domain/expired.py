"""Expired barriers of a table, as ranges in pages of fixed widths (R24). Pure decisions.

A barrier lies in one page of each width, and is recorded in the widest of them that is not split. So a reader knows the
keys of all pages that may have it, and a page never has more than a few hundred ranges, however many barriers are
expired.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Protocol

from airflow_provider.domain.errors import RecordFull
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Cadence, Interval, from_micros, micros
from airflow_provider.domain.version import TableRef
from airflow_provider.domain.watermark import Progress, merged

WIDTHS = tuple(timedelta(seconds=16 * 32**power) for power in (5, 4, 3, 2))
"""Widths of the pages: about 17 years, 194 days, 6 days, 4.5 hours; a page has the width of 32 of the next kind."""
MOST_RANGES = 10_000
"""Maximum number of ranges in a page of the least width, which cannot be split."""
_start = attrgetter("start")
_MIDDLE = 10**9
"""Added to the numbers of pages, so that the numbers of pages before 1970 are not negative."""


class ExpiredStates(Protocol):
    """The expired barriers and superseded versions of a domain."""

    def range_at(self, table: TableName, barrier: datetime) -> Interval | None:
        """Return the expired range that contains *barrier*, if any."""

    def superseded(self, csn: int, ref: TableRef | None, newest: TableRef | None) -> bool:
        """Return True if the version *ref*, resolved at *csn*, cannot be claimed any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpiredPage:
    """Expired barriers of one table in one stretch of time: those in ``(start, end]`` of each range.

    :param ranges: in the order of time, without overlap.
    :param split: narrower pages have the ranges, and this page has none.
    """

    ranges: tuple[Interval, ...] = ()
    split: bool = False


@lru_cache(maxsize=1_024)
def page_items(barrier: datetime) -> tuple[str, ...]:
    """Return the items of the pages that may have *barrier*, the widest first.

    Cached: a cut looks up many tables at one barrier.
    """
    return tuple(_item(level, _number(level, micros(barrier))) for level in range(len(WIDTHS)))


def range_in(pages: Iterable[ExpiredPage], barrier: datetime) -> Interval | None:
    """Return the range of *pages* that contains *barrier*, if any."""
    for page in pages:
        place = bisect_left(page.ranges, barrier, key=_start)  # bisect: every cut searches pages of hundreds
        if place and barrier <= page.ranges[place - 1].end:
            return page.ranges[place - 1]
    return None


def expiring(
    look: Callable[[str], ExpiredPage | None], gone: Interval, most: int
) -> Mapping[str, ExpiredPage]:
    """Return the pages that change when the barriers in *gone* are expired, by item.

    :param look: returns the page with an item, if any. :param most: maximum number of ranges of a page; beyond it the
        page is split.
    :raises RecordFull: more than :data:`MOST_RANGES` ranges in a page of the least width.
    """
    changed: dict[str, ExpiredPage] = {}
    _expire(lambda item: changed.get(item) or look(item) or ExpiredPage(), changed, 0, gone, most)
    return changed


def grown_hull(hull: Interval | None, gone: Interval, cadence: Cadence, progress: Progress) -> Interval:
    """Return a range that contains *hull*, *gone*, and all barriers before the newest one.

    Barriers that are expired next lie within it: the table's record changes a few times while thousands of barriers
    are expired.
    """
    known = [gone] if hull is None else [hull, gone]
    starts = [*(span.start for span in known), *([progress.origin] if progress.origin else [])]
    ends = [span.end for span in known]
    if progress.watermark is not None:
        ends.append(cadence.last_before(progress.watermark))
    return Interval(min(starts), max(ends))


def _expire(
    look: Callable[[str], ExpiredPage],
    changed: dict[str, ExpiredPage],
    level: int,
    gone: Interval,
    most: int,
) -> None:
    for number in range(_number(level, micros(gone.start) + 1), _number(level, micros(gone.end)) + 1):
        item, part = _item(level, number), _clipped(level, number, gone)
        page = look(item)
        if page.split:
            _expire(look, changed, level + 1, part, most)
            continue
        ranges, last = merged((*page.ranges, part)), level + 1 == len(WIDTHS)
        if len(ranges) <= most or last:
            if len(ranges) > max(most, MOST_RANGES):
                raise RecordFull.of(
                    f"the expired ranges in {part}",
                    len(ranges),
                    MOST_RANGES,
                    next_step="expire barriers that lie beside each other: their ranges become one.",
                )
            changed[item] = ExpiredPage(ranges=ranges)
            continue
        changed[item] = ExpiredPage(split=True)
        for span in ranges:
            _expire(look, changed, level + 1, span, most)


def _clipped(level: int, number: int, gone: Interval) -> Interval:
    """Return the part of *gone* within a page."""
    width = WIDTHS[level] // timedelta(microseconds=1)
    start, end = max(micros(gone.start), number * width), min(micros(gone.end), (number + 1) * width)
    return Interval(from_micros(start), from_micros(end))


def _number(level: int, moment: int) -> int:
    """Return the number of the page of a barrier; a barrier at a page's end belongs to that page."""
    return -(-moment // (WIDTHS[level] // timedelta(microseconds=1))) - 1


def _item(level: int, number: int) -> str:
    return f"{level}:{number + _MIDDLE:011d}"
