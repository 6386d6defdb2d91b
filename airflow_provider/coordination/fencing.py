"""An attempt's fence: the version of its epoch's record, which every change of the attempt requires (R10)."""

from __future__ import annotations

from typing import Any

from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Fenced
from airflow_provider.domain.records import Key, epoch_key
from airflow_provider.stores.base import MetadataReader


def fence_of(attempt: Attempt) -> Key:
    """Key of the record whose version fences *attempt*."""
    return epoch_key(attempt.domain, attempt.job, attempt.interval.start)


def fenced(reader: MetadataReader, attempt: Attempt) -> Fenced:
    """The error for an attempt that is over, with what the store has instead."""
    key = fence_of(attempt)
    epoch = reader.read(attempt.domain, [key]).get(key)
    found: Any = None if epoch is None else epoch.record.token
    by = epoch.record.attempt.owner if epoch is not None and epoch.record.attempt else None
    return Fenced(
        f"{attempt}: this attempt is over; the newest token is {found}" + (f", of {by}." if by else "."),
        next_step="let this process end; it has changed nothing. See `airflow epochs explain`.",
        expected=attempt.token,
        found=found,
        by=by,
    )
