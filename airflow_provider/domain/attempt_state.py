"""The state of an attempt, derived from its barrier log (protocol section 3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from airflow_provider.domain.barriers import newest_tries
from airflow_provider.domain.epoch import AttemptRecord, BarrierRecord, EpochState
from airflow_provider.domain.identifiers import TableName


def epoch_state(
    barriers: Iterable[BarrierRecord], sinks: Collection[TableName], attempt: AttemptRecord
) -> EpochState:
    """Return the state of an attempt that has not published.

    PRECOMMIT needs every sink at least PROCESSED by every participant; only publishing makes it COMMIT.

    :param barriers: the barrier log of the epoch, with the entries of its other attempts.
    :param sinks: the tables that the attempt writes.
    """
    if attempt.aborted is not None:
        return attempt.end
    log = list(barriers)
    newest = newest_tries(log, attempt.output_token)
    # What an earlier try of a participant has reported does not count: only the newest try may be published (R10).
    reported = {
        (entry.sink, entry.participant)
        for entry in log
        if entry.token == attempt.output_token
        and entry.sink
        and entry.subtoken == newest.get(entry.participant, 0)
    }
    wanted = {(sink, participant) for sink in sinks for participant in range(attempt.participants)}
    return EpochState.PRECOMMIT if wanted and reported >= wanted else EpochState.OPEN
