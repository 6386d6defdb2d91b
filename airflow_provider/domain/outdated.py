"""Labels of outdated rows, and how they spread to tables computed from them (R18). Pure functions.

Rows are outdated if they were computed from a state that an ``ignore`` edge let change, or a ``hold`` edge once it was
released, or from a source before it was bound anew, or if they stayed when their epoch was computed again without their
table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_provider.domain.behind import Behind
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Cadence
from airflow_provider.domain.keys import Stamped
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.staying import Stayed
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Edge, EdgeKind, OnUpstreamRevision
from airflow_provider.domain.version import Rewrite, RewriteLog


@dataclass(frozen=True, kw_only=True, slots=True)
class Outdated:
    """Rows of a table that were computed from an earlier state of *source*.

    :param source: a table whose revisions an edge ignores, or was released from; a source outside the domain that was
        bound anew; or a table that keeps rows of an earlier revision of its job's epochs.
    :param csn: the newest commit of the table *source* that these rows lack; of rows that stayed, the commit since
        which they are of an earlier revision; otherwise 0.
    :param revision: the newest revision of a source outside the domain that these rows lack; otherwise 0.
    :param job: the job that has computed the epochs again without *source*, whose rows stayed; otherwise empty.
    :param start: start of the first epoch with such rows.
    :param end: end of the last epoch with such rows; None if later epochs have them, too.
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
        """Key by which labels of one table are merged."""
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
        """Return True if the table's state at *barrier* has such rows."""
        ended = not kind.accumulates and self.end is not None and barrier > self.end
        return self.start < barrier and not ended


def staying_edges(jobs: Iterable[JobRecord], released: Collection[JobName]) -> list[tuple[JobRecord, Edge]]:
    """Return the edges by which rows may have stayed when their input changed, with their jobs.

    Those of earlier declarations count, too.

    :param released: jobs with epochs that were released from a restatement.
    """
    return [
        (job, edge)
        for job in jobs
        for edge in job.all_edges
        if edge.on_upstream_revision is OnUpstreamRevision.IGNORE
        or (edge.on_upstream_revision is OnUpstreamRevision.HOLD and job.name in released)
    ]


def ignoring(edges: Iterable[tuple[JobRecord, Edge]]) -> list[tuple[JobRecord, Edge]]:
    """Return those of *edges* that ignore upstream revisions."""
    ignores = OnUpstreamRevision.IGNORE
    return [(job, edge) for job, edge in edges if edge.on_upstream_revision is ignores]


def upstream_jobs(jobs: Iterable[JobRecord], tables: Iterable[TableName]) -> set[JobName]:
    """Return the jobs that compute *tables* or, directly or through other tables, their inputs."""
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


def known_rewrites(log: Stamped[RewriteLog], csn: int) -> list[Rewrite]:
    """Return the rewrites of a table up to *csn* that its record keeps, newest first.

    A later commit may have merged an earlier rewrite with its own since the cut has taken its CSN: then the merged one
    counts, whole, since a label too many is better than a label too few.
    """
    rewrites = list(log.record.earlier)
    latest = log.record.latest
    # The record cannot name its own CSN: that of the newest rewrite is the stamp.
    if latest is not None and log.csn is not None:
        rewrites.insert(0, Rewrite(csn=log.csn, low=latest.start, high=latest.end))
    return [
        replace(rewrite, csn=min(rewrite.csn, csn), first=0) for rewrite in rewrites if rewrite.oldest <= csn
    ]


def missed_rewrite(epoch: EpochRecord, table: TableName, rewrites: Iterable[Rewrite]) -> Rewrite | None:
    """Return the newest of *rewrites* of rows that a committed epoch had read by an edge that let them change, if any.

    By a ``hold`` edge that is one from which the epoch was released: no other commit changes what it has read (R18).

    :param rewrites: of *table*, newest first.
    """
    if epoch.committed is None:
        return None
    reads = [
        read for read in epoch.committed.inputs if read.table == table and read.on_upstream_revision.may_stay
    ]
    for rewrite in rewrites:
        for read in reads:
            touched = rewrite.low < read.high and (read.low is None or read.low < rewrite.high)
            if touched and read.csn < rewrite.csn:
                return rewrite
    return None


