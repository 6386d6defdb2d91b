"""Tables that keep rows of an earlier revision of an epoch: the next revision does not write them (R7, R18).

Their job has left them, or an older declaration, which lacks them, computes the epoch again. The inputs of their rows
stay claimed beside those of the new revision, so that nothing joins two states of one input; and cuts name the rows,
which are of an earlier revision than those of the job's other tables.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from airflow_provider.coordination.commits.slices import committed_slices_of
from airflow_provider.coordination.commits.source_dependents import committed_source
from airflow_provider.domain.epoch import Attempt, AttemptRecord, Commitment, EpochRecord
from airflow_provider.domain.errors import TopologyError
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import job_key, slice_writer, source_key, topology_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import SourceBounds
from airflow_provider.domain.staying import Stayed, after_commit
from airflow_provider.domain.topology import Job
from airflow_provider.stores.base import MetadataReader, Reading


def tables_with_rows(
    reader: MetadataReader, domain: DomainName, job: JobRecord, interval: Interval, but: Collection[str] = ()
) -> tuple[TableName, ...]:
    """Return the tables that *job* has given a slice of its epoch, also those that it has left since; none of *but*."""
    tables = (table for table in job.all_outputs if table not in but)
    return tuple(
        sorted(table for table in tables if has_rows(reader, domain, table, job.name, interval.start))
    )


def has_rows(
    reader: MetadataReader, domain: DomainName, table: TableName, job: JobName, moment: datetime
) -> bool:
    """Return whether *job* has given *table* a slice of the epoch that begins at *moment*."""
    slices = committed_slices_of(reader, domain, table, moment)
    return any(slice_writer(stamped.key) == job for stamped in slices)


def refuse_other_bounds(
    reader: MetadataReader,
    reading: Reading,
    job: Job,
    interval: Interval,
    *,
    epoch: EpochRecord | None,
    bounds: Sequence[SourceBounds],
) -> None:
    """Refuse to compute an epoch again from other *bounds* of a source than rows that stay have read.

    :param reading: has the job's record.
    :raises TopologyError: the job's newest declaration has their tables, or may have them again.
    """
    read = {found.source: committed_source(epoch, found.source) for found in bounds}
    keys = {
        found.source: source_key(job.domain, found.source, interval.end, read[found.source])
        for found in bounds
        if read[found.source] not in (0, found.revision)
    }
    recorded = reader.read(job.domain, list(keys.values())) if keys else reading
    other = [
        found
        for found in bounds
        if found.source in keys
        and not ((before := recorded.get(keys[found.source])) and before.record.whole.same_as(found))
    ]
    known = reading.get(job_key(job.domain, job.name))
    if not other or known is None:
        return
    stay = tables_with_rows(reader, job.domain, known.record, interval, {table.name for table in job.outputs})
    if not stay:
        return
    source, names = other[0].source, ", ".join(stay)
    left = ", ".join(table for table in stay if table in known.record.past_outputs)
    raise TopologyError(
        f"{job.name} {interval}: source {source!r} has changed since rows of {names} were computed from revision "
        f"{read[source]} of it, and this declaration of the job lacks {names}: these rows would stay.",
        next_step=f"leave it; or, unless another job has taken it over, declare {left} again, by a declaration "
        f"that {job.name!r} has not had before (an earlier one counts as an older version of its DAG), and clear the "
        "task, which computes all tables of the epoch again."
        if left
        else "run the task by the newest declaration of the job.",
        job=job.name,
        source=source,
        interval=interval,
        tables=stay,
    )


def tables_that_stay(
    reader: MetadataReader, attempts: Sequence[tuple[Attempt, Commitment | None]]
) -> list[tuple[TableName, ...]]:
    """Return for each of *attempts* the tables that keep rows of the commit so far, because it does not write them.

    :param attempts: each with the commit of its epoch so far.
    """
    keys = {
        attempt.job: job_key(attempt.domain, attempt.job)
        for attempt, before in attempts
        if before is not None
    }
    if not keys:
        return [() for _ in attempts]
    jobs = reader.read(attempts[0][0].domain, list(keys.values()))
    return [
        ()
        if before is None
        else tables_with_rows(
            reader,
            attempt.domain,
            jobs.of(keys[attempt.job]).record,
            attempt.interval,
            {sink.name for sink in attempt.sinks},
        )
        for attempt, before in attempts
    ]


def rows_that_stayed(reading: Reading, domain: DomainName) -> tuple[Stayed, ...]:
    """Return the rows of *domain* of an earlier revision than those beside them, by the topology in *reading*."""
    topology = reading.get(topology_key(domain))
    return () if topology is None else tuple(row for row in topology.record.stayed if not row.until)


def stayed_after(
    entries: Sequence[Stayed], attempt: Attempt, record: AttemptRecord, stay: Sequence[TableName], csn: int
) -> tuple[Stayed, ...]:
    """Return the topology's *entries* after the commit *csn* of *attempt*: those of rows behind other tables.

    :param stay: tables that it does not write. A fill puts none of them behind: it adds what the commit has read.
    """
    written = record.fills or [sink.name for sink in attempt.sinks]
    behind = () if record.fills else stay
    return after_commit(entries, attempt.job, attempt.interval, written=written, stay=behind, csn=csn)
