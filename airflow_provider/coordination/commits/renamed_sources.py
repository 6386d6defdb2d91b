"""Sources that a job has left for others: files that its epochs have read by the old name are not read again by the new
one, and rows of a table are not read from the beginning once more (I11).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import product

from airflow_provider.coordination.commits.source_dependents import committed_source, open_source
from airflow_provider.domain.between import stays_same
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.errors import TopologyError
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.interval import Interval, shifted, time_key
from airflow_provider.domain.local_paths import plain
from airflow_provider.domain.records import chain_key, epoch_key, job_key, source_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import (
    BoundFile,
    Late,
    Source,
    SourceBounds,
    SourceKind,
    SourceRecord,
)
from airflow_provider.domain.topology import Job
from airflow_provider.sources.locations import lies_at
from airflow_provider.stores.base import Absent, Exists, MetadataReader, Reading, pages, unchanged

_AT_ONCE = 500
"""Number of epochs that are read together."""


def refuse_reading_twice(
    reader: MetadataReader, reading: Reading, job: Job, interval: Interval, bounds: Sequence[SourceBounds]
) -> tuple[Exists | Absent, ...]:
    """Refuse what other epochs of *job* have read by a source that this declaration does not have.

    By ``late="next"`` an epoch reads files that came late to earlier ones. A source of another name for the same folder
    does not know of them.

    :param reading: has the job's record. :param bounds: what an attempt at *interval* would read.
    :return: the chains and epochs that were looked at, as they were: an epoch that records bounds by a left name
        meanwhile, or begins on recorded ones for the first time, writes its chain; each later begin writes its epoch.
    :raises TopologyError: naming a file, and the epoch that has read it.
    """
    known = reading.get(job_key(job.domain, job.name))
    if known is None:
        return ()
    left = _left_sources(known.record, job)
    sources = {source.name: source for source in job.sources}
    chains = [chain_key(job.domain, old.name) for old in left]
    before = reader.read(job.domain, chains) if chains else reading
    required = [unchanged(before, chain) for chain in chains]
    refuse_from_the_beginning(reader, job.domain, job, [known.record])
    left = [old for old in left if old.kind is SourceKind.FILES]
    asking = (job, known.record.writers)
    for old in left:
        for other, files, epoch in _reads_around(reader, asking, interval, old, bounds):
            required.append(epoch)
            for found in bounds:
                twice = _read_twice(sources[found.source], found, other, files)
                if twice:
                    raise _reading_twice(job, interval, found.source, old=old, other=other, files=twice)
    return tuple(required)


def _left_sources(known: JobRecord, job: Job) -> list[Source]:
    """Return the sources of other declarations of *job* that may have read what this declaration reads.

    Of two epochs that read one file by two names, one has read it late, by ``late="next"``: by the name that is left,
    or by the one that is declared. Or else their locations are not the same: ``{end}`` of an epoch is ``{start}`` of
    the next, and that of a year the place of each of its days.
    """
    declared = {source.name: source for source in job.sources}
    reads_late = any(_reads_late(source) for source in job.sources)
    places = {source.location for source in job.sources if source.kind is SourceKind.FILES}
    return [
        old
        for old in (*known.sources, *known.left_sources)
        if (old.name not in declared or (_reads_late(old) and not _reads_late(declared[old.name])))
        and (
            _reads_late(old)
            or (reads_late and old.kind is SourceKind.FILES)
            or (old.kind is SourceKind.FILES and bool(places - {old.location}))
            or any(_is_same_increment(source, old) for source in job.sources)
        )
    ]


def _reads_late(source: Source) -> bool:
    """Return True if an epoch reads files of earlier ones."""
    return source.kind is SourceKind.FILES and source.late is Late.NEXT


def _reads_around(
    reader: MetadataReader,
    asking: tuple[Job, Sequence[JobName]],
    interval: Interval,
    source: Source,
    bounds: Sequence[SourceBounds],
) -> Iterator[tuple[Interval, Collection[BoundFile], Exists | Absent]]:
    """Yield what the epochs around *interval* stand on of *source*, each with its record as it was.

    Of those beyond the windows only what has a file of *bounds*: there may be thousands.

    :param asking: the job, and those that have computed epochs of its tables.
    """
    job, writers = asking
    window, has_files = _window(job, source), any(found.files for found in bounds)
    around = _recorded_around(reader, job, interval, source, _reach(job, source) if has_files else window)
    recorded = [
        epoch
        for epoch, known in around.items()
        if abs(epoch.end - interval.end) <= window or _has_any(job, bounds, epoch, known)
    ]
    for first in range(0, len(recorded), _AT_ONCE):
        epochs = recorded[first : first + _AT_ONCE]
        keys = {
            (epoch, name): epoch_key(job.domain, name, epoch.start) for epoch in epochs for name in writers
        }
        found = reader.read(job.domain, list(keys.values()))
        for (epoch, _), key in keys.items():
            stamped = found.get(key)
            if stamped is not None and stamped.record.interval == epoch:
                files = _files_of(reader, job, source, stamped.record, around[epoch])
                yield epoch, files, unchanged(found, key)


def _files_of(
    reader: MetadataReader, job: Job, source: Source, epoch: EpochRecord, known: Mapping[int, SourceRecord]
) -> list[BoundFile]:
    """Return the files of *source* that *epoch* stands on, committed or open. :param known: bounds, by revision."""
    revisions = {committed_source(epoch, source.name), open_source(epoch.attempt, source.name)} - {0}
    # What came since it was recorded is of a later revision: it is looked up by its name.
    later = [
        source_key(job.domain, source.name, epoch.interval.end, revision)
        for revision in revisions
        if revision not in known
    ]
    new = reader.read(job.domain, later).records.values() if later else ()
    bounds = [
        *(known[revision] for revision in revisions if revision in known),
        *(stamped.record for stamped in new),
    ]
    return [file for record in bounds for file in record.whole.files]


def _has_any(
    job: Job, bounds: Sequence[SourceBounds], epoch: Interval, known: Mapping[int, SourceRecord]
) -> bool:
    """Return True if *bounds* have files that *epoch* may have read: they are within one of its *known* revisions."""
    files = [file for record in known.values() for file in record.whole.files]
    sources = {source.name: source for source in job.sources}
    return any(_read_twice(sources[found.source], found, epoch, files) for found in bounds)


def _reach(job: Job, source: Source) -> timedelta | None:
    """Return the distance at which other epochs may have read a file of an epoch's place as *source*; None is any.

    As far as the locations stay the same, beside the windows; by ``{end}`` an epoch looks one farther than by
    ``{start}``.
    """
    mine = [stays_same(own.location) for own in job.sources if own.kind is SourceKind.FILES]
    spans = [span for span in (stays_same(source.location), *mine) if span is not None]
    if len(spans) <= len(mine):
        return None
    return _window(job, source) + job.cadence.longest + spans[0] + max(spans[1:], default=timedelta(0))


def _window(job: Job, source: Source) -> timedelta:
    """Return the distance at which any of the names looks for late files.

    A name that looks back farther finds files which the other has read late, in epochs that the other's window does
    not reach.
    """
    return max(other.reach(job.cadence) for other in (source, *job.sources))


def _recorded_around(
    reader: MetadataReader, job: Job, interval: Interval, source: Source, reach: timedelta | None
) -> Mapping[Interval, Mapping[int, SourceRecord]]:
    """Return the bounds of *source* at other barriers within *reach*, by their epoch and revision; None is all."""
    first = None if reach is None else time_key(shifted(interval.end, -reach))
    last = None if reach is None else time_key(shifted(interval.end, reach))
    found: dict[Interval, dict[int, SourceRecord]] = {}
    for stamped in pages(reader, job.domain, SourceRecord, source.name, start=first):
        record = stamped.record
        if last is not None and stamped.key.item.partition(":")[0] > last:
            break
        if record.interval is not None and record.interval.end != interval.end:
            found.setdefault(record.interval, {})[record.bounds.revision] = record
    return found


def _read_twice(
    source: Source, bounds: SourceBounds, other: Interval, files: Collection[BoundFile]
) -> list[str]:
    """Return the *files*, read by the epoch *other*, that are within *bounds*, too.

    A source that ignores what comes late gives each epoch all files of a folder that several share, as it says.
    """
    own = {plain(file.uri) for file in bounds.files}
    shared = [file.uri for file in files if plain(file.uri) in own]
    if source.late is Late.IGNORE:
        return [uri for uri in shared if not lies_at(source, other, plain(uri))]
    return shared


def _reading_twice(
    job: Job, interval: Interval, name: str, *, old: Source, other: Interval, files: Sequence[str]
) -> TopologyError:
    return TopologyError(
        f"{job.name} {interval}: source {name!r} finds {len(files)} files, such as {files[0]}, that {other} has read "
        f"as source {old.name!r}, which this declaration of the job lacks: their rows would be counted twice.",
        next_step="leave the epoch as it is (`airflow epochs skip` where it is not committed); or run it by a "
        f"declaration of the job that reads {old.name!r}: an earlier one serves the epochs that ask by it.",
        job=job.name,
        interval=interval,
        source=name,
        files=tuple(files),
        read_by=other,
    )


def refuse_from_the_beginning(
    reader: MetadataReader, domain: DomainName, job: Job, before: Collection[JobRecord]
) -> None:
    """Refuse a new name for a table whose rows are read once each: its first epoch would read all of them again.

    :param before: the job as it was, and jobs whose tables it takes over.
    :raises TopologyError: naming both sources.
    """
    for record in before:
        for source, old in product(job.sources, (*record.sources, *record.left_sources)):
            is_new = source.name != old.name and _is_same_increment(source, old)
            if (
                is_new
                and is_read(reader, domain, record, old)
                and not is_read(reader, domain, record, source)
            ):
                raise TopologyError(
                    f"job {job.name!r}: source {source.name!r} is {source.place}, of which source {old.name!r} has "
                    "read rows for the same tables: the first epoch of a new name reads all that is there, these "
                    "rows again.",
                    next_step=f"keep the name {old.name!r}; to read the table from its beginning, declare the source "
                    "in another job, with tables of its own.",
                    source=source.name,
                    expected=old.name,
                )


def _is_same_increment(source: Source, old: Source) -> bool:
    """Return True if both read the rows of one table once each."""
    same = (old.kind, old.connection, _table(old)) == (source.kind, source.connection, _table(source))
    return same and source.is_increment and old.is_increment


def _table(source: Source) -> str:
    """The table of *source*, with the schema that PostgreSQL looks into where none is named."""
    return (
        source.table
        if source.kind is not SourceKind.JDBC or "." in source.table
        else f"public.{source.table}"
    )


def is_read(reader: MetadataReader, domain: DomainName, job: JobRecord, source: Source) -> bool:
    """Return True if an epoch of *job* or its predecessors that is committed or open stands on *source*."""
    epochs = (stamped.record for name in job.writers for stamped in pages(reader, domain, EpochRecord, name))
    return any(
        committed_source(epoch, source.name) or open_source(epoch.attempt, source.name) for epoch in epochs
    )
