"""Begin: an attempt with a token, a lock and inputs that are fixed before they are read (protocol section 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypedDict, Unpack

from airflow_provider.coordination.attempts.bounds import Bounded, Bounding
from airflow_provider.coordination.attempts.bounds_provider import BoundsProvider, as_provider
from airflow_provider.coordination.attempts.closing import refuse_closing
from airflow_provider.coordination.attempts.fill import fills_of
from airflow_provider.coordination.attempts.give_back import GivingBack
from airflow_provider.coordination.attempts.inputs import Inputs
from airflow_provider.coordination.attempts.others_rows import refuse_others_rows
from airflow_provider.coordination.attempts.refusals import refuse_changes, refuse_ended
from airflow_provider.coordination.attempts.resume import attempt_of, committed, earlier_commit
from airflow_provider.coordination.attempts.roll_back import RollBack, abandoned
from airflow_provider.coordination.attempts.state_log import state_log
from airflow_provider.coordination.attempts.store_attempt import NewAttempt, store_attempt
from airflow_provider.coordination.attempts.within import Within
from airflow_provider.coordination.commits.alter import Alter
from airflow_provider.coordination.commits.catch_up import behind_of, refuse_part
from airflow_provider.coordination.commits.declare import Declaration, Declaring
from airflow_provider.coordination.commits.pointers import follow, refuse_ahead, refuse_stopped
from airflow_provider.coordination.commits.source_dependents import whole_sources
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.retrying import ReadAgain
from airflow_provider.domain.admission import Beginning, check_interval, decide, refuse_older
from airflow_provider.domain.attempt_events import is_complete
from airflow_provider.domain.beginning import (
    adoptable,
    computes_first,
    inheritable,
    next_revision,
    next_token,
    reads_of_skip,
)
from airflow_provider.domain.behind import is_behind
from airflow_provider.domain.epoch import (
    AlreadyCommitted,
    AlreadyStaged,
    Attempt,
    AttemptEvent,
    AttemptRecord,
    EpochRecord,
)
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import Conflict, InvalidInput
from airflow_provider.domain.group import epoch_of_group, group_of
from airflow_provider.domain.identifiers import RestatementId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner, as_owner
from airflow_provider.domain.participation import refuse_participants, refuse_shared_ttl
from airflow_provider.domain.records import (
    Stamped,
    fence_of,
    job_key,
    lock_of,
    restatement_key,
    retention_key,
    rewrite_log_key,
    table_key,
    topology_key,
)
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import SourceBounds
from airflow_provider.domain.topology import Edge, Group, Job, Table
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.domain.version import TableRecord, TableRef
from airflow_provider.stores.base import Reading


class BeginOptions(TypedDict, total=False):
    """Options of :func:`begin`, for functions that pass them on."""

    sources: BoundsProvider | Mapping[str, SourceBounds] | None
    participants: int
    shared_ttl: timedelta | None


_Answer = Callable[[], Attempt | AlreadyCommitted | AlreadyStaged | None]


def begin(
    context: Context,
    job: Job,
    interval: Interval,
    owner: Owner,
    *,
    sources: BoundsProvider | Mapping[str, SourceBounds] | None = None,
    participants: int = 1,
    shared_ttl: timedelta | None = None,
) -> Attempt | AlreadyCommitted | AlreadyStaged:
    """Open an attempt at one epoch, with inputs that are fixed before they are read.

    :param sources: asks sources for bounds, or has them; last, and only where none are recorded yet (I11).
    :param participants: writers of this attempt; with several, each of them joins it (:func:`~.join.join`).
    :param shared_ttl: they are processes of their own, also a single one joins, and all may be silent for so long.
    :return: an attempt whose ``adopted`` says that its output is complete already, or that it is committed; of a job
        in a commit group, an attempt that the group publishes, or that its output is staged for the group.
    :raises NotReady: inputs have not reached the barrier; ``missing`` lists them.
    :raises EpochBusy: another run's live attempt, or an open restatement that computes the epoch.
    :raises Fenced: a newer attempt of the same run exists.
    :raises DependentReaders: committed readers depend on the committed revision.
    :raises InvalidInput: an interval that is none of the job's epochs, a source without bounds.
    :raises SourceUnavailable: a source did not answer. :raises Unavailable: what it had is gone, or grew.
    :raises SchemaMismatch: a column change that cannot be made (R32). :raises WrongWarehouse: files elsewhere (R33).
    :raises WrongCatalog: the domain's tables are in another catalog than the one given.
    """
    options = BeginOptions(sources=sources, participants=participants, shared_ttl=shared_ttl)
    return begin_with_topology(context, job, interval, owner, **options)[0]


def begin_with_topology(
    context: Context, job: Job, interval: Interval, owner: Owner, **options: Unpack[BeginOptions]
) -> tuple[Attempt | AlreadyCommitted | AlreadyStaged, TopologyRecord]:
    """Do as :func:`begin`; return beside it the topology that it has read, which has its declaration."""
    return request(context, job, interval, owner, **options).run_with_topology()


def request(
    context: Context,
    job: Job,
    interval: Interval,
    owner: Owner,
    *,
    sources: BoundsProvider | Mapping[str, SourceBounds] | None = None,
    participants: int = 1,
    shared_ttl: timedelta | None = None,
    restatement: RestatementId | None = None,
    copies: bool = False,
) -> Begin:
    """Return a new request to begin, within *restatement* if one is given. :param copies: as of :class:`Begin`."""
    # One id for each call, also for its repetitions after a lost reply: two callers never share a token.
    by, own = replace(as_owner(owner), request_id=context.request_id()), context.formats.writable(job)
    return Begin(
        context,
        own,
        interval,
        by,
        as_provider(sources),
        participants,
        shared_ttl=shared_ttl,
        restatement=restatement,
        copies=copies,
    )


@dataclass(frozen=True, slots=True)
class Begin:
    """One request to begin; ``run`` may be repeated with the same answer.

    :param skips: why the epoch is skipped: then none of the job's inputs is read, and what is committed stays.
    :param shared_ttl: how long participants in processes of their own may all be silent; None for others.
    :param restatement: see :func:`begin_within`. :param group: the commit group that publishes the epoch.
    :param copies: the caller copies the rows that a revert brings back; nothing else writes those epochs within it.
    """

    context: Context
    job: Job
    interval: Interval
    owner: Owner
    sources: BoundsProvider
    participants: int
    skips: str = ""
    shared_ttl: timedelta | None = None
    restatement: RestatementId | None = None
    group: Group | None = None
    copies: bool = False

    @property
    def _edges(self) -> tuple[Edge, ...]:
        return reads_of_skip(self.job.outputs) if self.skips else self.job.edges

    @property
    def _bounding(self) -> Bounding:
        store, sources = self.context.store, () if self.skips else self.job.sources
        return Bounding(
            store=store, job=self.job, interval=self.interval, sources=sources, provider=self.sources
        )

    @property
    def _within(self) -> Within:
        """The restatement within which the epoch is computed, or none."""
        name, group = self.restatement, self.group
        return Within(context=self.context, job=self.job, interval=self.interval, name=name, group=group)

    @property
    def _inputs(self) -> Inputs:
        skips = bool(self.skips)
        return Inputs(self.context, self.job, self.interval, self._edges, self._within, skips=skips)

    @property
    def _giving_back(self) -> GivingBack:
        store, by = self.context.store, self.owner.dag_id
        return GivingBack(store=store, job=self.job, interval=self.interval, reason=self.skips, by=by)

    def run(self) -> Attempt | AlreadyCommitted | AlreadyStaged:
        return self.run_with_topology()[0]

    def run_with_topology(self) -> tuple[Attempt | AlreadyCommitted | AlreadyStaged, TopologyRecord]:
        if not isinstance(self.interval, Interval):
            raise InvalidInput(field="interval", value=self.interval, expected="an Interval(start, end)")
        refuse_participants(self.participants, self.job)
        refuse_shared_ttl(self.shared_ttl, self.context.defaults)
        subject, what = f"{self.job.name} {self.interval}", "changing the epoch, its lock or its sources"
        return self.context.retry(self._try, Conflict.of_others(subject, what, job=self.job.name))

    @property
    def _ttl(self) -> timedelta:
        return self.shared_ttl or self.context.defaults.lock_ttl

    def _try(self) -> tuple[Attempt | AlreadyCommitted | AlreadyStaged, TopologyRecord]:
        """:raises ReadAgain: the store is to be read again."""
        declaration = Declaring(self.context, self.job).of(self._read())
        if declaration is None:
            raise ReadAgain
        asked = self._in_its_group(declaration.reading)
        answer = Begin._under(asked, declaration)
        topology = declaration.reading.get(topology_key(self.job.domain))
        if topology is None:  # another process has stored the job since it was read; the answer is repeated
            raise ReadAgain
        return answer, topology.record

    def _in_its_group(self, reading: Reading) -> Begin:
        """Return this request within the barrier of the group that publishes the epoch, if one does."""
        stamped = reading.get(fence_of(self._epoch))
        newest = reading.of(job_key(self.job.domain, self.job.name)).record
        group = group_of(newest, None if stamped is None else stamped.record)
        if group is None or self.skips or self.restatement is not None:
            return self
        return replace(self, restatement=epoch_of_group(group, self.interval), group=group)

    def _under(self, declaration: Declaration) -> Attempt | AlreadyCommitted | AlreadyStaged:
        """Begin once, by *declaration*.

        :raises ReadAgain: the store is to be read again.
        """
        reading, job = declaration.reading, declaration.job
        followed = follow(self.context.formats, reading, self.job.outputs)
        for table in followed.beyond:
            refuse_ahead(self.context.store, self.context.formats, table)
        now, tolerance = reading.now, self.context.defaults.future_tolerance
        # An older declaration serves an epoch of its own only while that is one of the newer calendar, too (R7).
        for known in (job, reading.of(job_key(self.job.domain, self.job.name)).record):
            check_interval(known, self.interval, now=now, tolerance=tolerance)
        answer = self._decided(reading, job, followed.unseen, dry=declaration.register is not None)
        if answer is not None and declaration.register is not None:
            # Only a begin that nothing refuses makes its declaration known (R7); then it begins.
            declaration.register.run()
            raise ReadAgain
        begun = None if answer is None else answer()
        if begun is None:
            raise ReadAgain
        return begun

    def _decided(self, reading: Reading, job: JobRecord, unseen: list[Table], *, dry: bool) -> _Answer | None:
        """Decide, and change nothing: what begins the attempt, or None when the store is to be read again.

        :param unseen: outputs whose pointers are still to be looked at.
        :param dry: the declaration is not stored yet, so that the answer is not asked for.
        """
        stamped = reading.get(fence_of(self._epoch))
        epoch = stamped.record if stamped else None
        behind = is_behind(behind_of(reading, self.job.domain), self.job.name, self.interval)
        skips, within = bool(self.skips), self.restatement
        # A fill reads what the commit has read. That changes behind a source, and may change within a restatement.
        fills = () if behind or within else fills_of(reading, self.job, epoch, self.interval, skips=skips)
        own = None if skips or within else earlier_commit(self.context.store, self._epoch, self.owner, epoch)
        if own is not None:
            return lambda: own
        copied = None if skips or self.copies else self._within.copied(reading, epoch)
        if copied is not None:
            return lambda: copied
        epoch = self._within.without_others(epoch, skips=skips)
        lock, now = reading.get(lock_of(self._epoch)), reading.now
        again = {"fills": bool(fills), "behind": behind}
        decision = decide(job, epoch, lock, self.owner, now, skips=skips, restatement=within, **again)
        if decision is Beginning.COMMITTED and stamped is not None:
            done = committed(self._epoch, stamped)
            return lambda: done
        if decision is Beginning.SAME and stamped is not None and stamped.record.attempt is not None:
            same, version = stamped.record.attempt, stamped.version
            return lambda: self._granted(same, reading, version)
        refuse_ended(job, self._own(reading))
        self._within.refuse_unfit(reading, job, self._own(reading))
        if decision is Beginning.STAGED and epoch is not None and epoch.attempt is not None:
            kept = self._within.kept(reading, job, epoch.attempt)
            if kept is not None and self._bounding.are_newest(epoch.attempt.sources):
                return lambda: kept
            refuse_older(epoch, self.owner)
        refuse_stopped(self.context.formats, reading, unseen, published=fills or self._own(reading))
        return self._opening(reading, job, stamped, fills, dry=dry)

    def _granted(
        self,
        record: AttemptRecord,
        reading: Reading,
        version: int,
        sources: tuple[SourceBounds, ...] | None = None,
    ) -> Attempt:
        if sources is None:
            sources = whole_sources(self.context.store, self._epoch, record.sources)
        self._roll_back.of(record)
        return attempt_of(
            self.job,
            self.interval,
            record,
            sources,
            incarnation=reading.head.incarnation,
            fence=version,
            ttl=self._ttl,
        )

    @property
    def _roll_back(self) -> RollBack:
        return RollBack(self.context.formats, self.job, self.interval, self._log)

    @property
    def _change_sets(self) -> list[RestatementId]:
        """The change set within which the epoch is computed, if any."""
        group = self.job.group
        named = [] if self.restatement is None else [self.restatement]
        return named or ([] if group is None else [epoch_of_group(group, self.interval)])

    @property
    def _epoch(self) -> EpochId:
        return self.job.epoch(self.interval)

    def _read(self) -> Reading:
        domain, edges = self.job.domain, self._edges
        return self.context.store.read(
            domain,
            [
                topology_key(domain),
                retention_key(domain),
                job_key(domain, self.job.name),
                fence_of(self._epoch),
                lock_of(self._epoch),
                *(restatement_key(domain, name) for name in self._change_sets),
                *(table_key(domain, edge.table) for edge in edges),
                *(rewrite_log_key(domain, edge.table) for edge in edges),
                *(table_key(domain, table.name) for table in self.job.outputs),
                *(self._giving_back if self.skips else self._bounding).keys,
            ],
            pointers=self.context.formats.swapped(self.job.outputs),
        )

    def _opening(
        self,
        reading: Reading,
        job: JobRecord,
        stamped: Stamped[EpochRecord] | None,
        fills: tuple[TableName, ...],
        *,
        dry: bool,
    ) -> _Answer | None:
        """Return what opens the next attempt, once nothing refuses it; None when the store is to be read again."""
        epoch = stamped.record if stamped else None
        revision, own = next_revision(epoch), self._own(reading)
        written = {name: own[name] for name in fills or own}
        is_first = epoch is None or epoch.committed is None
        if is_first and not computes_first(self.job.name, self.interval, written, reading.head.csn):
            return None
        if not is_first and not fills:
            refuse_others_rows(self.context.store, self.job, self.interval, own)
        refuse_part(reading, self.job, self.interval)
        refuse_changes(
            self.context,
            self.job,
            self.interval,
            own,
            fills=fills,
            skips=bool(self.skips),
            alone=self.restatement is None,
        )
        before = None if self.skips else inheritable(epoch, job, self.restatement)
        inputs, fresh = self._inputs.resolved(reading, before, epoch, fills)
        tables = {edge.table: reading.get(table_key(self.job.domain, edge.table)) for edge in self._edges}
        refuse_closing(self.context.store, reading, self._epoch, inputs or (), tables, own=self.restatement)
        alter = Alter(self.context, self.job, self.interval)
        if inputs is None or alter.run(reading, dry=dry):
            return None
        keeps = before is not None and not fresh and self._bounding.are_newest(before.sources)
        adopts = self._adopted(before, job) if before is not None and keeps else None
        if self.skips:
            bounded = self._giving_back.bounded(reading)
        else:
            bounding = self._within.bounding(self._bounding, reading)
            bounded = bounding.bounded(reading, epoch, revision, adopts=adopts is not None, fills=bool(fills))
        fresh = fresh or bounded.is_new
        record = AttemptRecord(
            revision=revision,
            token=next_token(epoch, reading.get(topology_key(self.job.domain))),
            owner=self.owner,
            inputs=tuple(inputs),
            input_generation=(before.input_generation if before else 0) + (1 if fresh else 0),
            sources=tuple(map(self._bounding.in_attempt, bounded.bounds)),
            baseline=self._baseline(reading, before),
            job_revision=job.revision,
            participants=self.participants,
            shared=self.shared_ttl is not None,
            adopts=adopts,
            rolls_back=abandoned(epoch, self.interval, adopts, self.job.outputs),
            skips=self.skips,
            fills=fills,
            restatement=self.restatement,
        )
        return lambda: self._open(reading, stamped, record, bounded)

    def _open(
        self,
        reading: Reading,
        stamped: Stamped[EpochRecord] | None,
        record: AttemptRecord,
        bounded: Bounded,
    ) -> Attempt | None:
        if stamped is not None:
            self._roll_back.finish(stamped.record)
        begun = NewAttempt(epoch=self._epoch, before=stamped, record=record, bounded=bounded, ttl=self._ttl)
        version = store_attempt(self.context.store, begun, reading, self._within)
        return None if version is None else self._granted(record, reading, version, bounded.bounds)

    def _adopted(self, before: AttemptRecord, job: JobRecord) -> int | None:
        """Token under which complete output lies that this attempt may publish."""
        writers = (self.participants, self.shared_ttl is not None)
        if not adoptable(before, job, self.owner) or (before.participants, before.shared) != writers:
            return None
        log = [event.record for event in self._log()]
        is_whole = is_complete(log, before, [table.name for table in self.job.outputs])
        return before.output_token if is_whole else None

    def _log(self) -> list[Stamped[AttemptEvent]]:
        return state_log(self.context.store, self._epoch)

    def _own(self, reading: Reading) -> Mapping[TableName, Stamped[TableRecord] | None]:
        return {table.name: reading.get(table_key(self.job.domain, table.name)) for table in self.job.outputs}

    def _baseline(
        self, reading: Reading, before: AttemptRecord | None
    ) -> tuple[tuple[TableName, TableRef | None], ...]:
        # Nothing claims the baseline of an attempt that has ended, or that is staged and has no lock.
        if before is not None and before.aborted is None and not before.staged:
            return before.baseline
        refs = ((name, table.record.ref if table else None) for name, table in self._own(reading).items())
        return tuple((name, None if ref is None else ref.lasting()) for name, ref in refs)
