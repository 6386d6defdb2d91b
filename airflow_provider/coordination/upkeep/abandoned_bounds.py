"""Bounds of sources that attempts without a commit recorded: later barriers go on behind them (I11).

The data within them is read when the epoch is computed again. Until then no epoch reads it, which `doctor` reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

from airflow_provider.coordination.commits.source_dependents import lives, open_source
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import epoch_key, lock_key, source_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import Source, SourceBounds, SourceRecord
from airflow_provider.stores.base import MetadataReader

_PAGE = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class AbandonedBounds:
    """The newest bounds of *source* for *interval*, which no commit and no live attempt reads.

    :param job: owns the epoch: a skipped one, one committed from earlier bounds, or one before the job's origin.
    :param bounds: read by the epoch when it is run. :param first: step before it can be run; empty if it can.
    :param skipped: the epoch is skipped.
    """

    source: Source
    job: JobName
    interval: Interval
    bounds: SourceBounds
    first: str = ""
    skipped: bool = False

    @property
    def next_step(self) -> str:
        """Steps after which an epoch has read the bounds, or has given them back."""
        runs = f"{self.first}clear the task of job {self.job} for {self.interval}, which reads it"
        skips = "skip the epoch again, which leaves to later ones what they can read, and names the rest"
        return f"{runs}; or {skips}." if self.skipped else f"{runs}."

    def __str__(self) -> str:
        found = f"bounds that came to nothing: {self.bounds}, for {self.interval}"
        return f"{found}; what no epoch has read of it, none reads"


def abandoned_bounds(
    reader: MetadataReader,
    domain: DomainName,
    source: Source,
    records: Sequence[SourceRecord],
    jobs: Sequence[JobRecord],
) -> Iterator[AbandonedBounds]:
    """Yield the abandoned bounds among *records*, the newest at their barriers.

    :param jobs: readers of *source*. The chain ends at the last barrier, whose bounds may still move.
    """
    known = {job.name: job for job in jobs}
    for start in range(1 if source.looks_around else 0, len(records), _PAGE):
        page = [
            record
            for record in records[start : start + _PAGE]
            if record.interval and not record.bounds.is_empty
        ]
        keys = {
            (job.name, record.interval): epoch_key(domain, job.name, record.interval.start)
            for record in page
            for job in jobs
            if record.interval
        }
        locks = {name: lock_key(domain, name[0], name[1].start) for name in keys}
        found = reader.read(domain, [*keys.values(), *locks.values()])
        for record in page:
            epochs = {
                job: stamped.record
                for (job, interval), key in keys.items()
                if interval == record.interval and (stamped := found.get(key)) is not None
            }
            name, interval = record.bounds.source, record.interval
            is_read = any(
                open_source(epoch.attempt, name) and lives(found, locks[job, interval], epoch.attempt)  # type: ignore[index]
                for job, epoch in epochs.items()
            )
            is_over = all(epoch.committed or _first(known[job], interval) for job, epoch in epochs.items())  # type: ignore[arg-type]
            if is_over and not is_read and _came_to_nothing(reader, domain, record, list(epochs.values())):
                job = record.job if record.job in epochs else next(iter(epochs))
                first = _first(known[job], interval)  # type: ignore[arg-type]
                commit = epochs[job].committed
                yield AbandonedBounds(
                    source=source,
                    job=job,
                    interval=interval,  # type: ignore[arg-type]
                    bounds=record.whole,
                    first=first,
                    skipped=commit is not None and bool(commit.skipped),
                )


def _first(job: JobRecord, interval: Interval) -> str:
    """Return the step that lets a retired job, or a job with a later origin, run *interval*; empty for other jobs."""
    if job.retired:
        return f"`airflow epochs revive {quote(job.name)}`, then "
    is_before = job.origin is not None and interval.start < job.origin
    return f"declare an earlier origin of job {job.name}, then " if is_before else ""


def _came_to_nothing(
    reader: MetadataReader, domain: DomainName, record: SourceRecord, epochs: Sequence[EpochRecord]
) -> bool:
    """Return whether no epoch at the barrier of *record* has read its bounds. :param epochs: at that barrier."""
    source, newest = record.bounds.source, record.bounds.revision
    if not epochs or any(epoch.interval != record.interval for epoch in epochs):
        return False
    read = {epoch.committed.revision_of(source) for epoch in epochs if epoch.committed} - {0}
    keys = [
        source_key(domain, source, epochs[0].interval.end, revision)
        for revision in read
        if revision != newest
    ]
    earlier = reader.read(domain, keys).records.values() if keys else ()
    return newest not in read and not any(stamped.record.whole.same_as(record.whole) for stamped in earlier)
