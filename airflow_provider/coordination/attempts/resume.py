"""Resumption of an attempt that another process has begun, by its name; all else is read from the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from airflow_provider.coordination.attempts.fence import replaced
from airflow_provider.coordination.commits.source_dependents import whole_sources
from airflow_provider.coordination.context import Context
from airflow_provider.domain.epoch import (
    AlreadyCommitted,
    Attempt,
    AttemptEvent,
    AttemptRecord,
    EpochState,
    Owner,
    change_set_id,
)
from airflow_provider.domain.errors import Fenced
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped, epoch_key, event_key, lock_key
from airflow_provider.domain.source_bounds import SourceBounds
from airflow_provider.domain.topology import Job
from airflow_provider.stores.base import MetadataReader, Reading


@dataclass(frozen=True, kw_only=True, slots=True)
class Begun:
    """Answer of begin, short enough to hand to any process.

    :param token: of the attempt, in a store with this *incarnation*.
    :param csn: of the commit, if begin found the epoch committed; then there is no attempt.
    """

    domain: DomainName
    job: JobName
    interval: Interval
    revision: int
    token: int = 0
    incarnation: str = ""
    csn: int | None = None

    @classmethod
    def of(cls, answer: Attempt | AlreadyCommitted) -> Begun:
        """Return the name of an answer of begin."""
        attempt = answer if isinstance(answer, Attempt) else None
        return cls(
            domain=answer.domain,
            job=answer.job,
            interval=answer.interval,
            revision=answer.revision,
            token=attempt.token if attempt else 0,
            incarnation=attempt.incarnation if attempt else "",
            csn=None if isinstance(answer, Attempt) else answer.csn,
        )

    def committed(self, csn: int) -> AlreadyCommitted:
        """Return the answer that it is published as *csn*."""
        return AlreadyCommitted(
            domain=self.domain,
            job=self.job,
            interval=self.interval,
            revision=self.revision,
            csn=csn,
            change_set=change_set_id(self.job, self.interval, self.revision),
        )

    def __str__(self) -> str:
        return f"{self.domain}/{self.job} {self.interval} revision {self.revision} token {self.token}"


@dataclass(frozen=True, slots=True)
class Resume:
    """Request to resume an attempt; it changes nothing."""

    context: Context
    job: Job
    begun: Begun

    def run(self) -> Attempt | AlreadyCommitted:
        """Return the attempt, or its commit.

        :raises Fenced: a newer attempt exists, or this one was ended.
        """
        begun = self.begun
        if begun.csn is not None:
            return begun.committed(begun.csn)
        start = begun.interval.start
        fence, lock = epoch_key(begun.domain, begun.job, start), lock_key(begun.domain, begun.job, start)
        state = EpochState.COMMIT
        commit = event_key(begun.domain, begun.job, start, token=begun.token, sink="", state=state)
        reading = self.context.store.read(begun.domain, [fence, lock, commit])
        epoch, locked, done = reading.get(fence), reading.get(lock), reading.get(commit)
        # A restored store gives out tokens again: a COMMIT with this token may be of another attempt there.
        if reading.head.incarnation == begun.incarnation and done is not None:
            return begun.committed(done.csn or 0)
        record = self._newest(reading, epoch.record.attempt if epoch else None)
        ttl = locked.record.ttl if locked and not locked.record.ended else self.context.defaults.lock_ttl
        return attempt_of(
            self.job,
            begun.interval,
            record,
            whole_sources(self.context.store, begun.domain, begun.interval, record.sources),
            incarnation=begun.incarnation,
            fence=epoch.version if epoch else 0,
            ttl=ttl,
        )

    def _newest(self, reading: Reading, record: AttemptRecord | None) -> AttemptRecord:
        begun = self.begun
        if reading.head.incarnation != begun.incarnation:
            raise replaced(begun, begun.incarnation, reading.head.incarnation)
        if record is None or record.token != begun.token:
            found = None if record is None else record.token
            why = f"the newest one has token {found}, of {record.owner}" if record else "there is none"
        elif record.aborted is not None:
            found, why = record.token, f"it has ended: {record.aborted}"
        else:
            return record
        raise Fenced.of(
            begun,
            why,
            next_step="begin the epoch again; what participants of this attempt wrote is not published.",
            expected=begun.token,
            found=found,
            by=None if record is None else record.owner,
        )


def resume(context: Context, job: Job, begun: Begun) -> Attempt | AlreadyCommitted:
    """Return the attempt that *begun* names as begin returned it, or its commit.

    :param job: as declared at begin.
    :raises Fenced: a newer attempt exists, or this one was ended.
    """
    return context.retry(
        Resume(context, job, begun).run,
    )


def attempt_of(
    job: Job,
    interval: Interval,
    record: AttemptRecord,
    sources: tuple[SourceBounds, ...],
    *,
    incarnation: str,
    fence: int,
    ttl: timedelta,
) -> Attempt:
    """Return the attempt in *record* for a worker. :param sources: of the record, with their files."""
    return Attempt(
        domain=job.domain,
        job=job.name,
        interval=interval,
        revision=record.revision,
        token=record.token,
        owner=record.owner,
        inputs=record.inputs,
        sources=sources,
        sinks=job.outputs,
        incarnation=incarnation,
        fence=fence,
        ttl=ttl,
        participants=record.participants,
        shared=record.shared,
        adopted=record.adopts is not None,
        checks=() if record.skips else job.checks,
    )


def committed_as(job: Job, interval: Interval, revision: int, csn: int) -> AlreadyCommitted:
    """Return the answer that the epoch of *interval* is published as *csn*."""
    return Begun(domain=job.domain, job=job.name, interval=interval, revision=revision).committed(csn)


def earlier_commit(
    reader: MetadataReader,
    job: Job,
    interval: Interval,
    owner: Owner,
    log: Iterable[Stamped[AttemptEvent]],
) -> AlreadyCommitted | None:
    """Return the owner's own commit when another run has committed a later revision over it.

    :param log: of the epoch.
    """
    for entry in log:
        if entry.record.state is EpochState.COMMIT and entry.record.owner.same_generation(owner):
            (commit,) = reader.changes(job.domain, (entry.csn or 0) - 1, limit=1)
            return committed_as(job, interval, commit.record.members[0].revision, entry.csn or 0)
    return None
