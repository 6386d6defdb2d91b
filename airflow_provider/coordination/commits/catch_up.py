"""Epochs behind a source that was bound anew: refuse to read them, and clear them once computed again (R18)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.stayed_rows import stayed_after
from airflow_provider.domain.beginning import inputs_behind
from airflow_provider.domain.behind import Behind, caught_up, is_behind
from airflow_provider.domain.epoch import Attempt, AttemptRecord
from airflow_provider.domain.errors import Conflict, TopologyError
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import job_key, rewrite_log_key, topology_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import Job
from airflow_provider.stores.base import Put, Reading


def behind_of(reading: Reading, domain: DomainName) -> tuple[Behind, ...]:
    """Return the epochs of *domain* that are behind, by the topology in *reading*; none without one."""
    topology = reading.get(topology_key(domain))
    return () if topology is None else topology.record.behind


def refuse_part(reading: Reading, job: Job, interval: Interval) -> None:
    """Refuse to compute a part of an epoch that is behind: by an older declaration, which lacks one of its tables.

    Once others have read that part, the epoch could not be computed again for the rest.

    :raises TopologyError: the job's newest declaration has all of them.
    """
    known = reading.get(job_key(job.domain, job.name))
    newest = set() if known is None else {table.name for table in known.record.outputs}
    own = {table.name for table in job.outputs}
    behind = [entry for entry in behind_of(reading, job.domain) if entry.is_of(job.name, interval)]
    lacking = sorted(({table for entry in behind for table in entry.tables} & newest) - own)
    if lacking:
        raise TopologyError(
            f"{job.name} {interval}: {behind[0].why}, and this declaration of the job lacks {', '.join(lacking)}, "
            "which would stay behind.",
            next_step="run the task by the newest declaration of the job.",
            job=job.name,
            interval=interval,
            tables=tuple(lacking),
        )


def refuse_leaving(behind: Sequence[Behind], before: JobRecord, after: JobRecord) -> None:
    """Refuse a declaration without a table that has rows behind their source: nothing would compute them again.

    :raises TopologyError: naming table and epoch.
    """
    left = {table.name for table in before.outputs} - {table.name for table in after.outputs}
    for entry in behind:
        names = sorted(left & set(entry.tables))
        if names and not entry.until:
            raise TopologyError(
                f"job {after.name!r} cannot leave {', '.join(names)}: {entry.why}.",
                next_step=f"clear the task of job {entry.job} for {entry.interval}, which computes it again; then "
                "leave the table.",
                job=after.name,
                interval=entry.interval,
                tables=tuple(names),
            )


def is_torn(attempt: Attempt, reading: Reading) -> bool:
    """Return whether *reading* has the topology from before a binding and a log from after it: read again.

    Not every store reads all records of one reading at the same moment.
    """
    topology = reading.of(topology_key(attempt.domain)).record
    names = {read.table for read in attempt.inputs} | {sink.name for sink in attempt.sinks}
    logs = (reading.get(rewrite_log_key(attempt.domain, name)) for name in names)
    return any(log is not None and log.record.binds > topology.binds for log in logs)


def refuse_behind_inputs(
    attempt: Attempt,
    record: AttemptRecord,
    reading: Reading,
    members: Collection[tuple[JobName, Interval]] = (),
) -> None:
    """Refuse to publish an attempt that was computed from epochs behind their source (R18).

    The decision rests on the topology; binding touches the logs of their tables, which publish requires.

    :param members: epochs that the same commit computes again.
    :raises Conflict: begin again, which waits until they are computed again.
    """
    behind = [
        entry for entry in behind_of(reading, attempt.domain) if (entry.job, entry.interval) not in members
    ]
    found = inputs_behind(record.inputs, behind)
    if found:
        raise Conflict(
            f"{attempt}: sources of its inputs were bound anew meanwhile: "
            + "; ".join(f"{read.table}: {entry.why}" for read, entry in found)
            + ".",
            next_step="; ".join(dict.fromkeys(entry.way_out for _, entry in found))
            + ". Then begin again: a new attempt reads the new rows.",
            tables=tuple(read.table for read, _ in found),
        )
    if record.fills and not record.skips and is_behind(behind, attempt.job, attempt.interval):
        raise Conflict(
            f"{attempt}: a source was bound anew since; {', '.join(record.fills)} would have rows of before.",
            next_step="begin again: the epoch is computed again with all tables.",
            tables=record.fills,
        )


def catch_up(
    commit: CommitBuilder,
    members: Sequence[tuple[Attempt, AttemptRecord, Sequence[TableName]]],
    *,
    ends: RestatementId | None = None,
    released: Collection[JobName] = (),
) -> None:
    """Add what *commit* requires and writes about epochs that are behind: nothing, as a rule.

    A fill requires that its epoch is not behind. An attempt that computes an epoch again makes its tables readable.

    :param members: attempts that are committed, each with the tables that keep rows of an earlier revision, which cuts
        name from then on. :param ends: the restatement that the commit publishes.
    :param released: jobs with epochs that stay on what it replaces.
    """
    topology = commit.reading.of(topology_key(commit.domain))
    after, fills = topology.record, False
    if ends is not None:
        after = after.without(ends, released)
    for attempt, record, stay in members:
        fills = fills or bool(record.fills)
        after = replace(after, stayed=stayed_after(after.stayed, attempt, record, stay, commit.csn))
        if not record.fills and is_behind(after.behind, attempt.job, attempt.interval):
            tables = [sink.name for sink in attempt.sinks]
            behind = caught_up(after.behind, attempt.job, attempt.interval, tables, commit.csn)
            after = replace(after, behind=behind)
    if after != topology.record:
        commit.update(Put(topology.key, after))
    if after != topology.record or fills:
        commit.hold(topology)
