"""Waiting for barriers: one decision, asked by sensor, trigger, command line and Spark alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider.coordination.patience import patient
from airflow_provider.coordination.resolving import Standings, names_of, refuse_withdrawn, retention_of
from airflow_provider.domain.clock import Clock, SystemClock
from airflow_provider.domain.cut import Lag, lagging, reached
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.errors import NotReady
from airflow_provider.domain.identifiers import domain_name
from airflow_provider.domain.interval import as_utc
from airflow_provider.domain.topology import EpochTable, TableKind
from airflow_provider.stores.base import MetadataReader


@dataclass(frozen=True, kw_only=True, slots=True)
class Readiness:
    """Whether a cut at *barrier* can be had.

    :param csn: the head at which it was asked; wait for a later one before asking again.
    """

    barrier: datetime
    csn: int
    missing: tuple[Lag, ...]

    @property
    def ready(self) -> bool:
        return not self.missing

    def __str__(self) -> str:
        if self.ready:
            return f"ready at {self.barrier.isoformat()} (CSN {self.csn})"
        return "; ".join(f"{lag.table}: {lag.reason}" for lag in self.missing)


def check(
    reader: MetadataReader,
    domain: str,
    tables: Iterable[str | EpochTable],
    barrier: datetime,
    *,
    for_job: bool = False,
) -> Readiness:
    """Return whether all *tables* have reached *barrier*; a table without an owner yet is missing, no error.

    :param for_job: a job reads them: of incremental tables it finds all rows also where a barrier is withdrawn.
    :raises Unavailable: a table had it, and it is withdrawn: there is nothing to wait for (R24).
    :raises StoreUnavailable: the store did not answer for longer than readers wait (``read_patience``).
    """
    return readiness(patient(reader), domain, tables, barrier, for_job=for_job)


def readiness(
    reader: MetadataReader,
    domain: str,
    tables: Iterable[str | EpochTable],
    barrier: datetime,
    *,
    for_job: bool = False,
) -> Readiness:
    """As :func:`check`, in one try: for those who ask again by themselves."""
    name, names, barrier = domain_name(domain), names_of(tables), as_utc(barrier, "barrier")
    reading, found = Standings(reader).of_registered(name, names)
    had = [one for one, (record, moved) in found.items() if reached(record, moved, barrier)]
    asked = [one for one in had if not for_job or found[one][0].kind is TableKind.FULL]
    refuse_withdrawn(retention_of(name, reading), found, dict.fromkeys(asked, barrier))
    unregistered = (
        Lag(table=one, watermark=None, wanted=barrier, reason="no owner yet: no job that writes it has run")
        for one in names
        if one not in found
    )
    return Readiness(barrier=barrier, csn=reading.head.csn, missing=(*unregistered, *lagging(found, barrier)))


def wait_for(
    reader: MetadataReader,
    domain: str,
    tables: Iterable[str | EpochTable],
    barrier: datetime,
    *,
    timeout: timedelta,
    clock: Clock | None = None,
    defaults: Defaults = DEFAULTS,
) -> Readiness:
    """Return once all *tables* have reached *barrier*.

    :raises NotReady: not within *timeout*; ``missing`` says which table lags and why.
    :raises Unavailable: a table had it, and it is withdrawn.
    :raises StoreUnavailable: the store did not answer for longer than readers wait (``read_patience``).
    """
    clock = clock or SystemClock()
    reader = patient(reader, clock=clock, defaults=defaults)
    deadline = clock.monotonic() + timeout.total_seconds()
    wanted = names_of(tables)
    while True:
        answer = check(reader, domain, wanted, barrier)
        left = timedelta(seconds=deadline - clock.monotonic())
        if answer.ready:
            return answer
        if left <= timedelta(0):
            raise NotReady(
                f"{barrier.isoformat()} was not reached within {timeout}: {answer}.",
                next_step="see `airflow epochs explain` for what each table waits for.",
                missing=answer.missing,
            )
        pause, before = min(left, defaults.wait_poll_interval), clock.monotonic()
        reader.watch(domain_name(domain), answer.csn, pause)
        if clock.monotonic() == before:
            # A clock of the caller's own does not move while the store waits: then it is the one to wait by.
            clock.sleep(pause)
