"""Roots that a job has left for others: files that its epochs have read by the old name are not read again by the new
one, and rows of a table are not read from the beginning once more (I11).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product

from airflow_provider.coordination.commits.root_readers import committed_root, open_root
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.errors import TopologyError
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.interval import Interval, shifted, time_key
from airflow_provider.domain.records import Kind, chain_key, epoch_key, job_key, root_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.roots import BoundFile, Late, Root, RootBounds, RootKind, RootRecord
from airflow_provider.domain.topology import Job
from airflow_provider.sources.locations import lies_at
from airflow_provider.stores.base import Absent, Exists, MetadataReader, Reading, pages, unchanged


def refuse_reading_twice(
    reader: MetadataReader, reading: Reading, job: Job, interval: Interval, bounds: Sequence[RootBounds]
) -> tuple[Exists | Absent, ...]:
    """Refuse what other epochs of *job* have read by a root that this declaration does not have.

    By ``late="next"`` an epoch reads files that came late to earlier ones. A root of another name for the same folder
    does not know of them.

    :param reading: has the job's record. :param bounds: what an attempt at *interval* would read.
    :return: the chains and epochs that were looked at, as they were.
    :raises TopologyError: naming a file, and the epoch that has read it.
    """
    known = reading.get(job_key(job.domain, job.name))
    if known is None:
        return ()
    left = _left_roots(known.record, job)
    roots = {root.name: root for root in job.roots}
    chains = [chain_key(job.domain, old.name) for old in left]
    before = reader.read(job.domain, chains) if chains else reading
    required = [unchanged(before, chain) for chain in chains]
    refuse_from_the_beginning(reader, job.domain, job, [known.record])
    left = [old for old in left if old.kind is RootKind.FILES]
    required += _epochs_of_late_files(reader, job, interval, bounds) if left else ()
    for old in left:
        for other, files, epoch in _reads_around(reader, (job, known.record.writers), interval, old):
            required.append(epoch)
            for found in bounds:
                twice = _read_twice(roots[found.root], found, other, files)
                if twice:
                    raise _reading_twice(job, interval, found.root, old=old, other=other, files=twice)
    return tuple(required)


def _left_roots(known: JobRecord, job: Job) -> list[Root]:
    """Return the roots of other declarations of *job* that may have read what this declaration reads.

    Of two epochs that read one file by two names, one has read it late, by ``late="next"``: by the name that is left,
    or by the one that is declared.
    """
    declared = {root.name: root for root in job.roots}
    reads_late = any(_reads_late(root) for root in job.roots)
    return [
        old
        for old in (*known.roots, *known.left_roots)
        if (old.name not in declared or (_reads_late(old) and not _reads_late(declared[old.name])))
        and (
            _reads_late(old)
            or (reads_late and old.kind is RootKind.FILES)
            or any(_is_same_increment(root, old) for root in job.roots)
        )
    ]


def _reads_late(root: Root) -> bool:
    """Whether an epoch reads files of earlier ones."""
    return root.kind is RootKind.FILES and root.late is Late.NEXT


def _epochs_of_late_files(
    reader: MetadataReader, job: Job, interval: Interval, bounds: Sequence[RootBounds]
) -> list[Exists | Absent]:
    """Return the epochs at whose places *bounds* have files, as they are before the other roots are looked at.

    One of them that begins meanwhile by a root without a chain reads these files, too.
    """
    roots = {root.name: root for root in job.roots}
    late: set[Interval] = set()
    for found in bounds:
        root = roots[found.root]
        uris = [file.uri for file in found.files if not lies_at(root, interval, file.uri)]
        recorded = _recorded_around(reader, job, interval, root) if uris else ()
        late |= {epoch for epoch in recorded if any(lies_at(root, epoch, uri) for uri in uris)}
    keys = [epoch_key(job.domain, job.name, epoch.start) for epoch in sorted(late, key=lambda one: one.start)]
    reading = reader.read(job.domain, keys) if keys else None
    return [unchanged(reading, key) for key in keys] if reading else []


def _reads_around(
    reader: MetadataReader, asking: tuple[Job, Sequence[JobName]], interval: Interval, root: Root
) -> Iterator[tuple[Interval, Collection[BoundFile], Exists | Absent]]:
    """Yield what the epochs around *interval* stand on of *root*, each with its record as it was.

    :param asking: the job, and those that have computed epochs of its tables.
    """
    job, writers = asking
    recorded = _recorded_around(reader, job, interval, root)
    keys = {(epoch, one): epoch_key(job.domain, one, epoch.start) for epoch in recorded for one in writers}
    found = reader.read(job.domain, list(keys.values())) if keys else None
    for (epoch, _), key in keys.items():
        stamped = None if found is None else found.get(key)
        record: EpochRecord | None = stamped.record if stamped else None
        if found is None or record is None or record.interval != epoch:
            continue
        revisions = {committed_root(record, root.name), open_root(record.attempt, root.name)} - {0}
        known = recorded[epoch]
        # What came since it was recorded is of a later revision: it is looked up by its name.
        later = [root_key(job.domain, root.name, epoch.end, one) for one in revisions if one not in known]
        new = reader.read(job.domain, later).records.values() if later else ()
        bounds = [*(known[one] for one in revisions if one in known), *(one.record for one in new)]
        yield epoch, [file for one in bounds for file in one.whole.files], unchanged(found, key)


def _recorded_around(
    reader: MetadataReader, job: Job, interval: Interval, root: Root
) -> Mapping[Interval, Mapping[int, RootRecord]]:
    """Return the bounds of *root* at other barriers within its reach, by their epoch and revision."""
    reach = root.reach(job.cadence)
    first, last = (time_key(shifted(interval.end, by)) for by in (-reach, reach))
    found: dict[Interval, dict[int, RootRecord]] = {}
    for stamped in pages(reader, job.domain, Kind.ROOT, root.name, start=first):
        record: RootRecord = stamped.record
        if stamped.key.item.partition(":")[0] > last:
            break
        if record.interval is not None and record.interval.end != interval.end:
            found.setdefault(record.interval, {})[record.bounds.revision] = record
    return found


def _read_twice(root: Root, bounds: RootBounds, other: Interval, files: Collection[BoundFile]) -> list[str]:
    """Return the *files*, read by the epoch *other*, that are within *bounds*, too.

    A root that ignores what comes late gives each epoch all files of a folder that several share, as it says.
    """
    own = {file.uri for file in bounds.files}
    shared = [file.uri for file in files if file.uri in own]
    if root.late is Late.IGNORE:
        return [uri for uri in shared if not lies_at(root, other, uri)]
    return shared


def _reading_twice(
    job: Job, interval: Interval, name: str, *, old: Root, other: Interval, files: Sequence[str]
) -> TopologyError:
    return TopologyError(
        f"{job.name} {interval}: root {name!r} finds {len(files)} files, such as {files[0]}, that {other} has read as "
        f"root {old.name!r}, which this declaration of the job lacks: their rows would be counted twice.",
        next_step="leave the epoch as it is (`airflow epochs skip` where it is not committed); or run it by a "
        f"declaration of the job that reads {old.name!r}: an earlier one serves the epochs that ask by it.",
        job=job.name,
        interval=interval,
        root=name,
        files=tuple(files),
        read_by=other,
    )


def refuse_from_the_beginning(
    reader: MetadataReader, domain: DomainName, job: Job, before: Collection[JobRecord]
) -> None:
    """Refuse a new name for a table whose rows are read once each: its first epoch would read all of them again.

    :param before: the job as it was, and jobs whose tables it takes over.
    :raises TopologyError: naming both roots.
    """
    for record in before:
        for root, old in product(job.roots, (*record.roots, *record.left_roots)):
            is_new = root.name != old.name and _is_same_increment(root, old)
            if is_new and is_read(reader, domain, record, old) and not is_read(reader, domain, record, root):
                raise TopologyError(
                    f"job {job.name!r}: root {root.name!r} is {root.place}, of which root {old.name!r} has read rows "
                    "for the same tables: the first epoch of a new name reads all that is there, these rows again.",
                    next_step=f"keep the name {old.name!r}; to read the table from its beginning, declare the root in "
                    "another job, with tables of its own.",
                    root=root.name,
                    expected=old.name,
                )


def _is_same_increment(root: Root, old: Root) -> bool:
    """Whether both read the rows of one table once each."""
    same = (old.kind, old.source, _table(old)) == (root.kind, root.source, _table(root))
    return same and root.is_increment and old.is_increment


def _table(root: Root) -> str:
    """The table of *root*, with the schema that PostgreSQL looks into where none is named."""
    return root.table if root.kind is not RootKind.JDBC or "." in root.table else f"public.{root.table}"


def is_read(reader: MetadataReader, domain: DomainName, job: JobRecord, root: Root) -> bool:
    """Whether an epoch of *job* or its predecessors that is committed or open stands on *root*."""
    epochs = (stamped.record for name in job.writers for stamped in pages(reader, domain, Kind.EPOCH, name))
    return any(committed_root(epoch, root.name) or open_root(epoch.attempt, root.name) for epoch in epochs)
