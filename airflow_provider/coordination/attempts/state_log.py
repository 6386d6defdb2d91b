"""The state log of an epoch: the reports of each attempt, and of each try of a participant (R1)."""

from __future__ import annotations

from airflow_provider.domain.epoch import Attempt, AttemptEvent, EpochState
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Key, Stamped, event_key, event_partition
from airflow_provider.stores.base import MetadataReader, scan


def state_log(
    reader: MetadataReader, domain: DomainName, job: JobName, interval: Interval
) -> list[Stamped[AttemptEvent]]:
    """Return the state log of one epoch, by token and participant."""
    return scan(reader, domain, AttemptEvent, event_partition(job, interval.start))


def written_keys(attempt: Attempt, token: int) -> list[Key[AttemptEvent]]:
    """Return the keys at which the only writer reports its WRITTEN output under *token*.

    Empty for a shared attempt: its writers and tries are found in the log.
    """
    if attempt.is_shared:
        return []
    return [_log_key(attempt, EpochState.WRITTEN, token, sink.name) for sink in attempt.sinks]


def completed_key(attempt: Attempt) -> Key[AttemptEvent]:
    """Return the key of the entry that the attempt's code came to its end."""
    return _log_key(attempt, EpochState.WRITTEN, attempt.token)


def checked_key(attempt: Attempt, token: int) -> Key[AttemptEvent]:
    """Return the key of the entry that the job's checks have passed on the output written under *token*."""
    return _log_key(attempt, EpochState.CHECKED, token)


def joined_key(attempt: Attempt, participant: int, participant_attempt: int) -> Key[AttemptEvent]:
    """Return the key of the entry that this try of a participant began."""
    return event_key(
        attempt.domain,
        attempt.job,
        attempt.interval.start,
        token=attempt.token,
        sink="",
        state=EpochState.OPEN,
        participant=participant,
        participant_attempt=participant_attempt,
    )


def _log_key(attempt: Attempt, state: EpochState, token: int, sink: str = "") -> Key[AttemptEvent]:
    return event_key(attempt.domain, attempt.job, attempt.interval.start, token=token, sink=sink, state=state)
