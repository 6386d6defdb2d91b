"""Rows computed from what an ``ignore`` edge has let go, or from a source before it was bound anew, and rows that
stayed when their epoch was computed again without their table (R18): how they spread. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_provider.domain.behind import Behind
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Cadence
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.staying import Stayed
from airflow_provider.domain.topology import Edge, EdgeKind, OnUpstreamRevision, TableKind
from airflow_provider.domain.version import FenceRecord, Rewrite


@dataclass(frozen=True, kw_only=True, slots=True)
class Outdated:
    """Rows of a table that stand on an earlier state of *source*: a table whose revisions an edge ignores, a source
    outside of the domain that was bound anew, or a table that keeps rows of an earlier revision of its job's epochs.

    :param csn: the newest commit of *source*, a table, that these rows do not know; of rows that stayed the commit
        since which they are of an earlier revision; else 0.
    :param revision: the newest one of *source*, from outside, that these rows do not know; else 0.
    :param job: that has computed the epochs again without *source*, whose rows stayed; else empty.
    :param start: of the first epoch with such rows. :param end: of the last one; None where later ones add to them.
    """

    table: TableName
    source: TableName
    csn: int
    start: datetime
    end: datetime | None
    revision: int = 0
    job: str = ""

    @property
    def cause(self) -> tuple[TableName, TableName, str, bool]:
        """What labels of one table have in common that become one."""
        return self.table, self.source, self.job, bool(self.revision)

    def __str__(self) -> str:
        until = "on" if self.end is None else f"to {self.end.isoformat()}"
        if self.job:
            what = (
                "are" if self.table == self.source else f"were computed from rows of {self.source} that are"
            )
            return (
                f"{self.table}: rows from {self.start.isoformat()} {until} {what} of an earlier revision of job "
                f"{self.job} than its other tables have (since CSN {self.csn})"
            )
        if self.revision:
            return (
                f"{self.table}: rows from {self.start.isoformat()} {until} were computed before source {self.source} "
                f"was bound anew (revision {self.revision})"
            )
        return (
            f"{self.table}: rows from {self.start.isoformat()} {until} were computed before {self.source} "
            f"was computed again (CSN {self.csn})"
        )

    def is_read_at(self, kind: TableKind, barrier: datetime) -> bool:
        """Whether the table's state at *barrier* has such rows."""
        ended = kind is TableKind.FULL and self.end is not None and barrier > self.end
        return self.start < barrier and not ended


def ignoring_edges(jobs: Iterable[JobRecord]) -> list[tuple[JobRecord, Edge]]:
    """Edges, also of earlier declarations, that ignore revisions of what they read."""
    ignores = OnUpstreamRevision.IGNORE
    return [(job, edge) for job in jobs for edge in job.all_edges if edge.on_upstream_revision is ignores]


def upstream_jobs(jobs: Iterable[JobRecord], tables: Iterable[TableName]) -> set[JobName]:
    """The jobs that *tables* were computed by, directly or through others."""
    writers: dict[TableName, list[JobRecord]] = {}
    for job in jobs:
        for table in job.all_outputs:
            writers.setdefault(table, []).append(job)
    found: set[JobName] = set()
    waiting = [job for table in tables for job in writers.get(table, ())]
    while waiting:
        job = waiting.pop()
        if job.name not in found:
            found.add(job.name)
            waiting += [writer for edge in job.all_edges for writer in writers.get(edge.table, ())]
    return found


def known_rewrites(fence: Stamped[FenceRecord], csn: int) -> list[Rewrite]:
    """The rewrites of a table up to *csn* that its record remembers, newest first."""
    rewrites = list(fence.record.earlier)
    latest = fence.record.latest
    if latest is not None and fence.csn is not None:
        rewrites.insert(0, Rewrite(csn=fence.csn, low=latest.start, high=latest.end))
    return [rewrite for rewrite in rewrites if rewrite.csn <= csn]


def missed_rewrite(epoch: EpochRecord, table: TableName, rewrites: Iterable[Rewrite]) -> Rewrite | None:
    """The newest of *rewrites* (newest first) that a committed epoch does not know though it read what changed."""
    if epoch.committed is None:
        return None
    reads = [
        read
        for read in epoch.committed.inputs
        if read.table == table and read.on_upstream_revision is OnUpstreamRevision.IGNORE
    ]
    for rewrite in rewrites:
        for read in reads:
            touched = rewrite.low < read.high and (read.low is None or read.low < rewrite.high)
            if touched and read.csn < rewrite.csn:
                return rewrite
    return None


def outdated_by_source(entries: Iterable[Behind], csn: int) -> list[Outdated]:
    """Rows of the epochs in *entries* that were behind their source at *csn*."""
    return [
        Outdated(
            table=table,
            source=TableName(entry.root),
            csn=0,
            revision=entry.revision,
            start=entry.interval.start,
            end=entry.interval.end,
        )
        for entry in entries
        if not entry.until or entry.until > csn
        for table in entry.tables
    ]


