"""Routes of the page on one epoch, and decisions about epochs, jobs and leases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Body, Depends, Query

from airflow_provider.coordination.reading.leases import live_leases
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.dags import dags_of_members
from airflow_provider.coordination.upkeep.end_attempt import end_attempt, open_attempt
from airflow_provider.coordination.upkeep.epoch_view import ShownEpoch, shown_epoch
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.skip import require_text
from airflow_provider.domain.errors import Conflict, InvalidInput, NotReady, UnknownName
from airflow_provider.domain.identifiers import DomainName, JobName, domain_name, job_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.restatement import JobEpochs
from airflow_provider.domain.schedule import run_barrier
from airflow_provider.plugins.access import DagAccess
from airflow_provider.plugins.grid.deciding import (
    Decided,
    Deciding,
    Reason,
    Text,
    audited,
    may_decide,
    refuse_undecidable,
    told,
)
from airflow_provider.plugins.grid.epoch_answers import (
    epoch_answer,
    holds,
    holds_former_rows,
    reader_of_lease,
    unknown_epoch,
)
from airflow_provider.plugins.grid.questions import (
    MAX_TEXT,
    ConnectionId,
    Name,
    reader_of,
    recent_dags,
    service_of,
)
from airflow_provider.plugins.grid.restatement_answers import visible_jobs
from airflow_provider.stores.base import MetadataReader

router = APIRouter()
Moment = Annotated[str, Query(max_length=64)]


@router.get("/api/epoch")
def epoch_of(
    *,
    user: GetUserDep,
    job: Name,
    start: Moment,
    end: Moment,
    domain: Name = "default",
    conn_id: ConnectionId = None,
) -> dict[str, Any]:
    """Return one epoch: what it waits for, the next step, inputs, checks, slices, attempts, log, and leases."""
    interval, access = _interval(start, end), DagAccess(user)
    with reader_of(conn_id, user) as reader:
        try:
            found = explain(reader, domain, job, interval, at_sources=False)
        except UnknownName as error:
            raise unknown_epoch(job, interval) from error
        shown = _shown(reader, domain, job, interval)
        slices = shown.slices if shown else ()
        leases = (
            [lease for lease in live_leases(reader, domain) if holds(lease, slices, interval)]
            if slices
            else []
        )
        answer = epoch_answer(found, access, shown, leases)
        dags = dags_of_members(reader, found.domain, [JobEpochs(job=job_name(job), intervals=(interval,))])
    return {**answer, **may_decide(dags, access)}


def _shown(reader: MetadataReader, domain: str, job: str, interval: Interval) -> ShownEpoch | None:
    try:
        return shown_epoch(reader, domain, job, interval)
    except NotReady:  # it has not begun
        return None


def _interval(start: str, end: str) -> Interval:
    return Interval(run_barrier(explicit=start), run_barrier(explicit=end))


# --- decisions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Epoch:
    """The epoch that a decision is about."""

    job: str
    start: str
    end: str

    @property
    def interval(self) -> Interval:
        return _interval(self.start, self.end)


def _epoch(
    job: Annotated[str, Body(max_length=MAX_TEXT)],
    start: Annotated[str, Body(max_length=64)],
    end: Annotated[str, Body(max_length=64)],
) -> _Epoch:
    return _Epoch(job, start, end)


Epoch = Annotated[_Epoch, Depends(_epoch)]


@contextmanager
def _of_job(
    decision: Deciding, job: str, what: str, intervals: tuple[Interval, ...] = ()
) -> Iterator[tuple[EpochService, DomainName, JobName]]:
    """Open the domain for a decision about epochs of *job*, or about the job itself without any.

    :raises UnknownName: no such job, or the user may not see it: the same error.
    :raises NotAllowed: the user may not change runs of a DAG that worked on the epochs or on the job's latest one.
    """
    where, name = domain_name(decision.domain), job_name(job)
    with service_of(decision.conn_id, decision.user) as service:
        access = DagAccess(decision.user)
        if not visible_jobs([name], lambda: recent_dags(decision.conn_id, service.store, where), access):
            raise UnknownName.of_job(name, where)
        dags = dags_of_members(service.store, where, [JobEpochs(job=name, intervals=intervals)])
        subject = f"job {name!r}" if not intervals else f"epoch {intervals[0]} of job {name!r}"
        refuse_undecidable(subject, dags, access)
        with told(what, subject, decision):
            yield service, where, name


@router.post("/api/epoch/skip", dependencies=audited("epoch_skip"))
def skip(decision: Decided, epoch: Epoch, reason: Reason) -> dict[str, Any]:
    """Commit the epoch without rows, so that its readers go on."""
    with _of_job(decision, epoch.job, "skip", (epoch.interval,)) as (service, domain, job):
        found = service.skip(domain, job, epoch.interval, reason, by=decision.by)
    return {
        "skipped": len(found.published),
        "left": len(found.left),
        "unread": [str(bounds) for bounds in found.unread],
        "late": list(found.late),
        "stalled": list(found.stalled),
    }


@router.post("/api/epoch/abort", dependencies=audited("epoch_abort"))
def abort(
    decision: Decided, epoch: Epoch, token: Annotated[int, Body(ge=0, embed=True)], reason: Reason
) -> dict[str, Any]:
    """End the open attempt at the epoch. :param token: of the attempt that the page has shown."""
    with _of_job(decision, epoch.job, "abort", (epoch.interval,)) as (service, domain, job):
        attempt = open_attempt(service.store, domain, job, epoch.interval)
        if attempt.token != token:
            raise Conflict(
                f"{job} {epoch.interval}: the attempt with token {token} is over; token {attempt.token} is open.",
                next_step="look at the epoch again, then decide about the attempt that is open now.",
            )
        end_attempt(service.context, attempt, reason=reason, by=decision.by)
    return {"ended": attempt.token, "owner": str(attempt.owner)}


@router.post("/api/job/retire", dependencies=audited("job_retire"))
def retire(decision: Decided, job: Text, reason: Reason) -> dict[str, Any]:
    """End a job with all of its tables, which keep their states."""
    with _of_job(decision, job, "retire") as (service, domain, name):
        service.retire(domain, name, reason=reason, by=decision.by)
    return {"retired": name}


@router.post("/api/lease/release", dependencies=audited("lease_release"))
def release(decision: Decided, name: Text, reason: Reason) -> dict[str, Any]:
    """End a lease now: what it holds may be expired from then on.

    :param reason: for the audit log: the lease, which is deleted, cannot keep it.
    :raises InvalidInput: no reason, or the lease of a published restatement.
    :raises UnknownName: no live lease has the name, or the user may not read the DAG that has taken it.
    """
    access = DagAccess(decision.user)
    with service_of(decision.conn_id, decision.user) as service:
        lease = service.leases.find(decision.domain, name)
        if lease is None or not access.may_read(reader_of_lease(lease)):
            raise UnknownName(
                f"there is no live lease {name!r} in domain {decision.domain!r}.",
                next_step="see the leases of an epoch on the page, or `airflow epochs lease list`.",
                lease=name,
            )
        refuse_undecidable(f"lease {name!r}", {reader_of_lease(lease)}, access)
        require_text(reason=reason)
        if holds_former_rows(lease):
            raise InvalidInput(
                f"lease {name!r} keeps the rows that {lease.owner} has replaced: its revert needs them.",
                next_step="wait until the restatement cannot be reverted any more: the lease ends then.",
                field="name",
                value=name,
                expected="a lease of a reader",
            )
        with told("release", f"lease {name}", decision):
            service.leases.drop(lease)
    return {"released": lease.id}
