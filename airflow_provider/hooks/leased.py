"""The leased cut of a sensor: what it returns, so that the tasks after it read the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider.domain.cut_request import CutRequest
from airflow_provider.domain.errors import NotReady

if TYPE_CHECKING:
    from airflow_provider.coordination.service import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseOf:
    """Name and owner of the lease of a try of a task: one, however often and by which process the try is ended."""

    name: str
    owner: str

    @classmethod
    def of(cls, instance: Any, run: Any) -> LeaseOf:
        """Return those of a task *instance* of *run*."""
        return cls(name=f"sensor-{instance.id}", owner=f"{run.dag_id}/{run.run_id}")


def leased_cut(
    settings: Settings,
    lease: LeaseOf,
    *,
    domain: str,
    tables: Sequence[str],
    barrier: datetime,
    request: CutRequest,
    ttl: timedelta,
) -> Mapping[str, Any]:
    """Make the cut of *tables* at *barrier* and hold it by *lease*; return what a sensor returns of it.

    With ``max_staleness`` the newest cut from *barrier* on, as the sensor waits for it. What the same try has leased
    before stays as it is, and is returned.

    :param ttl: time to live of the lease.
    :raises NotReady: the tables have no cut there any more. :raises Unavailable: its states have expired.
    """
    from airflow_provider.coordination.service import EpochService

    newest = request.max_staleness is not None
    with EpochService.open(settings, create=False) as service:
        held = service.leases.cut(
            domain,
            tables,
            name=lease.name,
            owner=lease.owner,
            ttl=ttl,
            at=None if newest else barrier,
            align=request.align,
            max_lag=request.max_lag,
            max_staleness=request.max_staleness,
            consistency=request.consistency,
        )
        if held.cut.barrier < barrier:
            service.leases.drop(held)
            raise NotReady(
                f"{', '.join(tables)}: the newest cut at or before {barrier.isoformat()} is of "
                f"{held.cut.barrier.isoformat()}: what was there was rolled back.",
                next_step="try again: the sensor waits for it.",
                missing=(),
            )
    return {
        "domain": domain,
        "barrier": held.cut.barrier.isoformat(),
        "csn": held.cut.csn,
        "lease": str(held.id),
        "owner": held.owner,
        "until": held.until.isoformat(),
    }
