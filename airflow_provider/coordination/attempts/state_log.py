"""The state log of an epoch: the reports of each attempt, and of each try of a participant (R1)."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider.domain.epoch import Attempt, AttemptEvent, EpochRecord, EpochState
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Key, Stamped, event_key, event_partition
from airflow_provider.stores.base import MetadataReader, scan


def state_log(reader: MetadataReader, epoch: EpochId) -> list[Stamped[AttemptEvent]]:
    """Return the state log of one epoch, by token and participant."""
    return scan(reader, epoch.domain, AttemptEvent, event_partition(epoch.job, epoch.interval.start))


def own_commits(
    reader: MetadataReader, epoch: EpochId, record: EpochRecord, owner: Owner
) -> Iterator[Stamped[AttemptEvent]]:
    """Yield the entries of commits of *epoch* by the generation of *owner*, without those that were rolled back."""
    for entry in state_log(reader, epoch):
        is_commit = entry.record.state is EpochState.COMMIT and not record.has_taken_back(entry.csn)
        if is_commit and entry.record.owner.same_generation(owner):
            yield entry


def written_keys(attempt: Attempt, token: int) -> list[Key[AttemptEvent]]:
    """Return the keys at which the only writer reports its WRITTEN output under *token*.

    Empty for a shared attempt: its writers and tries are found in the log.
    """
    if attempt.is_shared:
        return []
    return [event_key(attempt, token, EpochState.WRITTEN, sink=sink.name) for sink in attempt.sinks]


def completed_key(attempt: Attempt) -> Key[AttemptEvent]:
    """Return the key of the entry that the attempt's code came to its end."""
    return event_key(attempt, attempt.token, EpochState.WRITTEN)


def checked_key(attempt: Attempt, token: int) -> Key[AttemptEvent]:
    """Return the key of the entry that the job's checks have passed on the output written under *token*."""
    return event_key(attempt, token, EpochState.CHECKED)


def joined_key(attempt: Attempt, participant: int, participant_attempt: int) -> Key[AttemptEvent]:
    """Return the key of the entry that this try of a participant began."""
    state = EpochState.OPEN
    return event_key(
        attempt, attempt.token, state, participant=participant, participant_attempt=participant_attempt
    )
