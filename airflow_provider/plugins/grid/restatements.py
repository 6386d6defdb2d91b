"""Routes of the page on restatements: the list, one of them, its differences, and the decisions on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Body, Query

from airflow_provider.coordination.commits.open_restatements import open_restatements
from airflow_provider.coordination.commits.staged import restatement_of, revert_of, unknown
from airflow_provider.coordination.restating.next_steps import Commands, next_step, why_over
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.dags import dags_of_members
from airflow_provider.coordination.upkeep.grid import Grid
from airflow_provider.domain.dependent import Dependent
from airflow_provider.domain.errors import DependentReaders, NotReady
from airflow_provider.domain.identifiers import (
    DomainName,
    JobName,
    RestatementId,
    domain_name,
    restatement_id,
)
from airflow_provider.domain.records import Stamped, epoch_key, topology_key
from airflow_provider.domain.restatement import (
    RestatementRecord,
    RestatementState,
    epochs_of,
    state_of,
)
from airflow_provider.hooks.asset_events import announce_restatement
from airflow_provider.hooks.epochs import DEFAULT_CONN_ID
from airflow_provider.plugins.access import DagAccess, allowed_hook
from airflow_provider.plugins.grid.answers import Restated, moment_answer
from airflow_provider.plugins.grid.deciding import (
    Decided,
    Deciding,
    Reason,
    audited,
    refuse_undecidable,
    told,
)
from airflow_provider.plugins.grid.differences import RowCounts
from airflow_provider.plugins.grid.questions import (
    MAX_TEXT,
    ConnectionId,
    Name,
    Tag,
    recent,
    recent_dags,
    service_of,
)
from airflow_provider.plugins.grid.restatement_answers import (
    Standing,
    Summary,
    member_answer,
    restatement_answer,
    selected,
    summary_answer,
    visible_jobs,
)
from airflow_provider.stores.base import MetadataReader, pages

_PAGE = 50
"""Number of restatements, or of members, in one answer."""

router = APIRouter()
Offset = Annotated[int, Query(ge=0, le=1_000_000)]


@dataclass(frozen=True, slots=True)
class Asked:
    """A domain as one user sees it. :param conn_id: as it was asked for."""

    service: EpochService
    domain: DomainName
    conn_id: str | None
    access: DagAccess

    @property
    def reader(self) -> MetadataReader:
        return self.service.store

    @property
    def commands(self) -> Commands:
        shown = allowed_hook(self.conn_id).epochs_conn_id
        return Commands(self.domain, None if shown == DEFAULT_CONN_ID else shown)

    def visible(self, jobs: Any) -> frozenset[Any]:
        """Return those of *jobs* that the user may see."""
        return visible_jobs(jobs, lambda: recent_dags(self.conn_id, self.reader, self.domain), self.access)

    def record(self, name: str) -> tuple[RestatementId, Stamped[RestatementRecord], frozenset[Any]]:
        """Return a restatement, with the jobs of its members that the user may see.

        :raises UnknownName: no such restatement, or the user may see none of its jobs: the same error.
        """
        known = restatement_id(name)
        stamped = restatement_of(self.reader, self.domain, known)
        jobs = self.visible(epochs.job for epochs in stamped.record.members)
        if not jobs:
            raise unknown(self.domain, known)
        return known, stamped, jobs

    def standing(self, name: RestatementId, stamped: Stamped[RestatementRecord]) -> tuple[Standing, str]:
        """Return how the restatement stands, with the tag of the answer; as of a minute ago at most."""
        head = self.reader.read(self.domain, []).head
        question = ("restatement", self.conn_id or "", self.domain, head.incarnation, name, stamped.version)
        # Of an open one thousands of members are read: not again at each commit of the domain.
        csn = 0 if stamped.record.state is RestatementState.OPEN else head.csn
        found = recent.answer(question, csn, lambda: self._standing(name, stamped))
        return found.value, found.tag

    def _standing(self, name: RestatementId, stamped: Stamped[RestatementRecord]) -> Standing:
        status = self.service.restatements.status(self.domain, name)
        over = why_over(self.reader, self.domain, status)
        reverted = None
        if status.record.state is RestatementState.PUBLISHED:
            known = revert_of(self.reader, self.domain, name)
            if known is not None:
                reverted = known[0], known[1].state
        return Standing.counted(
            status,
            state=state_of(status.record, is_over=bool(over)),
            at=stamped.at,
            over=over,
            next_step=next_step(self.commands, status, is_over=bool(over)),
            dags=dags_of_members(self.reader, self.domain, status.record.members),
            reverted_by=reverted,
        )

    def summaries(self) -> list[Summary]:
        """Return all restatements: open ones first, then those that ended last; as of a minute ago at most.

        The records are read again once one is opened or ended, which writes the topology, not at each commit.
        """
        key = topology_key(self.domain)
        reading = self.reader.read(self.domain, [key])
        topology = reading.get(key)
        version = topology.version if topology else 0
        question = ("restatements", self.conn_id or "", self.domain, reading.head.incarnation, version)
        found: list[Summary] = recent.answer(question, 0, self._summaries).value
        return found

    def _summaries(self) -> list[Summary]:
        # Few records at a time: one holds up to 5,000 members.
        records = pages(self.reader, self.domain, RestatementRecord, size=10)
        found = [
            Summary(
                name=RestatementId(stamped.key.item),
                record=replace(stamped.record, asked=(), members=()),
                jobs=tuple(epochs.job for epochs in stamped.record.members),
                epochs=stamped.record.size,
                csn=stamped.csn if stamped.record.state is RestatementState.PUBLISHED else None,
                at=stamped.at,
            )
            for stamped in records
        ]
        taken_back = {summary.record.reverts for summary in found if summary.csn is not None}
        return sorted(
            (replace(summary, is_taken_back=summary.name in taken_back) for summary in found),
            key=lambda summary: (summary.record.state is RestatementState.OPEN, summary.at),
            reverse=True,
        )


@contextmanager
def asked_by(conn_id: str | None, domain: str, user: Any) -> Iterator[Asked]:
    """Open the store for a user's question about *domain*."""
    with service_of(conn_id, user) as service:
        yield Asked(service, domain_name(domain), conn_id, DagAccess(user))


