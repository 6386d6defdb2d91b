"""Failed epochs before their job's tables begin: nothing waits for them, so nothing else reports them (R7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from shlex import quote

from airflow_provider.coordination.commits.inactive_jobs import inactive_jobs
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import table_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.stores.base import MetadataReader, pages


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedBefore:
    """Epochs of *job*, which declares no origin, that failed and were never computed again.

    :param begins: barrier at which the first of its tables begins, after them; None while nothing is committed.
    :param first: the first of them. :param number: of all of them.
    """

    job: JobRecord
    begins: datetime | None
    first: EpochRecord
    number: int

    @property
    def found(self) -> str:
        reason = "" if self.first.attempt is None else self.first.attempt.aborted
        more = f"; so did {self.number - 1} more" if self.number > 1 else ""
        begins = f"its tables begin at {self.begins.isoformat()}" if self.begins else "nothing is committed"
        return f"{self.first.interval} failed ({reason}) and was never computed again{more}; {begins}"

    @property
    def next_step(self) -> str:
        """Commands that end the failure; they name no domain."""
        if self.begins is None:
            return "repair the cause and clear its task."
        copies = any(table.kind.copies_when_skipped for table in self.job.outputs)
        # A skipped epoch of a full table copies the one before, which there is none of.
        skip = "" if copies else f"`airflow epochs skip {quote(self.job.name)} INTERVAL --reason …`, or "
        return f"clear its task; or {skip}declare the origin {self.begins.isoformat()}, if nothing is to come of it."


def failed_before(reader: MetadataReader, domain: DomainName) -> Iterator[FailedBefore]:
    """Find epochs that failed before their job's tables begin; skip retired and inactive jobs.

    A job that declares its origin waits for each epoch from there on.
    """
    jobs = [stamped.record for stamped in list(pages(reader, domain, JobRecord))]
    over = inactive_jobs(reader, domain)
    for job in jobs:
        if job.origin is not None or job.retired or job.name in over:
            continue
        reading = reader.read(domain, [table_key(domain, table.name) for table in job.outputs])
        starts = [table.record.progress.start for table in reading.records.values()]
        begins = min((start for start in starts if start is not None), default=None)
        # Without any commit `explain` takes the last ended epoch for the first open one, and reports it itself.
        told = job.cadence.ended_by(reading.now) if begins is None else None
        failed = [epoch for epoch in _failed(reader, domain, job, begins) if epoch.interval != told]
        if failed:
            yield FailedBefore(job=job, begins=begins, first=failed[0], number=len(failed))


def _failed(
    reader: MetadataReader, domain: DomainName, job: JobRecord, end: datetime | None
) -> Iterator[EpochRecord]:
    """Yield epochs of *job* before *end*, in its present calendar, whose last attempt ended without any commit."""
    for stamped in pages(reader, domain, EpochRecord, job.name):
        epoch = stamped.record
        interval = epoch.interval
        if end is not None and interval.start >= end:
            return
        if epoch.committed is not None or epoch.attempt is None or epoch.attempt.aborted is None:
            continue
        if job.cadence.is_barrier(interval.end) and job.cadence.ending_at(interval.end) == interval:
            yield epoch
