"""Epochs that stand on the bounds of a root: two jobs never stand on different revisions at one barrier (I11)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider.coordination.commits.dependents import Dependent
from airflow_provider.domain.behind import Behind
from airflow_provider.domain.epoch import AttemptRecord, EpochRecord, expired
from airflow_provider.domain.errors import (
    Conflict,
    DependentReaders,
    NotReady,
    StoreIncompatible,
    Unavailable,
)
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Key, Kind, epoch_key, lock_key, root_key
from airflow_provider.domain.roots import Late, Root, RootBounds, RootRecord
from airflow_provider.stores.base import Absent, Exists, MetadataReader, Reading, pages, unchanged


@dataclass(frozen=True, kw_only=True, slots=True)
class RootReaders:
    """Epochs of other jobs that stand on one revision of a root at a barrier.

    :param committed: by their commit. :param live: by an open attempt whose lock lasts.
    :param behind: those that have committed an earlier revision, each with that revision.
    :param required: the records of all jobs that read the root, as they were: none of them begins or commits meanwhile.
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
        """Whether epochs stand on this revision, or have committed an earlier one."""
        return self.stand or bool(self.behind)


def root_readers(
    reader: MetadataReader,
    domain: DomainName,
    root: str,
    interval: Interval,
    revisions: Collection[int],
    *,
    but: JobName | None,
) -> RootReaders:
    """Return the epochs of jobs, beside *but*, that stand on a revision of *root* at the end of *interval*.

    :param revisions: that revision, and those before it that have the same bounds: a source may be bound back.
    """
    jobs = [one.record for one in pages(reader, domain, Kind.JOB, "")]
    names = [job.name for job in jobs if job.name != but and root in job.all_roots]
    keys = {name: epoch_key(domain, name, interval.start) for name in names}
    locks = {name: lock_key(domain, name, interval.start) for name in names}
    reading = reader.read(domain, [*keys.values(), *locks.values()])
    committed, live, behind = [], [], []
    for name, key in keys.items():
        stamped = reading.get(key)
        if stamped is None or stamped.record.interval != interval:
            continue
        epoch = Dependent(job=name, interval=interval, tables=(TableName(root),))
        read = committed_root(stamped.record, root)
        if read in revisions:
            committed.append(epoch)
        elif read:
            behind.append((epoch, read))
        if open_root(stamped.record.attempt, root) in revisions and lives(reading, locks[name]):
            live.append(epoch)
    required = tuple(unchanged(reading, key) for key in keys.values())
    return RootReaders(committed=tuple(committed), live=tuple(live), behind=tuple(behind), required=required)


def lives(reading: Reading, lock: Key) -> bool:
    """Whether the attempt that holds *lock*, as read, is heard of."""
    stamped = reading.get(lock)
    return stamped is not None and not expired(stamped.at, stamped.record.ttl, reading.now)


def committed_root(epoch: EpochRecord | None, root: str) -> int:
    """The revision of *root* that the epoch's commit has read; 0 when there is none, or it was skipped."""
    return 0 if epoch is None or epoch.committed is None else epoch.committed.revision_of(root)


def same_bounds(recorded: Mapping[int, RootRecord], bounds: RootBounds) -> frozenset[int]:
    """The revisions of *recorded* that have the same bounds as *bounds*."""
    return frozenset(revision for revision, record in recorded.items() if record.whole.same_as(bounds))


def open_root(attempt: AttemptRecord | None, root: str) -> int:
    """The revision of *root* that an open *attempt* reads; 0 when it has ended, or reads none."""
    if attempt is None or attempt.aborted is not None:
        return 0
    return next((one.revision for one in attempt.roots if one.root == root), 0)


def refuse_readers(root: Root, interval: Interval, revision: int, readers: RootReaders) -> None:
    """Refuse another revision of *root* while epochs stand on the newest one.

    :raises DependentReaders: revisions are made of the root. :raises Unavailable: none are.
    """
    standing = readers.committed if root.late is Late.REVISION else (*readers.committed, *readers.live)
    if not standing:
        return
    if root.late is Late.REVISION:
        raise _left_behind(root, interval, revision, standing)
    names, step = _named(standing), _step(root, interval, standing)
    raise Unavailable(
        f"root {root.name!r} is no longer what was recorded for {interval}, which {names} has read.",
        next_step=f"bring back what was recorded, or {step.removeprefix('leave it; or ')}",
        root=root.name,
        readers=standing,
    )


