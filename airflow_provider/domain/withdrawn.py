"""Which barriers of a table no cut can be had of: ranges in pages of fixed widths (R24). Pure decisions.

A barrier lies in one page of each width, and is recorded in one of them: in the widest that is not split. So whoever
asks for it knows the keys of all pages that may say so, and a page never holds more than a few hundred ranges, whatever
is withdrawn.
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
"""Of the pages: some 17 years, 194 days, 6 days, four and a half hours; 32 of one fit into the one before."""
MOST_RANGES = 10_000
"""In a page of the least width, which is not split any more."""
_start = attrgetter("start")
_MIDDLE = 10**9
"""Added to the numbers of pages, so that those before 1970 have no sign."""


class Withdrawals(Protocol):
    """What tells which barriers are withdrawn."""

    def range_at(self, table: TableName, barrier: datetime) -> Interval | None:
        """The withdrawn range that contains *barrier*, if any."""

    def superseded(self, csn: int, ref: TableRef | None, newest: TableRef | None) -> bool:
        """Whether the version *ref*, resolved at *csn*, cannot be claimed any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WithdrawnPage:
    """Withdrawn barriers of one table in one stretch of time: those in ``(start, end]`` of each range.

    :param ranges: in the order of time, without overlap. :param split: narrower pages have them; then there are none
        here.
    """

    ranges: tuple[Interval, ...] = ()
    split: bool = False


@lru_cache(maxsize=1_024)
def page_items(barrier: datetime) -> tuple[str, ...]:
    """The items of the pages that may say that *barrier* is withdrawn, the widest first.

    Remembered: a cut asks for many tables at one barrier.
    """
    return tuple(_item(level, _number(level, micros(barrier))) for level in range(len(WIDTHS)))


def range_in(pages: Iterable[WithdrawnPage], barrier: datetime) -> Interval | None:
    """The range of *pages* that contains *barrier*, if any."""
    for page in pages:
        place = bisect_left(page.ranges, barrier, key=_start)  # cuts ask, and a page has hundreds, in order
        if place and barrier <= page.ranges[place - 1].end:
            return page.ranges[place - 1]
    return None


def withdrawing(
    look: Callable[[str], WithdrawnPage | None], gone: Interval, most: int
) -> Mapping[str, WithdrawnPage]:
    """Return the pages that change when the barriers in *gone* are withdrawn, by item.

    :param look: finds the page with an item. :param most: ranges of a page that is not split.
    :raises RecordFull: too many in a page of the least width.
    """
    changed: dict[str, WithdrawnPage] = {}
    _withdraw(lambda item: changed.get(item) or look(item) or WithdrawnPage(), changed, 0, gone, most)
    return changed


def grown_hull(hull: Interval | None, gone: Interval, cadence: Cadence, progress: Progress) -> Interval:
    """Return a range that contains *hull*, *gone*, and what may be withdrawn next without another change of it.

    That is all before the newest barrier: it moves a few times while thousands of barriers are withdrawn.
    """
    known = [gone] if hull is None else [hull, gone]
    starts = [*(one.start for one in known), *([progress.origin] if progress.origin else [])]
    ends = [one.end for one in known]
    if progress.watermark is not None:
        ends.append(cadence.last_before(progress.watermark))
    return Interval(min(starts), max(ends))


def _withdraw(
    look: Callable[[str], WithdrawnPage],
    changed: dict[str, WithdrawnPage],
    level: int,
    gone: Interval,
    most: int,
) -> None:
    for number in range(_number(level, micros(gone.start) + 1), _number(level, micros(gone.end)) + 1):
        item, part = _item(level, number), _clipped(level, number, gone)
        page = look(item)
        if page.split:
            _withdraw(look, changed, level + 1, part, most)
            continue
        ranges, last = merged((*page.ranges, part)), level + 1 == len(WIDTHS)
        if len(ranges) <= most or last:
            if len(ranges) > max(most, MOST_RANGES):
                raise RecordFull.of(
                    f"the withdrawn ranges in {part}",
                    len(ranges),
                    MOST_RANGES,
                    next_step="withdraw barriers that lie beside each other: their ranges become one.",
                )
            changed[item] = WithdrawnPage(ranges=ranges)
            continue
        changed[item] = WithdrawnPage(split=True)
        for one in ranges:
            _withdraw(look, changed, level + 1, one, most)


def _clipped(level: int, number: int, gone: Interval) -> Interval:
    """What of *gone* lies in a page."""
    width = WIDTHS[level] // timedelta(microseconds=1)
    start, end = max(micros(gone.start), number * width), min(micros(gone.end), (number + 1) * width)
    return Interval(from_micros(start), from_micros(end))


def _number(level: int, moment: int) -> int:
    """The page of a barrier: one that ends a page's stretch belongs to it."""
    return -(-moment // (WIDTHS[level] // timedelta(microseconds=1))) - 1


def _item(level: int, number: int) -> str:
    return f"{level}:{number + _MIDDLE:011d}"
