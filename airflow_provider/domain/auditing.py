"""Audit of committed epochs: find the inputs that have changed since they were read (invariant I4). Pure decisions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from airflow_provider.domain.epoch import Commitment, Provenance
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import OnUpstreamRevision

_BLOCK = 256
"""Number of epochs whose newest commit is found once: a range over years asks blocks, not each epoch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A commit that gave *interval* of a table the rows that it has now."""

    interval: Interval
    csn: int
    rows: int


class TableHistory:
    """The newest commit of each epoch of one table; answers for a range without visiting every epoch.

    :param slices: commits of single epochs, in any order; of each interval the one with the highest CSN counts.
    :param spans: commits that changed rows of several epochs at once, such as an adoption of foreign rows.
    """

    def __init__(self, slices: Iterable[Change], spans: Iterable[Change] = ()) -> None:
        newest: dict[Interval, Change] = {}
        for change in slices:
            known = newest.get(change.interval)
            if known is None or known.csn < change.csn:
                newest[change.interval] = change
        self._changes = sorted(newest.values(), key=lambda change: change.interval)
        self._spans = tuple(spans)
        self._starts = [change.interval.start for change in self._changes]
        self._ends = [change.interval.end for change in self._changes]
        self._blocks = [
            max(self._changes[first : first + _BLOCK], key=_csn)
            for first in range(0, len(self._changes), _BLOCK)
        ]

    def newest(self, low: datetime | None, high: datetime) -> Change | None:
        """Return the latest commit that touches ``[low, high)``; ``low=None`` is the beginning of time."""
        first, last = self._range(low, high)
        spans = (span for span in self._spans if span.interval.meets(low, high))
        return max((*self._tops(first, last), *spans), key=_csn, default=None)

    def has_rows(self, low: datetime | None, high: datetime) -> Change | None:
        """Return a commit within ``[low, high)`` that has rows, if any."""
        first, last = self._range(low, high)
        return next((change for change in self._changes[first:last] if change.rows), None)

    def _range(self, low: datetime | None, high: datetime) -> tuple[int, int]:
        first = 0 if low is None else bisect_right(self._ends, low)
        return first, max(first, bisect_left(self._starts, high))

    def _tops(self, first: int, last: int) -> Iterator[Change]:
        """Yield the changes of ``[first, last)`` that may be the latest: each at the edges, one per whole block."""
        lower, upper = -(-first // _BLOCK), last // _BLOCK
        if lower >= upper:
            yield from self._changes[first:last]
            return
        yield from self._changes[first : lower * _BLOCK]
        yield from self._blocks[lower:upper]
        yield from self._changes[upper * _BLOCK : last]


@dataclass(frozen=True, kw_only=True, slots=True)
class StaleInput:
    """An input of a committed epoch that has changed since it was read.

    :param changed: the commit in the range that was read.
    """

    read: Provenance
    changed: Change
    reason: str


def stale_inputs(
    committed: Commitment,
    histories: Mapping[TableName, TableHistory],
    origins: Mapping[TableName, datetime | None],
    released: Collection[int] = (),
) -> Iterator[StaleInput]:
    """Yield the inputs of *committed* that have changed since, among the tables of *histories*.

    The state of a full table that a skip has copied is such an input, too.

    :param origins: where each table begins now: a read from the beginning of time starts there.
    :param released: commits that might change what the epoch has read by ``hold`` edges.
    """
    for read in committed.inputs:
        history = histories.get(read.table)
        if history is None or read.on_upstream_revision is OnUpstreamRevision.IGNORE:
            continue
        low = origins.get(read.table) if read.low is None else read.low
        newest = history.newest(low, read.high)
        is_held = read.on_upstream_revision is OnUpstreamRevision.HOLD
        if is_held and newest is not None and newest.csn in released:
            continue
        if newest is not None and newest.csn > read.csn:
            yield StaleInput(read=read, changed=newest, reason="it was committed after it was read")
        elif read.ref is None and (left_out := history.has_rows(read.low, read.high)) is not None:
            yield StaleInput(read=read, changed=left_out, reason="nothing was read where there are rows")


def _csn(change: Change) -> int:
    return change.csn
