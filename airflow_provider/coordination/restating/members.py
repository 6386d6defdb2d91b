"""Members of restatements, as runs and commands ask for them: which are computed within which, and what is left."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider.coordination.commits.open_restatements import open_restatements
from airflow_provider.coordination.commits.staged import Members, restatement_of
from airflow_provider.coordination.upkeep.members_now import job_of
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import fence_of, table_key
from airflow_provider.domain.restatement import (
    RestatementState,
    refuse_closed,
)
from airflow_provider.domain.topology import Job
from airflow_provider.stores.base import MetadataReader


def member_epochs(
    reader: MetadataReader, job: Job, epochs: Sequence[Interval], name: RestatementId
) -> list[Interval]:
    """Return those of *epochs* that the restatement *name* computes again.

    :raises UnknownName: no such restatement.
    """
    record = restatement_of(reader, job.domain, name).record
    return [epoch for epoch in epochs if record.has(job.name, epoch)]


def committed_epochs(
    reader: MetadataReader, job: Job, epochs: Sequence[Interval], *, but: Owner | None = None
) -> list[Interval]:
    """Return those of *epochs* that are committed. :param but: leave out what this run has committed."""
    keys = {epoch: fence_of(job.epoch(epoch)) for epoch in epochs}
    reading = reader.read(job.domain, list(keys.values())) if keys else None
    known = {epoch: reading.get(key) for epoch, key in keys.items()} if reading is not None else {}
    commits = {epoch: stamped.record.committed for epoch, stamped in known.items() if stamped is not None}
    return [
        epoch
        for epoch, committed in commits.items()
        if committed is not None and not (but is not None and committed.owner.same_generation(but))
    ]


def before_beginning(reader: MetadataReader, job: Job, epochs: Sequence[Interval]) -> list[Interval]:
    """Return those of *epochs* that start before the job's tables begin; all of them while nothing says where."""
    keys = [table_key(job.domain, table.name) for table in job.outputs]
    known = reader.read(job.domain, keys).records.values() if epochs else ()
    starts = [job.origin] if job.origin is not None else [table.record.progress.start for table in known]
    begins = min((start for start in starts if start is not None), default=None)
    return [epoch for epoch in epochs if begins is None or epoch.start < begins]


def is_open(reader: MetadataReader, domain: DomainName, name: RestatementId) -> bool:
    """Return True if epochs may be computed within the restatement *name*."""
    return any(name == known for known, _ in open_restatements(reader, domain))


def refuse_unpublished(reader: MetadataReader, domain: DomainName, name: RestatementId) -> None:
    """:raises InvalidInput: the restatement *name* is over, and was not published."""
    record, reading = restatement_of(reader, domain, name).record, reader.read(domain, [])
    if record.state is not RestatementState.PUBLISHED:
        refuse_closed(name, record, incarnation=reading.head.incarnation, now=reading.now)


def uncomputed(
    reader: MetadataReader, job: Job, epochs: Sequence[Interval], name: RestatementId
) -> list[Interval]:
    """Return those of *epochs* that the restatement *name* has neither staged nor published, in their order."""
    members = Members.of(reader, job.domain, name)
    if members.record.state is RestatementState.PUBLISHED:
        return []
    record = job_of(reader, job.domain, job.name)
    return [epoch for epoch, staged in members.epochs(record, epochs) if staged is None]


def staged_by_others(
    reader: MetadataReader, job: Job, epochs: Sequence[Interval], name: RestatementId, owner: Owner
) -> dict[Owner, list[Interval]]:
    """Return those of *epochs* that other runs have staged within the restatement *name*, by run.

    A begin by *owner* leaves them as they are, unless what they have read has changed since.
    """
    members, record = Members.of(reader, job.domain, name), job_of(reader, job.domain, job.name)
    found: dict[Owner, list[Interval]] = {}
    for epoch, stamped in members.epochs(record, epochs):
        attempt = None if stamped is None else stamped.record.attempt
        if attempt is not None and not attempt.owner.same_run(owner):
            by = Owner(dag_id=attempt.owner.dag_id, run_id=attempt.owner.run_id)
            found.setdefault(by, []).append(epoch)
    return found


def uncomputed_by_job(reader: MetadataReader, domain: DomainName, name: RestatementId) -> dict[JobName, int]:
    """Return the number of members of each job that the restatement *name* has neither staged nor published.

    Jobs that have none are left out.

    :raises UnknownName: no such restatement.
    """
    members = Members.of(reader, domain, name)
    found = {
        epochs.job: sum(
            staged is None
            for _, staged in members.epochs(job_of(reader, domain, epochs.job), epochs.intervals)
        )
        for epochs in members.record.members
    }
    return {job: number for job, number in found.items() if number}


def joined(
    reader: MetadataReader, job: Job, epochs: Sequence[Interval], owner: Owner
) -> dict[RestatementId, list[Interval]]:
    """Return those of *epochs* that *owner* computes within an open restatement, by restatement.

    A retry of the run that has committed an epoch does not: its work is done.
    """
    found: dict[RestatementId, list[Interval]] = {}
    for name, stamped in open_restatements(reader, job.domain):
        if stamped.record.is_group:
            continue  # it publishes first revisions: a committed epoch is none of its
        members = [epoch for epoch in epochs if stamped.record.has(job.name, epoch)]
        keys = [fence_of(job.epoch(epoch)) for epoch in members]
        reading = reader.read(job.domain, keys) if keys else None
        for epoch, key in zip(members, keys, strict=True):
            known = reading.get(key) if reading is not None else None
            committed = known.record.committed if known is not None else None
            if committed is not None and not committed.owner.same_generation(owner):
                found.setdefault(name, []).append(epoch)
    return found
