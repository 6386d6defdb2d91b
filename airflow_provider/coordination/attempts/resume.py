"""Resumption of an attempt that another process has begun, by its name; all else is read from the store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from airflow_provider.coordination.attempts.fence import replaced
from airflow_provider.coordination.attempts.state_log import own_commits
from airflow_provider.coordination.commits.source_dependents import whole_sources
from airflow_provider.coordination.context import Context
from airflow_provider.domain.epoch import (
    AlreadyCommitted,
    AlreadyStaged,
    Attempt,
    AttemptRecord,
    EpochRecord,
    EpochState,
    committed_csn,
)
from airflow_provider.domain.epoch_id import AttemptId, EpochId
from airflow_provider.domain.errors import Fenced
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Stamped, event_key, fence_of, lock_of, restatement_key
from airflow_provider.domain.restatement import RestatementState
from airflow_provider.domain.source_bounds import SourceBounds
from airflow_provider.domain.topology import Job
from airflow_provider.stores.base import MetadataReader, Reading


@dataclass(frozen=True, kw_only=True, slots=True)
class Begun(AttemptId):
    """Answer of begin, short enough to hand to any process.

    :param token: of the attempt, in a store with this *incarnation*.
    :param csn: of the commit, if begin found the epoch committed; then there is no attempt.
    :param staged: the change set for which begin found the epoch staged; then there is none, either.
    """

    incarnation: str = ""
    csn: int | None = None
    staged: RestatementId | None = None

    @classmethod
    def of(cls, answer: Attempt | AlreadyCommitted | AlreadyStaged) -> Begun:
        """Return the name of an answer of begin."""
        attempt = answer if isinstance(answer, Attempt) else None
        return cls(
            answer.domain,
            answer.job,
            answer.interval,
            answer.revision,
            attempt.token if attempt else 0,
            incarnation=attempt.incarnation if attempt else "",
            csn=answer.csn if isinstance(answer, AlreadyCommitted) else None,
            staged=answer.restatement if isinstance(answer, AlreadyStaged) else None,
        )

    def committed(self, csn: int) -> AlreadyCommitted:
        """Return the answer that it is published as *csn*."""
        return AlreadyCommitted(self.domain, self.job, self.interval, self.revision, csn=csn)

    def staged_for(self, restatement: RestatementId) -> AlreadyStaged:
        """Return the answer that *restatement* has it staged."""
        return AlreadyStaged(self.domain, self.job, self.interval, self.revision, restatement=restatement)


@dataclass(frozen=True, slots=True)
class Resume:
    """Request to resume an attempt; it changes nothing."""

    context: Context
    job: Job
    begun: Begun

    def run(self) -> Attempt | AlreadyCommitted | AlreadyStaged:
        """Return the attempt, its commit, or that it is staged.

        :raises Fenced: a newer attempt exists, or this one was ended; or its commit, or what begin has found staged or
            committed, was taken back.
        """
        begun = self.begun
        if begun.csn is not None or begun.staged is not None:
            return self._found()
        fence, lock = fence_of(begun), lock_of(begun)
        commit = event_key(begun, begun.token, EpochState.COMMIT)
        reading = self.context.store.read(begun.domain, [fence, lock, commit])
        epoch, locked, done = reading.get(fence), reading.get(lock), reading.get(commit)
        taken_back = done is not None and epoch is not None and epoch.record.has_taken_back(done.csn)
        # A restored store gives out tokens again: a COMMIT with this token may be of another attempt there.
        if reading.head.incarnation == begun.incarnation and done is not None and not taken_back:
            return begun.committed(done.csn or 0)
        record = self._newest(reading, epoch.record.attempt if epoch else None)
        if record.staged and record.restatement is not None:
            return begun.staged_for(record.restatement)
        ttl = locked.record.ttl if locked and not locked.record.ended else self.context.defaults.lock_ttl
        return attempt_of(
            self.job,
            begun.interval,
            record,
            whole_sources(self.context.store, begun, record.sources),
            incarnation=begun.incarnation,
            fence=epoch.version if epoch else 0,
            ttl=ttl,
        )

    def _found(self) -> AlreadyCommitted | AlreadyStaged:
        """Return what begin has found instead of beginning an attempt.

        :raises Fenced: it is there no more.
        """
        begun, fence, staged = self.begun, fence_of(self.begun), self.begun.staged
        within = () if staged is None else (restatement_key(begun.domain, staged),)
        reading = self.context.store.read(begun.domain, [fence, *within])
        epoch = reading.get(fence)
        if epoch is not None and begun.csn is not None:
            if epoch.record.committed is not None and not epoch.record.has_taken_back(begun.csn):
                return begun.committed(begun.csn)
        elif epoch is not None and staged is not None:
            attempt, known = epoch.record.attempt, reading.get(restatement_key(begun.domain, staged))
            is_published = known is not None and known.record.state is RestatementState.PUBLISHED
            is_kept = attempt is not None and attempt.restated_by == staged and attempt.staged
            if is_kept or (is_published and epoch.record.committed is not None):
                return begun.staged_for(staged)
        what = "committed" if staged is None else f"staged for {staged!r}"
        raise Fenced(
            f"{begun.job} {begun.interval}: begin has found it {what}, which it is no more: it was taken back, or is "
            "computed again.",
            next_step="begin the epoch again: clear the task that has begun it.",
            expected=begun.token,
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


def resume(context: Context, job: Job, begun: Begun) -> Attempt | AlreadyCommitted | AlreadyStaged:
    """Return the attempt that *begun* names as begin returned it, its commit, or that its restatement has it staged.

    :param job: as declared at begin.
    :raises Fenced: a newer attempt exists, or this one was ended; or what was committed or staged was taken back.
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
        job.domain,
        job.name,
        interval,
        record.revision,
        record.token,
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
        restatement=record.restatement,
    )


def committed(name: EpochId, epoch: Stamped[EpochRecord]) -> AlreadyCommitted:
    """Return the answer that the committed *epoch* is committed."""
    done = epoch.record.committed
    revision = 0 if done is None else done.revision
    return AlreadyCommitted(name.domain, name.job, name.interval, revision, csn=committed_csn(epoch) or 0)


def earlier_commit(
    reader: MetadataReader, name: EpochId, owner: Owner, epoch: EpochRecord | None
) -> AlreadyCommitted | None:
    """Return the owner's own commit when another run has committed a later revision of *epoch* over it.

    A commit that was rolled back since is none.
    """
    if epoch is None or epoch.committed is None or epoch.committed.owner.same_generation(owner):
        return None
    entry = next(own_commits(reader, name, epoch, owner), None)
    if entry is None:
        return None
    (commit,) = reader.changes(name.domain, (entry.csn or 0) - 1, limit=1)
    revision = next(
        member.revision
        for member in commit.record.members
        if (member.job, member.interval) == (name.job, name.interval)
    )
    return AlreadyCommitted(name.domain, name.job, name.interval, revision, csn=entry.csn or 0)
