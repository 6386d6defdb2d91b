"""Spans of a source: whichever barriers are begun, in whichever order, each row is read by exactly one of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.source_bounds import (
    BoundsRequest,
    IcebergSource,
    Late,
    SourceBounds,
    SourceRecord,
    Span,
    asks_again,
    check_bounds,
)
from tests.contract.coordination_world import day

ROOT = IcebergSource("orders", "lake.shop.orders", late="revision")


def record(number: int, span: Span, revision: int) -> SourceRecord:
    interval: Interval = day(number)
    return SourceRecord(
        bounds=SourceBounds(source="orders", span=span, revision=revision),
        job=JobName("a"),
        interval=interval,
    )


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 3)), max_size=30))
def test_spans_are_one_chain(begins: list[tuple[int, int]]) -> None:
    """I11: begin barriers, some again, while rows come: the newest spans have no gap and share nothing."""
    rows = 0
    known: dict[int, SourceRecord] = {}
    for number, added in begins:
        rows += added
        before = [known[barrier] for barrier in sorted(known, reverse=True) if barrier < number]
        after = [known[barrier] for barrier in sorted(known) if barrier > number]
        asked = BoundsRequest(source=ROOT, interval=day(number), before=tuple(before), after=tuple(after))
        span = Span(low=asked.low, high=asked.high(rows or None))
        recorded = known[number].bounds.revision if number in known else 0
        bounds = SourceBounds(source="orders", span=span)
        check_bounds(asked, bounds)
        known[number] = record(number, span, recorded + 1)
        edge = None
        for barrier in sorted(known):
            found = known[barrier].bounds.span
            assert found is not None
            assert found.low == edge
            assert (found.low or 0) <= (found.high or 0)
            edge = found.high
        if not after:
            assert edge == (rows or None)


def test_a_source_without_rows_ends_where_the_barrier_before_did() -> None:
    """I11: it was emptied after it was read: the chain goes on from there, not from its beginning."""
    before = record(1, Span(low=None, high=5), 1)
    asked = BoundsRequest(source=ROOT, interval=day(2), before=(before,))
    assert (asked.low, asked.high(None)) == (5, 5)


@given(st.integers(1, 3), st.integers(0, 3), st.integers(0, 3), st.booleans(), st.sampled_from(Late))
def test_when_the_source_of_a_source_is_asked_again(
    newest: int, opened: int, committed: int, others: bool, late: Late
) -> None:
    """I11: bounds bind who stands on them; only where revisions are made does a committed epoch ask again."""
    again = asks_again(late, newest, opened=opened, committed=committed, others=others)
    if opened == newest:
        assert not again
    elif committed == newest:
        assert again is (late is Late.REVISION)
    else:
        assert again is not others
