"""When what an attempt has staged is nobody's any more (R16)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from airflow_provider.domain.barriers import newest_tries
from airflow_provider.domain.epoch import BarrierRecord, EpochRecord, EpochState
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.records import Stamped

_ENDS = frozenset({EpochState.ABORTED, EpochState.COMMIT})


def ended_since(
    epoch: EpochRecord, log: Iterable[Stamped[BarrierRecord]], token: int, table: TableName
) -> datetime | None:
    """Since when nothing that was staged under *token* can be published; None while it may be, or was.

    What has ended so never comes back: an attempt adopts nothing but what the newest one before it would publish.

    :param log: of the epoch. :param table: for which it was staged.
    """
    attempt, committed = epoch.attempt, epoch.committed
    if token > epoch.token:
        return None
    if committed is not None and token == committed.output_token and table in (committed.fills or (table,)):
        return None
    # What a check refused is kept to be looked at (R14).
    kept = attempt is not None and (attempt.aborted is None or attempt.vetoed)
    if kept and attempt is not None and token in (attempt.token, attempt.output_token):
        return None
    later = (one.at for one in log if _ends(one.record, token))
    return min(later, default=None)


def overtaken_since(
    log: Iterable[Stamped[BarrierRecord]], token: int, participant: int, subtoken: int
) -> datetime | None:
    """Since when a try of *participant* cannot be published, though its attempt was; None for what was published.

    :param token: under which output was published. :param log: of the epoch.
    """
    known = list(log)
    newest = newest_tries((entry.record for entry in known), token).get(participant, 0)
    commits = (entry.at for entry in known if entry.record.state is EpochState.COMMIT)
    return min(commits, default=None) if subtoken < newest else None


def _ends(entry: BarrierRecord, token: int) -> bool:
    """Whether the attempt with *token* was over when *entry* was written: it ended, or a later one began."""
    return entry.token > token or (entry.token == token and not entry.sink and entry.state in _ENDS)
