"""Refusals of an attempt before any work is done: ended jobs and tables, expired inputs, committed readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote

from airflow_provider.coordination.commits.dependents import refuse_dependents, together
from airflow_provider.coordination.context import Context
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import Provenance
from airflow_provider.domain.errors import TopologyError, Unavailable
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.origins import refuse_unjoined
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.registration import JobRecord, refuse_not_own
from airflow_provider.domain.sizes import refuse_gaps
from airflow_provider.domain.topology import Job
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader

Tables = Mapping[TableName, Stamped[TableRecord] | None]


def refuse_ended(job: JobRecord, own: Tables) -> None:
    """Refuse a retired job, and a declared table that has ended or belongs to another job (R7).

    :raises TopologyError: with the job or the table.
    """
    if job.retired:
        raise TopologyError(
            f"job {job.name!r} is retired: {job.retired}.",
            next_step=f"pause its DAG; `airflow epochs revive {quote(job.name)}` brings the job back.",
            job=job.name,
        )
    for name, stamped in own.items():
        if stamped is not None:
            refuse_not_own(job.name, name, stamped.record)


def refuse_expired_inputs(job: JobName, interval: Interval, gone: Sequence[Provenance]) -> None:
    """Refuse an epoch with expired inputs, which are in *gone* (R24).

    :raises Unavailable: with their tables.
    """
    if gone:
        raise Unavailable(
            f"{job} {interval}: expired: "
            + ", ".join(f"{read.table} at {read.high.isoformat()}" for read in gone)
            + ".",
            next_step="leave this epoch out: retention has expired its inputs.",
            tables=tuple(read.table for read in gone),
        )


def refuse_changes(
    context: Context,
    job: Job,
    interval: Interval,
    own: Tables,
    *,
    fills: tuple[TableName, ...],
    skips: bool,
    alone: bool = True,
) -> None:
    """Refuse an attempt whose commit would change inputs of committed epochs (R18).

    :param alone: False for a member of a restatement, which is published with its readers: publish looks for others.
    :param fills: the tables that it adds to the epoch; empty for all.
    :raises DependentReaders: committed readers; the error lists them.
    :raises TopologyError: no later epoch could follow this one.
    :raises RecordFull: a table would have more gaps than its record holds.
    """
    known = {name: stamped.record for name, stamped in own.items() if stamped is not None}
    refuse_gaps(interval, known, context.defaults.most_stretches)
    if not skips:
        refuse_unjoined(job.name, interval, job.edges, job.outputs, known)
    if not alone:
        return
    written = {name: record for name, record in known.items() if not fills or name in fills}
    refuse_read(context.store, job.domain, interval, written, context.defaults)


def refuse_read(
    reader: MetadataReader,
    domain: DomainName,
    interval: Interval,
    written: Mapping[TableName, TableRecord],
    defaults: Defaults,
) -> None:
    """Refuse a commit of *interval* that changes what committed epochs have read of the tables *written* (R18).

    :raises DependentReaders: these epochs; the error lists them.
    """
    spans = {name: record.progress.changed_by(interval) for name, record in written.items()}
    for span, names in together(spans).items():
        refuse_dependents(reader, domain, names, span, defaults, commits=interval)