def restated(reader: MetadataReader, found: Grid) -> Restated:
    """Return the epochs of *found* that open restatements compute again."""
    jobs = {row.job for row in found.rows}
    return {
        epoch: name
        for name, stamped in open_restatements(reader, found.domain)
        for epoch in epochs_of(epochs for epochs in stamped.record.members if epochs.job in jobs)
    }


# --- questions -------------------------------------------------------------------------------------------------


@router.get("/api/restatements")
def restatements_of(
    *, user: GetUserDep, domain: Name = "default", conn_id: ConnectionId = None, offset: Offset = 0
) -> dict[str, Any]:
    """Return the restatements of a domain that the user may see, a page of them, and the command that opens one."""
    with asked_by(conn_id, domain, user) as asked:
        summaries = asked.summaries()
        latest = asked.visible({job for summary in summaries for job in summary.jobs})
        seen = [summary for summary in summaries if latest.intersection(summary.jobs)]
        page = [_summary(asked, summary) for summary in seen[offset : offset + _PAGE]]
        opens = asked.commands("open", "TABLE", "--interval", "FROM/TO", more="--reason …")
        head = asked.reader.read(asked.domain, [])
    return {
        "domain": domain,
        "now": head.now.isoformat(),
        "restatements": page,
        "offset": offset,
        "page": _PAGE,
        "total": len(seen),
        "command": opens,
    }


def _summary(asked: Asked, summary: Summary) -> dict[str, Any]:
    if summary.record.state is not RestatementState.OPEN:
        return summary_answer(summary, None)
    stamped = restatement_of(asked.reader, asked.domain, summary.name)
    standing, _ = asked.standing(summary.name, stamped)
    return summary_answer(summary, standing)


