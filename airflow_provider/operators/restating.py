"""Tasks of runs that compute their epochs within a restatement, named in the run's configuration (R28)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider.coordination.restating.members import joined, member_epochs, uncomputed
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job
from airflow_provider.domain.watermark import merged


def members_of_run(
    log: Any,
    service: EpochService,
    job: Job,
    epochs: Sequence[Interval],
    owner: Owner,
    *,
    named: RestatementId | None,
) -> dict[RestatementId, list[Interval]]:
    """Return those of the run's *epochs* that it computes within a restatement, by restatement.

    :param named: the restatement that the run's configuration names: then its other epochs are left as they are. None:
        the run joins open restatements. A task that was cleared, or another run, that asks for a committed epoch
        computes it within the restatement that has it.
    :raises UnknownName: no restatement *named*. :raises TopologyError: none of *epochs* is its member.
    """
    if named is not None:
        found = {named: member_epochs(service.store, job, epochs, named)}
        left = [epoch for epoch in epochs if epoch not in found[named]]
        if left:
            log.warning("Left as committed, no members of %s: %s", named, ", ".join(map(str, left)))
    else:
        found = joined(service.store, job, epochs, owner)
    for name, members in found.items():
        log.info("Within restatement %s, which publishes them: %s", name, ", ".join(map(str, members)))
    return found


def others(
    epochs: Sequence[Interval], within: Mapping[RestatementId, Sequence[Interval]]
) -> tuple[Interval, ...]:
    """Return the intervals of those *epochs* that are computed within no restatement."""
    members = {epoch for found in within.values() for epoch in found}
    return merged(epoch for epoch in epochs if epoch not in members)


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
