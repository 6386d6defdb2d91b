"""Tasks of runs that compute their epochs within a restatement, named in the run's configuration (R28)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider.coordination.restating.members import (
    committed_epochs,
    is_open,
    joined,
    member_epochs,
    refuse_unpublished,
    uncomputed,
)
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job
from airflow_provider.domain.watermark import merged


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
) -> RunEpochs:
    """Return which of the run's *epochs* it computes, and within which restatement.

    A run whose configuration names a restatement computes its members within it. It may have none: a backfill has the
    runs of all dates between its first and its last. Other epochs that are committed stay as they are, also after the
    publish: nobody has asked for them. Airflow keeps the configuration when a task is cleared later: then members of a
    restatement that was published are computed as by any other run.

    A run that names none, or one that has ended, joins open restatements: a task that was cleared, or another run, that
    asks for a committed epoch computes it within the one that has it.

    :param named: the restatement in the run's configuration.
    :raises UnknownName: no restatement *named*. :raises InvalidInput: it was not published, and is over, and no open
        restatement has its members.
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
        done = set(committed_epochs(reader, job, others)) - set(members)
        others = [epoch for epoch in others if epoch not in done]
        if done:
            told = ", ".join(map(str, sorted(done)))
            log.warning(
                "Left as committed, since they are no members of restatement %s, which the configuration of this run "
                "names: %s. A backfill with the configuration {} asks for them.",
                named,
                told,
            )
    return _told(log, RunEpochs(within=within, alone=merged(others)))


def _told(log: Any, found: RunEpochs) -> RunEpochs:
    for name, members in found.within.items():
        log.info("Within restatement %s, which publishes them: %s", name, ", ".join(map(str, members)))
    return found


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


def refuse_participants_within(found: RunEpochs, named: RestatementId | None) -> None:
    """:raises InvalidInput: the run publishes nothing itself: a restatement has one writer for each epoch."""
    if not found.alone:
        raise InvalidInput(
            field="restatement",
            value=", ".join(found.within) or named,
            expected="no restatement, for an epoch that several participants write",
            next_step="compute the epoch by one task (@task.epoch) within the restatement.",
        )
