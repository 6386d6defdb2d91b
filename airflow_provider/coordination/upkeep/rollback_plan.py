"""Plan of a rollback: the epochs that it takes back, and its obstacles (R30). Read-only.

See docs/decisions/rollback.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

from airflow_provider.coordination.commits.dropped import refuse_unfinished
from airflow_provider.coordination.commits.expired_states import expired_states
from airflow_provider.coordination.commits.places import refuse_elsewhere
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.upkeep.rollback_commits import (
    CommitsSince,
    RolledEpoch,
    commits_since,
    watermark_at,
)
from airflow_provider.coordination.upkeep.rollback_readers import readers_elsewhere
from airflow_provider.domain import sizes
from airflow_provider.domain.cut import as_of
from airflow_provider.domain.epoch import LockRecord, has_expired
from airflow_provider.domain.errors import EpochBusy, InvalidInput, TopologyError
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import (
    Key,
    Stamped,
    restatement_key,
    retention_key,
    slice_key,
    slice_writer,
    table_key,
    topology_key,
)
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.restatement import JobEpochs, RestatementRecord
from airflow_provider.domain.version import SliceRecord, TableRecord
from airflow_provider.domain.watermark import Progress
from airflow_provider.stores.base import MetadataReader, Reading, StoreCapability, pages

_LISTED = 5
_IN_ONE_READ = 200
_SLICES_OF_AN_EPOCH = 10
"""Number of slices for each epoch that a commit may hold: one for each of its tables and revisions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RolledBackTable:
    """A table that a rollback changes. :param before, after: its watermarks. :param rows: number that goes."""

    name: TableName
    job: JobName
    epochs: int
    rows: int
    before: datetime | None
    after: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RollbackPlan:
    """Plan of a rollback to the CSN *to*.

    :param csn: of the last commit. :param epochs: the epochs that are not committed any more, by job.
    :param holders: live attempts and open restatements, as text. :param obstacles: what else is in the way.
    """

    domain: DomainName
    to: int
    csn: int
    epochs: tuple[JobEpochs, ...]
    tables: tuple[RolledBackTable, ...]
    holders: tuple[str, ...]
    obstacles: tuple[str, ...]

    @property
    def in_the_way(self) -> tuple[str, ...]:
        """Attempts, restatements and other obstacles, each as text; empty without any."""
        return (*(f"{holder} is under way" for holder in self.holders), *self.obstacles)


@dataclass(slots=True)
class TakenTable:
    """A table as it was read, and the epochs that leave it, with all of their slices."""

    stamped: Stamped[TableRecord]
    gone: list[Interval] = field(default_factory=list)
    slices: list[Stamped[SliceRecord]] = field(default_factory=list)

    @property
    def name(self) -> TableName:
        return TableName(self.stamped.key.item)

    @property
    def since(self) -> int:
        """CSN of the first commit of the epochs that leave it."""
        return min(piece.csn or 0 for piece in self.slices)

    @property
    def after(self) -> Progress:
        return self.stamped.record.progress.removing(*self.gone)


@dataclass(frozen=True, kw_only=True, slots=True)
class RollbackLook:
    """One look at a domain: the plan, and the records that it is based on."""

    reading: Reading
    plan: RollbackPlan
    epochs: tuple[RolledEpoch, ...]
    tables: tuple[TakenTable, ...]
    groups: tuple[Stamped[RestatementRecord], ...]


def looked_at(context: Context, domain: DomainName, to: int) -> RollbackLook:
    """Return what a rollback of *domain* to the CSN *to* takes back.

    :raises InvalidInput: nothing was committed after *to*. :raises EpochBusy: a drop has not ended.
    """
    store = context.store
    reading = store.read(domain, [topology_key(domain), retention_key(domain)])
    topology = reading.get(topology_key(domain))
    refuse_sealed(domain, topology)
    refuse_elsewhere(domain, topology, context.formats)
    refuse_unfinished(domain, f"a rollback of domain {domain!r}", topology)
    head = reading.head.csn
    if isinstance(to, bool) or not isinstance(to, int) or not 0 <= to < head:
        raise InvalidInput(
            field="to",
            value=to,
            expected=f"the CSN of a commit before the newest one of domain {domain!r}, which is {head}",
            next_step="`airflow epochs changes` lists the commits.",
        )
    commits = commits_since(store, domain, to, head)
    look = _Looking(store, domain, reading, to, commits)
    tables = look.tables()
    plan = RollbackPlan(
        domain=domain,
        to=to,
        csn=head,
        epochs=_by_job(commits.gone),
        tables=tuple(_shown(found) for found in tables),
        holders=tuple(look.holders()),
        obstacles=tuple(dict.fromkeys(look.obstacles(tables))),
    )
    return RollbackLook(
        reading=reading, plan=plan, epochs=commits.gone, tables=tuple(tables), groups=commits.groups
    )


