"""Progress: the unbroken chain from the origin, and which commits rewrite what was read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.domain.interval import Interval
from airflow_provider.domain.watermark import Progress

START = datetime(2013, 2, 1, tzinfo=UTC)


def at(number: int) -> datetime:
    return START + timedelta(days=number)


def epoch(number: int) -> Interval:
    return Interval(at(number), at(number + 1))


def progress(*numbers: int, origin: int | None = 0) -> Progress:
    found = Progress(origin=None if origin is None else at(origin))
    for number in numbers:
        found = found.adding(epoch(number))
    return found


@pytest.mark.parametrize(
    ("numbers", "origin", "watermark"),
    [
        ((), 0, None),
        ((0,), 0, 1),
        ((0, 1, 3), 0, 2),
        ((0, 1, 3, 2), 0, 4),
        ((1, 2), 0, None),
        ((1, 2, 0), 0, 3),
        ((5, 6), None, 7),
        ((5, 4), None, 6),
        ((5, 3), None, 6),
        ((5, 3, 4), None, 6),
        ((2, 1), None, 3),
    ],
)
def test_the_watermark_ends_the_unbroken_chain(
    numbers: tuple[int, ...], origin: int | None, watermark: int | None
) -> None:
    expected = None if watermark is None else at(watermark)
    assert progress(*numbers, origin=origin).watermark == expected


@given(st.permutations(range(8)), st.booleans())
def test_the_watermark_never_goes_back(order: list[int], declared: bool) -> None:
    found = Progress(origin=at(0) if declared else None)
    last = None
    for number in order:
        found = found.adding(epoch(number))
        assert last is None or (found.watermark is not None and found.watermark >= last)
        last = found.watermark
        assert found.adding(epoch(number)) == found
    assert found.islands == (Interval(at(0), at(8)),)
    assert found.watermark == at(8)


@pytest.mark.parametrize(
    ("numbers", "origin", "number", "rewrites"),
    [
        ((0, 1), 0, 2, False),
        ((0, 1), 0, 1, True),
        ((0, 1, 3), 0, 2, False),
        ((0, 1, 3), 0, 3, True),
        ((5,), None, 4, True),
        ((5,), None, 6, False),
        ((), 0, 0, False),
    ],
)
def test_only_barriers_that_a_reader_may_have_read_are_rewritten(
    numbers: tuple[int, ...], origin: int | None, number: int, rewrites: bool
) -> None:
    assert (progress(*numbers, origin=origin).changed_by(epoch(number)) is not None) is rewrites


def test_an_undeclared_origin_moves_back_with_the_chain() -> None:
    found = progress(5, 3, origin=None)
    assert found.origin == at(5)
    assert found.adding(epoch(4)).origin == at(3)
    assert found.adding(epoch(4)).watermark == at(6)


def test_an_origin_that_is_declared_stays_so() -> None:
    """R7: before it there is nothing, whatever is committed, and in whichever order."""
    found = Progress(origin=at(0), declared=True)
    for number in (2, 0, 1, 1):
        found = found.adding(epoch(number))
        assert (found.origin, found.declared) == (at(0), True)


@given(st.lists(st.integers(0, 7), unique=True, min_size=1), st.data())
def test_what_is_taken_back_was_as_if_it_had_never_been_committed(
    numbers: list[int], data: st.DataObject
) -> None:
    """R30: while nothing was committed below the first epoch that stays."""
    start, *rest = numbers
    later = [number for number in rest if number > start]
    gone = data.draw(st.lists(st.sampled_from(later), unique=True)) if later else []
    kept = [number for number in [start, *later] if number not in gone]
    for origin in (start, None):
        found = progress(start, *later, origin=origin).removing(*map(epoch, gone))
        assert found == progress(*kept, origin=origin)
    assert progress(start, *later, origin=None).removing(Interval(at(0), at(8))) == Progress()
