"""Plan of a restatement: its members, what it would cost, and what stands in its way; changes nothing (R28)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from shlex import quote

from airflow_provider.coordination.attempts.others_rows import refuse_others_rows
from airflow_provider.coordination.attempts.state_log import state_log
from airflow_provider.coordination.commits.expired_states import ExpiredStates, expired_states
from airflow_provider.coordination.commits.open_restatements import open_restatements
from airflow_provider.coordination.commits.similar_names import meant_of
from airflow_provider.coordination.commits.stayed_rows import tables_with_rows
from airflow_provider.coordination.restating.closure import (
    Closure,
    Epochs,
    HeldEpoch,
    closure,
    committed_in,
)
from airflow_provider.domain import sizes
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.epoch import EpochRecord, EpochState
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import InvalidInput, TopologyError, UnknownName
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped, epoch_key, retention_key, table_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.restatement import HeldEpochs, JobEpochs, RestatementRecord, lacking_tables
from airflow_provider.domain.retention import full_states_read
from airflow_provider.domain.schedule import ExplicitInterval, run_interval
from airflow_provider.domain.topology import OnUpstreamRevision
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader, Reading, StoreCapability, pages

_SAMPLES = 3
_PAGE = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Epochs that a restatement would compute again.

    :param asked: those that were asked for. :param members: these, and all committed ones that have read them.
    :param uncommitted: epochs of the range without a commit, which normal runs compute.
    :param held: committed ones that have read them by ``hold`` edges: it is published once each has joined it or is
        released. :param released: those of them that stay.
    :param obstacles: what keeps it from being opened, each with its way out; empty if nothing does.
    :param expected: time that the members took when they were computed last, one after the other, by a sample.
    """

    asked: tuple[JobEpochs, ...]
    members: tuple[JobEpochs, ...]
    uncommitted: int
    obstacles: tuple[str, ...]
    expected: timedelta
    held: tuple[HeldEpochs, ...] = ()
    released: tuple[JobEpochs, ...] = ()

    @property
    def size(self) -> int:
        """Number of members."""
        return sum(len(found.intervals) for found in self.members)


def plan(
    reader: MetadataReader, domain: DomainName, names: Sequence[str], interval: ExplicitInterval
) -> Plan:
    """Return what a restatement of *interval* of the jobs or tables *names* would compute.

    :raises UnknownName: no job and no table of that name.
    :raises InvalidInput: no name, an interval that cannot be read, or without a committed epoch.
    """
    # An operator's interval may be a template that renders to nothing; a plan's is always meant.
    if not interval:
        raise InvalidInput(
            field="interval",
            value=interval,
            expected="a day such as 2024-05-01, or START/END, each an ISO 8601 time",
        )
    jobs = [stamped.record for stamped in pages(reader, domain, JobRecord)]
    asked, uncommitted = dict[JobName, list[EpochRecord]](), 0
    for name in dict.fromkeys(names):
        job = _meant(reader, domain, jobs, name)
        span = run_interval(job.cadence, explicit=interval)
        asked[job.name] = committed_in(reader, domain, job, span)
        uncommitted += max(0, len(job.cadence.split(span)) - len(asked[job.name]))
    if not any(asked.values()):
        raise InvalidInput(
            field="interval",
            value=str(interval),
            expected=f"an interval that has committed epochs of {', '.join(names) or 'a job or a table'}; it has none",
            next_step="normal runs compute it; `airflow epochs status` shows up to when each job is complete.",
        )
    return _planned(reader, domain, jobs, asked, uncommitted=uncommitted)


def plan_of(reader: MetadataReader, domain: DomainName, epochs: Iterable[tuple[JobName, Interval]]) -> Plan:
    """Return what a restatement of the committed *epochs* would compute."""
    jobs = [stamped.record for stamped in pages(reader, domain, JobRecord)]
    return _planned(reader, domain, jobs, _records(reader, domain, epochs))


def replanned(
    reader: MetadataReader,
    domain: DomainName,
    name: RestatementId,
    record: RestatementRecord,
    *,
    joining: Iterable[tuple[JobName, Interval]] = (),
    stays: Callable[[HeldEpoch], bool] | None = None,
) -> Plan:
    """Return the plan of the open restatement *name* with what was committed since; it keeps all its members.

    :param joining: held epochs that become members.
    :param stays: returns True for a held epoch that was released; by default those that *record* names.
    """
    jobs = [stamped.record for stamped in pages(reader, domain, JobRecord)]
    found = _records(reader, domain, [*record.epochs, *joining])
    return _planned(reader, domain, jobs, found, opened=name, stays=stays or released_by(record))


@dataclass(frozen=True, kw_only=True, slots=True)
class Holding:
    """Epochs that have read by ``hold`` edges what an open restatement replaces.

    :param held: those that need a decision. :param released: those that stay.
    """

    held: tuple[HeldEpochs, ...] = ()
    released: tuple[JobEpochs, ...] = ()


