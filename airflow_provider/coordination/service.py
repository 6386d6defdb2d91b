"""The facade: a store, the table formats and the operations on them, opened together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from os import PathLike
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self, Unpack

from airflow_provider.coordination.attempts import staging
from airflow_provider.coordination.attempts.begin import BeginOptions, begin_with_topology
from airflow_provider.coordination.attempts.check import Query, check
from airflow_provider.coordination.attempts.end import abort
from airflow_provider.coordination.attempts.join import join
from airflow_provider.coordination.attempts.publish import publish, publish_together
from airflow_provider.coordination.attempts.read_input import read_input
from airflow_provider.coordination.attempts.renew import heartbeat
from airflow_provider.coordination.attempts.report import complete, processed, written
from airflow_provider.coordination.attempts.resume import Begun, resume
from airflow_provider.coordination.attempts.state_log import state_log
from airflow_provider.coordination.commits.alter import written_columns
from airflow_provider.coordination.commits.register import register
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.reading.leases import Leases
from airflow_provider.coordination.restating.restatements import Restatements
from airflow_provider.coordination.restating.skipped_copies import begin_member, stage_member
from airflow_provider.coordination.upkeep.bind import Bound, bind, declaring
from airflow_provider.coordination.upkeep.drop import Dropped, drop, finish_drop, plan_drop
from airflow_provider.coordination.upkeep.drop_plan import DropPlan
from airflow_provider.coordination.upkeep.recover import Recovery, recover
from airflow_provider.coordination.upkeep.retention import Retention
from airflow_provider.coordination.upkeep.retire import retire, revive
from airflow_provider.coordination.upkeep.skip import Skipped, skip
from airflow_provider.domain.clock import Clock
from airflow_provider.domain.cut import State
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.epoch import (
    AlreadyCommitted,
    AlreadyStaged,
    Attempt,
    AttemptEvent,
    EpochRecord,
    Published,
)
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import InvalidInput, StoreIncompatible, choice
from airflow_provider.domain.group import may_be_of
from airflow_provider.domain.identifiers import (
    DomainName,
    JobName,
    RestatementId,
    domain_name,
    job_name,
    restatement_id,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.read_options import READ_DEFAULTS, Consistency, Level, ReadDefaults
from airflow_provider.domain.records import Stamped, epoch_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.schedule import ExplicitInterval, run_interval
from airflow_provider.domain.topology import Job
from airflow_provider.domain.version import Committable
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.base import MetadataStore, StoreCapability
from airflow_provider.stores.factory import catalog_of, local_url, open_store, redacted
from airflow_provider.tables.base import StagingLocation, TableInfo
from airflow_provider.tables.factory import TableFormats, open_formats


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Location of the metadata and of the data.

    :param store_url: URL of the metadata store; may hold a password, so it is not shown.
    :param warehouse: absolute path or URI under which tables keep their files, such as ``file:///data/warehouse``.
    :param catalog_url: URL of the database that holds the tables' pointers, if it is not the store's own; not
        shown either.
    :param require: capabilities that the store must have, for every program that opens it.
    :param connections: URLs of the databases that the sources of jobs name, by the id of their connection; not shown.
    :param read_level: isolation of reads that do not name one. :param read_consistency: likewise.
    """

    store_url: str = field(repr=False)
    warehouse: str
    catalog_url: str | None = field(default=None, repr=False)
    require: frozenset[StoreCapability] = frozenset()
    connections: Mapping[str, str] = field(default_factory=dict, repr=False)
    read_level: str = READ_DEFAULTS.level.value
    read_consistency: str = READ_DEFAULTS.consistency.value

    @classmethod
    def local(cls, folder: str | PathLike[str], *, connections: Mapping[str, str] | None = None) -> Self:
        """Return settings for a store in a SQLite file, ``epochs.db``, and tables beside it: for work on one host.

        Checks the folder, and opens nothing.

        :param folder: an existing one; a relative path is relative to the working directory.
        :param connections: as in :class:`Settings`.
        :raises InvalidInput: *folder* is no folder.
        """
        place = _folder(folder)
        return cls(
            store_url=local_url(place),
            warehouse=f"file://{place / 'warehouse'}",
            connections=dict(connections or {}),
        )

    @property
    def reading(self) -> ReadDefaults:
        """Return the isolation of reads that do not name one.

        :raises InvalidInput: unknown level or consistency.
        """
        return ReadDefaults(
            level=choice(Level, self.read_level, "read_level"),
            consistency=choice(Consistency, self.read_consistency, "read_consistency"),
        )


