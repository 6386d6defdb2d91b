"""Tasks of runs that compute their epochs within a restatement, named in the run's configuration (R28)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider.coordination.commits.staged import restatement_of
from airflow_provider.coordination.restating.members import (
    before_beginning,
    committed_epochs,
    is_open,
    joined,
    member_epochs,
    refuse_unpublished,
    staged_by_others,
    uncomputed,
    uncomputed_by_job,
)
from airflow_provider.coordination.restating.next_steps import Commands
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.dags import dags_of_jobs
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import JobName, RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.restatement import RestatementRecord, RestatementState
from airflow_provider.domain.topology import Job
from airflow_provider.domain.watermark import merged
from airflow_provider.hooks.epochs import DEFAULT_CONN_ID


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEpochs:
    """Epochs that a run computes.

    :param within: those that it computes within a restatement, by restatement.
    :param alone: intervals of those that it publishes itself.
    """

    within: Mapping[RestatementId, Sequence[Interval]]
    alone: tuple[Interval, ...]


def run_epochs(
    log: Any,
    service: EpochService,
    job: Job,
    epochs: Sequence[Interval],
    owner: Owner,
    *,
    named: RestatementId | None,
    cause: str = "",
    asked: Sequence[Interval] | None = None,
) -> RunEpochs:
    """Return which of the run's *epochs* it computes, and within which restatement.

    A run whose configuration names a restatement computes its members within it. It may have none: a backfill has the
    runs of all dates between its first and its last. Other epochs that are committed stay as they are, also after the
    publish: no request names them. Airflow keeps the configuration when a task is cleared later: then members of a
    restatement that was published are computed as by any other run.

    A run that names none, or one that has ended, joins open restatements: a task that was cleared, or another run, that
    asks for a committed epoch computes it within the one that has it. If none has it, and other committed epochs have
    read it, the restatement of the run's DAG takes it in, which the first such run opens (docs/decisions/rerun.md).

    :param named: the restatement in the run's configuration.
    :param cause: why the run may ask for a committed epoch again; empty for one that opens no restatement.
    :param asked: intervals in which the run asks for committed epochs again, and for those before the beginning of the
        job's tables; None for everywhere.
    :raises UnknownName: no restatement *named*. :raises InvalidInput: it was not published, and is over, and no open
        restatement has its members. :raises TopologyError: obstacles keep the DAG's restatement from taking epochs in.
    """
    reader = service.store
    members = [] if named is None else member_epochs(reader, job, epochs, named)
    if named is not None and is_open(reader, job.domain, named):
        within = {named: members} if members else {}
    else:
        within = joined(reader, job, epochs, owner)
    found = {epoch for own in within.values() for epoch in own}
    others = [epoch for epoch in epochs if epoch not in found]
    if named is not None:
        if set(members) & set(others):
            refuse_unpublished(reader, job.domain, named)
        done = set(committed_epochs(reader, job, others, but=owner)) - set(members)
        others = [epoch for epoch in others if epoch not in done]
        if done:
            told = ", ".join(map(str, sorted(done)))
            log.warning(
                "Left as committed, since they are no members of restatement %s, which the configuration of this run "
                "names: %s. A backfill with the configuration {} asks for them.",
                named,
                told,
            )
    if asked is not None:
        others = _asked(log, service, job, others, owner=owner, within=asked)
    if cause and others and service.restatements.of_rerun(job, others, owner, reason=cause) is not None:
        within = joined(reader, job, epochs, owner)
        others = [epoch for epoch in others if not any(epoch in own for own in within.values())]
    return _told(log, service, job, owner, RunEpochs(within=within, alone=merged(others)))


def _asked(
    log: Any,
    service: EpochService,
    job: Job,
    epochs: Sequence[Interval],
    *,
    owner: Owner,
    within: Sequence[Interval],
) -> list[Interval]:
    """Return those of *epochs* that lie in the intervals *within*, or that the job's tables lack.

    Others have committed the rest, or it lies before the tables begin: to compute it there would move their beginning.
    """
    kept, before = not_asked(service, job, epochs, owner=owner, within=within)
    for told, left in (("as committed", kept), (f"before the beginning of {job.name}", before)):
        if left:
            named = ", ".join(map(str, sorted(left)))
            log.info("Left %s, since events of restatements alone name them: %s", told, named)
    return [epoch for epoch in epochs if epoch not in kept | before]


def not_asked(
    service: EpochService,
    job: Job,
    epochs: Sequence[Interval],
    *,
    owner: Owner,
    within: Sequence[Interval],
) -> tuple[set[Interval], set[Interval]]:
    """Return those of *epochs* outside of the intervals *within* that others than *owner* have committed, and those
    that are not committed and lie before the job's tables begin.
    """
    asked = {epoch for interval in within for epoch in epochs if interval.start <= epoch.start < interval.end}
    others = [epoch for epoch in epochs if epoch not in asked]
    kept = set(committed_epochs(service.store, job, others, but=owner))
    return kept, set(before_beginning(service.store, job, others)) - kept


def _told(log: Any, service: EpochService, job: Job, owner: Owner, found: RunEpochs) -> RunEpochs:
    """Log what the run computes within restatements, and what it leaves there since other runs have staged it."""
    for name, members in found.within.items():
        log.info("Within restatement %s, which publishes them: %s", name, ", ".join(map(str, members)))
        for other, staged in staged_by_others(service.store, job, members, name, owner).items():
            told = ", ".join(map(str, staged))
            log.warning(
                "Left as run %s of %s has staged it within restatement %s, unless what it has read has changed since: "
                "%s. To have it computed again, such as by repaired code, clear the task of that run; or abandon the "
                "restatement.",
                other.run_id,
                other.dag_id,
                name,
                told,
            )
    return found


def tell_staged(
    log: Any,
    service: EpochService,
    job: Job,
    epochs: Sequence[Interval],
    restatement: RestatementId,
    *,
    conn_id: str,
) -> None:
    """Log that *epochs* are staged and not visible, what is still to be computed, and the commands that follow."""
    record = restatement_of(service.store, job.domain, restatement).record
    if record.state is not RestatementState.OPEN:
        return
    left = uncomputed_by_job(service.store, job.domain, restatement)
    dags = dags_of_jobs(service.store, job.domain, left)
    commands = Commands(job.domain, None if conn_id == DEFAULT_CONN_ID else conn_id)
    log.warning(
        "Staged, and not visible to readers: %s of %s. Restatement %s, opened by %s, publishes it together with all %d "
        "epochs of %d jobs. %s `%s` shows how far it is; `%s` publishes it, `%s` ends it without a commit.",
        ", ".join(map(str, epochs)), job.name, restatement, record.by, record.size, len(record.members),
        _left(commands, restatement, record, left, dags), commands("status", restatement),
        commands("publish", restatement), commands("abandon", restatement, more="--reason …"),
    )  # fmt: skip


def _left(
    commands: Commands,
    restatement: RestatementId,
    record: RestatementRecord,
    left: Mapping[JobName, int],
    dags: Mapping[JobName, str],
) -> str:
    """Return what is still to be computed, by whom, and the command that does it."""
    if not left:
        return "All of them are staged."
    told = (
        f"{number} of {job}" + (f" (DAG {dags[job]})" if job in dags else "") for job, number in left.items()
    )
    asked = record.asked[0]
    span = f"{asked.intervals[0].start.isoformat()}/{asked.intervals[0].end.isoformat()}"
    finish = commands.of("backfill", asked.job, "--interval", span, "--name", restatement, more="--reason …")
    return (
        f"Still to be computed are {', '.join(told)}: clear their tasks, or type `{finish}`, which computes all and "
        "publishes."
    )


def refuse_uncomputed(
    service: EpochService, job: Job, epochs: Sequence[Interval], restatement: RestatementId, program: str
) -> None:
    """Refuse the success of a program that left members out.

    :raises InvalidInput: *program* ended without an error, and members are not staged; names the first.
    """
    left = uncomputed(service.store, job, epochs, restatement)
    if left:
        raise InvalidInput(
            f"{program} ended without an error, and {len(left)} of {len(epochs)} epochs of job {job.name!r} are not "
            f"staged for restatement {restatement!r}; the first one is {left[0]}.",
            next_step="let it run every epoch of epoch_runs(), each in its own `with` block.",
            field="application",
            value=program,
            expected=f"{len(epochs)} epochs staged",
            missing=tuple(map(str, left)),
        )
