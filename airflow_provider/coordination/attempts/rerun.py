"""Check of all epochs of one request, before the first one begins.

A refusal at the fifth epoch would leave four new epochs published beside old ones. So a request for several epochs asks
for all of them first; each begin decides again, since commits come in between.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider.coordination.attempts.fill import fills_of, keys_of_fill
from airflow_provider.coordination.attempts.state_log import own_commits
from airflow_provider.coordination.commits.catch_up import behind_of
from airflow_provider.coordination.commits.dependents import refuse_dependents
from airflow_provider.domain.admission import computes_again
from airflow_provider.domain.behind import is_behind
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.errors import DependentReaders, FinalError
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import fence_of
from airflow_provider.domain.topology import Job, OnRerun
from airflow_provider.stores.base import MetadataReader

_LISTED = 3


def refuse_reruns(
    reader: MetadataReader,
    job: Job,
    epochs: Sequence[Interval],
    owner: Owner,
    defaults: Defaults = DEFAULTS,
) -> None:
    """Refuse to begin *epochs* where some of them are committed and cannot be computed again.

    :raises DependentReaders: committed epochs depend on them.
    :raises FinalError: the job says ``on_rerun="fail"``.
    """
    if len(epochs) < 2 or job.on_rerun is OnRerun.KEEP:
        return
    keys = {fence_of(job.epoch(epoch)): epoch for epoch in epochs}
    reading = reader.read(job.domain, [*keys, *keys_of_fill(job)])
    again = [
        epoch
        for key, epoch in keys.items()
        if (stamped := reading.get(key)) is not None
        and stamped.record.interval == epoch
        and computes_again(stamped.record, owner)
        and (job.on_rerun is OnRerun.FAIL or not fills_of(reading, job, stamped.record, epoch))
        and not committed_before(reader, job, stamped.record, owner)
    ]
    kept = [epoch for epoch in again if not is_behind(behind_of(reading, job.domain), job.name, epoch)]
    if kept and job.on_rerun is OnRerun.FAIL:
        raise FinalError(
            f"{_told(job, kept, epochs)} committed, and the job says on_rerun='fail'; none was begun.",
            next_step="ask for the others only, or declare on_rerun='keep'.",
        )
    refused: list[tuple[Interval, DependentReaders]] = []
    for epoch in again:
        try:
            refuse_dependents(reader, job.domain, [table.name for table in job.outputs], epoch, defaults)
        except DependentReaders as error:
            refused.append((epoch, error))
    if refused:
        held = [epoch for epoch, _ in refused]
        raise DependentReaders(
            f"{_told(job, held, epochs)} committed and cannot be computed again, so that none was begun: "
            + " ".join(error.message for _, error in refused[:_LISTED])
            + (f" And {len(refused) - _LISTED} more." if len(refused) > _LISTED else ""),
            next_step="ask for the others only, or declare on_rerun='keep', which leaves committed epochs as they are; "
            "or compute them again with what has read them (`airflow epochs restate plan`).",
            interval=held[0],
            intervals=tuple(held),
            readers=tuple(reader for _, error in refused for reader in error.readers),
        )


def committed_before(reader: MetadataReader, job: Job, epoch: EpochRecord, owner: Owner) -> bool:
    """Return True if *owner* has committed *epoch*, and another run a later revision."""
    return any(own_commits(reader, job.epoch(epoch.interval), epoch, owner))


def _told(job: Job, some: Sequence[Interval], every: Sequence[Interval]) -> str:
    listed = ", ".join(map(str, some[:_LISTED])) + ("" if len(some) <= _LISTED else ", …")
    return f"{len(some)} of {len(every)} epochs of {job.name!r} ({listed}) are"
