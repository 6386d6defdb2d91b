"""Publishing of a group's barrier: by the member that is staged last, or by whoever comes after it (R40)."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider.coordination.attempts.publish import publish_members
from airflow_provider.coordination.commits.groups import surely_waits
from airflow_provider.coordination.restating.members import MembersNow, MemberState
from airflow_provider.coordination.restating.opening import told
from airflow_provider.coordination.retrying import ReadAgain
from airflow_provider.domain.errors import Conflict, Fenced, InvalidInput, NotReady
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.records import topology_key
from airflow_provider.domain.restatement import RestatementState, refuse_closed


def publish_group(now: MembersNow) -> int:
    """Publish all members of a group's barrier at one CSN, or nothing of them; return the CSN.

    A repetition returns the same.

    :raises NotReady: a job of the group is not staged; ``missing`` names each.
    :raises InvalidInput: it was abandoned, or opened before the store was restored.
    :raises Conflict: what members have read has changed: compute them again. Others are those of publish.
    """
    context, domain, name = now.context, now.domain, now.name

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


def publish_if_whole(now: MembersNow) -> int | None:
    """Publish a group's barrier if all its jobs are staged; return the CSN, or None where some are to be computed.

    Errors are those of :func:`publish_group`, but for these.
    """
    if surely_waits(now.reader, now.domain, now.record):
        return None
    try:
        return publish_group(now)
    except NotReady:
        return None
    except Conflict:
        if any(member.state is MemberState.OUTDATED for member in now.status()):
            return None
        raise


def refuse_of_group(now: MembersNow, what: str) -> None:
    """:raises InvalidInput: *what* is for restatements, and this is the barrier of a group."""
    if now.record.is_group:
        raise InvalidInput(
            field="restatement",
            value=now.name,
            expected=f"a restatement; a group has no {what}: its epochs replace nothing, and it is published by itself",
            next_step=f"`airflow epochs restate status {now.name!r}` shows which of its jobs are missing.",
        )


def _not_staged(now: MembersNow, missing: list[tuple[JobName, Interval]]) -> NotReady:
    listed = told(f"{job} {interval}" for job, interval in missing) or "none is staged"
    return NotReady(
        f"group {now.name!r}: {len(missing)} of {now.record.size} jobs are not staged: {listed}.",
        next_step="run the tasks of these jobs, by the declaration that names the group; the last one publishes. What "
        f"never comes: `airflow epochs skip`, `retire`, or `airflow epochs restate abandon {now.name!r} --reason …`.",
        missing=tuple(
            Missing(name=TableName(job), wanted=interval.end, reason="not staged for its group yet")
            for job, interval in missing
        ),
    )
