"""Attempts of a domain that have not ended, with their locks: what ``airflow epochs locks`` shows. Read-only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider.coordination.retrying_reader import retrying_reader
from airflow_provider.domain.epoch import EpochRecord, LockRecord, has_expired
from airflow_provider.domain.errors import UnknownName
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId, domain_name, job_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Kind, Stamped, job_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.stores.base import MetadataReader, pages

_PAGE = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenAttempt:
    """An attempt with its lock.

    :param begun: time of its begin. :param renewed: last sign of it. :param until: end of the lock unless it is
        renewed. :param left: time until then; zero for an attempt that is silent.
    :param restatement: the restatement within which it computes; None outside of one.
    """

    job: JobName
    interval: Interval
    revision: int
    token: int
    owner: Owner
    begun: datetime
    renewed: datetime
    until: datetime
    left: timedelta
    restatement: RestatementId | None = None

    @property
    def is_silent(self) -> bool:
        """True once its lock has expired: the next attempt at the epoch takes over."""
        return not self.left


def open_attempts(
    reader: MetadataReader, domain: str, jobs: Sequence[str] = ()
) -> tuple[datetime, list[OpenAttempt]]:
    """Return the store's time, and the attempts with a lock, of *jobs* or of the whole domain, by their begin.

    :raises UnknownName: a job that is not registered.
    :raises StoreUnavailable: the store did not answer for longer than readers wait (``read_timeout``).
    """
    reader, name = retrying_reader(reader), domain_name(domain)
    locks = {
        lock.key._replace(kind=Kind.EPOCH): lock
        for job in _asked(reader, name, jobs)
        for lock in pages(reader, name, LockRecord, job)
    }
    found: list[OpenAttempt] = []
    now = reader.read(name, []).now
    keys = list(locks)
    for start in range(0, len(keys), _PAGE):
        reading = reader.read(name, keys[start : start + _PAGE])
        found += _known(((stamped, locks[key]) for key, stamped in reading.records.items()), reading.now)
        now = reading.now
    return now, sorted(found, key=lambda attempt: (attempt.begun, attempt.job, attempt.interval))


def _asked(reader: MetadataReader, domain: DomainName, jobs: Sequence[str]) -> list[JobName]:
    if not jobs:
        return [stamped.record.name for stamped in pages(reader, domain, JobRecord)]
    names = [job_name(job) for job in dict.fromkeys(jobs)]
    reading = reader.read(domain, [job_key(domain, name) for name in names])
    for name in names:
        if reading.get(job_key(domain, name)) is None:
            raise UnknownName.of_job(name, domain)
    return names


def _known(
    pairs: Iterator[tuple[Stamped[EpochRecord], Stamped[LockRecord]]], now: datetime
) -> Iterator[OpenAttempt]:
    """Yield the attempts that have not ended since their locks were read."""
    for epoch, lock in pairs:
        attempt = epoch.record.attempt
        if attempt is None or attempt.token != lock.record.token or attempt.aborted is not None:
            continue
        until = lock.at + lock.record.ttl
        over = lock.record.ended or has_expired(lock.at, lock.record.ttl, now)
        yield OpenAttempt(
            job=JobName(epoch.key.partition),
            interval=epoch.record.interval,
            revision=attempt.revision,
            token=attempt.token,
            owner=attempt.owner,
            begun=epoch.at,
            renewed=lock.at,
            until=until,
            left=timedelta() if over else until - now,
            restatement=attempt.restatement,
        )
