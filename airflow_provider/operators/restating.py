"""Tasks of runs that compute their epochs within a restatement, named in the run's configuration (R28)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider.coordination.restating.members import member_epochs, uncomputed
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Job


def members_of_run(
    log: Any, service: EpochService, job: Job, epochs: Sequence[Interval], restatement: RestatementId
) -> list[Interval]:
    """Return those of the run's *epochs* that are members of *restatement*, and log those that are not.

    :raises UnknownName: no such restatement. :raises TopologyError: none of them is its member.
    """
    members = member_epochs(service.store, job, epochs, restatement)
    log.info("Restatement %s: %d of %d epochs are its members", restatement, len(members), len(epochs))
    left = [epoch for epoch in epochs if epoch not in members]
    if left:
        log.warning("Left as committed, since they are no members: %s", ", ".join(map(str, left)))
    return members


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


def refuse_participants_within(restatement: RestatementId | None) -> None:
    """:raises InvalidInput: the run computes its epochs within a restatement, which has one writer for each epoch."""
    if restatement is not None:
        raise InvalidInput(
            field="restatement",
            value=restatement,
            expected="no restatement, for an epoch that several participants write",
            next_step="compute the epoch by one task (@task.epoch) within the restatement.",
        )
