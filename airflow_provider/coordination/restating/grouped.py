"""Publishing of a group's barrier: by the member that is staged last, or by the next call after it (R40)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from shlex import quote

from airflow_provider.coordination.attempts.publish import publish_members
from airflow_provider.coordination.attempts.reserve import Races
from airflow_provider.coordination.commits.groups import group_jobs, surely_waits, unknown_step
from airflow_provider.coordination.commits.open_restatements import open_restatements
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.restating.opening import claim_keys, store_replaced, told
from airflow_provider.coordination.retrying import ReadAgain
from airflow_provider.coordination.upkeep.left_members import end_members
from airflow_provider.coordination.upkeep.members_now import MembersNow, MemberState, MemberStatus
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import (
    Conflict,
    EpochError,
    Fenced,
    InvalidInput,
    NotReady,
    OutcomeUnknown,
    StoreUnavailable,
)
from airflow_provider.domain.group import ends_with, may_be_of, readers_among
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.records import topology_key
from airflow_provider.domain.restatement import RestatementRecord, RestatementState, refuse_closed
from airflow_provider.domain.topology import Group
from airflow_provider.stores.base import MetadataReader

_NOTHING_LEFT = "its jobs are committed by themselves, or never compute it"


def publish_group(context: Context, now: MembersNow) -> int:
    """Publish all members of a group's barrier at one CSN, or nothing of them; return the CSN.

    A repetition returns the same.

    :raises NotReady: a job of the group is not staged; ``missing`` names each.
    :raises InvalidInput: it was abandoned, or opened before the store was restored; or it has nothing to publish, and
        is closed.
    :raises Conflict: what members have read has changed: compute them again. Others are those of publish.
    """
    try:
        csn = _publish(context, now)
    except (Conflict, NotReady) as error:
        outdated = _outdated(now)
        if outdated:
            raise _stalled(now, outdated) from error
        raise
    if csn is None:
        raise InvalidInput(
            field="restatement",
            value=now.name,
            expected="a barrier at which jobs of the group are staged; all of them are committed by themselves, or "
            "never compute it, so that it is closed now",
            next_step="nothing is left to do.",
        )
    return csn


def publish_if_whole(context: Context, now: MembersNow, job: JobName | None = None) -> int | None:
    """Publish a group's barrier if all its jobs are staged; return the CSN, or None where some are to be computed.

    Errors are those of :func:`publish_group`, but for this.

    :param job: the member that is staged last. Outdated members that read it are no error: their tasks come after it.
    :raises Conflict: all are staged, and some have to be computed again, for which no task comes by itself.
    """
    if surely_waits(now.reader, now.domain, now.record):
        return None
    try:
        return _publish(context, now)
    except (Conflict, NotReady) as error:
        outdated = _outdated(now)
        if outdated is None or (not outdated and isinstance(error, NotReady)):
            return None
        jobs = group_jobs(now.reader, now.domain, now.record)
        coming = readers_among(job, [known.job for known in jobs if known.job is not None]) if job else set()
        left = [member for member in outdated if member.job not in coming]
        if left:
            raise _stalled(now, left) from error
        if not outdated:
            raise
        return None


def settle_groups(
    context: Context,
    reader: MetadataReader,
    domain: DomainName,
    job: JobName,
    group: Group | None = None,
    *,
    before: datetime | None = None,
) -> tuple[EpochError, ...]:
    """Publish the open barriers that have *job* and wait for no job any more; return why others stall.

    For what is no staging, and may be the last that a barrier waits for: a skip, a commit of a job that has left, a
    retirement, another declaration. That is done when this is called, so that a barrier that cannot be published is no
    error of it. Repeat it after an interruption.

    :param group: barriers of this group alone. :param before: those of epochs that begin before it alone.
    :raises StoreUnavailable, OutcomeUnknown: as publish does.
    """
    return _settled(
        context,
        reader,
        domain,
        named=lambda name: group is None or may_be_of(name, group, before),
        affects=lambda record: any(before is None or epoch.start < before for epoch in record.of(job)),
    )


def settle_epochs(
    context: Context, reader: MetadataReader, epochs: Sequence[EpochId]
) -> tuple[EpochError, ...]:
    """Do as :func:`settle_groups` for the barriers of *epochs* of one domain, which are committed by themselves."""
    if not epochs:
        return ()
    return _settled(
        context,
        reader,
        epochs[0].domain,
        named=lambda name: any(ends_with(name, epoch.interval) for epoch in epochs),
        affects=lambda record: any(record.has(epoch.job, epoch.interval) for epoch in epochs),
    )


def _settled(
    context: Context,
    reader: MetadataReader,
    domain: DomainName,
    *,
    named: Callable[[RestatementId], bool],
    affects: Callable[[RestatementRecord], bool],
) -> tuple[EpochError, ...]:
    found = []
    for name, stamped in open_restatements(reader, domain, named=named):
        if stamped.record.is_group and affects(stamped.record):
            try:
                publish_if_whole(
                    context, MembersNow(reader, domain, name, stamped, context.defaults.lock_ttl)
                )
            except (StoreUnavailable, OutcomeUnknown):
                raise
            except EpochError as error:
                found.append(error)
    return tuple(found)


def _publish(context: Context, now: MembersNow) -> int | None:
    """Publish the barrier, or close it where no job has anything to publish; return the CSN, None for a closed one."""
    domain, name = now.domain, now.name
    races = Races(context)

    def operation() -> int | None:
        # The topology before the members: a job that registers or retires meanwhile makes publish decide anew.
        topology = context.store.read(domain, [*claim_keys(domain), now.stamped.key])
        current = replace(now, stamped=topology.of(now.stamped.key))
        if current.record.state is RestatementState.PUBLISHED:
            return current.stamped.csn or 0
        refuse_closed(name, current.record, incarnation=topology.head.incarnation, now=topology.now)
        staged, missing = current.staged()
        if missing:
            raise _not_staged(current, missing)
        if not staged:
            ended = replace(current.record, state=RestatementState.ABANDONED, ended=_NOTHING_LEFT)
            store_replaced(context.store, domain, current.stamped, ended, before=topology)
            return None
        together = current.together(staged, topology.of(topology_key(domain)).version)
        attempts = [member.attempt for member in staged]
        try:
            return publish_members(context, attempts, together, races.of(attempts[0]))[0].csn
        except Fenced as error:  # a member is computed again, or another caller has published
            raise ReadAgain from error

    csn = context.retry(operation, Conflict.of_others(f"group {name!r}", "changing its epochs"))
    if csn is None:
        end_members(context, domain, name, now.record)
    return csn


def _outdated(now: MembersNow) -> list[MemberStatus] | None:
    """Return the members that have to be computed again, once all jobs are staged; None while jobs are awaited."""
    members = now.status()
    found = [member for member in members if member.state is MemberState.OUTDATED]
    others = [member for member in members if member.state not in (MemberState.OUTDATED, MemberState.STAGED)]
    return None if others else found


def _stalled(now: MembersNow, outdated: Sequence[MemberStatus]) -> Conflict:
    """Return the error for a barrier whose jobs are staged, and some of them *outdated*."""
    names = ", ".join(member.job for member in outdated)
    why = "; ".join(f"{member.job} has to be computed again: {member.why}" for member in outdated)
    return Conflict(
        f"group {now.name!r} is staged, and not published: {why}.",
        next_step=f"clear the tasks of {names} for {outdated[0].interval}, and of the jobs of the group that read "
        f"them; the last one publishes. Clear a task that has failed with this, too: it sends the events of its tables "
        f"once it succeeds. `airflow epochs restate status {quote(now.name)}` shows each.",
        job=outdated[0].job,
    )


def refuse_of_group(now: MembersNow, what: str) -> None:
    """:raises InvalidInput: *what* is for restatements, and this is the barrier of a group."""
    if now.record.is_group:
        raise InvalidInput(
            field="restatement",
            value=now.name,
            expected=f"a restatement; a group has no {what}: its epochs replace nothing, and it is published by itself",
            next_step=f"`airflow epochs restate status {quote(now.name)}` shows which of its jobs are missing.",
        )


def _not_staged(now: MembersNow, missing: list[tuple[JobName, Interval]]) -> NotReady:
    jobs = group_jobs(now.reader, now.domain, now.record)
    unknown = [job.name for job in jobs if job.job is None]
    why = {(member.job, member.interval): f" ({member.why})" for member in now.status() if member.why}
    listed = told(f"{job} {interval}{why.get((job, interval), '')}" for job, interval in missing)
    group = next(
        (job.job.group.name for job in jobs if job.job is not None and job.job.group is not None), ""
    )
    return NotReady(
        f"group {now.name!r}: {len(missing)} of {now.record.size} jobs are not staged: {listed}.",
        next_step=unknown_step(unknown, group, now.name)
        if unknown
        else "run the tasks of these jobs, by the declaration that names the group; the last one publishes. What "
        f"never comes: `airflow epochs skip`, `retire`, or `airflow epochs restate abandon {quote(now.name)} "
        "--reason …`.",
        missing=tuple(
            Missing(name=TableName(job), wanted=interval.end, reason="not staged for its group yet")
            for job, interval in missing
        ),
    )