def refuse(plan: RollbackPlan) -> None:
    """Refuse a rollback that something is in the way of.

    :raises EpochBusy: attempts or restatements are under way. :raises TopologyError: what is committed cannot become
        what it was.
    """
    what = f"domain {plan.domain!r} cannot be rolled back to CSN {plan.to}"
    if plan.obstacles:
        more = len(plan.obstacles) - _LISTED
        raise TopologyError(
            f"{what}: {'; '.join(plan.obstacles[:_LISTED])}{f'; and {more} more' if more > 0 else ''}.",
            next_step="do what each of these says, or roll back to a later CSN (`airflow epochs changes` lists them).",
            found="; ".join(plan.obstacles),
        )
    if plan.holders:
        raise EpochBusy(
            f"{what} while these are under way: {'; '.join(plan.holders)}.",
            next_step="pause the DAGs of the domain and let their tasks end; publish or abandon the restatements "
            "(`airflow epochs restate abandon`); then try again.",
            holders=plan.holders,
        )
    if not plan.epochs:
        raise InvalidInput(
            field="to",
            value=plan.to,
            expected="a CSN after which epochs were committed that are committed still",
            next_step="`airflow epochs changes` lists the commits.",
        )


def _by_job(gone: Sequence[RolledEpoch]) -> tuple[JobEpochs, ...]:
    ordered = sorted(gone, key=lambda epoch: (epoch.job, epoch.interval))
    return tuple(
        JobEpochs(job=job, intervals=tuple(epoch.interval for epoch in found))
        for job, found in groupby(ordered, key=lambda epoch: epoch.job)
    )


def _shown(found: TakenTable) -> RolledBackTable:
    record = found.stamped.record
    newest = {piece.record.interval: piece.record.rows for piece in sorted(found.slices, key=_csn)}
    return RolledBackTable(
        name=found.name,
        job=record.job,
        epochs=len(found.gone),
        rows=sum(newest.values()),
        before=record.progress.watermark,
        after=found.after.watermark,
    )


def _csn(piece: Stamped[SliceRecord]) -> int:
    return piece.csn or 0