class EpochService:
    """All operations on one store; close it, or use it in a ``with`` block.

    Every operation is idempotent in its arguments (R15): a repetition returns the answer of the first call.

    :param clock: for waiting only; expiry is judged by the store's time.
    :param random: for pauses between tries and ids of requests; by default the system's, which forks do not share.
    :param reading: isolation of reads that do not name one.
    :param connections: URLs of the databases that the sources of jobs name, by the id of their connection.
    :ivar context: collaborators of the operations. :ivar restatements: operations on restatements.
    """

    def __init__(
        self,
        store: MetadataStore,
        formats: TableFormats,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        defaults: Defaults = DEFAULTS,
        reading: ReadDefaults = READ_DEFAULTS,
        connections: Mapping[str, str] | None = None,
    ) -> None:
        self.context = Context.of(store, formats, clock=clock, random=random, defaults=defaults)
        self.connections = dict(connections or {})
        self.cuts = Cuts(store, formats, clock=clock, random=random, defaults=defaults, reading=reading)
        self.leases = Leases(store, self.cuts, clock=clock, random=random, defaults=defaults)
        self.retention = Retention(store, formats, clock=clock, random=random, defaults=defaults)
        self.restatements = Restatements(self.context, self.cuts)

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        require: frozenset[StoreCapability] = frozenset(),
        create: bool = True,
        clock: Clock | None = None,
        random: Random | None = None,
        defaults: Defaults = DEFAULTS,
    ) -> Self:
        """Open what *settings* name.

        :param create: create the file of a store that does not exist; False for programs that only read.
        :raises InvalidInput: malformed URL or warehouse.
        :raises StoreIncompatible: the store lacks a capability in *require*, or has another schema.
        :raises StoreUnavailable: the store does not answer.
        """
        reading = settings.reading
        require = require | settings.require
        _, swaps = catalog_of(settings.store_url, settings.catalog_url)
        if StoreCapability.CATALOG_SWAP in require and not swaps:
            raise _not_atomic(settings)
        formats = open_formats(settings.store_url, settings.warehouse, settings.catalog_url)
        store = open_store(settings.store_url, require=require, create=create)
        return cls(
            store,
            formats,
            clock=clock,
            random=random,
            defaults=defaults,
            reading=reading,
            connections=settings.connections,
        )

    @property
    def store(self) -> MetadataStore:
        return self.context.store

    @property
    def formats(self) -> TableFormats:
        return self.context.formats

    @property
    def clock(self) -> Clock:
        return self.context.clock

    @property
    def random(self) -> Random:
        return self.context.random

    @property
    def defaults(self) -> Defaults:
        return self.context.defaults

    def register(self, job: Job) -> JobRecord:
        """Make *job* and its tables known: see :func:`~.register.register`."""
        record = register(self.context, job)
        self.restatements.settle_groups(job.domain, job.name)
        return record

    def begin(
        self,
        job: Job,
        interval: Interval,
        owner: Owner,
        **options: Unpack[BeginOptions],
    ) -> Attempt | AlreadyCommitted | AlreadyStaged:
        """Open an attempt at one epoch: see :func:`~.begin.begin`.

        A group whose jobs are all staged is published, where its last member was interrupted.
        """
        answer, topology = begin_with_topology(self.context, job, interval, owner, **options)
        group, origin = job.group, job.origin
        if group is not None and any(may_be_of(name, group, origin) for name in topology.restating):
            # its origin may have moved over these barriers, which wait for the job no more
            self.restatements.settle_groups(job.domain, job.name, group, before=origin)
        return self._published(answer)

    def _published(
        self, answer: Attempt | AlreadyCommitted | AlreadyStaged
    ) -> Attempt | AlreadyCommitted | AlreadyStaged:
        if isinstance(answer, AlreadyCommitted):  # the try that committed it may have been interrupted then
            self.restatements.settle_epochs(answer)
        csn = self.restatements.publish_if_whole(answer) if isinstance(answer, AlreadyStaged) else None
        if csn is None:
            return answer
        return AlreadyCommitted(answer.domain, answer.job, answer.interval, answer.revision, csn=csn)

    def begin_within(
        self,
        restatement: str,
        job: Job,
        interval: Interval,
        owner: Owner,
        **options: Unpack[BeginOptions],
    ) -> Attempt | AlreadyCommitted | AlreadyStaged:
        """Open an attempt at one epoch of *restatement*: see :func:`~.skipped_copies.begin_member`."""
        within = restatement_id(restatement)
        return self._published(begin_member(self.context, within, job, interval, owner, **options))

    def stage(self, attempt: Attempt) -> AlreadyStaged:
        """End an attempt within a restatement, which publishes it later: see :func:`~.skipped_copies.stage_member`.

        The last member of a group to be staged publishes the group: see :func:`~.grouped.publish_if_whole`.

        :raises Conflict: it is staged, and its group waits for members that have to be computed again; names them.
        """
        staged, within = stage_member(self.context, attempt)
        self.restatements.publish_if_whole(staged, within)
        return staged

    def join(self, attempt: Attempt, participant: int, owner: Owner) -> Attempt:
        """Let one of several writers of *attempt* begin: see :func:`~.join.join`."""
        return join(self.context, attempt, participant, owner)

    def processed(self, attempt: Attempt, sink: str) -> None:
        """Report that all records for *sink* are in files: see :func:`~.report.processed`."""
        processed(self.context, attempt, sink)

    def written(self, attempt: Attempt, sink: str, committable: Committable) -> None:
        """Record the output to be published for *sink*: see :func:`~.report.written`."""
        written(self.context, attempt, sink, committable)

    def complete(self, attempt: Attempt) -> None:
        """Record that the attempt's code came to its end: see :func:`~.report.complete`."""
        complete(self.context, attempt)

    def check(self, attempt: Attempt, query: Query | None = None) -> None:
        """Run the job's checks on the output recorded at WRITTEN: see :func:`~.check.check`."""
        check(self.context, attempt, query)

    def publish(self, attempt: Attempt) -> Published:
        """Make the epoch's slices visible at one CSN: see :func:`~.publish.publish`."""
        published = publish(self.context, attempt, restating := set[RestatementId]())
        if restating:
            self.restatements.settle_epochs(published)
        return published

    def publish_together(self, attempts: Sequence[Attempt]) -> tuple[Published, ...]:
        """Make the slices of several epochs of one run visible at one CSN: see :func:`~.publish.publish_together`."""
        published = publish_together(self.context, attempts, restating := set[RestatementId]())
        if restating:
            self.restatements.settle_epochs(*published)
        return published

    def skip(self, domain: str, job: str, span: Interval, reason: str, *, by: str) -> Skipped:
        """Commit the epochs in *span* without rows (R5): see :func:`~.skip.skip`."""
        skipped = skip(self.context, domain, job, span, reason=reason, by=by)
        left = (EpochId(domain_name(domain), job_name(job), epoch) for epoch in skipped.left)
        stalled = self.restatements.settle_epochs(*skipped.published, *left)
        return replace(skipped, stalled=tuple(map(str, stalled)))

    def retire(self, domain: str, job: str, *, reason: str, by: str, table: str | None = None) -> None:
        """End *job*, or a table that it no longer declares (R7): see :func:`~.retire.retire`."""
        retire(self.context, domain, job, reason=reason, by=by, table=table)
        self.restatements.settle_groups(domain, job_name(job))

    def revive(self, domain: str, job: str) -> None:
        """Let a retired job continue: see :func:`~.retire.revive`."""
        revive(self.context, domain, job)

    def plan_drop(self, domain: str, subject: str, name: str, *, cascade: bool = False) -> DropPlan:
        """Show what dropping a table, a job or a domain takes (R39): see :func:`~.drop.plan_drop`."""
        return plan_drop(self.context, domain, subject, name, cascade=cascade)

    def drop(self, domain: str, plan: DropPlan, *, reason: str, by: str, cascade: bool = False) -> Dropped:
        """Drop what *plan* shows (R39): see :func:`~.drop.drop`."""
        return drop(self.context, domain, plan, reason=reason, by=by, cascade=cascade)

    def finish_drop(self, domain: str) -> Dropped | None:
        """Delete what an interrupted drop has left to delete (R39): see :func:`~.drop.finish_drop`."""
        return finish_drop(self.context, domain)

    def abort(self, attempt: Attempt, reason: str) -> None:
        """End an attempt without a commit and delete its staged output: see :func:`~.end.abort`."""
        abort(self.context, attempt, reason)

    def heartbeat(self, attempt: Attempt) -> timedelta:
        """Renew the attempt's lock; return how long it lasts from now on: see :func:`~.renew.heartbeat`."""
        return heartbeat(self.context, attempt)

    def input(self, attempt: Attempt, table: str) -> tuple[State, str]:
        """Return the state of *table* that the attempt reads, and its schema: see :func:`~.read_input.read_input`."""
        return read_input(self.context, attempt, table)

    def columns(self, attempt: Attempt, sink: str) -> TableInfo | None:
        """Return the table with the columns of the attempt's rows: see :func:`~.alter.written_columns`."""
        return written_columns(self.context, attempt, sink)

    def place(self, attempt: Attempt, sink: str) -> StagingLocation:
        """Return the place at which *attempt* stages the rows of *sink*."""
        return staging.place(self.context.formats, attempt, sink)

    def epoch(self, domain: DomainName, job: JobName, interval: Interval) -> Stamped[EpochRecord] | None:
        """Return the record of one epoch; None before its first attempt."""
        key = epoch_key(domain, job, interval.start)
        return self.context.store.read(key.domain, [key]).get(key)

    def barriers(self, domain: DomainName, job: JobName, interval: Interval) -> list[Stamped[AttemptEvent]]:
        """Return the state log of one epoch, by token and participant."""
        return state_log(self.context.store, EpochId(domain, job, interval))

    def recover(self, domain: str, *, new_catalog: bool = False) -> Recovery:
        """Move the catalog's pointers of all tables of *domain* to the store's versions: see :func:`recover`."""
        return recover(self.context, domain, new_catalog=new_catalog)

    def bind(self, domain: str, source: str, interval: ExplicitInterval, *, reason: str, by: str) -> Bound:
        """Bind the epoch of *interval* to the present data of *source*: see :func:`bind`.

        :param interval: as for ``epoch_run``, such as ``"2024-05-01"``.
        :raises InvalidInput: malformed interval, or nothing is recorded for it.
        """
        cadence = declaring(self.store, domain, source).cadence
        return bind(
            self.context,
            domain,
            source,
            run_interval(cadence, explicit=interval),
            SourceReaders(self.connections),
            reason=reason,
            by=by,
        )

    def resume(self, job: Job, begun: Begun) -> Attempt | AlreadyCommitted | AlreadyStaged:
        """Resume the attempt that *begun* names: see :func:`~.resume.resume`."""
        return resume(self.context, job, begun)

    def close(self) -> None:
        """Release connections; may be called twice."""
        self.formats.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _folder(value: object) -> Path:
    """Return *value* as the absolute path of a folder.

    :raises InvalidInput: *value* is no existing folder; the error names ``local``.
    """
    text = os.fspath(value) if isinstance(value, str | PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or "://" in text:
        raise InvalidInput(
            field="local",
            value=value,
            expected="the path of a folder, for the store and the tables",
            next_step="give a folder; for a store elsewhere pass settings=Settings(store_url=…, warehouse=…).",
        )
    place = Path(text).absolute()
    if not _is_folder(place):
        raise InvalidInput(
            field="local",
            value=text,
            expected=f"a folder that is there, seen from {Path.cwd()}",
            next_step="make the folder (mkdir -p), or correct the path.",
        )
    return place.resolve() if ".." in place.parts else place


def _is_folder(place: Path) -> bool:
    try:
        return place.is_dir()
    except OSError:  # a name that no folder can have
        return False


def _not_atomic(settings: Settings) -> StoreIncompatible:
    return StoreIncompatible(
        f"the store {redacted(settings.store_url)} is not {StoreCapability.CATALOG_SWAP} "
        f"{redacted(settings.catalog_url)}, which lies elsewhere.",
        next_step="keep the catalog in the store's own database, or do without what asks for it; the docs say what "
        "a reader by catalog sees.",
        missing=(StoreCapability.CATALOG_SWAP,),
    )
