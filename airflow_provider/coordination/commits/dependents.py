"""Dependents of committed epochs: they keep a revision from publishing alone (R18)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from airflow_provider.coordination.commits.history import committed_at
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.dependent import Dependent
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.errors import DependentReaders, TopologyError
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval, shifted, time_key
from airflow_provider.domain.readers import depends_on, last_dependent_end
from airflow_provider.domain.records import Stamped, table_key
from airflow_provider.domain.registration import JobRecord, readers_of
from airflow_provider.domain.topology import Edge, Job
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.stores.base import Exists, MetadataReader, Reading, pages


def _never(_job: JobName, _interval: Interval, _committed: datetime) -> bool:
    return False


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """Committed readers that do not keep a commit from changing what they have read (R28).

    :param members: epochs that the same commit computes again.
    :param is_released: returns True for an epoch, by the time of its commit, that may stay on what it has read by
        ``hold`` edges.
    """

    members: Collection[tuple[JobName, Interval]] = ()
    is_released: Callable[[JobName, Interval, datetime], bool] = _never


ALONE = Beside()
"""Of a commit that is no restatement's: every committed reader keeps it back."""


def reading_jobs(reader: MetadataReader, domain: DomainName, tables: Iterable[TableName]) -> list[JobRecord]:
    """Return the jobs with an edge on one of *tables*."""
    jobs = [stamped.record for stamped in pages(reader, domain, JobRecord)]
    names = set(tables)
    return [job for job in jobs if any(edge.table in names for edge in job.all_edges)]


def refuse_aligned_readers(
    reader: MetadataReader, reading: Reading, job: Job, readers: Iterable[JobRecord]
) -> None:
    """Refuse to change the calendar of a table under readers that are beyond the change.

    An ``as_of`` edge reads the last barrier of the calendar: another calendar would give another state to a second
    reader of the same barrier (protocol section 4).

    :param reading: has the tables of *job*, with the calendars by which they are read now, including those that it
        takes over, and those that it had left. :param readers: the domain's jobs.
    :raises TopologyError: an epoch of one of them, committed or open, has aligned with a barrier beyond the change.
    """
    readers = [*readers]
    for table in job.outputs:
        known = reading.get(table_key(job.domain, table.name))
        since = job.cadence.until(known.record.cadence) if known else None
        if since is not None:
            for other in readers:
                _refuse_aligned_reader(reader, job.domain, table.name, since, other)


def _refuse_aligned_reader(
    reader: MetadataReader, domain: DomainName, table: TableName, since: datetime, job: JobRecord
) -> None:
    lags = [edge.as_of for edge in job.all_edges if edge.as_of is not None and edge.table == table]
    if not lags:
        return
    beyond = shifted(since, min(lags))
    start = time_key(job.cadence.floor(beyond))
    epochs = (stamped.record for stamped in pages(reader, domain, EpochRecord, job.name, start=start))
    read = [epoch.interval for epoch in epochs if epoch.interval.end > beyond and _reads(epoch)]
    if read:
        last = max(read, key=lambda interval: interval.end)
        raise TopologyError(
            f"the cadence of {table} cannot change at {since.isoformat()}: job {job.name!r} reads as_of, and has "
            f"computed {last}, or computes it, by the calendar as it is.",
            next_step=f"let it change at {last.end.isoformat()} or a later barrier of both.",
            table=table,
            barrier=since,
            interval=last,
            readers=(Dependent(job=job.name, interval=last, tables=(table,)),),
        )


def _reads(epoch: EpochRecord) -> bool:
    return epoch.committed is not None or (epoch.attempt is not None and epoch.attempt.aborted is None)


