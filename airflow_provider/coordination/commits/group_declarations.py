"""Declarations by which a commit group would never publish: refused before a task waits for its inputs (R40)."""

from __future__ import annotations

from airflow_provider.coordination.commits.register import other_jobs
from airflow_provider.domain.group import check_groups
from airflow_provider.domain.records import job_key
from airflow_provider.domain.registration import declared, serves_once
from airflow_provider.domain.topology import Job
from airflow_provider.stores.base import MetadataReader
from airflow_provider.stores.declarations import fingerprint


def refuse_endless_wait(reader: MetadataReader, job: Job) -> None:
    """Refuse a job that is not registered as it declares itself, and that would wait for a group's commit for ever.

    Its begin registers it, but only once its inputs are there, which they never are.

    :raises TopologyError: as registration does, see :func:`~.check_groups`.
    """
    stamped = reader.read(job.domain, [key := job_key(job.domain, job.name)]).get(key)
    current = None if stamped is None else stamped.record
    record = declared(job, current, fingerprint(job))
    if record == current or serves_once(record):
        return
    others = other_jobs(reader, job.domain, job.name)
    active = {name: other for name, other in others.items() if not other.retired}
    check_groups(record, {**active, record.name: record})