def outdated_by_staying(entries: Iterable[Stayed], csn: int) -> list[Outdated]:
    """Rows in *entries* that were of an earlier revision at *csn* than the other tables of their job had."""
    return [
        Outdated(
            table=entry.table,
            source=entry.table,
            job=entry.job,
            csn=entry.since,
            start=entry.interval.start,
            end=entry.interval.end,
        )
        for entry in entries
        if entry.since <= csn and (not entry.until or entry.until > csn)
    ]


Kept = Callable[[TableName, datetime], datetime]
"""Until when a full table still has what it had at a barrier: as far as its epochs behind were skipped (R5)."""


def is_copy(epoch: EpochRecord, table: TableName) -> bool:
    """Whether a committed epoch of a full table has the rows that the table had before."""
    return epoch.committed is not None and any(
        read.table == table and read.kind is EdgeKind.PREVIOUS for read in epoch.committed.inputs
    )


def let_through(
    found: Iterable[Outdated],
    ignoring: Sequence[tuple[JobRecord, Edge]],
    kinds: Mapping[TableName, TableKind],
) -> list[Outdated]:
    """What *ignoring* edges have read of *found*: rows that are behind their source, which nothing else reads."""
    return [
        _read_by(job, edge, rows, table, _last_reader(edge, rows.end, kinds.get(edge.table), job.cadence))
        for rows in found
        for job, edge in ignoring
        if edge.table == rows.table
        for table in job.all_outputs
    ]


def joined(found: Iterable[Outdated]) -> tuple[Outdated, ...]:
    """*found*, sorted, with a single label for the rows of a table that stand on earlier states of the same source."""
    known: dict[object, Outdated] = {}
    for label in found:
        known[label.cause] = _merged(known.get(label.cause), label)
    return tuple(sorted(known.values(), key=lambda label: label.cause))


def spread(
    found: Sequence[Outdated], jobs: Sequence[JobRecord], kinds: Mapping[TableName, TableKind], kept: Kept
) -> list[Outdated]:
    """Everything that *found* was read into, with itself: outdated rows make the rows computed from them outdated.

    So do the copies that skipped epochs of a full table have of them.
    """

    def copied(label: Outdated) -> Outdated:
        if label.end is None or kinds.get(label.table) is not TableKind.FULL:
            return label
        return replace(label, end=kept(label.table, label.end))

    known = {one.cause: one for one in joined(copied(one) for one in found)}
    waiting = list(known.values())
    while waiting:
        outdated = waiting.pop()
        for job in jobs:
            for edge in job.all_edges:
                if edge.table != outdated.table:
                    continue
                end = _last_reader(edge, outdated.end, kinds.get(edge.table), job.cadence)
                if edge.kind is EdgeKind.PREVIOUS and job.name in upstream_jobs(jobs, [edge.table]):
                    end = None  # a job that builds on its own past hands them on from epoch to epoch
                for table in job.all_outputs:
                    read = copied(_read_by(job, edge, outdated, table, end))
                    merged = _merged(known.get(read.cause), read)
                    if known.get(read.cause) != merged:
                        known[read.cause] = merged
                        waiting.append(merged)
    return list(known.values())


def _last_reader(
    edge: Edge, end: datetime | None, kind: TableKind | None, cadence: Cadence
) -> datetime | None:
    """No epoch that starts at or after it reads rows of before *end* by *edge*; None when later ones still do."""
    if end is None or edge.as_of is not None:
        return None
    if edge.kind is EdgeKind.PREVIOUS and kind is TableKind.FULL:
        return cadence.next_after(end)
    if edge.kind is EdgeKind.INCREMENT or (edge.kind is EdgeKind.STATE and kind is TableKind.FULL):
        return end
    return end + edge.length if edge.kind is EdgeKind.WINDOW and edge.length is not None else None


def _read_by(job: JobRecord, edge: Edge, rows: Outdated, table: TableName, end: datetime | None) -> Outdated:
    """The rows of *table* that *job* has computed from *rows*: those of whole epochs, which may be longer.

    :param end: no epoch that starts at or after it reads them.
    """
    start = rows.start if edge.kind is EdgeKind.PREVIOUS else job.cadence.floor(rows.start)
    if end is not None and not job.cadence.is_barrier(end):
        end = job.cadence.next_after(end)
    return replace(rows, table=table, start=start, end=end)


def _merged(known: Outdated | None, new: Outdated) -> Outdated:
    if known is None:
        return new
    return replace(
        new,
        csn=(min if new.job else max)(known.csn, new.csn),
        revision=max(known.revision, new.revision),
        start=min(known.start, new.start),
        end=None if known.end is None or new.end is None else max(known.end, new.end),
    )