def refuse_dependents(
    reader: MetadataReader,
    domain: DomainName,
    tables: Sequence[TableName],
    interval: Interval,
    defaults: Defaults,
    *,
    commits: Interval | None = None,
    beside: Beside = ALONE,
) -> None:
    """Refuse to change *interval* of *tables* while committed epochs have read it.

    :param commits: the epoch whose commit changes it, by itself or by what becomes visible with it; None for others.
    :param beside: the readers that do not count.
    :raises DependentReaders: with the first of them, each once.
    """
    read: dict[tuple[JobName, Interval], dict[TableName, bool]] = {}
    jobs = [stamped.record for stamped in pages(reader, domain, JobRecord)]
    for table in tables:
        full = any(
            output.name == table and not output.kind.accumulates for job in jobs for output in job.outputs
        )
        for job, edge in readers_of(table, jobs):
            found = _dependents(reader, domain, (job, edge), interval, commits, full=full)
            dependents = (
                (stamped.record.interval, held)
                for stamped, held in found
                if (job.name, stamped.record.interval) not in beside.members
                and not (held and _is_released(reader, domain, beside, job.name, stamped))
            )
            for epoch, held in islice(dependents, defaults.listed_readers):
                read.setdefault((job.name, epoch), {})[table] = held
    left = [
        Dependent(job=job, interval=epoch, tables=tuple(names), held=all(names.values()))
        for (job, epoch), names in read.items()
    ]
    if left:
        raise DependentReaders.of(
            f"{interval} of {', '.join(tables)} cannot change: committed epochs have read it",
            tuple(left),
            maybe_more=len(left) >= defaults.listed_readers,
            next_step="compute them again with it (`airflow epochs restate plan` shows what that takes), or leave it; "
            "a skipped epoch among them can be computed first.",
            interval=interval,
        )


def _is_released(
    reader: MetadataReader, domain: DomainName, beside: Beside, job: JobName, epoch: Stamped[EpochRecord]
) -> bool:
    return beside.is_released(job, epoch.record.interval, committed_at(reader, domain, epoch))


def together(spans: Mapping[TableName, Interval | None]) -> Mapping[Interval, Sequence[TableName]]:
    """Group tables by the time that changes in them; leave out those in which none does."""
    found: dict[Interval, list[TableName]] = {}
    for name, span in spans.items():
        if span is not None:
            found.setdefault(span, []).append(name)
    return found


def rewrite_requirements(
    store: MetadataReader,
    domain: DomainName,
    tables: Sequence[TableName],
    interval: Interval,
    topology: Stamped[TopologyRecord],
    *,
    defaults: Defaults,
    own: Collection[TableName] = (),
    commits: Interval | None = None,
    beside: Beside = ALONE,
) -> list[Exists]:
    """Return requirements that keep readers from committing on *interval* of *tables* while it is replaced.

    They pin the topology and the tables of all readers to the versions before their epochs were read, so no reader's
    first commit and no new reader slips in between.

    :param topology: as it was read before. :param own: tables whose records the caller requires anyway.
    :param commits: as of :func:`refuse_dependents`. :param beside: likewise.
    :raises DependentReaders: committed epochs have read it.
    """
    jobs = [stamped.record for stamped in pages(store, domain, JobRecord)]
    names = {name for table in tables for job, _ in readers_of(table, jobs) for name in job.all_outputs}
    keys = [table_key(domain, name) for name in sorted(names - {*tables, *own})]
    # Versions before epochs: a reader whose commit the epochs do not show yet moves a version that is required.
    found = store.read(domain, keys)
    refuse_dependents(store, domain, tables, interval, defaults, commits=commits, beside=beside)
    return [
        Exists(topology.key, topology.version),
        *(Exists(key, found.of(key).version) for key in keys),
    ]


def _dependents(
    reader: MetadataReader,
    domain: DomainName,
    reading: tuple[JobRecord, Edge],
    interval: Interval,
    commits: Interval | None,
    *,
    full: bool,
) -> Iterator[tuple[Stamped[EpochRecord], bool]]:
    """Yield committed epochs of a job that read a part of *interval* by its edge, oldest first.

    With each: True if it has read that by ``hold`` edges only.
    """
    job, edge = reading
    end = last_dependent_end(edge, interval, full=full)
    for stamped in pages(
        reader, domain, EpochRecord, job.name, start=time_key(job.cadence.last_before(interval.start))
    ):
        epoch = stamped.record
        if end is not None and epoch.interval.start >= end:
            return
        if depends_on(epoch, edge.table, interval, commits=commits, full=full):
            held = not depends_on(epoch, edge.table, interval, commits=commits, full=full, released=True)
            yield stamped, held
