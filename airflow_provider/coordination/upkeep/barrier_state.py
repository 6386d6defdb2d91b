"""State of a barrier over all jobs of a commit group: the lowest that one of its jobs has (R40)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider.coordination.commits.groups import GroupJob, group_jobs, group_record, unknown_step
from airflow_provider.coordination.commits.staged import Members
from airflow_provider.coordination.upkeep.members_now import MembersNow, MemberState, MemberStatus
from airflow_provider.domain.attempt_state import epoch_state
from airflow_provider.domain.epoch import AttemptEvent, EpochState
from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.group import epoch_of_group, publishes
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped, event_partition, restatement_key, topology_key
from airflow_provider.domain.restatement import RestatementRecord, RestatementState
from airflow_provider.domain.topology import Group
from airflow_provider.stores.base import MetadataReader, scan

_ORDER = (EpochState.NOTHING, EpochState.OPEN, EpochState.PRECOMMIT, EpochState.WRITTEN, EpochState.COMMIT)


@dataclass(frozen=True, kw_only=True, slots=True)
class BarrierState:
    """State of one barrier of a group.

    :param name: of its change set. :param jobs: state of each job; WRITTEN for one that is staged, as publish takes
        it. A job that never computes the epoch is left out.
    :param outdated: jobs that are staged and have to compute the epoch again, each with the reason.
    :param unknown: jobs that are not registered: they have never run, or were dropped.
    :param why: why it cannot go on; empty as a rule.
    """

    name: RestatementId
    group: Group
    jobs: tuple[tuple[JobName, EpochState], ...]
    outdated: tuple[tuple[JobName, str], ...] = ()
    unknown: tuple[JobName, ...] = ()
    why: str = ""

    @property
    def state(self) -> EpochState:
        """The lowest state of its jobs: PRECOMMIT once all tables are PROCESSED, WRITTEN once all are staged."""
        return min((state for _, state in self.jobs), key=_ORDER.index, default=EpochState.COMMIT)

    @property
    def next_step(self) -> str:
        """The step that brings the barrier on; empty where the tasks of its jobs do."""
        if self.outdated:
            names = ", ".join(job for job, _ in self.outdated)
            return (
                f"clear the tasks of {names} for it, and of the jobs that read them: the last one publishes."
            )
        if self.unknown:
            return unknown_step(self.unknown, self.group.name, self.name)
        return ""

    def __str__(self) -> str:
        done = sum(state in (EpochState.WRITTEN, EpochState.COMMIT) for _, state in self.jobs)
        told = [f"{self.name} of group {self.group.name}: {done} of {len(self.jobs)} jobs are staged"]
        words = {job: f"has to be computed again: {why}" for job, why in self.outdated}
        words |= dict.fromkeys(self.unknown, "has never run, or was dropped")
        told += [
            f"job {job} {words.get(job) or _WORDS[state]}"
            for job, state in self.jobs
            if _ORDER.index(state) < _ORDER.index(EpochState.WRITTEN)
        ]
        return "; ".join([*told, self.why] if self.why else told)


_WORDS = {
    EpochState.NOTHING: "has not begun, or has to begin again",
    EpochState.OPEN: "is being computed",
    EpochState.PRECOMMIT: "has written, and is not checked yet",
}


def barrier_state(
    reader: MetadataReader, domain: DomainName, group: Group, interval: Interval
) -> BarrierState:
    """Return the state of *group* at the barrier that ends *interval*."""
    name = epoch_of_group(group, interval)
    reading = reader.read(domain, [restatement_key(domain, name), topology_key(domain)])
    stored = reading.get(restatement_key(domain, name))
    why, outdated = "", dict[JobName, str]()
    try:
        record, _ = group_record(reading, domain, group, interval)
    except EpochError as error:
        if stored is None or not stored.record.is_group:
            raise
        record, why = stored.record, f"{error.message} Next step: {error.next_step}"
    if stored is not None and stored.record.state is RestatementState.OPEN:
        outdated = {status.job: status.why for status in outdated_members(reader, domain, name, stored)}
    jobs = group_jobs(reader, domain, record)
    states = [(job.name, _state(reader, domain, name, job, outdated)) for job in jobs]
    return BarrierState(
        name=name,
        group=group,
        jobs=tuple((job, state) for job, state in states if state is not None),
        outdated=tuple(outdated.items()),
        unknown=tuple(job.name for job in jobs if job.job is None),
        why=why,
    )


def outdated_members(
    reader: MetadataReader, domain: DomainName, name: RestatementId, stored: Stamped[RestatementRecord]
) -> list[MemberStatus]:
    """Return the members that are staged and that publish would refuse, each with the reason."""
    found = MembersNow(reader, domain, name, stored).status()
    return [status for status in found if status.state is MemberState.OUTDATED]


def _state(
    reader: MetadataReader,
    domain: DomainName,
    name: RestatementId,
    job: GroupJob,
    outdated: Mapping[JobName, str],
) -> EpochState | None:
    """Return the state of one job; None if it never computes the epoch."""
    if job.settled:
        is_committed = job.epoch is not None and job.epoch.record.committed is not None
        return EpochState.COMMIT if is_committed else None
    attempt = None if job.epoch is None else job.epoch.record.attempt
    if job.job is None or attempt is None or attempt.aborted is not None or job.name in outdated:
        return EpochState.NOTHING
    if attempt.staged and attempt.restated_by == name:
        is_member = publishes(job.job.group, name, job.interval)
        return EpochState.WRITTEN if is_member else EpochState.NOTHING
    log = scan(reader, domain, AttemptEvent, event_partition(job.name, job.interval.start))
    records = [entry.record for entry in log]
    return epoch_state(records, [table.name for table in job.job.outputs], attempt)


def members_of_group(
    reader: MetadataReader, domain: DomainName, group: Group, interval: Interval
) -> Members | None:
    """Return the members of *group* at the barrier that ends *interval*; None while nothing is computed within it."""
    name = epoch_of_group(group, interval)
    stamped = reader.read(domain, [key := restatement_key(domain, name)]).get(key)
    is_open = (
        stamped is not None and stamped.record.is_group and stamped.record.state is RestatementState.OPEN
    )
    if stamped is None or not is_open:
        return None
    return Members(reader=reader, domain=domain, name=name, record=stamped.record)