def holding(reader: MetadataReader, domain: DomainName, record: RestatementRecord) -> Holding:
    """Return the committed epochs that hold an open restatement."""
    jobs = [stamped.record for stamped in pages(reader, domain, JobRecord)]
    edges = [edge for job in jobs for edge in job.all_edges]
    if not any(edge.on_upstream_revision is OnUpstreamRevision.HOLD for edge in edges):
        return Holding()
    return _holding(
        closure(reader, domain, jobs, _records(reader, domain, record.epochs)), released_by(record)
    )


def _holding(found: Closure, stays: Callable[[HeldEpoch], bool] | None) -> Holding:
    staying, waiting = list[HeldEpoch](), list[HeldEpoch]()
    for held in found.held:
        (staying if stays is not None and stays(held) else waiting).append(held)
    return Holding(held=_grouped(waiting), released=_listed(_by_job(staying)))


def released_by(record: RestatementRecord) -> Callable[[HeldEpoch], bool]:
    """Return a function that tells whether *record* releases a held epoch."""
    return lambda held: record.is_released(held.job, held.epoch.interval, held.committed_at)


def _records(
    reader: MetadataReader, domain: DomainName, epochs: Iterable[tuple[JobName, Interval]]
) -> dict[JobName, list[EpochRecord]]:
    keys = [epoch_key(domain, job, interval.start) for job, interval in dict.fromkeys(epochs)]
    found: dict[JobName, list[EpochRecord]] = {}
    for start in range(0, len(keys), _PAGE):
        page = keys[start : start + _PAGE]
        reading = reader.read(domain, page)
        for key in page:
            found.setdefault(JobName(key.partition), []).append(reading.of(key).record)
    return found


def _planned(
    reader: MetadataReader,
    domain: DomainName,
    jobs: Sequence[JobRecord],
    asked: Epochs,
    *,
    uncommitted: int = 0,
    opened: RestatementId | None = None,
    stays: Callable[[HeldEpoch], bool] | None = None,
) -> Plan:
    whole = closure(reader, domain, jobs, {name: epochs for name, epochs in asked.items() if epochs})
    found, outside = whole.members, _holding(whole, stays)
    return Plan(
        asked=_listed(asked),
        members=_listed(found),
        uncommitted=uncommitted,
        obstacles=tuple(_Obstacles(reader, domain, jobs, found, opened).all()),
        expected=_expected(reader, domain, found),
        held=outside.held,
        released=outside.released,
    )


def _meant(reader: MetadataReader, domain: DomainName, jobs: Sequence[JobRecord], name: str) -> JobRecord:
    """Return the job *name*, or the job that owns the table *name*."""
    found = next((job for job in jobs if job.name == name), None)
    if found is not None:
        return found
    key = table_key(domain, TableName(name))
    stamped = reader.read(domain, [key]).get(key)
    if stamped is None and not jobs:
        raise UnknownName(
            f"domain {domain!r} has no job.",
            next_step="name another domain; `airflow epochs status` says which have jobs.",
            domain=domain,
        )
    if stamped is None:
        known = [str(word) for job in jobs for word in (job.name, *(table.name for table in job.outputs))]
        raise UnknownName(
            f"domain {domain!r} has no job and no table {name!r}{meant_of(name, known) or '.'}",
            next_step="see `airflow epochs status` for both.",
            domain=domain,
            table=name,
        )
    return next(job for job in jobs if job.name == stamped.record.job)


def _listed(epochs: Mapping[JobName, Sequence[EpochRecord]]) -> tuple[JobEpochs, ...]:
    return tuple(
        JobEpochs(job=job, intervals=tuple(epoch.interval for epoch in found))
        for job, found in sorted(epochs.items())
        if found
    )


def _by_job(held: Iterable[HeldEpoch]) -> dict[JobName, list[EpochRecord]]:
    found: dict[JobName, list[EpochRecord]] = {}
    for entry in held:
        found.setdefault(entry.job, []).append(entry.epoch)
    return found


def _grouped(held: Iterable[HeldEpoch]) -> tuple[HeldEpochs, ...]:
    """Return the epochs of each job that have read the same tables together."""
    found: dict[tuple[JobName, tuple[TableName, ...]], list[Interval]] = {}
    for entry in held:
        tables = tuple(sorted({read.table for read in entry.reads}))
        found.setdefault((entry.job, tables), []).append(entry.epoch.interval)
    return tuple(
        HeldEpochs(job=job, tables=tables, intervals=tuple(intervals))
        for (job, tables), intervals in sorted(found.items())
    )


def _expected(
    reader: MetadataReader, domain: DomainName, members: Mapping[JobName, Sequence[EpochRecord]]
) -> timedelta:
    whole = timedelta()
    for job, epochs in members.items():
        took = [_took(reader, EpochId(domain, job, epoch.interval), epoch) for epoch in epochs[-_SAMPLES:]]
        whole += sum(took, timedelta()) / len(took) * len(epochs)
    return whole


def _took(reader: MetadataReader, name: EpochId, epoch: EpochRecord) -> timedelta:
    """Return the time from the begin of the attempt that was committed until all of it was there.

    Its commit may have waited for a group, or for the approval of a restatement.
    """
    token = epoch.committed.token if epoch.committed else 0
    log = [entry for entry in state_log(reader, name) if entry.record.token == token]
    begun = [entry.at for entry in log if entry.record.state is EpochState.OPEN]
    done = [entry.at for entry in log if entry.record.state in (EpochState.WRITTEN, EpochState.CHECKED)]
    return max(done) - min(begun) if begun and done else timedelta()