def refuse_behind(root: Root, interval: Interval, known: Sequence[Behind], readers: RootReaders) -> None:
    """Refuse to read the newest revision of *root* beside epochs that have committed an earlier one.

    A job that computes its epoch again records a revision before it is known whether that will be committed. Epochs
    that were left behind when the root was bound anew are no reason: nothing reads them until they have caught up.

    :param known: the epochs that are. :param readers: of the newest revision.
    :raises NotReady: all of these epochs are being computed again, with the newest revision.
    :raises DependentReaders: some are not.
    """
    marked = {entry.job for entry in known if entry.root == root.name and entry.is_of(entry.job, interval)}
    behind = [(epoch, read) for epoch, read in readers.behind if epoch.job not in marked]
    if not behind:
        return
    live = {epoch.job for epoch in readers.live}
    standing = tuple(epoch for epoch, _ in behind if epoch.job not in live)
    if standing:
        raise _left_behind(root, interval, min(read for _, read in behind), standing)
    raise NotReady(
        f"root {root.name!r} was recorded anew for {interval}, and {_named([epoch for epoch, _ in behind])} is being "
        "computed again with it: two jobs would stand on different revisions until that is committed.",
        next_step="try again when it is.",
        missing=(root.name,),
        interval=interval,
    )


def _left_behind(
    root: Root, interval: Interval, revision: int, readers: Sequence[Dependent]
) -> DependentReaders:
    return DependentReaders(
        f"root {root.name!r} has changed since revision {revision} of it was recorded for {interval}, and "
        f"{_named(readers)} has committed what it computed from that: two jobs would stand on different revisions.",
        next_step=_step(root, interval, readers),
        interval=interval,
        readers=tuple(readers),
        root=root.name,
    )


def _named(readers: Iterable[Dependent]) -> str:
    return ", ".join(str(epoch.job) for epoch in readers)


def _step(root: Root, interval: Interval, readers: Iterable[Dependent]) -> str:
    return (
        f"leave it; or `airflow epochs bind {root.name} {interval.start.isoformat()}/{interval.end.isoformat()} "
        f"--reason …`, then clear the tasks of {_named(readers)} and of this job for it."
    )


def later_keys(domain: DomainName, interval: Interval, roots: Iterable[RootBounds]) -> list[Key]:
    """Where the revisions would stand that come after those that an attempt reads."""
    return [root_key(domain, one.root, interval.end, one.revision + 1) for one in roots]


def newest_required(
    domain: DomainName, interval: Interval, roots: Sequence[RootBounds], reading: Reading
) -> list[Absent]:
    """Requirements that what an attempt has read of its roots still is their newest revision.

    :raises Conflict: a later one is recorded.
    """
    keys = later_keys(domain, interval, roots)
    for bounds, key in zip(roots, keys, strict=True):
        if reading.get(key) is not None:
            raise Conflict(
                f"{interval}: revision {bounds.revision + 1} of root {bounds.root!r} was recorded since; this attempt "
                f"has read revision {bounds.revision}.",
                next_step="begin again: a new attempt reads the newest revision.",
                root=bounds.root,
                expected=bounds.revision,
                found=bounds.revision + 1,
            )
    return [Absent(key) for key in keys]


def whole_roots(
    reader: MetadataReader, domain: DomainName, interval: Interval, roots: Sequence[RootBounds]
) -> tuple[RootBounds, ...]:
    """Return *roots* with their files, which stand in the roots' own records.

    :raises StoreIncompatible: these are not what the attempt was told.
    """
    keys = {one.root: root_key(domain, one.root, interval.end, one.revision) for one in roots if one.digest}
    if not keys:
        return tuple(roots)
    reading = reader.read(domain, list(keys.values()))
    found = []
    for one in roots:
        stamped = reading.get(keys[one.root]) if one.digest else None
        record: RootRecord | None = stamped.record if stamped else None
        if one.digest and (record is None or record.whole.reference != one):
            raise StoreIncompatible(
                f"the files of root {one.root!r} for {interval}, revision {one.revision}, are not those that the "
                "attempt was begun with.",
                next_step="begin the epoch again; `airflow epochs doctor` shows what else is missing in the store.",
                root=one.root,
                expected=one.digest,
                found=None if record is None else record.whole.reference.digest,
            )
        found.append(record.whole if record is not None else one)
    return tuple(found)
