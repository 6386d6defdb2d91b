"""Epochs that stand on the bounds of a source: two jobs never stand on different revisions at one barrier (I11)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from airflow_provider.domain.behind import Behind
from airflow_provider.domain.dependent import Dependent
from airflow_provider.domain.epoch import AttemptRecord, EpochRecord, LockRecord, has_expired
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import (
    Conflict,
    DependentReaders,
    NotReady,
    StoreIncompatible,
    Unavailable,
)
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.records import Key, epoch_key, lock_key, source_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import Late, Source, SourceBounds, SourceRecord
from airflow_provider.stores.base import Absent, Exists, MetadataReader, Reading, pages, unchanged


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceDependents:
    """Epochs of other jobs that stand on one revision of a source at a barrier.

    :param committed: by their commit. :param live: by an open attempt whose lock lasts.
    :param behind: those that have committed an earlier revision, each with that revision.
    :param required: pins the epoch records of all jobs that read the source: none of them begins or commits meanwhile.
    """

    committed: tuple[Dependent, ...] = ()
    live: tuple[Dependent, ...] = ()
    behind: tuple[tuple[Dependent, int], ...] = ()
    required: tuple[Exists | Absent, ...] = ()

    @property
    def stand(self) -> bool:
        return bool(self.committed or self.live)

    @property
    def have_read(self) -> bool:
        """Return whether epochs stand on this revision, or have committed an earlier one."""
        return self.stand or bool(self.behind)


def source_dependents(
    reader: MetadataReader,
    domain: DomainName,
    source: str,
    interval: Interval,
    revisions: Collection[int],
    *,
    but: Collection[JobName] = (),
) -> SourceDependents:
    """Return the epochs of jobs, beside *but*, that stand on a revision of *source* at the end of *interval*.

    :param revisions: that revision, and those before it that have the same bounds: a source may be bound back.
    """
    jobs = [stamped.record for stamped in pages(reader, domain, JobRecord)]
    names = [job.name for job in jobs if job.name not in but and source in job.all_sources]
    keys = {name: epoch_key(domain, name, interval.start) for name in names}
    locks = {name: lock_key(domain, name, interval.start) for name in names}
    reading = reader.read(domain, [*keys.values(), *locks.values()])
    committed, live, behind = [], [], []
    for name, key in keys.items():
        stamped = reading.get(key)
        if stamped is None or stamped.record.interval != interval:
            continue
        epoch = Dependent(job=name, interval=interval, tables=(TableName(source),))
        read = committed_source(stamped.record, source)
        if read in revisions:
            committed.append(epoch)
        elif read:
            behind.append((epoch, read))
        attempt = stamped.record.attempt
        if open_source(attempt, source) in revisions and lives(reading, locks[name], attempt):
            live.append(epoch)
    required = tuple(unchanged(reading, key) for key in keys.values())
    return SourceDependents(
        committed=tuple(committed), live=tuple(live), behind=tuple(behind), required=required
    )


def lives(reading: Reading, lock: Key[LockRecord], attempt: AttemptRecord | None) -> bool:
    """Return whether the lock of *attempt*, as read, has not expired, or the attempt is staged and needs none."""
    if attempt is not None and attempt.aborted is None and attempt.staged:
        return True
    stamped = reading.get(lock)
    return stamped is not None and not has_expired(stamped.at, stamped.record.ttl, reading.now)


def committed_source(epoch: EpochRecord | None, source: str) -> int:
    """Return the revision of *source* that the epoch's commit has read; 0 without a commit, or if it was skipped."""
    return 0 if epoch is None or epoch.committed is None else epoch.committed.revision_of(source)


def read_by_commits(
    reader: MetadataReader, domain: DomainName, source: str, records: Collection[SourceRecord]
) -> tuple[SourceRecord, ...]:
    """Return those of *records* of *source* that committed epochs have read."""
    intervals = dict.fromkeys(record.interval for record in records if record.interval is not None)
    if not intervals:
        return ()
    jobs = [stamped.record for stamped in pages(reader, domain, JobRecord)]
    names = [job.name for job in jobs if source in job.all_sources]
    read: set[tuple[Interval | None, int]] = set()
    for interval in intervals:
        found = reader.read(domain, [epoch_key(domain, name, interval.start) for name in names])
        epochs = [stamped.record for stamped in found.records.values()]
        read |= {
            (interval, committed_source(epoch, source)) for epoch in epochs if epoch.interval == interval
        }
    return tuple(record for record in records if (record.interval, record.bounds.revision) in read)


def same_bounds(recorded: Mapping[int, SourceRecord], bounds: SourceBounds) -> frozenset[int]:
    """Return the revisions of *recorded* that have the same bounds as *bounds*."""
    return frozenset(revision for revision, record in recorded.items() if record.whole.same_as(bounds))


def open_source(attempt: AttemptRecord | None, source: str) -> int:
    """Return the revision of *source* that an open *attempt* reads; 0 if it has ended, or reads none."""
    if attempt is None or attempt.aborted is not None:
        return 0
    return next((bounds.revision for bounds in attempt.sources if bounds.source == source), 0)


def refuse_readers(source: Source, interval: Interval, revision: int, readers: SourceDependents) -> None:
    """Refuse another revision of *source* while epochs stand on the newest one.

    :raises DependentReaders: revisions are made of the source. :raises Unavailable: none are.
    """
    dependents = readers.committed if source.late is Late.REVISION else (*readers.committed, *readers.live)
    if not dependents:
        return
    if source.late is Late.REVISION:
        raise _left_behind(source, interval, revision, dependents)
    names, step = _named(dependents), _step(source, interval, dependents)
    raise Unavailable(
        f"source {source.name!r} is no longer what was recorded for {interval}, which {names} has read.",
        next_step=f"bring back what was recorded, or {step.removeprefix('leave it; or ')}",
        source=source.name,
        readers=dependents,
    )


