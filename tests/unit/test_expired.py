"""Pages of expired barriers against a plain set of barriers (R24)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.domain import expired
from airflow_provider.domain.errors import RecordFull
from airflow_provider.domain.expired import (
    WIDTHS,
    ExpiredPage,
    expiring,
    grown_hull,
    page_items,
    range_in,
)
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.watermark import Progress

ZERO = datetime(1969, 12, 31, 20, tzinfo=UTC)
"""Ranges before and after 1970 lie beside each other."""
MINUTE = timedelta(minutes=1)
HOURLY = Cadence("@hourly")


class Pages:
    """Pages as a store has them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.kept: dict[str, ExpiredPage] = {}

    def expire(self, gone: Interval) -> int:
        """Expire, and return how many pages changed."""
        changed = expiring(self.kept.get, gone, self.most)
        self.kept |= changed
        return len(changed)

    def range_at(self, barrier: datetime) -> Interval | None:
        found = (self.kept.get(item, ExpiredPage()) for item in page_items(barrier))
        return range_in(found, barrier)


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 400)), max_size=60), st.integers(1, 6))
def test_pages_equal_a_set_of_expired_barriers(ranges: list[tuple[int, int]], most: int) -> None:
    """R24: whichever ranges are expired in whichever order, and however small the pages are."""
    pages, gone = Pages(most), set[int]()
    for start, length in ranges:
        pages.expire(Interval(ZERO + start * MINUTE, ZERO + (start + length) * MINUTE))
        gone |= set(range(start + 1, start + length + 1))
    looked_at = {
        edge + by for start, length in ranges for edge in (start, start + length) for by in (-1, 0, 1)
    }
    for number in looked_at:
        found = pages.range_at(ZERO + number * MINUTE)
        assert (found is not None) == (number in gone)
        assert found is None or found.start < ZERO + number * MINUTE <= found.end
    unsplit = [page for item, page in pages.kept.items() if not item.startswith(f"{len(WIDTHS) - 1}:")]
    assert all(len(page.ranges) <= most for page in unsplit)
    assert all(not (page.split and page.ranges) for page in pages.kept.values())


def test_ten_thousand_ranges_are_in_small_pages() -> None:
    """R24: every second hour of two years and more; each expiry changes a page or, rarely, splits one."""
    pages = Pages(256)
    changes = []
    for number in range(10_000):
        start = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=2 * number)
        changes.append(pages.expire(Interval(start, start + timedelta(hours=1))))
    assert sum(len(page.ranges) for page in pages.kept.values()) == 10_000 + _cut_through(pages)
    assert max(len(page.ranges) for page in pages.kept.values()) <= 256
    assert max(changes) <= 33
    assert sum(changes) < 11_000


def _cut_through(pages: Pages) -> int:
    """How many ranges lie in two pages: their halves touch."""
    ranges = sorted(span for page in pages.kept.values() for span in page.ranges)
    return sum(1 for span, other in pairwise(ranges) if span.end == other.start)


def test_a_range_of_centuries_is_a_handful_of_pieces() -> None:
    pages = Pages(256)
    pages.expire(Interval(datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)))
    assert len(pages.kept) < 600
    assert pages.range_at(datetime(2024, 5, 1, tzinfo=UTC)) is not None


def test_the_least_page_is_full_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """R24: refused before anything is written, with the number and the limit."""
    monkeypatch.setattr(expired, "MOST_RANGES", 50)
    pages = Pages(4)
    second = timedelta(seconds=1)
    starts = [datetime(2024, 1, 1, tzinfo=UTC) + number * second for number in range(0, 102, 2)]
    for start in starts[:50]:
        pages.expire(Interval(start, start + second))
    with pytest.raises(RecordFull) as refused:
        pages.expire(Interval(starts[50], starts[50] + second))
    assert (refused.value.number, refused.value.limit) == (51, 50)
    assert "2024-01-01" in refused.value.record


def test_a_hull_grows_a_few_times() -> None:
    """R24: to the last barrier before the newest one; never less than what was in it."""
    origin = datetime(2024, 1, 1, tzinfo=UTC)

    def progress(hours: int) -> Progress:
        return Progress(origin=origin, islands=(Interval(origin, origin + timedelta(hours=hours)),))

    first = grown_hull(
        None, Interval(origin + timedelta(hours=5), origin + timedelta(hours=6)), HOURLY, progress(30)
    )
    assert first == Interval(origin, origin + timedelta(hours=29))
    later = Interval(origin + timedelta(hours=40), origin + timedelta(hours=41))
    assert grown_hull(first, later, HOURLY, progress(50)) == Interval(origin, origin + timedelta(hours=49))
    assert grown_hull(first, later, HOURLY, Progress()) == Interval(origin, later.end)
