"""Admission of a begin: it opens an attempt, waits, takes the epoch over, or is told of a commit.

Pure decisions (protocol section 5).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from airflow_provider.domain.epoch import EpochRecord, LockRecord, has_expired
from airflow_provider.domain.errors import EpochBusy, Fenced, FinalError, InvalidInput
from airflow_provider.domain.identifiers import JobName, RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.restatement import ChangeSetKind, change_set_of_restatement, held
from airflow_provider.domain.topology import OnRerun


class Beginning(StrEnum):
    """Outcome of a begin."""

    OPEN = "open"
    """A new attempt with the next token."""
    SAME = "same"
    """The request was granted before; its reply was lost."""
    COMMITTED = "committed"
    """The epoch is committed and stays; there is nothing to do."""
    STAGED = "staged"
    """The restatement has the epoch's output; there is nothing to do while its inputs are what they were."""


def check_interval(job: JobRecord, interval: Interval, *, now: datetime, tolerance: timedelta) -> None:
    """Refuse an interval that is not an epoch of the job.

    :raises InvalidInput: off the cadence, before the origin, or beyond the store's now plus *tolerance*.
    """
    epoch = job.cadence.ending_at(interval.end)
    if epoch != interval:
        raise InvalidInput(
            field="interval",
            value=str(interval),
            expected=f"one epoch of {job.name!r} ({job.cadence}), such as {epoch}",
            next_step="split the interval at the job's cadence: one begin for each epoch.",
        )
    if job.origin is not None and interval.start < job.origin:
        raise InvalidInput(
            field="interval",
            value=str(interval),
            expected=f"a start at or after the origin {job.origin.isoformat()} of job {job.name!r}",
            next_step="choose a later interval, or declare an earlier origin.",
        )
    if interval.end > now + tolerance:
        raise InvalidInput(
            field="interval",
            value=str(interval),
            expected=f"an end at or before {(now + tolerance).isoformat()} (the store's now and its tolerance)",
            next_step="run the job after the interval has ended; check the clock of this host.",
        )


def decide(
    job: JobRecord,
    epoch: EpochRecord | None,
    lock: Stamped[LockRecord] | None,
    owner: Owner,
    now: datetime,
    *,
    fills: bool = False,
    skips: bool = False,
    behind: bool = False,
    restatement: RestatementId | None = None,
) -> Beginning:
    """Decide the outcome of a begin by *owner*.

    :param restatement: the epoch is to be computed within it, whatever ``on_rerun`` says.
    :param fills: the epoch is committed, and some of the job's tables lack it.
    :param skips: *owner* skips the epoch: a committed one stays, whatever the job's ``on_rerun``.
    :param behind: a source that the epoch has read was bound anew: it is computed again, whatever ``on_rerun`` says.
    :raises EpochBusy: a live attempt of another run holds the epoch.
    :raises Fenced: *owner* is older than the newest attempt of its own run.
    :raises FinalError: the epoch is committed, and the job declares ``on_rerun="fail"``.
    """
    if epoch is None:
        return Beginning.OPEN
    attempt = epoch.attempt
    # A repetition of the call that began it, whose reply was lost.
    if attempt is not None and attempt.aborted is None and attempt.owner.same_call(owner):
        return Beginning.SAME
    if restatement is not None:
        return _decide_within(restatement, job.name, epoch, lock, owner=owner, now=now)
    if skips and epoch.committed is not None and not fills:
        return Beginning.COMMITTED
    # A retry of the generation that committed: the work is done, and at most its reply was lost.
    if not skips and epoch.committed is not None and epoch.committed.owner.same_generation(owner):
        return Beginning.COMMITTED
    refuse_older(epoch, owner)
    _refuse_live(job.name, epoch, lock, owner, now)
    return _anew(job, epoch, fills=fills, skips=skips, behind=behind)


