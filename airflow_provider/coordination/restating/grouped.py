"""Publishing of a group's barrier: by the member that is staged last, or by whoever comes after it (R40)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from shlex import quote

from airflow_provider.coordination.attempts.publish import publish_members
from airflow_provider.coordination.commits.groups import group_jobs, surely_waits, unknown_step
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.restating.opening import told
from airflow_provider.coordination.retrying import ReadAgain
from airflow_provider.coordination.upkeep.members_now import MembersNow, MemberState, MemberStatus
from airflow_provider.domain.errors import Conflict, Fenced, InvalidInput, NotReady
from airflow_provider.domain.group import readers_among
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.records import topology_key
from airflow_provider.domain.restatement import RestatementState, refuse_closed


def publish_group(context: Context, now: MembersNow) -> int:
    """Publish all members of a group's barrier at one CSN, or nothing of them; return the CSN.

    A repetition returns the same.

    :raises NotReady: a job of the group is not staged; ``missing`` names each.
    :raises InvalidInput: it was abandoned, or opened before the store was restored.
    :raises Conflict: what members have read has changed: compute them again. Others are those of publish.
    """
    try:
        return _publish(context, now)
    except (Conflict, NotReady) as error:
        outdated = _outdated(now)
        if outdated:
            raise _stalled(now, outdated) from error
        raise


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


def _publish(context: Context, now: MembersNow) -> int:
    domain, name = now.domain, now.name

    def operation() -> int:
        # The topology before the members: a job that registers or retires meanwhile makes publish decide anew.
        topology = now.reader.read(domain, [key := topology_key(domain), now.stamped.key])
        current = replace(now, stamped=topology.of(now.stamped.key))
        if current.record.state is RestatementState.PUBLISHED:
            return current.stamped.csn or 0
        refuse_closed(name, current.record, incarnation=topology.head.incarnation, now=topology.now)
        staged, missing = current.staged()
        if missing or not staged:
            raise _not_staged(current, missing)
        together = current.together(staged, topology.of(key).version)
        try:
            return publish_members(context, [member.attempt for member in staged], together)[0].csn
        except Fenced as error:  # a member is computed again, or another caller has published
            raise ReadAgain from error

    return context.retry(operation, Conflict.of_others(f"group {name!r}", "changing its epochs"))


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
        f"them; the last one publishes. `airflow epochs restate status {quote(now.name)}` shows each.",
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
        f"group {now.name!r}: {len(missing)} of {now.record.size} jobs are not staged: {listed or 'none is staged'}.",
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
