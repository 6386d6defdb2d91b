"""The facade of attempts: a context, and the operations on it as methods.

Every method is idempotent by what it is asked (R15): a repetition answers as the first call did.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from random import Random

from airflow_provider.coordination.attempts import staging
from airflow_provider.coordination.attempts.barrier_log import barrier_log
from airflow_provider.coordination.attempts.begin import begin
from airflow_provider.coordination.attempts.bounds import RootSource
from airflow_provider.coordination.attempts.check import Query, check
from airflow_provider.coordination.attempts.end import abort
from airflow_provider.coordination.attempts.join import join
from airflow_provider.coordination.attempts.publish import publish
from airflow_provider.coordination.attempts.read_input import read_input
from airflow_provider.coordination.attempts.renew import heartbeat
from airflow_provider.coordination.attempts.report import complete, processed, written
from airflow_provider.coordination.commits.alter import written_columns
from airflow_provider.coordination.commits.register import register
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.upkeep.retire import retire, revive
from airflow_provider.coordination.upkeep.skip import Skipped, skip
from airflow_provider.domain.clock import Clock
from airflow_provider.domain.cut import State
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.epoch import (
    AlreadyCommitted,
    Attempt,
    BarrierRecord,
    EpochRecord,
    Owner,
    Published,
)
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped, epoch_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.roots import RootBounds
from airflow_provider.domain.topology import EpochJob
from airflow_provider.domain.version import Committable
from airflow_provider.stores.base import MetadataStore
from airflow_provider.tables.base import Place, TableInfo
from airflow_provider.tables.factory import TableFormats


class Coordinator:
    """All changes of the protocol, on any store and any table format.

    :ivar context: what the operations work with.
    """

    def __init__(
        self,
        store: MetadataStore,
        formats: TableFormats,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        defaults: Defaults = DEFAULTS,
    ) -> None:
        self.context = Context.of(store, formats, clock=clock, random=random, defaults=defaults)

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

    def register(self, job: EpochJob) -> JobRecord:
        """Make *job* and its tables known: see :func:`~.register.register`."""
        return register(self.context, job)

    def begin(
        self,
        job: EpochJob,
        interval: Interval,
        owner: Owner,
        *,
        roots: RootSource | Mapping[str, RootBounds] | None = None,
        participants: int = 1,
        shared_ttl: timedelta | None = None,
    ) -> Attempt | AlreadyCommitted:
        """Open an attempt at one epoch: see :func:`~.begin.begin`."""
        return begin(
            self.context, job, interval, owner, roots=roots, participants=participants, shared_ttl=shared_ttl
        )

    def join(self, attempt: Attempt, participant: int, owner: Owner) -> Attempt:
        """Let one of several writers of *attempt* begin: see :func:`~.join.join`."""
        return join(self.context, attempt, participant, owner)

    def processed(self, attempt: Attempt, sink: str) -> None:
        """Report that all records for *sink* are in files: see :func:`~.report.processed`."""
        processed(self.context, attempt, sink)

    def written(self, attempt: Attempt, sink: str, committable: Committable) -> None:
        """Record what is to be published for *sink*: see :func:`~.report.written`."""
        written(self.context, attempt, sink, committable)

    def complete(self, attempt: Attempt) -> None:
        """Record that the attempt's code came to its end: see :func:`~.report.complete`."""
        complete(self.context, attempt)

    def check(self, attempt: Attempt, query: Query | None = None) -> None:
        """Run the job's checks on what is recorded at WRITTEN: see :func:`~.check.check`."""
        check(self.context, attempt, query)

    def publish(self, attempt: Attempt) -> Published:
        """Make the epoch's slices visible at one CSN: see :func:`~.publish.publish`."""
        return publish(self.context, attempt)

    def skip(self, domain: str, job: str, span: Interval, reason: str, *, by: str) -> Skipped:
        """Declare that nothing will come of the epochs in *span* (R5): see :func:`~.skip.skip`."""
        return skip(self.context, domain, job, span, reason=reason, by=by)

    def retire(self, domain: str, job: str, *, reason: str, by: str, table: str | None = None) -> None:
        """Let nothing more come of *job*, or of a table that it has left (R7): see :func:`~.retire.retire`."""
        retire(self.context, domain, job, reason=reason, by=by, table=table)

    def revive(self, domain: str, job: str) -> None:
        """Let a retired job go on where it was: see :func:`~.retire.revive`."""
        revive(self.context, domain, job)

    def abort(self, attempt: Attempt, reason: str) -> None:
        """End an attempt without a commit and delete what it staged: see :func:`~.end.abort`."""
        abort(self.context, attempt, reason)

    def heartbeat(self, attempt: Attempt) -> timedelta:
        """Renew the attempt's lock; return how long it lasts from now on: see :func:`~.renew.heartbeat`."""
        return heartbeat(self.context, attempt)

    def input(self, attempt: Attempt, table: str) -> tuple[State, str]:
        """Return what the attempt reads of *table*, and its schema: see :func:`~.read_input.read_input`."""
        return read_input(self.context, attempt, table)

    def columns(self, attempt: Attempt, sink: str) -> TableInfo | None:
        """Return the table with the columns of the attempt's rows: see :func:`~.alter.written_columns`."""
        return written_columns(self.context, attempt, sink)

    def place(self, attempt: Attempt, sink: str) -> Place:
        """Return where *attempt* stages the rows of *sink*."""
        return staging.place(self.context.formats, attempt, sink)

    def epoch(self, domain: DomainName, job: JobName, interval: Interval) -> Stamped[EpochRecord] | None:
        """Return the record of one epoch; None when no attempt at it has begun."""
        key = epoch_key(domain, job, interval.start)
        return self.context.store.read(key.domain, [key]).get(key)

    def barriers(self, domain: DomainName, job: JobName, interval: Interval) -> list[Stamped[BarrierRecord]]:
        """Return the barrier log of one epoch, by token and participant."""
        return barrier_log(self.context.store, domain, job, interval)