def _anew(job: JobRecord, epoch: EpochRecord, *, fills: bool, skips: bool, behind: bool) -> Beginning:
    """Decide whether an epoch that no live attempt holds is computed, or stays as it is committed."""
    restating = epoch.attempt.restated_by if epoch.attempt is not None else None
    if restating is not None:
        if job.on_rerun is OnRerun.KEEP and epoch.committed is not None and not (fills or skips or behind):
            return Beginning.COMMITTED
        raise held(job.name, epoch.interval, restating)
    # A skipped epoch was not computed yet, so that on_rerun does not apply (docs/decisions/skip.md).
    if epoch.committed is None or epoch.committed.skipped or skips or behind:
        return Beginning.OPEN
    if job.on_rerun is OnRerun.NEW_REVISION:
        return Beginning.OPEN
    # A fill adds tables and keeps the committed rows, as on_rerun says (docs/decisions/new-output.md).
    if fills and job.on_rerun is OnRerun.KEEP:
        return Beginning.OPEN
    if job.on_rerun is OnRerun.KEEP:
        return Beginning.COMMITTED
    raise FinalError(
        f"{job.name} {epoch.interval} is committed (revision {epoch.committed.revision} by {epoch.committed.owner}) "
        f'and the job says on_rerun="fail".',
        next_step="leave it, or declare on_rerun='new_revision'.",
    )


def _decide_within(
    restatement: RestatementId,
    job: JobName,
    epoch: EpochRecord,
    lock: Stamped[LockRecord] | None,
    *,
    owner: Owner,
    now: datetime,
) -> Beginning:
    """Decide the outcome of a begin within *restatement*: what is staged stays, unless its task was cleared."""
    attempt, committed = epoch.attempt, epoch.committed
    change_sets = {change_set_of_restatement(restatement, kind) for kind in ChangeSetKind}
    if committed is not None and committed.change_set in change_sets:
        return Beginning.COMMITTED
    restating = attempt.restated_by if attempt is not None else None
    if restating not in (None, restatement):
        raise held(job, epoch.interval, restating)
    if attempt is not None and restating is not None and attempt.staged:
        return Beginning.OPEN if owner.clears(attempt.owner) else Beginning.STAGED
    refuse_older(epoch, owner)
    _refuse_live(job, epoch, lock, owner, now)
    return Beginning.OPEN


def computes_again(epoch: EpochRecord, owner: Owner) -> bool:
    """Return True if *owner* asks for a new generation of an epoch that was computed and committed, not skipped."""
    committed = epoch.committed
    return committed is not None and not committed.skipped and not committed.owner.same_generation(owner)


def asks_anew(
    on_rerun: OnRerun, epoch: EpochRecord, owner: Owner, *, fills: bool = False, behind: bool = False
) -> bool:
    """Return True if a begin by *owner* computes all tables of committed *epoch* again because its job says so.

    A skipped epoch was not computed yet, whatever *on_rerun* says. False for a retry of the generation that committed
    it, and for a try that a newer one of its run has overtaken. :param fills, behind: as of :func:`decide`.
    """
    committed = epoch.committed
    if committed is None or committed.owner.same_generation(owner) or fills or behind:
        return False
    is_overtaken = any(
        owner.same_run(record.owner) and owner.order < record.owner.order
        for record in (epoch.attempt, committed)
        if record is not None
    )
    return not is_overtaken and (bool(committed.skipped) or on_rerun is OnRerun.NEW_REVISION)


def refuse_older(epoch: EpochRecord, owner: Owner) -> None:
    """:raises Fenced: *owner* is older than the newest attempt, or the commit, of its own run."""
    for other in (record.owner for record in (epoch.attempt, epoch.committed) if record is not None):
        if owner.same_run(other) and owner.order < other.order:
            raise Fenced(
                f"{epoch.interval}: the attempt of {owner} is older than {other}.",
                next_step="let it end: the newer attempt does the work.",
                found=epoch.token,
                by=other,
            )


def _refuse_live(
    job: JobName,
    epoch: EpochRecord,
    lock: Stamped[LockRecord] | None,
    owner: Owner,
    now: datetime,
) -> None:
    live = holder(epoch, lock, now)
    if live is not None and not owner.same_run(live[0]):
        holding, until = live
        raise EpochBusy.of_attempt(
            f"{job} {epoch.interval}", job=job, interval=epoch.interval, holder=holding, until=until
        )


def holder(
    epoch: EpochRecord | None, lock: Stamped[LockRecord] | None, now: datetime
) -> tuple[Owner, datetime] | None:
    """Return the owner of the live attempt at *epoch* and the end of its lock; None without a live attempt."""
    attempt = epoch.attempt if epoch is not None else None
    if attempt is None or attempt.aborted is not None or lock is None or lock.record.token != attempt.token:
        return None
    if has_expired(lock.at, lock.record.ttl, now):
        return None
    return attempt.owner, lock.at + lock.record.ttl
