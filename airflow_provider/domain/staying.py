"""Rows that stay in a table while its job computes their epochs again without it (R7): cuts label them (R18).

Pure decisions; see docs/decisions/rows-that-stay.md. The entries are in the topology record, which every cut reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Interval

MOST_STAYED = 200
"""Maximum number of entries. Beyond it, neighbouring entries of one table are merged, those that touch first."""
MOST_REPLACED = 100
"""Maximum number of entries kept after their epochs were computed again: earlier cuts still read the older rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stayed:
    """Rows of *table* that are of an earlier revision of their epochs than the rows of the other tables of *job*.

    :param interval: interval of the epoch, or of several neighbouring epochs in a merged entry.
    :param since: CSN of the commit that computed the epoch again without the table; of several epochs the first.
    :param until: CSN of the commit that computed the epoch again with the table; 0 while there is none.
    """

    job: JobName
    table: TableName
    interval: Interval
    since: int
    until: int = 0

    @property
    def why(self) -> str:
        return (
            f"job {self.job} has computed {self.interval} again without {self.table}, whose rows are of an earlier "
            f"revision since CSN {self.since} than those of its other tables"
        )

    @property
    def way_out(self) -> str:
        return (
            f"leave it, cuts of {self.table} carry a label; or clear the task of job {self.job} for {self.interval} "
            f'with on_rerun="new_revision" and a declaration that has {self.table}: it computes all tables again'
        )

    def is_of(self, job: JobName, table: TableName, interval: Interval) -> bool:
        """Return True if it covers *interval* of *table*, and *job* has not computed it again with the table."""
        return not self.until and (self.job, self.table) == (job, table) and self.interval.overlaps(interval)


def after_commit(
    entries: Sequence[Stayed],
    job: JobName,
    interval: Interval,
    *,
    written: Collection[TableName],
    stay: Iterable[TableName],
    csn: int,
) -> tuple[Stayed, ...]:
    """Return *entries* after the commit *csn* of *interval* of *job*; equal ones if the commit changes none.

    :param written: the tables to which the commit adds a slice.
    :param stay: the tables that keep rows of an earlier revision.
    """
    found: list[Stayed] = []
    for entry in entries:
        if entry.table in written and entry.is_of(job, entry.table, interval):
            found += _replaced(entry, interval, csn)
        else:
            found.append(entry)
    new = [
        Stayed(job=job, table=table, interval=interval, since=csn)
        for table in stay
        if not any(entry.is_of(job, table, interval) for entry in entries)
    ]
    found += new
    return tuple(entries) if found == list(entries) else _bounded(found)


def _replaced(entry: Stayed, interval: Interval, csn: int) -> list[Stayed]:
    """Return the parts of *entry* after *interval* was computed again with its table: one ends, the rest stays."""
    start, end = entry.interval.start, entry.interval.end
    low, high = max(start, interval.start), min(end, interval.end)
    parts = [replace(entry, interval=Interval(low, high), until=csn)]
    if start < low:
        parts.append(replace(entry, interval=Interval(start, low)))
    if high < end:
        parts.append(replace(entry, interval=Interval(high, end)))
    return parts


def _bounded(entries: Sequence[Stayed]) -> tuple[Stayed, ...]:
    """Return the active entries, merged to at most :data:`MOST_STAYED`, and the newest of those that have ended."""
    active = sorted(
        (entry for entry in entries if not entry.until),
        key=lambda entry: (entry.table, entry.job, entry.interval.start),
    )
    while len(active) > MOST_STAYED:
        gaps = [
            (later.interval.start - earlier.interval.end, place)
            for place, (earlier, later) in enumerate(pairwise(active))
            if (earlier.table, earlier.job) == (later.table, later.job)
        ]
        if not gaps:  # one entry for each table: no label may be lost
            break
        place = min(gaps)[1]
        first, second = active[place : place + 2]
        whole = Interval(first.interval.start, max(first.interval.end, second.interval.end))
        active[place : place + 2] = [replace(first, interval=whole, since=min(first.since, second.since))]
    past = sorted((entry for entry in entries if entry.until), key=lambda entry: entry.until, reverse=True)
    return (*active, *past[:MOST_REPLACED])