def refuse_behind(
    source: Source, interval: Interval, known: Sequence[Behind], readers: SourceDependents
) -> None:
    """Refuse to read the newest revision of *source* beside epochs that have committed an earlier one.

    A job that computes its epoch again records a revision before it is known whether that will be committed. Epochs
    that were left behind when the source was bound anew are no reason: nothing reads them until they have caught up.

    :param known: the domain's epochs that are behind. :param readers: of the newest revision.
    :raises NotReady: all of these epochs are being computed again, with the newest revision.
    :raises DependentReaders: some are not.
    """
    marked = {
        entry.job for entry in known if entry.source == source.name and entry.is_of(entry.job, interval)
    }
    behind = [(epoch, read) for epoch, read in readers.behind if epoch.job not in marked]
    if not behind:
        return
    live = {epoch.job for epoch in readers.live}
    dependents = tuple(epoch for epoch, _ in behind if epoch.job not in live)
    if dependents:
        raise _left_behind(source, interval, min(read for _, read in behind), dependents)
    raise NotReady(
        f"source {source.name!r} was recorded anew for {interval}, and {_named([epoch for epoch, _ in behind])} is "
        "being computed again with it: two jobs would stand on different revisions until that is committed.",
        next_step="try again when it is.",
        missing=(Missing(name=source.name, reason="its readers are being computed again"),),
        source=source.name,
        interval=interval,
    )


def refuse_copied(source: Source, interval: Interval, copies: Sequence[Dependent]) -> None:
    """Refuse another revision of *source* while former rows that a revert gives back stand on the newest one.

    :param copies: the epochs with these rows. :raises Unavailable: the source cannot give the same to another job.
    """
    if copies:
        raise Unavailable(
            f"source {source.name!r} is no longer what the former rows of {_named(copies)} {interval} have read, which "
            "are brought back: two jobs would stand on different revisions.",
            next_step="bring back what was recorded; or abandon the revert, and open a restatement that computes all "
            "of them.",
            source=source.name,
            readers=tuple(copies),
        )


def _left_behind(
    source: Source, interval: Interval, revision: int, readers: Sequence[Dependent]
) -> DependentReaders:
    return DependentReaders(
        f"source {source.name!r} has changed since revision {revision} of it was recorded for {interval}, and "
        f"{_named(readers)} has committed what it computed from that: two jobs would stand on different revisions.",
        next_step=_step(source, interval, readers),
        interval=interval,
        readers=tuple(readers),
        source=source.name,
    )


def _named(readers: Iterable[Dependent]) -> str:
    return ", ".join(str(epoch.job) for epoch in readers)


def _step(source: Source, interval: Interval, readers: Iterable[Dependent]) -> str:
    span = f"{interval.start.isoformat()}/{interval.end.isoformat()}"
    return (
        f"leave it; or `airflow epochs bind {quote(source.name)} {span} "
        f"--reason …`, then clear the tasks of {_named(readers)} and of this job for it; where epochs have read those, "
        "one restatement of all of these jobs computes them together (`airflow epochs restate plan`)."
    )


def later_keys(epoch: EpochId, sources: Iterable[SourceBounds]) -> list[Key[SourceRecord]]:
    """Return the keys of the revisions that come after those that an attempt reads."""
    return [
        source_key(epoch.domain, bounds.source, epoch.interval.end, bounds.revision + 1) for bounds in sources
    ]


def newest_required(epoch: EpochId, sources: Sequence[SourceBounds], reading: Reading) -> list[Absent]:
    """Return requirements that an attempt has read the newest revisions of its sources.

    :raises Conflict: a later revision is recorded.
    """
    interval, keys = epoch.interval, later_keys(epoch, sources)
    for bounds, key in zip(sources, keys, strict=True):
        if reading.get(key) is not None:
            raise Conflict(
                f"{interval}: revision {bounds.revision + 1} of source {bounds.source!r} was recorded since; this "
                f"attempt has read revision {bounds.revision}.",
                next_step="begin again: a new attempt reads the newest revision.",
                source=bounds.source,
                expected=bounds.revision,
                found=bounds.revision + 1,
            )
    return [Absent(key) for key in keys]


def whole_sources(
    reader: MetadataReader, epoch: EpochId, sources: Sequence[SourceBounds]
) -> tuple[SourceBounds, ...]:
    """Return *sources* with their files, which are in the sources' own records.

    :raises StoreIncompatible: the files are not those that the attempt was begun with.
    """
    interval = epoch.interval
    keys = {
        bounds.source: source_key(epoch.domain, bounds.source, interval.end, bounds.revision)
        for bounds in sources
        if bounds.digest
    }
    if not keys:
        return tuple(sources)
    reading = reader.read(epoch.domain, list(keys.values()))
    found = []
    for bounds in sources:
        stamped = reading.get(keys[bounds.source]) if bounds.digest else None
        record = stamped.record if stamped else None
        if bounds.digest and (record is None or record.whole.reference != bounds):
            raise StoreIncompatible(
                f"the files of source {bounds.source!r} for {interval}, revision {bounds.revision}, are not those that "
                "the attempt was begun with.",
                next_step="begin the epoch again; `airflow epochs doctor` shows what else is missing in the store.",
                source=bounds.source,
                expected=bounds.digest,
                found="" if record is None else record.whole.reference.digest,
            )
        found.append(record.whole if record is not None else bounds)
    return tuple(found)
