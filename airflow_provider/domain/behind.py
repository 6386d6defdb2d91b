"""Committed epochs computed from an older revision of a source that was bound anew since (I11, R18). Pure functions.

A reader of these rows and of rows that another job computed from the newer revision would mix both revisions. So these
epochs are no input until they are computed again, and cuts of them carry a label.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_provider.domain.errors import RecordFull
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Interval

MOST_BEHIND = 1_000
"""Maximum number of tables of the epochs that are behind at one time, in one domain."""
MOST_CAUGHT_UP = 100
"""Maximum number of epochs kept after they were computed again: cuts made before still read the older rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Behind:
    """A committed epoch that has read an older revision of a source than the one bound since.

    :param tables: the tables with rows of the epoch. :param source: name of the source.
    :param read: the revision that the epoch has read. :param revision: the revision that was bound since.
    :param until: CSN of the commit that computed the epoch again; 0 while there is none.
    """

    job: JobName
    interval: Interval
    tables: tuple[TableName, ...]
    source: str
    read: int
    revision: int
    until: int = 0

    @property
    def why(self) -> str:
        return (
            f"job {self.job} has computed {self.interval} from revision {self.read} of source {self.source!r}, which "
            f"was bound anew as revision {self.revision}"
        )

    @property
    def way_out(self) -> str:
        return (
            f"clear the task of job {self.job} for {self.interval}, which computes it again (of a job that is over, "
            "read the table with on_upstream_revision='ignore': its rows carry a label)"
        )

    def is_of(self, job: JobName, interval: Interval) -> bool:
        """Return True if this entry requires that *interval* of *job* is computed again."""
        return not self.until and (self.job, self.interval) == (job, interval)


def behind_in(
    entries: Iterable[Behind], table: TableName, low: datetime | None, high: datetime
) -> Behind | None:
    """Return the first of *entries* with rows in ``[low, high)`` of *table* that was not computed again yet."""
    for entry in entries:
        if not entry.until and table in entry.tables and entry.interval.meets(low, high):
            return entry
    return None


def is_behind(entries: Iterable[Behind], job: JobName, interval: Interval) -> bool:
    """Return True if *interval* of *job* must be computed again, whatever the job's ``on_rerun``."""
    return any(entry.is_of(job, interval) for entry in entries)


def revision_bound(entries: Iterable[Behind], job: JobName, interval: Interval, source: str) -> int:
    """Return the revision of *source* from which *interval* of *job* must be computed again; 0 if it need not be."""
    return max(
        (entry.revision for entry in entries if entry.is_of(job, interval) and entry.source == source),
        default=0,
    )


def bound_anew(
    entries: Sequence[Behind], source: str, barrier: datetime, new: Sequence[Behind]
) -> tuple[Behind, ...]:
    """Return *entries* after *source* was bound anew at *barrier*.

    :param new: the epochs that are behind now; they replace the entries of this source and barrier.
    :raises RecordFull: more are behind than the record holds.
    """
    kept = [
        entry for entry in entries if entry.until or entry.source != source or entry.interval.end != barrier
    ]
    return _bounded([*kept, *new])


def caught_up(
    entries: Sequence[Behind], job: JobName, interval: Interval, tables: Iterable[TableName], csn: int
) -> tuple[Behind, ...]:
    """Return *entries* after the commit *csn* has computed *interval* of *job* again and written *tables*."""
    written, found = set(tables), list[Behind]()
    for entry in entries:
        if not entry.is_of(job, interval):
            found.append(entry)
            continue
        # A table that the new revision does not write keeps the rows of the older source: it stays behind.
        left = tuple(table for table in entry.tables if table not in written)
        done = tuple(table for table in entry.tables if table in written)
        if left:
            found.append(replace(entry, tables=left))
        if done:
            found.append(replace(entry, tables=done, until=csn))
    return _bounded(found)


def _bounded(entries: Sequence[Behind]) -> tuple[Behind, ...]:
    """Return all epochs that are behind, and the newest of those that were, as far as the record holds them.

    :raises RecordFull: more are behind than the record holds.
    """
    active = [entry for entry in entries if not entry.until]
    number = sum(len(entry.tables) for entry in active)
    if number > MOST_BEHIND:
        raise RecordFull.of(
            "tables of epochs that stand behind a source that was bound anew",
            number,
            MOST_BEHIND,
            next_step="clear the tasks of those that are behind first: `airflow epochs doctor` names them.",
        )
    past = sorted((entry for entry in entries if entry.until), key=lambda entry: entry.until, reverse=True)
    kept = []
    for entry in past[:MOST_CAUGHT_UP]:
        number += len(entry.tables)
        if number <= MOST_BEHIND:
            kept.append(entry)
    return (*active, *kept)
