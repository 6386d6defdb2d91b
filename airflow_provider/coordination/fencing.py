"""An attempt's fence: the version of its epoch's record, which every change of the attempt requires (R10)."""

from __future__ import annotations

from typing import Any

from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Fenced, StoreReplaced
from airflow_provider.domain.records import Key, epoch_key
from airflow_provider.stores.base import MetadataReader


def fence_of(attempt: Attempt) -> Key:
    """Key of the record whose version fences *attempt*."""
    return epoch_key(attempt.domain, attempt.job, attempt.interval.start)


def fenced(reader: MetadataReader, attempt: Attempt) -> Fenced:
    """The error for an attempt that is over, with what the store has instead."""
    key = fence_of(attempt)
    reading = reader.read(attempt.domain, [key])
    if reading.head.incarnation != attempt.incarnation:
        return replaced(attempt, attempt.incarnation, reading.head.incarnation)
    epoch = reading.get(key)
    found: Any = None if epoch is None else epoch.record.token
    by = epoch.record.attempt.owner if epoch is not None and epoch.record.attempt else None
    return Fenced(
        f"{attempt}: this attempt is over; the newest token is {found}" + (f", of {by}." if by else "."),
        next_step="let this process end; it has changed nothing. See `airflow epochs explain`.",
        expected=attempt.token,
        found=found,
        by=by,
    )


def replaced(begun: object, expected: str, found: str) -> StoreReplaced:
    """The error for *begun*, an attempt of the incarnation *expected* of the store, which has *found* now."""
    return StoreReplaced(
        f"{begun}: this attempt is over; it was begun in another store (incarnation {expected}, now {found}): "
        "a backup was restored, or a standby was promoted.",
        next_step="begin the epoch again, as a retry of the task does; what this attempt wrote is not published.",
        expected=expected,
        found=found,
    )
