"""The page's answers on restatements as plain values, without the parts that the user may not read."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_provider.coordination.restating.restatements import RestatementStatus
from airflow_provider.coordination.upkeep.members_now import MemberState
from airflow_provider.domain.epoch import AttemptRecord, Commitment, EpochRecord
from airflow_provider.domain.identifiers import JobName, RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.restatement import (
    REVERTIBLE,
    JobEpochs,
    RestatementRecord,
    RestatementState,
    change_set_of_restatement,
)
from airflow_provider.domain.watermark import merged
from airflow_provider.plugins.grid.answers import Access, moment_answer, owner_answer
from airflow_provider.plugins.grid.deciding import may_decide

_LISTED = 20
UNSTAGED = "unstaged"
"""Filter of members: all that are not ready to be published."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """One restatement at one time.

    :param at: the store's time of the last write of its record.
    :param over: why an open one can no longer be published.
    :param dags: all that worked on its members' jobs.
    :param counts: number of members by job and state; empty once it has ended.
    :param reverted_by: the restatement that takes it back, with its state.
    """

    status: RestatementStatus
    state: str
    at: datetime
    over: str
    next_step: str
    dags: frozenset[str]
    counts: Mapping[tuple[JobName, str], int]
    reverted_by: tuple[RestatementId, RestatementState] | None = None

    @classmethod
    def counted(cls, status: RestatementStatus, **rest: Any) -> Standing:
        """Return it with the members of each job counted by state."""
        counts = Counter((member.job, member.state.value) for member in status.members)
        return cls(status=status, counts=counts, **rest)

    def number(self, state: MemberState) -> int:
        """Return how many members are in *state*."""
        return sum(number for (_, found), number in self.counts.items() if found == state)


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """One restatement in the list, without its members.

    :param record: without what was asked for and the members. :param epochs: number of members.
    :param csn: of its commit; None while it is not published. :param at: the store's time of its last write.
    :param is_taken_back: a revert of it is published.
    """

    name: RestatementId
    record: RestatementRecord
    jobs: tuple[JobName, ...]
    epochs: int
    csn: int | None
    at: datetime
    is_taken_back: bool = False


def visible_jobs(
    jobs: Iterable[JobName], latest: Callable[[], Mapping[JobName, str]], access: Access
) -> frozenset[JobName]:
    """Return those of *jobs* whose latest epoch is of a DAG that the user may read.

    :param latest: returns the DAG of each job's latest epoch.
    """
    if access.may_read(None):
        return frozenset(jobs)
    dags = latest()
    return frozenset(job for job in jobs if job in dags and access.may_read(dags[job]))


def summary_answer(found: Summary, standing: Standing | None) -> dict[str, Any]:
    """Return one entry of the list. :param standing: of an open restatement; None for one that has ended."""
    record = found.record
    return {
        "name": found.name,
        "state": standing.state if standing else record.state.value,
        "reason": record.reason,
        "by": record.by,
        "deadline": moment_answer(record.deadline),
        "changed": moment_answer(found.at),
        "epochs": found.epochs,
        "jobs": len(found.jobs),
        "staged": standing.number(MemberState.STAGED) if standing else None,
        "csn": found.csn,
        **_approval(record, standing.status.output if standing else ""),
        "ended": record.ended,
        "reverts": record.reverts,
        "taken_back": found.is_taken_back,
    }


def restatement_answer(found: Standing, jobs: Collection[JobName], access: Access) -> dict[str, Any]:
    """Return one restatement with the counts of its members by job.

    :param jobs: the jobs that the user may see, also of those that hold it; of others only the numbers are part of the
        answer.
    """
    status, record = found.status, found.status.record
    is_published = record.state is RestatementState.PUBLISHED
    return {
        "name": status.name,
        "state": found.state,
        "because": found.over or record.ended,
        "reason": record.reason,
        "by": record.by,
        "deadline": moment_answer(record.deadline),
        "csn": status.csn,
        "published": moment_answer(found.at) if is_published else None,
        "held_until": moment_answer(found.at + REVERTIBLE) if is_published else None,
        "reverts": record.reverts,
        "reverted_by": found.reverted_by and {"name": found.reverted_by[0], "state": found.reverted_by[1]},
        "epochs": record.size,
        "states": {state.value: found.number(state) for state in MemberState} if status.members else {},
        "asked": [span for epochs in record.asked if epochs.job in jobs for span in spans_of(epochs)],
        "held": [
            span | {"tables": list(epochs.tables)}
            for epochs in status.held
            if epochs.job in jobs
            for span in spans_of(epochs)
        ],
        "is_held": bool(status.held),
        "members": [_job(found, epochs) for epochs in record.members if epochs.job in jobs],
        "jobs_hidden": sum(epochs.job not in jobs for epochs in record.members),
        "output": status.output,
        **_approval(record, status.output),
        "next_step": _next_step(found, jobs),
        **may_decide(found.dags, access),
    }


def _next_step(found: Standing, jobs: Collection[JobName]) -> list[str]:
    """Return the lines of the next step; its commands name the jobs that hold the restatement."""
    if any(epochs.job not in jobs for epochs in found.status.held):
        return [
            "ask a user who may see the jobs that hold it: `airflow epochs restate join` or `release` decides"
        ]
    return found.next_step.split("\n") if found.next_step else []


def selected(
    found: Standing, jobs: Collection[JobName], *, state: str, job: str
) -> list[tuple[JobName, Interval, str, str]]:
    """Return the members to be listed: job, interval, state and reason, in the order of time.

    :param jobs: the jobs that the user may see. :param state: only members in it; :data:`UNSTAGED` for all but staged
        ones; empty for all. :param job: only members of it; empty for all.
    """
    if found.status.members:
        members = [
            (member.job, member.interval, member.state.value, member.why) for member in found.status.members
        ]
    else:
        members = [(name, interval, "", "") for name, interval in found.status.record.epochs]
    chosen = [
        member
        for member in members
        if member[0] in jobs
        and (not job or member[0] == job)
        and (not state or (member[2] != MemberState.STAGED if state == UNSTAGED else member[2] == state))
    ]
    return sorted(chosen, key=lambda member: (member[1].start, member[0]))


def member_answer(
    member: tuple[JobName, Interval, str, str],
    epoch: Stamped[EpochRecord] | None,
    name: RestatementId,
    access: Access,
) -> dict[str, Any]:
    """Return one member; its run and its reason only for a user who may read the DAG that works on it.

    :param epoch: its record. :param name: of the restatement.
    """
    job, interval, state, why = member
    worker = _worker(epoch.record if epoch else None, name)
    owner = worker.owner if worker else None
    is_readable = owner is None or access.may_read(owner.dag_id)
    return {
        "job": job,
        "start": moment_answer(interval.start),
        "end": moment_answer(interval.end),
        "state": state,
        "why": why if is_readable else "",
        "owner": owner_answer(owner) if owner and is_readable else None,
    }


def _worker(epoch: EpochRecord | None, name: RestatementId) -> AttemptRecord | Commitment | None:
    """Return the attempt, or the commit, that is of the restatement *name*."""
    if epoch is None:
        return None
    if epoch.attempt is not None and epoch.attempt.restatement == name:
        return epoch.attempt
    done = epoch.committed
    return done if done is not None and done.change_set == change_set_of_restatement(name) else None


def _approval(record: RestatementRecord, output: str) -> dict[str, Any]:
    """Return the approval. :param output: digest of what is staged; empty while members are missing, and at the end."""
    is_open = record.state is RestatementState.OPEN
    return {
        "needs_approval": record.needs_approval,
        "approved_by": record.approved_by,
        "approved": bool(record.approved) and (record.approved == output or not is_open),
    }


def _job(found: Standing, epochs: JobEpochs) -> dict[str, Any]:
    counts = {state.value: found.counts.get((epochs.job, state.value), 0) for state in MemberState}
    return {"job": epochs.job, "epochs": len(epochs.intervals), **(counts if found.status.members else {})}


def spans_of(epochs: JobEpochs) -> Iterator[dict[str, Any]]:
    """Yield the unbroken stretches of a job's epochs, the first few, and the rest as one."""
    starts: Sequence[datetime] = sorted(interval.start for interval in epochs.intervals)
    spans = merged(epochs.intervals)
    if len(spans) > _LISTED:
        spans = (*spans[: _LISTED - 1], Interval(spans[_LISTED - 1].start, spans[-1].end))
    for span in spans:
        number = bisect_left(starts, span.end) - bisect_left(starts, span.start)
        yield {
            "job": epochs.job,
            "start": moment_answer(span.start),
            "end": moment_answer(span.end),
            "epochs": number,
        }
