"""Declarations that are not stored yet: a begin decides on the store as registration would leave it (R7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from airflow_provider.coordination.commits.places import refuse_elsewhere
from airflow_provider.coordination.commits.register import Register
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.context import Context
from airflow_provider.domain.errors import UnknownName
from airflow_provider.domain.identifiers import domain_name, job_name
from airflow_provider.domain.records import Kind, Stamped, job_key, topology_key
from airflow_provider.domain.registration import JobRecord, declared, serves_once
from airflow_provider.domain.topology import Job
from airflow_provider.stores.base import Delete, MetadataReader, Put, Reading
from airflow_provider.stores.declarations import fingerprint


@dataclass(frozen=True, kw_only=True, slots=True)
class Declaration:
    """A job's record, and the store with it.

    :param reading: shows the job's tables as they will be. :param register: stores the record; None if it is stored.
    """

    reading: Reading
    job: JobRecord
    register: Register | None


@dataclass(frozen=True, slots=True)
class Declaring:
    """Finder of the record of *job*, without storing it."""

    context: Context
    job: Job

    def of(self, reading: Reading) -> Declaration | None:
        """Return *reading* as registering would leave it; None if the store is to be read again.

        :raises TopologyError: the topology cannot hold the job (R6).
        :raises WrongWarehouse: the domain's files are elsewhere (R33). :raises WrongCatalog: its tables are.
        """
        job = self.job
        topology = reading.get(topology_key(job.domain))
        refuse_sealed(job.domain, topology)
        refuse_elsewhere(job.domain, topology, self.context.formats)
        current = reading.get(job_key(job.domain, job.name))
        record = declared(job, current.record if current else None, fingerprint(job))
        register = Register(self.context, job)
        if current is not None and (
            (record == current.record and register.remembers(topology)) or serves_once(record)
        ):
            return Declaration(reading=reading, job=record, register=None)
        planned, transaction = register.plan()
        if transaction is None:
            return None
        after = _after(reading, (update for update in transaction.updates if isinstance(update, Put)))
        return Declaration(reading=after, job=planned, register=register)


def registered(reader: MetadataReader, domain: str, job: str) -> JobRecord:
    """Return the record of *job*.

    :raises UnknownName: no such job in the domain.
    """
    key = job_key(domain_name(domain), job_name(job))
    stamped = reader.read(key.domain, [key]).get(key)
    if stamped is None:
        raise UnknownName.of_job(job, domain)
    return stamped.record


def _after(reading: Reading, updates: Iterable[Put | Delete]) -> Reading:
    """Return *reading* with the jobs and tables of *updates*, as if they had been stored at its head."""
    records = dict(reading.records)
    for update in updates:
        if isinstance(update, Put) and update.key.kind in (Kind.JOB, Kind.TABLE):
            known = records.get(update.key)
            version = 0 if known is None else known.version
            records[update.key] = Stamped(update.key, update.record, version, reading.head.csn, reading.now)
    return replace(reading, records=records)