@dataclass(frozen=True, slots=True)
class _Looking:
    """One look. :param reading: the head, and the records of the domain. :param to: the CSN to go back to."""

    store: MetadataReader
    domain: DomainName
    reading: Reading
    to: int
    commits: CommitsSince

    def tables(self) -> list[TakenTable]:
        """Return the tables that epochs leave, by name."""
        jobs = {stamped.record.name: stamped.record for stamped in pages(self.store, self.domain, JobRecord)}
        owners: dict[Key[SliceRecord], tuple[TableName, Interval]] = {
            slice_key(revision, table): (table, epoch.interval)
            for epoch in self.commits.gone
            for table in (jobs[epoch.job].all_outputs if epoch.job in jobs else ())
            for revision in epoch.revisions(self.domain)
        }
        found: dict[TableName, TakenTable] = {}
        known = set[tuple[TableName, Interval]]()
        keys = list(owners)
        for start in range(0, len(keys), _IN_ONE_READ):
            read = self.store.read(self.domain, keys[start : start + _IN_ONE_READ])
            for key in keys[start : start + _IN_ONE_READ]:
                piece, (name, interval) = read.get(key), owners[key]
                if piece is None or piece.record.taken_back:
                    continue
                if name not in found:
                    stamped = self.store.read(self.domain, [of := table_key(self.domain, name)]).of(of)
                    found[name] = TakenTable(stamped)
                found[name].slices.append(piece)
                if (name, interval) not in known:  # of thousands, each looked up for each of its revisions
                    known.add((name, interval))
                    found[name].gone.append(interval)
        return [found[name] for name in sorted(found)]

    def holders(self) -> Iterator[str]:
        topology = self.reading.get(topology_key(self.domain))
        now = self.store.read(self.domain, []).now
        for stamped in list(pages(self.store, self.domain, JobRecord)):
            for lock in pages(self.store, self.domain, LockRecord, stamped.record.name):
                if not lock.record.ended and not has_expired(lock.at, lock.record.ttl, now):
                    yield f"an attempt of job {lock.key.partition} at {lock.key.item} of {lock.record.owner}"
        for name in () if topology is None else topology.record.restating:
            stamped_set = self.store.read(self.domain, [key := restatement_key(self.domain, name)]).get(key)
            kind = "restatement" if stamped_set is None or not stamped_set.record.is_group else "group"
            yield f"{kind} {name}"

    def obstacles(self, tables: Sequence[TakenTable]) -> Iterator[str]:
        """Yield what keeps the domain from being what it was."""
        yield from self.commits.obstacles
        rolled_back = tuple(self._rollbacks())
        yield from rolled_back
        yield from self._size(sum(len(table.slices) for table in tables))
        for table in tables:
            yield from self._of_table(table)
            if not rolled_back:  # which have moved the watermarks, and are named
                yield from self._beginning(table)
        yield from self._behind()
        yield from self._expired(tables)
        yield from self._rereads(tables)
        yield from readers_elsewhere(self.store, self.domain, self.commits.versions)

    def _rollbacks(self) -> Iterator[str]:
        """Yield rollbacks since, to before the CSN: what was committed at it is committed no more."""
        topology = self.reading.get(topology_key(self.domain))
        for entry in () if topology is None else topology.record.rollbacks:
            if entry.to < self.to < entry.csn:
                yield f"CSN {entry.csn} has rolled the domain back to CSN {entry.to}"

    def _size(self, slices: int) -> Iterator[str]:
        is_large = StoreCapability.LARGE_TRANSACTIONS in self.store.capabilities
        most = sizes.MOST_RESTATED if is_large else sizes.MOST_RESTATED_IN_SMALL_TRANSACTIONS
        csns = sorted((epoch.csn for epoch in self.commits.gone), reverse=True)
        if len(csns) > most:
            yield (
                f"{len(csns)} epochs are more than one commit of this store holds ({most}): roll back to CSN "
                f"{csns[most]} first, then go on"
            )
        elif slices > most * _SLICES_OF_AN_EPOCH:
            yield (
                f"{slices} slices of {len(csns)} epochs are more than one commit of this store holds "
                f"({most * _SLICES_OF_AN_EPOCH}): roll back to a later CSN first, then go on"
            )

    def _of_table(self, table: TakenTable) -> Iterator[str]:
        record = table.stamped.record
        if any(slice_writer(piece.key) != record.job for piece in table.slices):
            yield f"{table.name} is of job {record.job} now, which cannot compute the epochs of another job again"

    def _beginning(self, table: TakenTable) -> Iterator[str]:
        record, after = table.stamped.record, table.after
        if (table.stamped.csn or 0) > self.reading.head.csn:
            return  # the epochs committed since this look began are not among those that go: the next look compares it
        if not after.islands:
            return
        origin = record.progress.origin
        if any(origin is not None and gone.start < origin for gone in table.gone):
            yield f"epochs were committed below the beginning of {table.name}"
            return
        known = as_of(table.stamped, self.to)
        expected = known.watermark if known else watermark_at(self.store, self.domain, table.name, self.to)
        if after.watermark != expected or (known is not None and known.origin != after.origin):
            yield f"{table.name} began later at CSN {self.to} than it does now"

    def _behind(self) -> Iterator[str]:
        topology = self.reading.get(topology_key(self.domain))
        gone = {(epoch.job, epoch.interval) for epoch in self.commits.gone}
        for entry in () if topology is None else topology.record.behind:
            if not entry.until and (entry.job, entry.interval) in gone:
                yield f"{entry.why}: {entry.way_out}"

    def _expired(self, tables: Sequence[TakenTable]) -> Iterator[str]:
        """Yield states that are expired, and that the tables would have again, or that the epochs read again."""
        inputs = [read for epoch in self.commits.gone for read in epoch.commitment.inputs]
        names = {table.name for table in tables} | {read.table for read in inputs}
        keys = [table_key(self.domain, name) for name in sorted(names)]
        reading = self.store.read(self.domain, [retention_key(self.domain), *keys])
        found: Mapping[TableName, Stamped[TableRecord] | None] = {
            TableName(key.item): reading.get(key) for key in keys
        }
        own = [(table.name, gone.end) for table in tables for gone in table.gone]
        own += [(table.name, mark) for table in tables if (mark := table.after.watermark) is not None]
        read = [
            (each.table, each.high)
            for each in inputs
            if (stamped := found.get(each.table)) is not None and stamped.record.kind.loses_expired
        ]
        expired = expired_states(self.store, self.domain, reading)
        wanted = list(dict.fromkeys((*own, *read)))
        expired.load(wanted)
        for name, barrier in wanted:
            if expired.range_at(name, barrier) is not None:
                yield f"retention has expired {name} at {barrier.isoformat()}"

    def _rereads(self, tables: Sequence[TakenTable]) -> Iterator[str]:
        """Yield epochs that stay, and have read what goes: those that a restatement and its revert have computed."""
        gone = {table.name: table.gone for table in tables}
        for job, interval, commitment in self.commits.reverted:
            for read in commitment.inputs:
                spans = gone.get(read.table, ())
                if read.csn > self.to and any(span.meets(read.low, read.high) for span in spans):
                    yield f"{job} {interval}, which was reverted, has read {read.table} since"
