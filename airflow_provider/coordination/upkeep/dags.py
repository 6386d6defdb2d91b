"""DAGs that worked on epochs: permissions on them decide who may see tables (docs/decisions/page-access.md)."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider.domain.epoch import Commitment, EpochRecord
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.owner import names_dag
from airflow_provider.domain.records import epoch_key, table_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.restatement import JobEpochs
from airflow_provider.stores.base import MetadataReader, pages, scan

_PAGE = 500
_SKIPPED = 20
"""Number of latest epochs of a job among which one that was not skipped is looked for."""


def dags_of_jobs(
    reader: MetadataReader, domain: DomainName, jobs: Iterable[JobName] | None = None
) -> dict[JobName, str]:
    """Return for each of *jobs* the DAG that worked on its latest epoch; without those that none has.

    :param jobs: by default all of *domain*.
    """
    names = (
        [stamped.record.name for stamped in pages(reader, domain, JobRecord)] if jobs is None else list(jobs)
    )
    return {name: dag for name in names if (dag := latest_dag(reader, domain, name)) is not None}


def dags_of_members(
    reader: MetadataReader, domain: DomainName, members: Iterable[JobEpochs]
) -> frozenset[str]:
    """Return all DAGs that worked on *members* of a restatement, and on the latest epochs of their jobs.

    The authors of skips, reverts and copies, and programs started by hand, count for a job that no DAG worked on.
    """
    found = set[str]()
    for epochs in members:
        latest = latest_dag(reader, domain, epochs.job)
        names = set() if latest is None else {latest}
        keys = [epoch_key(domain, epochs.job, interval.start) for interval in epochs.intervals]
        for start in range(0, len(keys), _PAGE):
            records = reader.read(domain, keys[start : start + _PAGE]).records.values()
            names.update(owner for stamped in records for owner in _owners_of(stamped.record))
        found |= {name for name in names if names_dag(name)} or names
    return frozenset(found)


def _owners_of(epoch: EpochRecord) -> list[str]:
    workers = (epoch.attempt, epoch.committed, epoch.replaced, epoch.taken_back)
    return [worker.owner.dag_id for worker in workers if worker is not None]


def dags_of_tables(
    reader: MetadataReader, domain: DomainName, names: Iterable[TableName]
) -> dict[TableName, str]:
    """Return for each of *names* the DAG that worked on the latest epoch of its job; without those that none has."""
    tables = reader.read(domain, [table_key(domain, name) for name in names]).records
    jobs = {TableName(key.item): stamped.record.job for key, stamped in tables.items()}
    latest = {job: latest_dag(reader, domain, job) for job in set(jobs.values())}
    return {name: dag for name, job in jobs.items() if (dag := latest[job]) is not None}


def latest_dag(reader: MetadataReader, domain: DomainName, job: JobName) -> str | None:
    """Return the DAG that worked on the latest epoch of *job*; None if none has.

    Of a skipped epoch, which has an author in the place of a DAG, the one before counts, some epochs back at most.
    """
    found: list[str] = []
    for limit in (1, _SKIPPED):
        found = []
        for epoch in scan(reader, domain, EpochRecord, job, limit=limit, reverse=True):
            worker = epoch.record.attempt or epoch.record.committed or epoch.record.taken_back
            if worker is None:
                break
            found.append(worker.owner.dag_id)
            if not (isinstance(worker, Commitment) and worker.skipped):
                return found[-1]
    return found[0] if found else None
