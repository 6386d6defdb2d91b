"""The closure of a restatement: all committed epochs that have read what it computes again (R28).

It is taken from the recorded reads, edge by edge, as publish judges dependents (R18). An epoch reads no later than its
own end, so that one sweep in the order of time finds nearly all; sweeps are repeated until none finds more.

Epochs that have read it by ``hold`` edges alone are no members: they keep it from being published until they
join it or are released.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from airflow_provider.coordination.commits.history import committed_at
from airflow_provider.domain.epoch import EpochRecord, Provenance
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.keys import Stamped
from airflow_provider.domain.registration import JobRecord, readers_of
from airflow_provider.domain.topology import OnUpstreamRevision
from airflow_provider.domain.watermark import merged
from airflow_provider.stores.base import MetadataReader, pages

Epochs = Mapping[JobName, Sequence[EpochRecord]]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldEpoch:
    """A committed epoch that has read what changes by ``hold`` edges only.

    :param reads: what it has read of it. :param committed_at: the store's time of its commit.
    """

    job: JobName
    epoch: EpochRecord
    reads: tuple[Provenance, ...]
    committed_at: datetime

    def has_read_since(self, csn: int) -> bool:
        """Return True if it has read the rows that were committed at *csn*, or later ones."""
        return any(read.csn >= csn for read in self.reads)


@dataclass(frozen=True, kw_only=True, slots=True)
class Closure:
    """The epochs that a restatement computes again, by job, and those that it is held by, in the order of time."""

    members: Mapping[JobName, Sequence[EpochRecord]]
    held: Sequence[HeldEpoch]


@dataclass(frozen=True, slots=True)
class _Candidate:
    job: JobRecord
    stamped: Stamped[EpochRecord]
    reads: tuple[Provenance, ...]
    held: tuple[Provenance, ...]

    @property
    def epoch(self) -> EpochRecord:
        return self.stamped.record


@dataclass(slots=True)
class _Changes:
    """The time that changes in each table, in spans that do not touch."""

    spans: dict[TableName, tuple[Interval, ...]] = field(default_factory=dict)

    def add(self, job: JobRecord, interval: Interval) -> None:
        for table in job.all_outputs:
            self.spans[table] = merged((*self.spans.get(table, ()), interval))

    def meet(self, read: Provenance) -> bool:
        spans = self.spans.get(read.table, ())
        # Of spans that do not touch, only the last that starts before the read's end can meet it.
        place = bisect_left(spans, read.high, key=lambda span: span.start)
        return place > 0 and spans[place - 1].meets(read.low, read.high)


def committed_in(
    reader: MetadataReader, domain: DomainName, job: JobRecord, span: Interval
) -> list[EpochRecord]:
    """Return the committed epochs of *job* that meet *span*, in the order of time."""
    first = time_key(job.cadence.last_before(span.start))
    found = []
    for stamped in pages(reader, domain, EpochRecord, job.name, start=first):
        if stamped.record.interval.start >= span.end:
            break
        if stamped.record.committed is not None and stamped.record.interval.overlaps(span):
            found.append(stamped.record)
    return found


def closure(reader: MetadataReader, domain: DomainName, jobs: Sequence[JobRecord], asked: Epochs) -> Closure:
    """Return the epochs *asked* for and all committed epochs that have read them, directly or through others.

    Edges that ignore upstream revisions do not count, and ``hold`` edges make no members.

    :param jobs: all jobs of the domain.
    """
    known = {job.name: job for job in jobs}
    changes, members = _Changes(), dict[tuple[JobName, datetime], EpochRecord]()
    for name, epochs in asked.items():
        for epoch in epochs:
            members[name, epoch.interval.start] = epoch
            changes.add(known[name], epoch.interval)
    start = min(epoch.interval.start for epochs in asked.values() for epoch in epochs)
    candidates = sorted(
        _candidates(reader, domain, _downstream(jobs, asked), start),
        key=lambda candidate: (candidate.epoch.interval.end, candidate.epoch.interval.start),
    )
    grows = True
    while grows:
        grows = False
        left = []
        for candidate in candidates:
            place = (candidate.job.name, candidate.epoch.interval.start)
            if place in members:
                continue
            if not any(changes.meet(read) for read in candidate.reads):
                left.append(candidate)
                continue
            members[place] = candidate.epoch
            changes.add(candidate.job, candidate.epoch.interval)
            grows = True
        candidates = left
    found: dict[JobName, list[EpochRecord]] = {}
    for (name, _), epoch in sorted(members.items()):
        found.setdefault(name, []).append(epoch)
    return Closure(members=found, held=[*_held(reader, domain, candidates, changes)])


def _held(
    reader: MetadataReader, domain: DomainName, candidates: Iterable[_Candidate], changes: _Changes
) -> Iterator[HeldEpoch]:
    for candidate in candidates:
        reads = tuple(read for read in candidate.held if changes.meet(read))
        if reads:
            at = committed_at(reader, domain, candidate.stamped)
            yield HeldEpoch(job=candidate.job.name, epoch=candidate.epoch, reads=reads, committed_at=at)


def _downstream(jobs: Sequence[JobRecord], asked: Iterable[JobName]) -> list[JobRecord]:
    """Return the jobs that have read, directly or through others, what the jobs *asked* for write."""
    known = {job.name: job for job in jobs}
    tables = {table for name in asked for table in known[name].all_outputs}
    found: dict[JobName, JobRecord] = {}
    grows = True
    while grows:
        # The job of a full table is a reader, too: its skipped epochs copy the epoch before (R5).
        readers = {job.name: job for table in sorted(tables) for job, _ in readers_of(table, jobs)}
        new = [job for name, job in readers.items() if name not in found]
        grows = bool(new)
        found.update({job.name: job for job in new})
        tables.update(table for job in new for table in job.all_outputs)
    return list(found.values())


def _candidates(
    reader: MetadataReader, domain: DomainName, jobs: Iterable[JobRecord], start: datetime
) -> Iterator[_Candidate]:
    """Yield the committed epochs of *jobs* that end after *start*, each with its reads that count."""
    for job in jobs:
        first = time_key(job.cadence.last_before(start))
        for stamped in pages(reader, domain, EpochRecord, job.name, start=first):
            committed = stamped.record.committed
            if committed is None:
                continue
            reads, held = (
                tuple(read for read in committed.inputs if read.on_upstream_revision is policy)
                for policy in (OnUpstreamRevision.CASCADE, OnUpstreamRevision.HOLD)
            )
            yield _Candidate(job, stamped, reads, held)