def outdated_by_source(entries: Iterable[Behind], csn: int) -> list[Outdated]:
    """Return labels of the epochs in *entries* that were behind their source at *csn*."""
    return [
        Outdated(
            table=table,
            source=TableName(entry.source),
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
    """Return labels of the *entries* that at *csn* were of an earlier revision than the other tables of their job."""
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
"""Return the last barrier at which a full table has the state of a given one: skipped epochs copy it (R5)."""


def is_copy(epoch: EpochRecord, table: TableName) -> bool:
    """Return True if a committed epoch of the full *table* is a copy of the state before it."""
    return epoch.committed is not None and any(
        read.table == table and read.kind is EdgeKind.PREVIOUS for read in epoch.committed.inputs
    )


def let_through(
    found: Iterable[Outdated],
    edges: Sequence[tuple[JobRecord, Edge]],
    kinds: Mapping[TableName, TableKind],
) -> list[Outdated]:
    """Return the labels that ignoring *edges* carry on from *found*: no other edge reads rows behind their source."""
    return [
        _read_by(job, edge, rows, table, _last_reader(edge, rows.end, kinds.get(edge.table), job.cadence))
        for rows in found
        for job, edge in ignoring(edges)
        if edge.table == rows.table
        for table in job.all_outputs
    ]


def joined(found: Iterable[Outdated]) -> tuple[Outdated, ...]:
    """Return *found*, sorted, with a single label for the rows of a table that have the same :attr:`Outdated.cause`."""
    known: dict[object, Outdated] = {}
    for label in found:
        known[label.cause] = _merged(known.get(label.cause), label)
    return tuple(sorted(known.values(), key=lambda label: label.cause))


def spread(
    found: Sequence[Outdated], jobs: Sequence[JobRecord], kinds: Mapping[TableName, TableKind], kept: Kept
) -> list[Outdated]:
    """Return *found* and the labels of all rows that were computed from these rows, directly or through other tables.

    A copy of outdated rows by a skipped epoch of a full table is outdated, too.
    """

    def copied(label: Outdated) -> Outdated:
        kind = kinds.get(label.table)
        if label.end is None or kind is None or not kind.copies_when_skipped:
            return label
        return replace(label, end=kept(label.table, label.end))

    known = {label.cause: label for label in joined(copied(label) for label in found)}
    waiting = list(known.values())
    while waiting:
        outdated = waiting.pop()
        for job in jobs:
            for edge in job.all_edges:
                if edge.table != outdated.table:
                    continue
                end = _last_reader(edge, outdated.end, kinds.get(edge.table), job.cadence)
                if edge.kind is EdgeKind.PREVIOUS and job.name in upstream_jobs(jobs, [edge.table]):
                    end = None  # a job that reads its own past carries them on from epoch to epoch
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
    """Return the time from which epochs that start there or later read no row of before *end* by *edge*.

    None if later epochs always do.
    """
    if end is None or edge.as_of is not None:
        return None
    of_one_epoch = kind is not None and not kind.accumulates
    if edge.kind is EdgeKind.PREVIOUS and of_one_epoch:
        return cadence.next_after(end)
    if edge.kind is EdgeKind.INCREMENT or (edge.kind is EdgeKind.STATE and of_one_epoch):
        return end
    return end + edge.length if edge.kind is EdgeKind.WINDOW and edge.length is not None else None


def _read_by(job: JobRecord, edge: Edge, rows: Outdated, table: TableName, end: datetime | None) -> Outdated:
    """Return the label of the rows of *table* that *job* has computed from *rows*, extended to whole epochs of *job*.

    :param end: epochs that start there or later do not read *rows*; None if all later epochs do.
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
