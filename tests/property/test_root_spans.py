"""Spans of a root: whichever barriers are begun, in whichever order, each row is read by exactly one of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.roots import (
    Asked,
    Late,
    RootBounds,
    RootRecord,
    Span,
    check_bounds,
    iceberg_root,
    root_revision,
)
from tests.contract.coordination_world import day

ROOT = iceberg_root("orders", "lake.shop.orders", late="revision")


def record(number: int, span: Span, revision: int) -> RootRecord:
    interval: Interval = day(number)
    return RootRecord(
        bounds=RootBounds(root="orders", span=span, revision=revision), job=JobName("a"), interval=interval
    )


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 3)), max_size=30))
def test_spans_are_one_chain(begins: list[tuple[int, int]]) -> None:
    """I11: begin barriers, some again, while rows come: the newest spans have no gap and share nothing."""
    rows = 0
    known: dict[int, RootRecord] = {}
    for number, added in begins:
        rows += added
        before = [known[one] for one in sorted(known, reverse=True) if one < number]
        after = [known[one] for one in sorted(known) if one > number]
        asked = Asked(root=ROOT, interval=day(number), before=tuple(before), after=tuple(after))
        span = Span(low=asked.low, high=asked.high(rows or None))
        recorded = known[number].bounds.revision if number in known else 0
        bounds = RootBounds(root="orders", span=span)
        check_bounds(asked, bounds)
        known[number] = record(number, span, root_revision(Late.REVISION, recorded, None, recorded))
        edge = None
        for one in sorted(known):
            found = known[one].bounds.span
            assert found is not None
            assert found.low == edge
            assert (found.low or 0) <= (found.high or 0)
            edge = found.high
        if not after:
            assert edge == (rows or None)


def test_a_source_without_rows_ends_where_the_barrier_before_did() -> None:
    """I11: it was emptied after it was read: the chain goes on from there, not from its beginning."""
    before = record(1, Span(low=None, high=5), 1)
    asked = Asked(root=ROOT, interval=day(2), before=(before,))
    assert (asked.low, asked.high(None)) == (5, 5)


@given(st.integers(0, 5), st.integers(0, 5), st.one_of(st.none(), st.integers(1, 5)), st.sampled_from(Late))
def test_which_revision_of_a_root_is_read(
    recorded: int, committed: int, started: int | None, late: Late
) -> None:
    """I11: one set of bounds for all, unless revisions of the root are made: then never what was read before."""
    found = root_revision(late, recorded, started, committed)
    if late is not Late.REVISION:
        assert found == 1
    elif started is not None:
        assert found == started
    else:
        assert found > committed or found > recorded
        assert found <= recorded + 1
