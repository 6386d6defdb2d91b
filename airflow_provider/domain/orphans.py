"""Decide when the staged output of an attempt is an orphan: no later commit can publish it (R16). Pure decisions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from airflow_provider.domain.attempt_events import newest_tries
from airflow_provider.domain.epoch import AttemptEvent, EpochRecord, EpochState
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.records import Stamped

_ENDS = frozenset({EpochState.ABORTED, EpochState.COMMIT})


def ended_since(
    epoch: EpochRecord, log: Iterable[Stamped[AttemptEvent]], token: int, table: TableName
) -> datetime | None:
    """Return the time since which output staged under *token* cannot be published; None while it may be, or was.

    The answer never goes back to None: an attempt adopts only the output that the newest attempt before it would
    publish.

    :param log: state log of the epoch. :param table: table for which the output was staged.
    """
    attempt, committed = epoch.attempt, epoch.committed
    # The attempt began after the record was read: it may be live.
    if token > epoch.token:
        return None
    if committed is not None and token == committed.output_token and table in (committed.fills or (table,)):
        return None
    # Output that a check refused is kept for inspection (R14).
    kept = attempt is not None and (attempt.aborted is None or attempt.check_failed)
    if kept and attempt is not None and token in (attempt.token, attempt.output_token):
        return None
    later = (entry.at for entry in log if _ends(entry.record, token))
    return min(later, default=None)


def overtaken_since(
    log: Iterable[Stamped[AttemptEvent]], token: int, participant: int, participant_attempt: int
) -> datetime | None:
    """Return the time since which a try of *participant* is an orphan of a published attempt; None if it was published.

    :param token: token under which output was published. :param log: state log of the epoch.
    """
    known = list(log)
    newest = newest_tries((entry.record for entry in known), token).get(participant, 0)
    commits = (entry.at for entry in known if entry.record.state is EpochState.COMMIT)
    return min(commits, default=None) if participant_attempt < newest else None


def _ends(entry: AttemptEvent, token: int) -> bool:
    """Return True if the attempt with *token* was over when *entry* was written: it had ended, or a later one begun."""
    return entry.token > token or (entry.token == token and not entry.sink and entry.state in _ENDS)
