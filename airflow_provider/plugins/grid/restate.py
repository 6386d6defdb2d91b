"""Routes of the page that plan a restatement and open it."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Body, Query

from airflow_provider.coordination.restating.next_steps import compute
from airflow_provider.coordination.restating.plan import Plan
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.dags import dags_of_members
from airflow_provider.domain.errors import TopologyError, UnknownName
from airflow_provider.domain.identifiers import DomainName, JobName, domain_name, job_name
from airflow_provider.domain.restatement import unique_name
from airflow_provider.plugins.access import DagAccess
from airflow_provider.plugins.grid.deciding import (
    Decided,
    Reason,
    Text,
    audited,
    may_decide,
    refuse_undecidable,
    told,
)
from airflow_provider.plugins.grid.questions import ConnectionId, Name, recent_dags, service_of
from airflow_provider.plugins.grid.restatement_answers import spans_of, visible_jobs

router = APIRouter()
_MAX_INTERVAL = 160
Span = Annotated[str, Query(max_length=_MAX_INTERVAL)]


@dataclass(frozen=True, slots=True)
class _Planned:
    """A plan as one user sees it. :param jobs: those of its members that the user may see."""

    service: EpochService
    domain: DomainName
    job: JobName
    plan: Plan
    jobs: Collection[JobName]
    dags: frozenset[str]

    @property
    def is_seen(self) -> bool:
        """True if the user may see all jobs that the plan names."""
        named = {epochs.job for epochs in (*self.plan.members, *self.plan.held)}
        return named <= set(self.jobs)


@contextmanager
def _planned(
    domain: str, conn_id: str | None, user: Any, job: str, interval: str
) -> Iterator[tuple[_Planned, DagAccess]]:
    """Plan a restatement of *interval* of *job*.

    :raises UnknownName: no such job, or the user may not see it: the same error.
    """
    where, name, access = domain_name(domain), job_name(job), DagAccess(user)
    with service_of(conn_id, user) as service:

        def visible(jobs: Collection[JobName]) -> frozenset[JobName]:
            return visible_jobs(jobs, lambda: recent_dags(conn_id, service.store, where), access)

        if name not in visible([name]):
            raise UnknownName.of_job(name, where)
        plan = service.restatements.plan(where, [name], interval)
        jobs = visible({epochs.job for epochs in (*plan.members, *plan.held)})
        dags = dags_of_members(service.store, where, plan.members)
        yield _Planned(service, where, name, plan, jobs, dags), access


@router.get("/api/restatement/plan")
def plan_of(
    *, user: GetUserDep, job: Name, interval: Span, domain: Name = "default", conn_id: ConnectionId = None
) -> dict[str, Any]:
    """Return what a restatement of *interval* of *job* would compute again, as far as the user may see it.

    :param interval: ``FROM/TO``, as the command takes it.
    """
    with _planned(domain, conn_id, user, job, interval) as (found, access):
        plan = found.plan
        first = min(epochs.intervals[0].start for epochs in plan.asked if epochs.intervals)
        obstacles = list(plan.obstacles) if found.is_seen else unseen(plan.obstacles)
        return {
            "domain": found.domain,
            "job": found.job,
            "name": unique_name(found.job, first, secrets.token_hex(2)),
            "epochs": plan.size,
            "members": [
                span for epochs in plan.members if epochs.job in found.jobs for span in spans_of(epochs)
            ],
            "jobs": len(plan.members),
            "jobs_hidden": sum(epochs.job not in found.jobs for epochs in plan.members),
            "held": [span for epochs in plan.held if epochs.job in found.jobs for span in spans_of(epochs)],
            "is_held": bool(plan.held),
            "uncommitted": plan.uncommitted,
            "expected_s": round(plan.expected.total_seconds()),
            "obstacles": obstacles,
            **may_decide(found.dags, access),
        }


def unseen(obstacles: Collection[str]) -> list[str]:
    """Return words for *obstacles* that name jobs which the user may not see."""
    number = len(obstacles)
    words = "obstacle" if number == 1 else "obstacles"
    return [f"{number} {words}: ask a user who may see all jobs that have read it."] if obstacles else []


@router.post("/api/restatement/open", dependencies=audited("restatement_open"))
def open_restatement(
    decision: Decided,
    job: Text,
    interval: Annotated[str, Body(max_length=_MAX_INTERVAL, embed=True)],
    name: Text,
    reason: Reason,
    *,
    needs_approval: Annotated[bool, Body(embed=True)] = False,
) -> dict[str, Any]:
    """Open the restatement *name*: its epochs are computed again, and published by one commit.

    :raises NotAllowed: the user may not change runs of all DAGs that worked on its members.
    :raises TopologyError: obstacles keep it from being opened.
    """
    with _planned(decision.domain, decision.conn_id, decision.user, job, interval) as (found, access):
        refuse_undecidable(f"restatement {name!r}", found.dags, access)
        if found.plan.obstacles and not found.is_seen:
            raise TopologyError(
                " ".join(unseen(found.plan.obstacles)), next_step="ask a user who may see these jobs."
            )
        with told("open", f"restatement {name}", decision):
            record = found.service.restatements.open(
                found.domain,
                [found.job],
                interval,
                name=name,
                reason=reason,
                by=decision.by,
                needs_approval=needs_approval,
            )
    return {"opened": name, "epochs": record.size, "next_step": compute(name)}
