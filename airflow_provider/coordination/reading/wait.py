"""Waiting for barriers: one decision, asked by sensor, trigger, command line and Spark alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from airflow_provider.coordination.commits.catch_up import behind_of
from airflow_provider.coordination.commits.closings import RangeRead, closings
from airflow_provider.coordination.commits.expired_states import expired_states
from airflow_provider.coordination.commits.staged import Members
from airflow_provider.coordination.reading.change_set import ChangeSet
from airflow_provider.coordination.reading.resolve import TableVersions, names_of, refuse_expired
from airflow_provider.coordination.retrying_reader import retrying_reader
from airflow_provider.domain.admission import holder
from airflow_provider.domain.beginning import left_behind
from airflow_provider.domain.behind import Behind
from airflow_provider.domain.clock import Clock, SystemClock
from airflow_provider.domain.cut import (
    before_origin,
    edge_range,
    lagging,
    reached,
    starts_with,
)
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.errors import NotReady
from airflow_provider.domain.identifiers import (
    DomainName,
    TableName,
    domain_name,
    job_name,
)
from airflow_provider.domain.interval import Cadence, Interval, as_utc
from airflow_provider.domain.missing import UNWRITTEN, Missing
from airflow_provider.domain.records import (
    epoch_key,
    lock_key,
    source_key,
    table_key,
    topology_key,
)
from airflow_provider.domain.source_bounds import Source
from airflow_provider.domain.topology import Edge, EdgeKind, Job, Table
from airflow_provider.domain.version import TableRecord, TableVersion
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.base import MetadataReader, Reading


@dataclass(frozen=True, kw_only=True, slots=True)
class Readiness:
    """Readiness of a cut at *barrier*.

    :param csn: the head of this answer; wait for a later one before asking again.
    :param ends_by_clock: time alone may change the answer: a lock or a restatement ends.
    :param failed: why what is missing will not come by itself, for who does not wait on; otherwise empty.
    """

    barrier: datetime
    csn: int
    missing: tuple[Missing, ...]
    ends_by_clock: bool = False
    failed: str = ""

    @property
    def ready(self) -> bool:
        return not self.missing

    @property
    def is_over(self) -> bool:
        """Return whether nothing is waited for any longer."""
        return self.ready or bool(self.failed)

    def __str__(self) -> str:
        if self.ready:
            return f"ready at {self.barrier.isoformat()} (CSN {self.csn})"
        return "; ".join(map(str, self.missing))


def check(
    reader: MetadataReader,
    domain: str,
    tables: Iterable[str | Table],
    barrier: datetime,
) -> Readiness:
    """Return whether all *tables* have reached *barrier*; a table without an owner yet is missing, no error.

    :raises Unavailable: a table's state at *barrier* has expired: there is nothing to wait for (R24).
    :raises StoreUnavailable: the store did not answer for longer than readers wait (``read_timeout``).
    """
    return readiness(retrying_reader(reader), domain, tables, barrier)


def readiness(
    reader: MetadataReader, domain: str, tables: Iterable[str | Table], barrier: datetime
) -> Readiness:
    """Answer as :func:`check`, without retries: for callers that retry."""
    name, names, barrier = domain_name(domain), names_of(tables), as_utc(barrier, "barrier")
    reading, found = TableVersions(reader).of_registered(name, names)
    had = [table for table, (record, moved) in found.items() if reached(record, moved, barrier)]
    refuse_expired(expired_states(reader, name, reading), found, dict.fromkeys(had, barrier))
    unregistered = (without_owner(table, barrier) for table in names if table not in found)
    return Readiness(barrier=barrier, csn=reading.head.csn, missing=(*unregistered, *lagging(found, barrier)))


@dataclass(frozen=True, kw_only=True, slots=True)
class JobInputs:
    """Inputs of a job for its epochs of *interval*, computed one after the other.

    Inputs up to the barrier must reach the end of the last epoch, ``previous`` inputs the start of the first: each
    later epoch finds its ``previous`` input committed by the epoch before it.

    :param sources: sources that must be complete for each of the epochs. :param cadence: of the epochs.
    """

    edges: tuple[Edge, ...]
    interval: Interval
    sources: tuple[Source, ...] = ()
    cadence: Cadence | None = None

    @property
    def connections(self) -> tuple[str, ...]:
        """Ids of the connections of sources that have a condition of completeness."""
        return tuple(
            dict.fromkeys(
                source.connection for source in self.sources if source.connection and source.complete
            )
        )

    @classmethod
    def of(cls, job: Job, interval: Interval) -> JobInputs:
        """Return the inputs of *job*; at its origin its own past is empty, and its tables may be unregistered."""
        begins = job.origin == interval.start
        own = {table.name for table in job.outputs} if begins else set()
        edges = (edge for edge in job.edges if edge.kind is not EdgeKind.PREVIOUS or edge.table not in own)
        return cls(edges=tuple(edges), interval=interval, sources=job.sources, cadence=job.cadence)


def check_inputs(
    reader: MetadataReader, domain: str, inputs: JobInputs, source_readers: SourceReaders | None = None
) -> Readiness:
    """Return whether the inputs of a job are there.

    :param source_readers: asks sources whether they are complete; by default those that need no connection.
    :raises SourceUnavailable: a source does not answer.
    :raises Unavailable: the state of a full table among the inputs has expired (R24).
    :raises StoreUnavailable: the store did not answer for longer than readers wait (``read_timeout``).
    """
    return inputs_readiness(retrying_reader(reader), domain, inputs, source_readers)


def inputs_readiness(
    reader: MetadataReader,
    domain: str,
    inputs: JobInputs,
    source_readers: SourceReaders | None = None,
    members: Members | None = None,
) -> Readiness:
    """Answer as :func:`check_inputs`, without retries: for callers that retry.

    :param members: of the group within which the epoch is computed: what they stage need not be committed.
    """
    name, interval = domain_name(domain), inputs.interval
    reading, found = TableVersions(reader).of_registered(name, sorted({edge.table for edge in inputs.edges}))
    retention, missing = expired_states(reader, name, reading), list[Missing]()
    if members is not None:
        found = _with_staged(found, members)
    for edge in inputs.edges:
        known = found.get(edge.table)
        if known is None:
            past = edge.kind is EdgeKind.PREVIOUS
            missing.append(without_owner(edge.table, interval.start if past else interval.end))
            continue
        low, high = edge_range(edge, interval, known[0])
        if starts_with(edge, known[0], high):
            continue
        missing += (
            lagging({edge.table: known}, high)
            or _before_origin(edge.table, known, low, high)
            or _behind(edge, known, (low, high), behind_of(reading, name))
        )
        if known[0].kind.loses_expired and reached(*known, high):
            refuse_expired(retention, found, {edge.table: high})
    missing += _incomplete(reader, name, inputs, source_readers or SourceReaders())
    return Readiness(barrier=interval.end, csn=reading.head.csn, missing=tuple(missing))


def begin_readiness(
    reader: MetadataReader,
    domain: str,
    job: str,
    inputs: JobInputs,
    run: tuple[str, str],
    *,
    source_readers: SourceReaders | None = None,
    restatement: str | None = None,
) -> Readiness:
    """Answer as :func:`inputs_readiness`, and require that no other run is computing the epoch of *inputs*.

    :param run: ids of the asking DAG and run: begin takes over the lock of an earlier try of the same run.
    :param restatement: the restatement, or barrier of a group, within which it is to begin: members that it reads must
        be staged.
    """
    name, maker = domain_name(domain), job_name(job)
    start = inputs.interval.start
    epoch, lock = epoch_key(name, maker, start), lock_key(name, maker, start)
    reading = reader.read(name, [epoch, lock, topology_key(name)])
    stamped = reading.get(epoch)
    change_set = ChangeSet.of(reader, name, restatement)
    is_committed = stamped is not None and stamped.record.committed is not None
    # A group publishes first revisions: what is committed is begun by itself (group_of).
    members = None if is_committed and change_set.is_group else change_set.members
    answer = inputs_readiness(reader, domain, inputs, source_readers, members)
    missing = [*answer.missing, *(() if members is None else _awaited_members(reader, members, inputs))]
    holding = [*change_set.holding(reading, maker, stamped), *_closing(reader, reading, change_set, inputs)]
    missing += holding
    if not is_committed:
        missing += change_set.ending(f"epoch of {maker}", inputs.interval)
    by_clock = bool(holding) or change_set.name is not None
    answer = replace(answer, missing=tuple(missing), ends_by_clock=by_clock)
    live = holder(stamped.record if stamped else None, reading.get(lock), reading.now)
    if live is None or (live[0].dag_id, live[0].run_id) == run:
        return answer
    owner, until = live
    busy = Missing(
        name=f"epoch of {maker}",
        wanted=inputs.interval.end,
        reason=f"is computed by {owner}, whose lock lasts until {until.isoformat()}",
    )
    return replace(answer, missing=(busy, *answer.missing), ends_by_clock=True)


def _with_staged(
    tables: Mapping[TableName, tuple[TableRecord, TableVersion]], members: Members
) -> dict[TableName, tuple[TableRecord, TableVersion]]:
    beside = members.beside({name: record for name, (record, _) in tables.items()})
    return {
        name: (beside[name], moved)
        if beside[name] == record
        else (
            beside[name],
            replace(moved, origin=beside[name].progress.origin, watermark=beside[name].progress.watermark),
        )
        for name, (record, moved) in tables.items()
    }


def _awaited_members(reader: MetadataReader, members: Members, inputs: JobInputs) -> Iterator[Missing]:
    """Yield the *members* that are read for *inputs* and are not staged."""
    domain = members.domain
    keys = [table_key(domain, edge.table) for edge in inputs.edges]
    for read in _ranges(reader.read(domain, keys), domain, inputs):
        yield from members.read_by(read.table, read.writer, read.low, read.high)[1]


def _closing(
    reader: MetadataReader, reading: Reading, change_set: ChangeSet, inputs: JobInputs
) -> Iterator[Missing]:
    """Yield the inputs that a restatement is about to replace: no epoch begins to read them while it is closing.

    :param reading: has the topology.
    """
    domain, own = change_set.domain, change_set.name
    topology = reading.get(topology_key(domain))
    names = [] if topology is None else [name for name in topology.record.restating if name != own]
    if not names:
        return
    tables = reader.read(domain, [table_key(domain, edge.table) for edge in inputs.edges])
    for found in closings(reader, domain, names, _ranges(tables, domain, inputs), own=own):
        for table in found.tables:
            yield Missing(name=table, wanted=inputs.interval.end, reason=found.words)


def _ranges(reading: Reading, domain: DomainName, inputs: JobInputs) -> Iterator[RangeRead]:
    """Yield what is read for *inputs*. :param reading: has the records of their tables."""
    for edge in inputs.edges:
        table = reading.get(table_key(domain, edge.table))
        if table is not None:
            low, high = edge_range(edge, inputs.interval, table.record)
            yield RangeRead(
                table=edge.table,
                writer=table.record.job,
                low=low,
                high=high,
                on_upstream_revision=edge.on_upstream_revision,
            )


def _incomplete(
    reader: MetadataReader, domain: DomainName, inputs: JobInputs, source_readers: SourceReaders
) -> Iterator[Missing]:
    """Yield the incomplete sources, each for the first incomplete epoch; recorded bounds are complete."""
    if not inputs.sources or inputs.cadence is None:
        return
    epochs = list(inputs.cadence.split(inputs.interval))
    keys = {
        source.name: [source_key(domain, source.name, epoch.end, 1) for epoch in epochs]
        for source in inputs.sources
    }
    reading = reader.read(domain, [key for found in keys.values() for key in found])
    for source in inputs.sources:
        for epoch, key in zip(epochs, keys[source.name], strict=True):
            reason = "" if reading.get(key) else source_readers.missing(source, epoch, reading.now)
            if reason:
                yield Missing(name=source.name, wanted=epoch.end, reason=reason)
                break


def _before_origin(
    table: TableName, known: tuple[TableRecord, TableVersion], low: datetime | None, high: datetime
) -> tuple[Missing, ...]:
    reason = before_origin(*known, low)
    if not reason:
        return ()
    return (Missing(name=table, watermark=known[1].watermark, wanted=high, reason=reason),)


def _behind(
    edge: Edge,
    known: tuple[TableRecord, TableVersion],
    wanted: tuple[datetime | None, datetime],
    behind: tuple[Behind, ...],
) -> tuple[Missing, ...]:
    """Return the lag of an input that must be computed again, since its source was bound anew."""
    entry = left_behind(edge.table, edge.on_upstream_revision, wanted, behind)
    if entry is None:
        return ()
    return (Missing(name=edge.table, watermark=known[1].watermark, wanted=wanted[1], reason=entry.why),)


def without_owner(table: TableName, barrier: datetime) -> Missing:
    """Return the lag of a table that no job has registered."""
    return Missing(name=table, wanted=barrier, reason=f"no owner yet: {UNWRITTEN}")


def wait_for(
    reader: MetadataReader,
    domain: str,
    tables: Iterable[str | Table],
    barrier: datetime,
    *,
    timeout: timedelta,
    clock: Clock | None = None,
    defaults: Defaults = DEFAULTS,
) -> Readiness:
    """Return once all *tables* have reached *barrier*.

    :raises NotReady: not within *timeout*; ``missing`` says which table lags and why.
    :raises Unavailable: a table's state at *barrier* has expired.
    :raises StoreUnavailable: the store did not answer for longer than readers wait (``read_timeout``).
    """
    clock = clock or SystemClock()
    reader = retrying_reader(reader, clock=clock, defaults=defaults)
    deadline = clock.monotonic() + timeout.total_seconds()
    wanted = names_of(tables)
    while True:
        answer = check(reader, domain, wanted, barrier)
        left = timedelta(seconds=deadline - clock.monotonic())
        if answer.ready:
            return answer
        if left <= timedelta(0):
            raise NotReady(
                f"{barrier.isoformat()} was not reached within {timeout}: {answer}.",
                next_step="see `airflow epochs explain` for what each table waits for.",
                missing=answer.missing,
            )
        pause, before = min(left, defaults.wait_poll_interval), clock.monotonic()
        reader.watch(domain_name(domain), answer.csn, pause)
        if clock.monotonic() == before:
            # A clock that the caller passes need not advance while the store waits: then wait by that clock.
            clock.sleep(pause)
