"""Files at the places of skipped epochs, which no begin looks at any more (section 5)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from airflow_provider.coordination.commits.source_dependents import lives
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import lock_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import Source, SourceBounds, SourceRecord
from airflow_provider.domain.unread import Unread
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.base import MetadataReader, pages

MOST_BARRIERS = 1_000
"""Number of barriers of a source, the newest, at which late data is looked for."""


def skipped_bounds(
    reader: MetadataReader, domain: DomainName, source: Source, readers: Sequence[JobRecord]
) -> list[SourceRecord]:
    """Empty bounds at the barriers that *readers*, or the jobs before them, have skipped and that none of them has read
    or is yet to reach.

    What a job computed by a declaration without *source* has not read it, nor has a run that is silent for good.
    """
    skipped: dict[datetime, SourceRecord] = {}
    read: set[datetime] = set()
    reached: list[datetime] = []
    before = {name: True for job in readers if job.left_sources for name in job.predecessors}
    for job, retired in (before | {job.name: bool(job.retired) for job in readers}).items():
        newest = None
        for stamped in pages(reader, domain, EpochRecord, job):
            epoch = stamped.record
            newest = epoch.interval.end
            is_open = epoch.attempt is not None and epoch.attempt.aborted is None
            is_skipped = epoch.committed is not None and bool(epoch.committed.skipped)
            if is_open and is_skipped:
                lock = lock_key(domain, job, epoch.interval.start)
                is_open = lives(reader.read(domain, [lock]), lock, epoch.attempt)
            if is_skipped and not is_open:
                bounds = SourceBounds(source="")
                skipped[newest] = SourceRecord(bounds=bounds, job=job, interval=epoch.interval)
            elif is_open or epoch.committed is None or epoch.committed.revision_of(source.name):
                read.add(newest)
        if newest is not None and not retired:
            reached.append(newest)
    until = min(reached, default=None)
    left = [end for end in skipped if end not in read and until is not None and end <= until]
    return [skipped[end] for end in sorted(left)[-MOST_BARRIERS:]]


def files_of_skipped(
    source: Source,
    records: Sequence[SourceRecord],
    source_readers: SourceReaders,
    skipped: list[SourceRecord],
    told: Collection[str],
) -> Iterator[Unread]:
    """Files at the locations of *skipped* that no epoch reads; what a failed attempt has found there was not read."""
    beyond = records[MOST_BARRIERS].interval if len(records) > MOST_BARRIERS else None
    wanted = [
        record for record in skipped if record.interval and not (beyond and record.interval.end <= beyond.end)
    ]
    ends = {record.interval.end for record in wanted if record.interval}
    read = [record for record in records if record.interval is None or record.interval.end not in ends]
    late, _ = source_readers.unread(source, wanted, read)
    shared = None if beyond is None else source_readers.place(source, beyond)
    left = {
        name
        for interval, name in late
        if name not in told and source_readers.place(source, interval) != shared
    }
    if left:
        yield Unread(source=source, late=tuple(sorted(left)), skipped=True)
