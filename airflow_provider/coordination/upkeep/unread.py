"""Data of sources that no epoch reads, since it came late or its epoch was skipped, and data that was replaced after an
epoch had read it (section 5).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from airflow_provider.coordination.commits.renamed_sources import is_read
from airflow_provider.coordination.commits.source_dependents import committed_source
from airflow_provider.coordination.upkeep.abandoned_bounds import AbandonedBounds, abandoned_bounds
from airflow_provider.coordination.upkeep.missed_files import MissedFile, MissedFiles
from airflow_provider.coordination.upkeep.passed_files import passed_files
from airflow_provider.coordination.upkeep.skipped_files import MOST_BARRIERS, files_of_skipped, skipped_bounds
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Cadence, Interval, shifted, time_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import Late, Source, SourceKind, SourceRecord
from airflow_provider.domain.topology import Job
from airflow_provider.domain.unread import Unread as Unread  # noqa: PLC0414  (found here)
from airflow_provider.sources.locations import lies_at
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.base import MetadataReader, pages, scan

_FINER_BARRIERS = 100
"""Number of barriers to look at where a location is finer than the calendar: each is a listing of its own."""
_PAGE = 100


def unread(
    reader: MetadataReader,
    domain: DomainName,
    source_readers: SourceReaders,
    *,
    at: Interval | None = None,
    names: Collection[str] | None = None,
) -> Iterator[Unread]:
    """Yield what came late to the sources of *domain*, wherever epochs have read: at the newest 1,000 barriers of each.

    Without *at* also files that lie where only skipped epochs would look. A source that does not answer, or
    whose connection is not known here, is yielded with that ``problem``.

    :param at: only at the barrier that ends it. :param names: only of these sources.
    """
    jobs = _jobs(reader, domain)
    declared = {source.name: source for job in jobs if not job.retired for source in job.sources}
    left = {source.name: source for job in jobs if not job.retired for source in job.left_sources}
    for source in (left | declared).values():
        if names is not None and source.name not in names:
            continue
        readers = [job for job in jobs if source.name in job.all_sources]
        records = _records(reader, domain, source, None if at is None else at.end)
        look = _Look(reader, domain, source_readers, source, readers, records, at)
        try:
            yield from look.found() if source.name in declared else look.found_of_left()
        except EpochError as error:
            yield Unread(source=source, late=(), problem=error)


def passed_over(
    reader: MetadataReader, job: Job, span: Interval, source_readers: SourceReaders
) -> tuple[str, ...]:
    """Return the late files that the next begin would have read if *span* had not been skipped, and no begin reads now.

    A hint: a source that does not answer is left out.
    """
    found: list[str] = []
    first = job.cadence.next_after(span.start)
    jobs = _jobs(reader, job.domain)
    for source in job.sources:
        if source.late is Late.NEXT and source.kind is SourceKind.FILES:
            readers = [other for other in jobs if source.name in other.all_sources]
            records = _records(reader, job.domain, source, shifted(first, -source.reach(job.cadence)))
            look = _Look(reader, job.domain, source_readers, source, readers, records)
            with suppress(EpochError):
                late, following = look.late()[0], look.following
                found += [name for interval, name in late if not look.comes(interval, following)]
    return tuple(found)


def ignored(
    reader: MetadataReader, domain: DomainName, source: Source, source_readers: SourceReaders, until: datetime
) -> tuple[str, ...]:
    """Return the files that came late to *source*, which ignores them, at barriers within its window before *until*.

    :raises SourceUnavailable: the source does not answer.
    """
    if source.late is not Late.IGNORE or source.kind is not SourceKind.FILES:
        return ()
    records = _records(reader, domain, source, until - source.window)
    late, _ = _Look(reader, domain, source_readers, source, [], records).late()
    return tuple(name for _, name in late)


def abandoned(reader: MetadataReader, domain: DomainName, told: Collection[str]) -> Iterator[AbandonedBounds]:
    """Yield the bounds of sources of *domain* that attempts recorded which came to nothing: the newest 1,000 of each.

    :param told: URIs of files of which it is known that no epoch reads them.
    """
    jobs = _jobs(reader, domain)
    sources = {source.name: source for job in jobs if not job.retired for source in job.sources}
    left = {
        source.name: source
        for job in jobs
        for source in job.left_sources
        if not job.retired and source.is_increment and is_read(reader, domain, job, source)
    }
    for source in (left | sources).values():
        if source.looks_around or source.late is Late.REVISION:
            readers = [job for job in jobs if source.name in job.all_sources]
            records = _records(reader, domain, source, None)[:MOST_BARRIERS]
            for found in abandoned_bounds(reader, domain, source, records, readers):
                files = tuple(file for file in found.bounds.files if file.uri not in told)
                first = (
                    found.first
                    if source.name in sources
                    else f"{found.first}declare source {source.name} again, then "
                )
                if files or found.bounds.span is not None:
                    yield replace(found, bounds=replace(found.bounds, files=files), first=first)


def late_revisions(
    reader: MetadataReader, job: Job, epoch: Interval, source_readers: SourceReaders
) -> tuple[Unread, ...]:
    """Return what came late to *epoch* of those sources of *job* of which revisions are made; nothing for others.

    A hint: a source that does not answer is left out.
    """
    names = {source.name for source in job.sources if source.late is Late.REVISION}
    found = unread(reader, job.domain, source_readers, at=epoch, names=names) if names else ()
    return tuple(unread for unread in found if unread.problem is None)


def _jobs(reader: MetadataReader, domain: DomainName) -> list[JobRecord]:
    return [stamped.record for stamped in pages(reader, domain, JobRecord)]


def _records(
    reader: MetadataReader, domain: DomainName, source: Source, since: datetime | None
) -> list[SourceRecord]:
    """The newest revisions at the newest barriers, the newest first; one barrier more than is looked at."""
    found: dict[str, SourceRecord] = {}
    end: str | None = None
    first = "" if since is None else time_key(since)
    while True:
        page = scan(reader, domain, SourceRecord, source.name, end=end, limit=_PAGE, reverse=True)
        for stamped in page:
            barrier = stamped.key.item.partition(":")[0]
            if barrier < first or (barrier not in found and len(found) > MOST_BARRIERS):
                return list(found.values())
            found.setdefault(barrier, stamped.record)
        if len(page) < _PAGE:
            return list(found.values())
        end = page[-1].key.item


@dataclass(frozen=True, slots=True)
class _Look:
    """A look for data of *source* that no epoch reads. :param readers: jobs that read it now, or did so."""

    reader: MetadataReader
    domain: DomainName
    source_readers: SourceReaders
    source: Source
    readers: Sequence[JobRecord]
    records: Sequence[SourceRecord]
    at: Interval | None = None

    def found(self) -> Iterator[Unread]:
        """Yield what lies beside the bounds of a source that jobs declare."""
        source, skipped = self.source, list[SourceRecord]()
        self.source_readers.refuse_missing_folder(source)
        if self.at is None and source.kind is SourceKind.FILES:
            skipped = skipped_bounds(self.reader, self.domain, source, self.readers)
        told_later = {record.interval for record in skipped} if source.late is not Late.REFUSE else set()
        found = [*self._of_declared(told_later)]
        yield from found
        between = self._between([*self.records[:_FINER_BARRIERS], *skipped[-_FINER_BARRIERS:]])
        if between:
            yield _unread(source, between, between=True)
        told = {name for unread in found for name in unread.late}
        # What a job has skipped for one table the job before may have read for others (R5).
        read = {*self._read_by_other_names()} if skipped else set()
        yield from files_of_skipped(source, self.records, self.source_readers, skipped, told | read)
        yield from self._missed(told)
        yield from self._passed(told | {name for _, name in between})

    def _passed(self, told: Collection[str]) -> Iterator[Unread]:
        """Yield what a change of name and location has passed by. :param told: is named already."""
        found: dict[str, Interval] = {}
        for job in self.readers:
            known = (*job.sources, *job.left_sources)
            if not job.retired and any(source.name == self.source.name for source in known):
                recorded = self.records[:MOST_BARRIERS]
                look = MissedFiles(self.reader, self.domain, self.source_readers, self.source, job, recorded)
                found |= {uri: epoch for epoch, uri in passed_files(look, MOST_BARRIERS)}
        passed = [
            (epoch, uri) for uri, epoch in found.items() if uri not in told and self.at in (None, epoch)
        ]
        if passed:
            yield _unread(self.source, passed, passed=True)

    def found_of_left(self) -> Iterator[Unread]:
        """Yield files beside the bounds of a source that its jobs have left, and replaced files within them."""
        if self.source.kind is SourceKind.FILES:
            committed = self._committed_bounds()
            replaced = self.source_readers.unread(self.source, committed, committed)[1]
            if replaced:
                where, left = self._having(replaced), self.source.name
                yield _unread(self.source, (), where, replaced=tuple(replaced), left=left)
            yield from self._missed(())
            between = self._between(self.records[:_FINER_BARRIERS])
            if between:
                yield _unread(self.source, between, between=True)
            yield from self._passed({name for _, name in between})

    def _committed_bounds(self) -> list[SourceRecord]:
        """Return the bounds that committed epochs stand on, of jobs that are not retired."""
        read: set[Interval] = set()
        for job in self.readers:
            if not job.retired:
                look = MissedFiles(self.reader, self.domain, self.source_readers, self.source, job, ())
                epochs = look.epochs().values()
                read |= {epoch.interval for epoch in epochs if committed_source(epoch, self.source.name)}
        wanted = [record for record in self.records[:MOST_BARRIERS] if record.interval in read]
        return [record for record in wanted if self.at is None or record.interval == self.at]

    def _missed(self, told: Collection[str]) -> Iterator[Unread]:
        """Yield what single jobs do not read. :param told: is named already."""
        known = {*told}
        for job in self.readers:
            if job.retired:
                continue
            look = MissedFiles(
                self.reader, self.domain, self.source_readers, self.source, job, self.records[:MOST_BARRIERS]
            )
            declaring = (other for other in self.readers if not other.retired)
            alone = not any(
                source.name == self.source.name for other in declaring for source in other.sources
            )
            groups: dict[Unread, list[MissedFile]] = {}
            for file in look.found():
                if file.uri not in known and (self.at is None or file.epoch == self.at):
                    groups.setdefault(self._group(job, file, alone=alone), []).append(file)
            for group, files in groups.items():
                epochs = group.epochs or tuple(dict.fromkeys(file.epoch for file in files))
                yield replace(group, late=tuple(file.uri for file in files), epochs=epochs)
            named = {file.uri for files in groups.values() for file in files}
            if alone:
                known |= named
            yield from self._taken_over(job, look, known | named)

    def _taken_over(self, job: JobRecord, look: MissedFiles, known: Collection[str]) -> Iterator[Unread]:
        """Yield what tables lack that *job* has taken over. :param known: is named already."""
        files = [
            file
            for file in look.read_for_other_tables()
            if file.uri not in known and self.at in (None, file.epoch)
        ]
        if files:
            epochs = tuple(dict.fromkeys(file.epoch for file in files))
            late = tuple(file.uri for file in files)
            yield Unread(source=self.source, late=late, epochs=epochs, job=job.name, taken_over=True)

    def _group(self, job: JobRecord, file: MissedFile, *, alone: bool) -> Unread:
        """Return what is said of *file* and of others like it. :param alone: no job declares the source any more."""
        if file.belongs_to is not None:
            where = (file.belongs_to,)
            return Unread(source=self.source, late=(), epochs=where, job=job.name, renamed=not file.skipped)
        if not alone:
            return Unread(source=self.source, late=(), job=job.name, renamed=True, left=self.source.name)
        successors = (source for source in job.sources if source.kind is SourceKind.FILES)
        successor = next(
            (source.name for source in successors if lies_at(source, file.epoch, file.uri)), self.source.name
        )
        return Unread(source=self.source, late=(), left=successor)

    def late(self) -> tuple[list[tuple[Interval, str]], list[str]]:
        """Return what lies where bounds are recorded and is within none, with its epoch, and what was replaced."""
        source, at, records = self.source, self.at, self.records
        if not records or source.kind is SourceKind.ICEBERG:
            return [], []
        beyond = records[MOST_BARRIERS] if len(records) > MOST_BARRIERS else None
        wanted = [
            record
            for record in records
            if record is not beyond and (at is None or (record.interval or at) == at)
        ]
        late, replaced = self.source_readers.unread(source, wanted, records)
        if beyond is not None and beyond.interval is not None and source.kind is SourceKind.FILES:
            shared = self.source_readers.place(source, beyond.interval)
            late = [
                (interval, name)
                for interval, name in late
                if self.source_readers.place(source, interval) != shared
            ]
        return late, replaced

    def _between(self, records: Sequence[SourceRecord]) -> list[tuple[Interval, str]]:
        """Return files at locations of parts of epochs that have bounds or were skipped: no begin looks there again."""
        having = (
            job
            for job in self.readers
            if not job.retired and self.source in (*job.sources, *job.left_sources)
        )
        job = next(having, None)
        intervals = dict.fromkeys(record.interval for record in records if record.interval is not None)
        if job is None:
            return []
        found = [
            (interval, name)
            for interval in intervals
            if self.at is None or interval == self.at
            for name in self.source_readers.between(self.source, interval, job.cadence)
        ]
        read = self._read_by(job) if found else ()
        return [(interval, name) for interval, name in found if name not in read]

    def _read_by(self, job: JobRecord) -> Collection[str]:
        """The files that epochs of *job* have read: by another name of a source it may have read those in between."""
        look = MissedFiles(self.reader, self.domain, self.source_readers, self.source, job, ())
        return look.read(look.epochs().values())

    def _read_by_other_names(self) -> Collection[str]:
        """The files that all jobs which declare the source have read, where each has had sources of other names."""
        declaring = [
            job
            for job in self.readers
            if not job.retired and any(source.name == self.source.name for source in job.sources)
        ]
        if self.source.kind is not SourceKind.FILES or not all(job.left_sources for job in declaring):
            return set()
        read = [set(self._read_by(job)) for job in declaring]
        return set.intersection(*read) if read else set()

    @property
    def following(self) -> tuple[datetime, Cadence] | None:
        """The barrier of the next begin, behind all bounds and all that its job has committed or skipped, and the
        job's calendar.
        """
        newest = next((record.interval.end for record in self.records if record.interval is not None), None)
        if newest is None:
            return None
        found = []
        for job in self.readers:
            if not job.retired and any(source.name == self.source.name for source in job.sources):
                committed = _newest_committed(self.reader, self.domain, job) or newest
                last = max(newest, committed, job.origin or newest)
                found.append((job.cadence.next_after(last), job.cadence))
        return min(found, key=lambda following: following[0], default=None)

    def comes(self, interval: Interval, following: tuple[datetime, Cadence] | None) -> bool:
        """Return True if the next begin reads a file late for *interval*. :param following: as the property."""
        if self.source.late is not Late.NEXT or self.source.kind is not SourceKind.FILES or following is None:
            return False
        end, cadence = following
        return interval.end + self.source.reach(cadence) >= end

    def _of_declared(self, told_later: Collection[Interval | None]) -> Iterator[Unread]:
        """:param told_later: skipped epochs: what came late to them, and no later epoch reads, is told with theirs."""
        late, replaced = self.late()
        read = self._read_by_other_names() if late else ()
        late = [(epoch, uri) for epoch, uri in late if uri not in read]
        following = self.following if late else None
        comes = [(epoch, uri) for epoch, uri in late if self.comes(epoch, following)]
        gone = [(epoch, uri) for epoch, uri in late if (epoch, uri) not in comes and epoch not in told_later]
        if comes:
            yield _unread(self.source, comes, comes=True)
        if gone and replaced and self.source.late is Late.IGNORE:
            yield _unread(self.source, gone)  # apart: the step for replaced files is none for ignored ones
            gone = []
        if gone or replaced:
            yield _unread(self.source, gone, self._having(replaced), replaced=tuple(replaced))

    def _having(self, uris: Collection[str]) -> list[Interval | None]:
        """Return the epochs within whose bounds *uris* are."""
        return [
            record.interval
            for record in self.records
            if not {*uris}.isdisjoint(file.uri for file in record.whole.files)
        ]


def _newest_committed(reader: MetadataReader, domain: DomainName, job: JobRecord) -> datetime | None:
    """The end of the newest epoch of *job* that is committed, computed or skipped."""
    end: str | None = None
    while page := scan(reader, domain, EpochRecord, job.name, end=end, limit=_PAGE, reverse=True):
        for stamped in page:
            epoch = stamped.record
            if epoch.committed is not None:
                return epoch.interval.end
        end = page[-1].key.item
    return None


def _unread(
    source: Source, late: Sequence[tuple[Interval, str]], where: Sequence[Interval | None] = (), **more: Any
) -> Unread:
    epochs = tuple(dict.fromkeys([*(interval for interval, _ in late), *filter(None, where)]))
    return Unread(source=source, late=tuple(name for _, name in late), epochs=epochs, **more)
