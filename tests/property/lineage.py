"""Which rows each row was computed from, and what that says of the rows of a cut (R18).

The model knows nothing of edges, rewrites or ranges of epochs: it compares the rows that an attempt has read with the
rows that the same read returns now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime

from airflow_provider.domain.epoch import Attempt, Provenance
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import OnUpstreamRevision

Content = frozenset[tuple[int, int]]
"""Rows as (number of the day, number of the row)."""


@dataclass(frozen=True, slots=True)
class Read:
    """Rows that an attempt has read from one input."""

    table: str
    low: datetime | None
    high: datetime
    rows: Content
    ignores: bool

    @classmethod
    def of(cls, resolved: Provenance, rows: Content) -> Read:
        """Return what an attempt has read by *resolved*."""
        ignores = resolved.on_upstream_revision is OnUpstreamRevision.IGNORE
        return cls(str(resolved.table), resolved.low, resolved.high, rows, ignores)


@dataclass(slots=True)
class Row:
    """A row with its inputs.

    :ivar stayed: its job has committed the epoch again without the table of this row.
    """

    job: str
    table: str
    interval: Interval
    reads: tuple[Read, ...]
    stayed: bool = False


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a row is outdated, and whether a ``cascade`` edge should have kept it from that."""

    text: str
    violates_cascade: bool = False


Current = Callable[[Read], Content | None]
"""Returns the rows that a read returns now; None where there is no such state any more."""


@dataclass(slots=True)
class Lineage:
    """All rows that attempts have written, by number."""

    rows: dict[int, Row] = field(default_factory=dict)

    def wrote(self, attempt: Attempt, table: str, reads: tuple[Read, ...]) -> int:
        """Remember a new row of *attempt* in *table*, and return its number."""
        number = len(self.rows) + 1
        self.rows[number] = Row(str(attempt.job), table, attempt.interval, reads)
        return number

    def committed(self, job: str, interval: Interval, tables: Collection[str], *, fills: bool) -> None:
        """Note that *job* has published *tables*; the epoch's rows in its other tables stay, unless it only fills."""
        for row in self.rows.values():
            if row.job == job and row.interval == interval:
                row.stayed = row.table not in tables and (row.stayed or not fills)

    def outdated(self, current: Current) -> Callable[[int], Reason | None]:
        """Return a function that says why a row is outdated, given what reads return now."""
        known: dict[int, Reason | None] = {}

        def reason(number: int) -> Reason | None:
            if number not in known:
                known[number] = self._reason(self.rows[number], current, reason)
            return known[number]

        return reason

    def _reason(self, row: Row, current: Current, reason: Callable[[int], Reason | None]) -> Reason | None:
        if row.stayed:
            return Reason("its job has computed the epoch again without its table")
        for read in row.reads:
            now = current(read)
            if now is not None and now != read.rows:
                text = (
                    f"it was computed from {sorted(read.rows)} of {read.table}, which are {sorted(now)} now"
                )
                return Reason(text, violates_cascade=not read.ignores)
            for _, number in sorted(read.rows):
                inherited = reason(number)
                if inherited is not None:
                    return Reason(f"it was computed from row {number} of {read.table}: {inherited.text}")
        return None
