"""Data of roots that no epoch reads, since it came late or its epoch was skipped, and data that was replaced after an
epoch had read it (section 5).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_provider.coordination.abandoned_bounds import AbandonedBounds, abandoned_bounds
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Cadence, Interval, time_key
from airflow_provider.domain.records import Kind
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.roots import Late, Root, RootBounds, RootKind, RootRecord
from airflow_provider.domain.topology import EpochJob
from airflow_provider.sources.roots import RootSources
from airflow_provider.stores.base import MetadataReader, pages

MOST_BARRIERS = 1_000
"""Number of barriers of a root, the newest, at which late data is looked for."""
_PAGE = 100
_NAMED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Unread:
    """What of a root no epoch reads.

    :param late: URIs of files, or texts that name a span. :param replaced: those that are others than were read.
    :param comes: the next begin reads the late ones. :param skipped: they lie where only skipped epochs would look.
    :param problem: why nobody could look; then nothing is known of it.
    """

    root: Root
    late: tuple[str, ...]
    replaced: tuple[str, ...]
    comes: bool = False
    skipped: bool = False
    problem: EpochError | None = None

    def __str__(self) -> str:
        if self.problem is not None:
            return f"late data was not looked for: {self.problem.message}"
        unread = "are of skipped epochs" if self.skipped else "came late"
        parts = [
            f"{len(names)} {what}, such as {', '.join(names[:_NAMED])}"
            for names, what in (
                (self.late, f"{unread} and are read by no epoch"),
                (self.replaced, "were replaced after an epoch had read them"),
            )
            if names
        ]
        return "; ".join(parts)


def unread(
    reader: MetadataReader,
    domain: DomainName,
    sources: RootSources,
    *,
    at: Interval | None = None,
    names: Collection[str] | None = None,
) -> Iterator[Unread]:
    """Yield what came late to the roots of *domain*, wherever epochs have read: at the newest 1,000 barriers of each.

    Without *at* also files that lie where only skipped epochs would look. A root whose source does not answer, or whose
    connection is not known here, is yielded with that ``problem``.

    :param at: only at the barrier that ends it. :param names: only of these roots.
    """
    jobs: list[JobRecord] = [one.record for one in pages(reader, domain, Kind.JOB, "")]
    roots = {root.name: (root, job.cadence) for job in jobs if not job.retired for root in job.roots}
    for root, cadence in roots.values():
        if names is not None and root.name not in names:
            continue
        records = _records(reader, domain, root, None if at is None else at.end)
        try:
            skipped: list[RootRecord] = []
            if at is None and root.kind is RootKind.FILES:
                readers = [job for job in jobs if root.name in job.all_roots]
                skipped = _skipped(reader, domain, root, readers)
            told_later = {one.interval for one in skipped} if root.late is not Late.REFUSE else set()
            found = [*_of_root(root, records, sources, at=at, cadence=cadence, told_later=told_later)]
            yield from found
            told = {name for unread in found for name in unread.late}
            yield from _of_skipped(root, records, sources, skipped, told)
        except EpochError as error:
            yield Unread(root=root, late=(), replaced=(), problem=error)


def ignored(
    reader: MetadataReader, domain: DomainName, root: Root, sources: RootSources, until: datetime
) -> tuple[str, ...]:
    """Return the files that came late to *root*, which ignores them: at the barriers within its window before *until*.

    :raises SourceUnavailable: the source does not answer.
    """
    if root.late is not Late.IGNORE or root.kind is not RootKind.FILES:
        return ()
    records = _records(reader, domain, root, until - root.window)
    found = _of_root(root, records, sources)
    return tuple(name for one in found for name in one.late)


def abandoned(reader: MetadataReader, domain: DomainName, told: Collection[str]) -> Iterator[AbandonedBounds]:
    """Yield the bounds of roots of *domain* that attempts recorded which came to nothing: the newest 1,000 of each.

    :param told: URIs of files of which it is known that no epoch reads them.
    """
    jobs: list[JobRecord] = [one.record for one in pages(reader, domain, Kind.JOB, "")]
    roots = {root.name: root for job in jobs if not job.retired for root in job.roots}
    for root in roots.values():
        if root.looks_around or root.late is Late.REVISION:
            readers = [job for job in jobs if root.name in job.all_roots]
            records = _records(reader, domain, root, None)[:MOST_BARRIERS]
            for found in abandoned_bounds(reader, domain, root, records, readers):
                files = tuple(file for file in found.bounds.files if file.uri not in told)
                if files or found.bounds.span is not None:
                    yield replace(found, bounds=replace(found.bounds, files=files))


def late_revisions(
    reader: MetadataReader, job: EpochJob, epoch: Interval, sources: RootSources
) -> tuple[Unread, ...]:
    """Return what came late to *epoch* of those roots of *job* of which revisions are made; nothing for others.

    A hint: a root whose source does not answer is left out.
    """
    names = {root.name for root in job.roots if root.late is Late.REVISION}
    found = unread(reader, job.domain, sources, at=epoch, names=names) if names else ()
    return tuple(one for one in found if one.problem is None)


def _records(
    reader: MetadataReader, domain: DomainName, root: Root, since: datetime | None
) -> list[RootRecord]:
    """The newest revisions at the newest barriers, the newest first; one barrier more than is looked at."""
    found: dict[str, RootRecord] = {}
    end: str | None = None
    first = "" if since is None else time_key(since)
    while True:
        page = reader.scan(domain, Kind.ROOT, root.name, end=end, limit=_PAGE, reverse=True)
        for one in page:
            barrier = one.key.item.partition(":")[0]
            if barrier < first or (barrier not in found and len(found) > MOST_BARRIERS):
                return list(found.values())
            found.setdefault(barrier, one.record)
        if len(page) < _PAGE:
            return list(found.values())
        end = page[-1].key.item


def _of_root(
    root: Root,
    records: list[RootRecord],
    sources: RootSources,
    *,
    at: Interval | None = None,
    cadence: Cadence | None = None,
    told_later: Collection[Interval | None] = (),
) -> Iterator[Unread]:
    """Yield what of *root* lies beside *records*.

    :param cadence: of the jobs that read it: the next begin looks back from the barrier after the newest recorded one.
    :param told_later: skipped epochs: what came late to them, and what no later epoch takes, is told with their files.
    """
    if not records or root.kind is RootKind.ICEBERG:
        return
    wanted = [one for one in records if at is None or (one.interval or at) == at]
    beyond = records[MOST_BARRIERS] if len(records) > MOST_BARRIERS else None
    late, replaced = sources.unread(root, [one for one in wanted if one is not beyond], records)
    if beyond is not None and beyond.interval is not None and root.kind is RootKind.FILES:
        shared = sources.place(root, beyond.interval)
        late = [(interval, name) for interval, name in late if sources.place(root, interval) != shared]
    newest = next((one.interval for one in records if one.interval is not None), None)
    following = None if newest is None or cadence is None else cadence.next_after(newest.end)
    window = root.window if cadence is None else max(root.window, cadence.longest)
    comes: list[str] = []
    gone: list[str] = []
    for interval, name in late:
        near = following is not None and interval.end + window >= following
        if near and root.late is Late.NEXT and root.kind is RootKind.FILES:
            comes.append(name)
        elif interval not in told_later:
            gone.append(name)
    if comes:
        yield Unread(root=root, late=tuple(comes), replaced=(), comes=True)
    if gone or replaced:
        yield Unread(root=root, late=tuple(gone), replaced=tuple(replaced))


def _skipped(
    reader: MetadataReader, domain: DomainName, root: Root, readers: Collection[JobRecord]
) -> list[RootRecord]:
    """Empty bounds at the barriers that *readers* have skipped and that none of them has read or is yet to reach.

    What a job computed by a declaration without *root* has not read it.
    """
    skipped: dict[datetime, RootRecord] = {}
    read: set[datetime] = set()
    reached: list[datetime] = []
    for job in readers:
        newest = None
        for stamped in pages(reader, domain, Kind.EPOCH, job.name):
            epoch: EpochRecord = stamped.record
            newest = epoch.interval.end
            is_open = epoch.attempt is not None and epoch.attempt.aborted is None
            if not is_open and epoch.committed is not None and epoch.committed.skipped:
                bounds = RootBounds(root="")
                skipped[newest] = RootRecord(bounds=bounds, job=job.name, interval=epoch.interval)
            elif is_open or epoch.committed is None or epoch.committed.revision_of(root.name):
                read.add(newest)
        if newest is not None and not job.retired:
            reached.append(newest)
    until = min(reached, default=None)
    left = [end for end in skipped if end not in read and until is not None and end <= until]
    return [skipped[end] for end in sorted(left)[-MOST_BARRIERS:]]


def _of_skipped(
    root: Root,
    records: list[RootRecord],
    sources: RootSources,
    skipped: list[RootRecord],
    told: Collection[str],
) -> Iterator[Unread]:
    """Files at the locations of *skipped* that no epoch reads; what a failed attempt has found there was not read."""
    beyond = records[MOST_BARRIERS].interval if len(records) > MOST_BARRIERS else None
    wanted = [one for one in skipped if one.interval and not (beyond and one.interval.end <= beyond.end)]
    ends = {one.interval.end for one in wanted if one.interval}
    read = [one for one in records if one.interval is None or one.interval.end not in ends]
    late, _ = sources.unread(root, wanted, read)
    shared = None if beyond is None else sources.place(root, beyond)
    left = {name for interval, name in late if name not in told and sources.place(root, interval) != shared}
    if left:
        yield Unread(root=root, late=tuple(sorted(left)), replaced=(), skipped=True)
