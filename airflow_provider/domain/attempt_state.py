"""The state of an attempt, derived from its state log (protocol section 3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from airflow_provider.domain.attempt_events import newest_tries
from airflow_provider.domain.epoch import AttemptEvent, AttemptRecord, EpochState
from airflow_provider.domain.identifiers import TableName


def epoch_state(
    events: Iterable[AttemptEvent], sinks: Collection[TableName], attempt: AttemptRecord
) -> EpochState:
    """Return the state of an attempt that has not published.

    PRECOMMIT needs every sink at least PROCESSED by every participant; only publishing makes it COMMIT.

    :param events: the state log of the epoch, with the entries of its other attempts.
    :param sinks: the tables that the attempt writes.
    """
    if attempt.aborted is not None:
        return attempt.end
    log = list(events)
    newest = newest_tries(log, attempt.output_token)
    # What an earlier try of a participant has reported does not count: only the newest try may be published (R10).
    reported = {
        (entry.sink, entry.participant)
        for entry in log
        if entry.token == attempt.output_token
        and entry.sink
        and entry.participant_attempt == newest.get(entry.participant, 0)
    }
    wanted = {(sink, participant) for sink in sinks for participant in range(attempt.participants)}
    return EpochState.PRECOMMIT if wanted and reported >= wanted else EpochState.OPEN