@router.get("/api/restatement")
def restatement_named(
    *,
    user: GetUserDep,
    name: Name,
    domain: Name = "default",
    conn_id: ConnectionId = None,
    state: Annotated[str, Query(max_length=20)] = "",
    job: Annotated[str, Query(max_length=MAX_TEXT)] = "",
    offset: Offset = 0,
    since: Tag = "",
) -> dict[str, Any]:
    """Return one restatement, its members counted by job and state, and a page of them.

    :param state: only members in this state; ``unstaged`` for all but staged ones. :param job: only members of it.
    :param since: as in the grid.
    """
    with asked_by(conn_id, domain, user) as asked:
        known, stamped, jobs = asked.record(name)
        standing, tag = asked.standing(known, stamped)
        if since == tag:
            return {"unchanged": True, "tag": tag}
        found = selected(standing, jobs, state=state, job=job)
        page = found[offset : offset + _PAGE]
        keys = [epoch_key(asked.domain, member[0], member[1].start) for member in page]
        reading = asked.reader.read(asked.domain, keys)
        listed = [
            member_answer(member, reading.get(key), known, asked.access)
            for member, key in zip(page, keys, strict=True)
        ]
        holding = asked.visible(epochs.job for epochs in standing.status.held)
        answer, record = restatement_answer(standing, jobs | holding, asked.access), stamped.record
    return {
        **answer,
        "domain": asked.domain,
        "tag": tag,
        "now": reading.now.isoformat(),
        # The record keeps the time once it is over.
        "closing_until": moment_answer(record.closing_until if record.is_closing(reading.now) else None),
        "listed": listed,
        "offset": offset,
        "page": _PAGE,
        "total": len(found),
    }


@router.get("/api/restatement/differences")
def differences_of(
    *, user: GetUserDep, name: Name, domain: Name = "default", conn_id: ConnectionId = None
) -> dict[str, Any]:
    """Return how many rows the restatement adds and removes, by table; the rows themselves are not part of it."""
    with asked_by(conn_id, domain, user) as asked:
        known, _, jobs = asked.record(name)
        counts = RowCounts(
            service=asked.service, domain=asked.domain, name=known, jobs=jobs, commands=asked.commands
        )
        return counts.answer()


# --- decisions -------------------------------------------------------------------------------------------------

Named = Annotated[str, Body(max_length=MAX_TEXT, embed=True)]


@contextmanager
def deciding(
    decision: Deciding, name: str, what: str
) -> Iterator[tuple[EpochService, DomainName, RestatementId]]:
    """Open the domain for a decision that the user may take; yield its service, and what the decision is about.

    :raises UnknownName: as :meth:`Asked.record`. :raises NotAllowed: the user may see the restatement only.
    """
    with asked_by(decision.conn_id, decision.domain, decision.user) as asked:
        known, stamped, _ = asked.record(name)
        dags = dags_of_members(asked.reader, asked.domain, stamped.record.members)
        refuse_undecidable(f"restatement {known!r}", dags, asked.access)
        with told(what, f"restatement {known}", decision):
            try:
                yield asked.service, asked.domain, known
            except (NotReady, DependentReaders) as error:
                _refuse_hidden(asked, known, error)
                raise


def _refuse_hidden(asked: Asked, name: RestatementId, error: NotReady | DependentReaders) -> None:
    """:raises NotReady: without names, where *error* tells of jobs that the user may not see."""
    readers = error.readers if isinstance(error, DependentReaders) else error.missing
    jobs = {str(reader.job if isinstance(reader, Dependent) else reader.name) for reader in readers}
    if asked.visible(map(JobName, jobs)) != jobs:
        raise NotReady(
            f"restatement {name!r}: epochs of jobs that you may not see have read what it changes.",
            next_step="ask a user who may see all jobs that read its tables.",
            missing=(),
        ) from None


@router.post("/api/restatement/approve", dependencies=audited("restatement_approve"))
def approve(
    decision: Decided, name: Named, output: Annotated[str, Body(max_length=64, embed=True)]
) -> dict[str, Any]:
    """Approve what is staged. :param output: digest of what was looked at."""
    with deciding(decision, name, "approve") as (service, domain, known):
        service.restatements.approve(domain, known, output=output, by=decision.by)
    return {"approved": output}


@router.post("/api/restatement/publish", dependencies=audited("restatement_publish"))
def publish(decision: Decided, name: Named) -> dict[str, Any]:
    """Publish all members in one commit."""
    with deciding(decision, name, "publish") as (service, domain, known):
        csn = service.restatements.publish(domain, known)
        events = announce_restatement(service, domain, known, csn, conn_id=decision.conn_id)
    return {"csn": csn, "events": events}


@router.post("/api/restatement/abandon", dependencies=audited("restatement_abandon"))
def abandon(decision: Decided, name: Named, reason: Reason) -> dict[str, Any]:
    """End it without a commit."""
    with deciding(decision, name, "abandon") as (service, domain, known):
        service.restatements.abandon(domain, known, reason=reason, by=decision.by)
    return {"abandoned": known}
