"""Files that a job does not read since it has read its source by another name where they belong (I11).

A late file belongs to the barrier whose begin noticed it, for all jobs that share the root. A job that has computed
that barrier by a root of another name does not read it, nor does an epoch of the other root: that looks elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from airflow_provider.coordination.root_readers import committed_root, open_root
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Kind, root_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.roots import Root, RootKind, RootRecord
from airflow_provider.sources.locations import lies_at
from airflow_provider.stores.base import MetadataReader, pages


def missed_by_names(
    reader: MetadataReader,
    domain: DomainName,
    root: Root,
    records: Sequence[RootRecord],
    jobs: Sequence[JobRecord],
) -> Iterator[tuple[JobRecord, Interval, tuple[str, ...]]]:
    """Yield a job, an epoch at whose barrier *root* has files, and those of them that the job has never read.

    They lie where the job has computed epochs. Only jobs that have left a root of files are looked at.

    :param records: the newest bounds of *root*. :param jobs: those that read it, or did so.
    """
    if root.kind is not RootKind.FILES:
        return
    for job in jobs:
        if job.retired or not any(left.kind is RootKind.FILES for left in job.left_roots):
            continue
        epochs = {one.record.interval: one.record for one in pages(reader, domain, Kind.EPOCH, job.name)}
        read = _files_read(reader, domain, job, epochs.values())
        computed = [epoch.interval for epoch in epochs.values() if _is_computed(epoch)]
        is_declared = any(declared.name == root.name for declared in job.roots)
        for record in records:
            if record.interval is None or not _passes_by(
                epochs.get(record.interval), root, is_declared=is_declared
            ):
                continue
            unread = [file.uri for file in record.whole.files if file.uri not in read]
            missed = tuple(uri for uri in unread if any(lies_at(root, own, uri) for own in computed))
            if missed:
                yield job, record.interval, missed


def _is_computed(epoch: EpochRecord) -> bool:
    return epoch.committed is not None and not epoch.committed.skipped


def _passes_by(epoch: EpochRecord | None, root: Root, *, is_declared: bool) -> bool:
    """Whether a job with *epoch* does not read what *root* has at its barrier, unless an operator acts."""
    if epoch is not None and (committed_root(epoch, root.name) or open_root(epoch.attempt, root.name)):
        return False
    return not is_declared or (epoch is not None and epoch.committed is not None)


def _files_read(
    reader: MetadataReader, domain: DomainName, job: JobRecord, epochs: Collection[EpochRecord]
) -> set[str]:
    """Return the files that epochs of *job*, committed or open, stand on by all names of roots that it has had."""
    found: set[str] = set()
    for epoch in epochs:
        keys = [
            root_key(domain, name, epoch.interval.end, revision)
            for name in job.all_roots
            for revision in {committed_root(epoch, name), open_root(epoch.attempt, name)} - {0}
        ]
        records = reader.read(domain, keys).records.values() if keys else ()
        found |= {file.uri for one in records for file in one.record.whole.files}
    return found
