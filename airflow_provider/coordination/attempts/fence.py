"""An attempt's fence: the version of its epoch's record, which every change of the attempt requires (R10)."""

from __future__ import annotations

from shlex import quote

from airflow_provider.domain.epoch import Attempt, EpochRecord
from airflow_provider.domain.errors import Fenced, StoreReplaced
from airflow_provider.domain.records import fence_of
from airflow_provider.stores.base import MetadataReader


def fenced(reader: MetadataReader, attempt: Attempt) -> Fenced:
    """Return the error for an attempt that is over, with its successor or its end."""
    key = fence_of(attempt)
    reading = reader.read(attempt.domain, [key])
    if reading.head.incarnation != attempt.incarnation:
        return replaced(attempt, attempt.incarnation, reading.head.incarnation)
    stamped = reading.get(key)
    record = None if stamped is None else stamped.record
    newest = None if record is None else record.attempt or record.committed
    why, step = _ended(attempt, record)
    span = f"{attempt.interval.start.isoformat()}/{attempt.interval.end.isoformat()}"
    words = f"explain {quote(attempt.job)} {span} --domain {quote(attempt.domain)}"
    return Fenced.of(
        attempt,
        why,
        next_step=f"{step}. See `airflow epochs {words}`.",
        expected=attempt.token,
        found=None if record is None else record.token,
        by=None if newest is None else newest.owner,
    )


def _ended(attempt: Attempt, epoch: EpochRecord | None) -> tuple[str, str]:
    """Return the reason why *attempt* is over, and the next step. :param epoch: the record of its epoch."""
    again = "let this process end; its task, run again (in Airflow: cleared), begins a new attempt"
    if epoch is None:
        return "the store has no record of its epoch", again
    newest = epoch.attempt or epoch.committed
    if epoch.token != attempt.token:
        by = "" if newest is None else f", of {newest.owner}"
        return (
            f"the newest token is {epoch.token}{by}",
            "let this process end; the newer attempt does the work",
        )
    if epoch.attempt is None:
        return "it has published the epoch", "nothing is to be done: its rows are committed"
    if epoch.attempt.aborted is not None:
        return f"it has ended without a commit: {epoch.attempt.aborted}", again
    return "what it holds its epoch by has changed", again


def replaced(begun: object, expected: str, found: str) -> StoreReplaced:
    """Return the error for *begun*, an attempt of incarnation *expected* of a store that has incarnation *found*."""
    return StoreReplaced(
        f"{begun}: this attempt is over; it was begun in another store (incarnation {expected}, now {found}): "
        "a backup was restored, or a standby was promoted.",
        next_step="begin the epoch again, as a retry of the task does; what this attempt wrote is not published.",
        begun_in=expected,
        incarnation=found,
    )
