"""The state log of an epoch: the reports of each attempt, and of each try of a participant (R1)."""

from __future__ import annotations

from airflow_provider.domain.epoch import AttemptEvent
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Kind, Stamped, event_partition
from airflow_provider.stores.base import MetadataReader


def state_log(
    reader: MetadataReader, domain: DomainName, job: JobName, interval: Interval
) -> list[Stamped[AttemptEvent]]:
    """Return the state log of one epoch, by token and participant."""
    return reader.scan(domain, Kind.EVENT, event_partition(job, interval.start))
