"""Rows that stay in a table while its job computes their epochs again without it (R7): what carries a label (R18).

Pure decisions. The topology's record has the entries, which every cut reads anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Interval

MOST_STAYED = 200
"""Entries of rows that stay. Beyond it, neighbours of one table become one, those that touch first."""
MOST_REPLACED = 100
"""Entries that are remembered after their epochs were computed again: cuts of before still read the older rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stayed:
    """Rows of *table* that are of an earlier revision of their epochs than the other tables of *job* have.

    :param interval: of an epoch; of several that are neighbours, where there are many.
    :param since: the commit that computed the epoch again without the table; of several epochs the first.
    :param until: the commit that computed the epoch again with the table; 0 while none has.
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
        """Whether it has *interval* of *table*, and *job* has not computed it again with the table."""
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
    """*entries* after the commit *csn* of *interval* of *job*; equal ones where it changes nothing.

    :param written: the tables that it gives a slice. :param stay: those that keep rows of an earlier revision.
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
    """*entry* once *interval* of it was computed again with its table: that part ends, and the rest goes on."""
    start, end = entry.interval.start, entry.interval.end
    low, high = max(start, interval.start), min(end, interval.end)
    parts = [replace(entry, interval=Interval(low, high), until=csn)]
    if start < low:
        parts.append(replace(entry, interval=Interval(start, low)))
    if high < end:
        parts.append(replace(entry, interval=Interval(high, end)))
    return parts


def _bounded(entries: Sequence[Stayed]) -> tuple[Stayed, ...]:
    """All rows that stay, of which too many entries become fewer, and the newest of those that did."""
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
        if not gaps:  # an entry for each table, and no label may be lost
            break
        place = min(gaps)[1]
        first, second = active[place : place + 2]
        whole = Interval(first.interval.start, max(first.interval.end, second.interval.end))
        active[place : place + 2] = [replace(first, interval=whole, since=min(first.since, second.since))]
    past = sorted((entry for entry in entries if entry.until), key=lambda entry: entry.until, reverse=True)
    return (*active, *past[:MOST_REPLACED])
