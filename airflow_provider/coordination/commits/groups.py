"""Barriers of commit groups: the record of one, what its members read, and which of its jobs it waits for (R40)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.errors import EpochBusy, TopologyError
from airflow_provider.domain.group import epoch_of_group, is_without
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import (
    Key,
    Stamped,
    epoch_key,
    job_key,
    restatement_key,
    table_key,
    topology_key,
)
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.restatement import ChangeSetKind, JobEpochs, RestatementRecord, is_over
from airflow_provider.domain.topology import Group
from airflow_provider.stores.base import MetadataReader, Reading

MOST_OPEN = 500
"""Maximum number of open change sets at which a group opens one more: the domain's record names each."""


def group_record(
    reading: Reading, domain: DomainName, group: Group, interval: Interval
) -> tuple[RestatementRecord, bool]:
    """Return the record of *group* at the end of *interval*, and whether the first begin is still to store it.

    :param reading: has the record, and the domain's topology.
    :raises EpochBusy: it was abandoned, or opened before the store was restored, and attempts of it are left; or too
        many are open.
    :raises TopologyError: a restatement has the name.
    """
    name = epoch_of_group(group, interval)
    stamped, topology = reading.get(restatement_key(domain, name)), reading.get(topology_key(domain))
    if stamped is not None:
        record: RestatementRecord = stamped.record
        if not record.is_group:
            raise TopologyError(
                f"a restatement has the name {name!r}, which group {group.name!r} needs.",
                next_step="give the group another name, in all of its jobs.",
            )
        if not is_over(record, incarnation=reading.head.incarnation, now=reading.now):
            return record, False
        if topology is not None and name in topology.record.restating:
            raise EpochBusy(
                f"{name!r} of group {group.name!r} has ended without a commit, and its attempts have not all ended.",
                next_step=f"`airflow epochs restate abandon {quote(name)} --reason …` ends them; then begin again.",
                holders=(f"group {name}",),
            )
    if topology is not None and len(topology.record.restating) >= MOST_OPEN:
        raise EpochBusy(
            f"{MOST_OPEN} barriers of groups and restatements are open in domain {domain!r}.",
            next_step="`airflow epochs restate list` names them: mend the jobs that they wait for.",
            holders=tuple(f"group {held}" for held in topology.record.restating[:1]),
        )
    members = tuple(JobEpochs(job=job, intervals=(interval,)) for job in group.jobs)
    opened = RestatementRecord(
        reason=f"group {group.name}",
        by="group",
        asked=members,
        members=members,
        incarnation=reading.head.incarnation,
        kind=ChangeSetKind.GROUP,
    )
    return opened, True


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupJob:
    """One job of a group's barrier, as the store has it.

    :param job: its newest declaration; None before its first begin. :param epoch: its record, if it has one.
    :param settled: the group does not wait for it: it is committed, or never computes the epoch.
    """

    name: JobName
    interval: Interval
    job: JobRecord | None
    epoch: Stamped[EpochRecord] | None
    settled: bool


def unknown_step(jobs: Sequence[JobName], group: str, name: RestatementId) -> str:
    """Return the next step for a barrier that waits for *jobs*, which are not registered."""
    names = ", ".join(jobs)
    return (
        f"run the tasks of {names}. If there is no job of that name, since the list of group {group!r} is wrong or the "
        "job was dropped: declare a group of another name, with the right list, in all of its jobs, and run them; then "
        f"`airflow epochs restate abandon {quote(name)} --reason …`."
    )


def surely_waits(reader: MetadataReader, domain: DomainName, record: RestatementRecord) -> bool:
    """Return True if the group's barrier *record* waits for a job; by one read, and False where that does not tell."""
    keys: dict[JobName, tuple[Key[Any], Key[Any]]] = {
        name: (job_key(domain, name), epoch_key(domain, name, interval.start))
        for name, interval in record.epochs
    }
    reading = reader.read(domain, [key for pair in keys.values() for key in pair])
    for name, interval in record.epochs:
        job, epoch = (reading.get(key) for key in keys[name])
        if job is None:
            return True
        attempt = None if epoch is None else epoch.record.attempt
        done = epoch is not None and (
            epoch.record.committed is not None or (attempt is not None and attempt.staged)
        )
        # A table that the job has taken over may have the epoch from the job before.
        if not (done or job.record.predecessors or is_without(job.record, interval)):
            return True
    return False


def group_jobs(reader: MetadataReader, domain: DomainName, record: RestatementRecord) -> list[GroupJob]:
    """Return all jobs of the group's barrier *record*.

    A publish by it requires the topology of before: registering and retiring write it. What is settled stays so.
    """
    keys: list[Key[Any]] = [
        key
        for name, interval in record.epochs
        for key in (job_key(domain, name), epoch_key(domain, name, interval.start))
    ]
    reading = reader.read(domain, keys)
    jobs = [reading.get(job_key(domain, name)) for name, _ in record.epochs]
    outputs = {table.name for stamped in jobs if stamped is not None for table in stamped.record.outputs}
    tables = reader.read(domain, [table_key(domain, table) for table in sorted(outputs)])
    found = []
    for (name, interval), stamped in zip(record.epochs, jobs, strict=True):
        epoch = reading.get(epoch_key(domain, name, interval.start))
        job = None if stamped is None else stamped.record
        own = () if job is None else [tables.get(table_key(domain, table.name)) for table in job.outputs]
        settled = (epoch is not None and epoch.record.committed is not None) or (
            job is not None
            and (
                is_without(job, interval)
                or all(table is not None and table.record.progress.covers(interval) for table in own)
            )
        )
        found.append(GroupJob(name=name, interval=interval, job=job, epoch=epoch, settled=settled))
    return found
