"""Skipped members of a restatement: full tables have at their barriers what they had before, and so anew (R5, R28).

No code computes such a member. The process that has staged the epoch before it copies it, so that the next member,
which may read the copy, finds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Unpack

from airflow_provider.coordination.attempts.begin import BeginOptions
from airflow_provider.coordination.attempts.begin_within import begin_within
from airflow_provider.coordination.attempts.stage import stage_within
from airflow_provider.coordination.commits.staged import restatement_of
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.retrying_reader import retrying_reader
from airflow_provider.coordination.upkeep.members_now import MembersNow, job_of
from airflow_provider.coordination.upkeep.skip import copy_within
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.epoch import AlreadyCommitted, AlreadyStaged, Attempt
from airflow_provider.domain.errors import Conflict, EpochBusy, Fenced, NotReady
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Stamped, epoch_key, job_key, restatement_key
from airflow_provider.domain.restatement import JobEpochs, RestatementRecord
from airflow_provider.domain.topology import Job
from airflow_provider.stores.base import MetadataReader

_PAGE = 500
_OTHERS = (NotReady, EpochBusy, Fenced, Conflict)
"""Errors of a copy whose epoch before is being computed again, or which another process makes: that one goes on."""


def begin_member(
    context: Context,
    restatement: RestatementId,
    job: Job,
    interval: Interval,
    owner: Owner,
    **options: Unpack[BeginOptions],
) -> Attempt | AlreadyCommitted | AlreadyStaged:
    """Begin within *restatement*: see :func:`~.begin_within.begin_within`. A skipped copy is staged at once."""
    copied = _copied(context, restatement, job.domain, job.name, interval)
    if copied is not None:
        return copied
    answer = begin_within(context, restatement, job, interval, owner, **options)
    if isinstance(answer, AlreadyStaged):  # an earlier call may have been interrupted behind it
        _copy_behind(context, answer)
    return answer


def stage_member(context: Context, attempt: Attempt) -> tuple[AlreadyStaged, Stamped[RestatementRecord]]:
    """End *attempt* within its restatement: see :func:`~.stage.stage`; then stage the skipped epochs that copy it.

    :return: beside it, the record of the restatement as it was read before.
    """
    staged, within = stage_within(context, attempt)
    if any(sink.kind.copies_when_skipped for sink in attempt.sinks):
        _copy_behind(context, staged)
    return staged, within


def copy_members(context: Context, now: MembersNow) -> None:
    """Stage all skipped copies among the members of *now* whose epoch before is staged, in the order of time."""
    for epochs in now.record.members:
        if _copies(context, now.domain, epochs.job):
            for interval in _skipped(context, now.domain, epochs):
                with suppress(*_OTHERS):
                    _copied(context, now.name, now.domain, epochs.job, interval)


def _skipped(context: Context, domain: DomainName, epochs: JobEpochs) -> Iterator[Interval]:
    """Yield those of *epochs* that are skipped, in the order of time."""
    for start in range(0, len(epochs.intervals), _PAGE):
        keys = {
            interval: epoch_key(domain, epochs.job, interval.start)
            for interval in epochs.intervals[start : start + _PAGE]
        }
        reading = _reader(context).read(domain, list(keys.values()))
        for interval, key in keys.items():
            stamped = reading.get(key)
            if stamped is not None and stamped.record.committed and stamped.record.committed.skipped:
                yield interval


def _copy_behind(context: Context, staged: AlreadyStaged) -> None:
    """Stage the skipped epochs that copy *staged*, directly or through others."""
    record = restatement_of(_reader(context), staged.domain, staged.restatement).record
    if record.is_group or not _copies(context, staged.domain, staged.job):
        return
    with suppress(*_OTHERS):
        for interval in (later for later in record.of(staged.job) if later.start >= staged.interval.end):
            if _copied(context, staged.restatement, staged.domain, staged.job, interval) is None:
                return


def _copies(context: Context, domain: DomainName, name: JobName) -> bool:
    """Return True if skipped epochs of the job *name* copy what they find."""
    return any(output.kind.copies_when_skipped for output in job_of(_reader(context), domain, name).outputs)


def _copied(
    context: Context, restatement: RestatementId, domain: DomainName, name: JobName, interval: Interval
) -> AlreadyStaged | AlreadyCommitted | None:
    """Stage *interval* of the job *name* if it is a skipped copy; None for an epoch that its code computes.

    A skipped epoch that was asked for by its name is computed.
    """
    reader, declared = _reader(context), job_key(domain, name)
    reading = reader.read(domain, [declared, fence := epoch_key(domain, name, interval.start)])
    job, epoch = reading.get(declared), reading.get(fence)
    if job is None or epoch is None:
        return None
    committed = epoch.record.committed
    if committed is None or not committed.skipped or epoch.record.interval != interval:
        return None
    # Asked for last: its record names all members.
    change_set = reader.read(domain, [key := restatement_key(domain, restatement)]).get(key)
    if change_set is None or not _is_member(change_set.record, name, interval):
        return None
    by = Owner(dag_id=f"restatement {restatement}", run_id=str(interval))
    own = JobDeclaration.of(job.record).job()
    return copy_within(context, restatement, own, interval, reason=committed.skipped, by=by)


def _is_member(record: RestatementRecord, job: JobName, interval: Interval) -> bool:
    """Return True if *interval* is a member of the restatement, and was not asked for by its name."""
    is_asked = any(asked.job == job and interval in asked.intervals for asked in record.asked)
    return not record.is_group and not is_asked and record.has(job, interval)


def _reader(context: Context) -> MetadataReader:
    return retrying_reader(
        context.store, clock=context.clock, random=context.random, defaults=context.defaults
    )
