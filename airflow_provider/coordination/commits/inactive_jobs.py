"""Inactive jobs of a domain, by the store's present records (R9)."""

from __future__ import annotations

from datetime import datetime

from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.inactivity import inactive_since
from airflow_provider.domain.records import table_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.stores.base import MetadataReader, pages


def inactive_jobs(reader: MetadataReader, domain: DomainName) -> dict[JobName, datetime]:
    """Return the jobs of *domain* that are inactive, and since when."""
    found = {}
    for stamped in list(pages(reader, domain, JobRecord)):
        job = stamped.record
        if job.inactive_after is None and not job.retired:
            continue
        reading = reader.read(domain, [table_key(domain, table.name) for table in job.outputs])
        since = inactive_since(stamped, reading.records.values(), reading.now)
        if since is not None:
            found[job.name] = since
    return found
