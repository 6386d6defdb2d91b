"""Routes of the page that take a published restatement back: what would be computed again, and the decision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Body

from airflow_provider.coordination.commits.staged import revert_of
from airflow_provider.coordination.restating.opening_revert import plan_revert
from airflow_provider.coordination.restating.plan import Plan
from airflow_provider.coordination.upkeep.dags import dags_of_members
from airflow_provider.coordination.upkeep.members_now import MembersNow, MemberState
from airflow_provider.domain.errors import NotReady, TopologyError
from airflow_provider.domain.identifiers import JobName, RestatementId
from airflow_provider.domain.restatement import JobEpochs, RestatementState, name_of_revert
from airflow_provider.hooks.asset_events import announce_restatement
from airflow_provider.plugins.access import DagAccess
from airflow_provider.plugins.grid.deciding import (
    Decided,
    Reason,
    audited,
    may_decide,
    refuse_undecidable,
)
from airflow_provider.plugins.grid.questions import ConnectionId, Name
from airflow_provider.plugins.grid.restate import unseen
from airflow_provider.plugins.grid.restatement_answers import spans_of
from airflow_provider.plugins.grid.restatements import Named, asked_by, deciding

router = APIRouter()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Planned:
    """Revert of the restatement *name* as one user sees it.

    :param epochs: number of epochs that get their former rows back.
    :param readers: epochs that have read its rows since. :param jobs: those of the plan that the user may see.
    """

    name: RestatementId
    epochs: int
    plan: Plan
    readers: tuple[JobEpochs, ...]
    jobs: frozenset[JobName]
    dags: frozenset[str]
    access: DagAccess

    @property
    def is_seen(self) -> bool:
        """True if the user may see all jobs that the plan names."""
        return {epochs.job for epochs in (*self.plan.members, *self.plan.held)} <= self.jobs

    @property
    def obstacles(self) -> list[str]:
        return list(self.plan.obstacles) if self.is_seen else unseen(self.plan.obstacles)


@contextmanager
def _planned(conn_id: str | None, domain: str, user: Any, name: str) -> Iterator[_Planned]:
    """Plan the revert of *name*.

    :raises UnknownName: as of :meth:`~.restatements.Asked.record`. :raises InvalidInput: it is not published.
    """
    with asked_by(conn_id, domain, user) as asked:
        known, stamped, _ = asked.record(name)
        now = MembersNow(asked.reader, asked.domain, known, stamped)
        plan, readers = plan_revert(asked.service.context, now)
        yield _Planned(
            name=known,
            epochs=stamped.record.size,
            plan=plan,
            readers=readers,
            jobs=asked.visible({epochs.job for epochs in (*plan.members, *plan.held)}),
            dags=dags_of_members(asked.reader, asked.domain, plan.members),
            access=asked.access,
        )


@router.get("/api/restatement/revert/plan")
def plan_of(
    *, user: GetUserDep, name: Name, domain: Name = "default", conn_id: ConnectionId = None
) -> dict[str, Any]:
    """Return what a revert of *name* gives its former rows, and what it has computed again, as far as the user sees."""
    with _planned(conn_id, domain, user, name) as found:
        return {
            "name": found.name,
            "epochs": found.epochs,
            "readers": sum(len(epochs.intervals) for epochs in found.readers),
            "members": [
                span for epochs in found.readers if epochs.job in found.jobs for span in spans_of(epochs)
            ],
            "jobs": len(found.readers),
            "jobs_hidden": sum(epochs.job not in found.jobs for epochs in found.readers),
            "is_held": bool(found.plan.held),
            "obstacles": found.obstacles,
            **may_decide(found.dags, found.access),
        }


@router.post("/api/restatement/revert", dependencies=audited("restatement_revert"))
def revert(
    decision: Decided,
    name: Named,
    reason: Reason,
    *,
    with_readers: Annotated[bool, Body(embed=True)] = False,
) -> dict[str, Any]:
    """Give its epochs their former rows back.

    :param with_readers: epochs that have read its rows since are computed again within the revert. While they are
        not, the answer names the revert, and how many of its members are to be computed.
    """
    if with_readers:
        _refuse_readers_of_others(decision, name)
    with deciding(decision, name, "revert") as (service, domain, known):
        try:
            csn = service.restatements.revert(
                domain, known, reason=reason, by=decision.by, with_readers=with_readers
            )
        except NotReady:
            opened = revert_of(service.store, domain, known) if with_readers else None
            if opened is None or opened[1].state is not RestatementState.OPEN:
                raise
            members = service.restatements.status(domain, opened[0]).members
            missing = [member for member in members if member.state is not MemberState.STAGED]
            return {"opened": opened[0], "epochs": len(missing)}
        events = announce_restatement(service, domain, known, csn, conn_id=decision.conn_id)
    return {"csn": csn, "events": events, "within": name_of_revert(known)}


def _refuse_readers_of_others(decision: Decided, name: str) -> None:
    """Refuse a revert whose later readers are not the user's to have computed again.

    :raises NotAllowed: the user may not change runs of all DAGs that worked on them.
    :raises TopologyError: obstacles that the user may not see keep it from being opened.
    """
    with _planned(decision.conn_id, decision.domain, decision.user, name) as found:
        refuse_undecidable(f"the revert of restatement {found.name!r}", found.dags, found.access)
        if found.plan.obstacles and not found.is_seen:
            raise TopologyError(" ".join(found.obstacles), next_step="ask a user who may see these jobs.")
