"""Refusal to declare what is being dropped: its name is free once its records are gone (R39)."""

from __future__ import annotations

from shlex import quote

from airflow_provider.domain.errors import EpochBusy
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.topology import Job
from airflow_provider.domain.topology_record import TopologyRecord


def refuse_dropping(job: Job, topology: Stamped[TopologyRecord] | None) -> None:
    """Refuse to declare *job* while it, one of its tables or one of its sources is being dropped.

    :raises EpochBusy: naming the drop.
    """
    found = None if topology is None else topology.record.dropping
    tables, sources = [table.name for table in job.outputs], [source.name for source in job.sources]
    if found is not None and found.has(job.name, tables, sources):
        raise unfinished(job.domain, f"job {job.name!r}", topology)


def refuse_unfinished(domain: DomainName, what: str, topology: Stamped[TopologyRecord] | None) -> None:
    """:raises EpochBusy: *what* has to wait for the end of a drop."""
    if topology is not None and topology.record.dropping is not None:
        raise unfinished(domain, what, topology)


def unfinished(domain: DomainName, what: str, topology: Stamped[TopologyRecord] | None) -> EpochBusy:
    """Return the error for *what*, which waits for the drop in *topology*."""
    dropping = None if topology is None else topology.record.dropping
    jobs = () if dropping is None else dropping.jobs
    why = "" if dropping is None else dropping.why
    words = f"drop job {quote(next(iter(jobs), 'JOB'))} --domain {quote(domain)} --reason … --yes"
    return EpochBusy(
        f"{what} has to wait: {', '.join(jobs)} of domain {domain!r} are being dropped ({why}).",
        next_step=f"try again; if that was interrupted, `airflow epochs {words}` ends it.",
        holders=tuple(jobs),
    )
