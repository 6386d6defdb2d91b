"""Late files of a root that jobs share, which a job does not read since it has skipped the barrier that reads them.

Late files belong to the barrier whose begin noticed them, for all jobs that share the root (I11).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_provider.coordination.root_readers import committed_root
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import epoch_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.roots import Late, Root, RootKind, RootRecord
from airflow_provider.sources.locations import lies_at
from airflow_provider.stores.base import MetadataReader


def missed_by_skips(
    reader: MetadataReader,
    domain: DomainName,
    root: Root,
    records: Sequence[RootRecord],
    jobs: Sequence[JobRecord],
) -> Iterator[tuple[JobName, Interval, tuple[str, ...]]]:
    """Yield a job, an epoch that it has skipped, and the files that came late to others that it has computed.

    :param records: the newest bounds of *root*. :param jobs: those that read it, or did so.
    """
    readers = [job for job in jobs if not job.retired]
    if root.late is not Late.NEXT or root.kind is not RootKind.FILES or len(readers) < 2:
        return
    intervals = [record.interval for record in records if record.interval is not None]
    for record in records:
        interval = record.interval
        late = _late_files(root, record)
        if interval is None or not late:
            continue
        for job in readers:
            if not _is_skipped(_epoch(reader, domain, job, interval)):
                continue
            computed = [
                own
                for own in intervals
                if any(lies_at(root, own, uri) for uri in late)
                and committed_root(_epoch(reader, domain, job, own), root.name)
            ]
            missed = tuple(uri for uri in late if any(lies_at(root, own, uri) for own in computed))
            if missed:
                yield job.name, interval, missed


def _late_files(root: Root, record: RootRecord) -> list[str]:
    """The files of *record* that lie elsewhere than where its epoch looks first."""
    if record.interval is None:
        return []
    interval = record.interval
    return [file.uri for file in record.whole.files if not lies_at(root, interval, file.uri)]


def _epoch(
    reader: MetadataReader, domain: DomainName, job: JobRecord, interval: Interval
) -> EpochRecord | None:
    key = epoch_key(domain, job.name, interval.start)
    stamped = reader.read(domain, [key]).get(key)
    return stamped.record if stamped is not None and stamped.record.interval == interval else None


def _is_skipped(epoch: EpochRecord | None) -> bool:
    """Whether nothing is to come of *epoch*: it is skipped, and no attempt computes it after all."""
    if epoch is None or epoch.committed is None or not epoch.committed.skipped:
        return False
    return epoch.attempt is None or epoch.attempt.aborted is not None
