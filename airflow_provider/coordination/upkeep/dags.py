"""DAGs that worked on the latest epochs: who may read them may see the tables (docs/decisions/page-access.md)."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.records import table_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.stores.base import MetadataReader, pages, scan


def latest_dags(reader: MetadataReader, domain: DomainName) -> frozenset[str]:
    """Name the DAGs that worked on the latest epochs of the domain's jobs."""
    dags = (_latest_dag(reader, domain, job.record.name) for job in pages(reader, domain, JobRecord))
    return frozenset(dag for dag in dags if dag is not None)


def dags_of_tables(
    reader: MetadataReader, domain: DomainName, names: Iterable[TableName]
) -> dict[TableName, str]:
    """Return for each of *names* the DAG that worked on the latest epoch of its job; without those that none has."""
    tables = reader.read(domain, [table_key(domain, name) for name in names]).records
    jobs = {TableName(key.item): stamped.record.job for key, stamped in tables.items()}
    latest = {job: _latest_dag(reader, domain, job) for job in set(jobs.values())}
    return {name: dag for name, job in jobs.items() if (dag := latest[job]) is not None}


def _latest_dag(reader: MetadataReader, domain: DomainName, job: JobName) -> str | None:
    for epoch in scan(reader, domain, EpochRecord, job, limit=1, reverse=True):
        worker = epoch.record.attempt or epoch.record.committed
        return None if worker is None else worker.owner.dag_id
    return None
