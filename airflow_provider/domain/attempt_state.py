"""How far an attempt has come, as its barrier log says (protocol section 3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from airflow_provider.domain.barriers import newest_tries
from airflow_provider.domain.epoch import AttemptRecord, BarrierRecord, EpochState
from airflow_provider.domain.identifiers import TableName


def epoch_state(
    barriers: Iterable[BarrierRecord], sinks: Collection[TableName], attempt: AttemptRecord
) -> EpochState:
    """State of an attempt that has not published, from its barrier log (protocol section 3).

    PRECOMMIT needs every sink at least PROCESSED by every participant; COMMIT is what publishing makes of it.
    """
    if attempt.aborted is not None:
        return attempt.end
    log = list(barriers)
    newest = newest_tries(log, attempt.output_token)
    reported = {
        (one.sink, one.participant)
        for one in log
        if one.token == attempt.output_token and one.sink and one.subtoken == newest.get(one.participant, 0)
    }
    wanted = {(sink, participant) for sink in sinks for participant in range(attempt.participants)}
    return EpochState.PRECOMMIT if wanted and reported >= wanted else EpochState.OPEN