@dataclass(frozen=True, slots=True)
class _Obstacles:
    """What keeps *members* from being computed again and published."""

    reader: MetadataReader
    domain: DomainName
    jobs: Sequence[JobRecord]
    members: Mapping[JobName, Sequence[EpochRecord]]
    opened: RestatementId | None

    def all(self) -> Iterator[str]:
        names = [job for job, epochs in self.members.items() for _ in epochs]
        is_large = StoreCapability.LARGE_TRANSACTIONS in self.reader.capabilities
        most = sizes.MOST_RESTATED if is_large else sizes.MOST_RESTATED_IN_SMALL_TRANSACTIONS
        tables = {table.name for job in self.jobs if job.name in self.members for table in job.outputs}
        if len(names) > most or sizes.restated_bytes(names, len(tables)) > sizes.MOST_RESTATED_BYTES:
            yield (
                f"{len(names)} epochs of {len(tables)} tables are more than one commit of this store holds ({most} "
                "epochs, fewer with long names or many tables): restate a shorter time"
            )
        reading, records = self._tables()
        expired = expired_states(self.reader, self.domain, reading)
        yield from self._overlaps()
        for job in self.jobs:
            epochs = self.members.get(job.name, ())
            if epochs:
                yield from self._of_job(job, epochs, records, expired)

    def _tables(self) -> tuple[Reading, Mapping[TableName, Stamped[TableRecord]]]:
        jobs = [job for job in self.jobs if job.name in self.members]
        names = {table for job in jobs for table in job.all_outputs}
        names |= {edge.table for job in jobs for edge in job.edges}
        keys = [table_key(self.domain, name) for name in sorted(names)]
        reading = self.reader.read(self.domain, [retention_key(self.domain), *keys])
        found = {TableName(key.item): reading.get(key) for key in keys}
        return reading, {name: stamped for name, stamped in found.items() if stamped is not None}

    def _overlaps(self) -> Iterator[str]:
        for name, stamped in open_restatements(self.reader, self.domain):
            if name == self.opened or stamped.record.is_group:
                continue  # a group publishes first revisions, and what is planned is committed
            shared = next(
                (
                    f"{job} {epoch.interval}"
                    for job, epochs in self.members.items()
                    for epoch in epochs
                    if stamped.record.has(job, epoch.interval)
                ),
                None,
            )
            if shared is not None:
                yield (
                    f"restatement {name!r} computes {shared} already: publish it or abandon it, "
                    f"`airflow epochs restate status {quote(name)}`"
                )

    def _of_job(
        self,
        job: JobRecord,
        epochs: Sequence[EpochRecord],
        tables: Mapping[TableName, Stamped[TableRecord]],
        expired: ExpiredStates,
    ) -> Iterator[str]:
        if job.retired:
            yield f"job {job.name} is retired ({job.retired}): `airflow epochs revive {quote(job.name)}`"
            return
        own = {table.name: tables.get(table.name) for table in job.outputs}
        declared = JobDeclaration.of(job).job()
        for table in own.values():
            if table is not None and (table.record.job != job.name or table.record.ended):
                yield f"table {table.key.item} of job {job.name} has another owner, or has ended"
                return
        for epoch in epochs:
            obstacle = self._of_epoch(job, epoch.interval, own, expired, tables)
            if not obstacle and job.predecessors:
                try:
                    refuse_others_rows(self.reader, declared, epoch.interval, own)
                except TopologyError as error:
                    obstacle = error.message
            if obstacle:
                yield obstacle
                return

    def _of_epoch(
        self,
        job: JobRecord,
        interval: Interval,
        own: Mapping[TableName, Stamped[TableRecord] | None],
        expired: ExpiredStates,
        tables: Mapping[TableName, Stamped[TableRecord]],
    ) -> str:
        """Return why *interval* of *job* cannot be computed again; empty if it can."""
        lacking = lacking_tables(own, interval)
        if lacking:
            span = f"{interval.start.isoformat()}/{interval.end.isoformat()}"
            return (
                f"{job.name} {interval} lacks {', '.join(lacking)}: clear its task, which adds them, or `airflow "
                f"epochs skip {quote(job.name)} {span} --reason …`, first"
            )
        if job.past_outputs:
            stay = tables_with_rows(self.reader, self.domain, job, interval, but=own)
            if stay:
                return f"job {job.name} no longer declares {', '.join(stay)}, which has rows of {interval}"
        records = {name: stamped.record for name, stamped in tables.items()}
        states = list(full_states_read(job, interval, records))
        states += [
            (name, interval.end) for name, known in own.items() if known and known.record.kind.loses_expired
        ]
        expired.load(states)
        gone = [
            f"{name} at {barrier.isoformat()}" for name, barrier in states if expired.range_at(name, barrier)
        ]
        return f"retention has expired {', '.join(gone)}, of job {job.name} {interval}" if gone else ""
