"""Which jobs of a domain have lapsed, as the store stands now (R9)."""

from __future__ import annotations

from datetime import datetime

from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.lapse import lapsed_since
from airflow_provider.domain.records import Kind, table_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.stores.base import MetadataReader, pages


def lapsed_jobs(reader: MetadataReader, domain: DomainName) -> dict[JobName, datetime]:
    """Return the jobs of *domain* that have lapsed, and since when."""
    found = {}
    for stamped in list(pages(reader, domain, Kind.JOB, "")):
        job: JobRecord = stamped.record
        if job.lapses_after is None and not job.retired:
            continue
        reading = reader.read(domain, [table_key(domain, table.name) for table in job.outputs])
        since = lapsed_since(stamped, reading.records.values(), reading.now)
        if since is not None:
            found[job.name] = since
    return found
