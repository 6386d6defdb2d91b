"""Files that a change of name and location has passed by: no epoch of the job reads them (I11).

Where ``{start}`` becomes ``{end}``, the first epoch of the new name looks one folder farther than the next one of the
old name would have. The folder between lies where the new name looks for an epoch that the old one has read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from airflow_provider.coordination.commits.source_dependents import committed_source, open_source
from airflow_provider.coordination.upkeep.missed_files import MissedFiles
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import Source, SourceBounds, SourceKind, SourceRecord
from airflow_provider.sources.locations import lies_at, location_of


def passed_files(look: MissedFiles, most: int) -> list[tuple[Interval, str]]:
    """Return files where the source of *look* looks for epochs that its job has committed by an earlier source.

    None that epochs of the job read, or are yet to read; none that lies where the other source has looked.

    :param most: number of epochs to look at, the newest.
    :raises SourceUnavailable: the source does not answer.
    """
    source, job = look.source, look.job
    left = [
        old
        for old in _before(source, job)
        if old.kind is SourceKind.FILES and old.location != source.location
    ]
    if source.kind is not SourceKind.FILES or not left:
        return []
    epochs = sorted(look.epochs().values(), key=lambda epoch: epoch.interval.end)
    others = [epoch for epoch in epochs if _is_of_others(epoch, source, left)][-most:]
    kept = _kept_places(look, epochs)
    wanted = [
        SourceRecord(bounds=SourceBounds(source=""), job=job.name, interval=epoch.interval)
        for epoch in others
        if location_of(source, epoch.interval) not in kept
    ]
    lying = look.source_readers.unread(source, wanted, ())[0] if wanted else []
    read = look.read(epochs) if lying else set()
    coming = _coming(job, epochs)
    return [
        (epoch, uri)
        for epoch, uri in lying
        if uri not in read and not _looked_at(uri, job, coming) and not _told_of_left(uri, left, others)
    ]


def _before(source: Source, job: JobRecord) -> Sequence[Source]:
    """Return the sources that *job* had left when it declared *source*, which it may have left, too, since."""
    names = [old.name for old in job.left_sources]
    first = names.index(source.name) + 1 if source.name in names else 0
    return job.left_sources[first:]


def _is_of_others(epoch: EpochRecord, source: Source, left: Sequence[Source]) -> bool:
    """Return True if *epoch* is committed by one of the *left* sources, and neither committed nor open by *source*."""
    if committed_source(epoch, source.name) or open_source(epoch.attempt, source.name):
        return False
    return any(committed_source(epoch, old.name) for old in left)


def _kept_places(look: MissedFiles, epochs: Sequence[EpochRecord]) -> set[str]:
    """The places of the source at which its own bounds are recorded, or that the next epoch has."""
    known = [record.interval for record in look.records if record.interval is not None]
    return {location_of(look.source, interval) for interval in (*known, *_coming(look.job, epochs))}


def _coming(job: JobRecord, epochs: Sequence[EpochRecord]) -> tuple[Interval, ...]:
    """The epoch that comes after *epochs*."""
    if not epochs:
        return ()
    end = epochs[-1].interval.end
    return (Interval(end, job.cadence.next_after(end)),)


def _looked_at(uri: str, job: JobRecord, intervals: Collection[Interval]) -> bool:
    """Return True if *job* looks at *uri* for one of *intervals*."""
    files = [source for source in job.sources if source.kind is SourceKind.FILES]
    return any(lies_at(source, interval, uri) for source in files for interval in intervals)


def _told_of_left(uri: str, left: Sequence[Source], epochs: Sequence[EpochRecord]) -> bool:
    """Return True if *uri* came late to one of *left*, of which it is told."""
    return any(
        committed_source(epoch, old.name) and lies_at(old, epoch.interval, uri)
        for old in left
        for epoch in epochs
    )
