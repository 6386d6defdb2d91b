"""Staging places of an attempt, and the deletion of its staged output (R16)."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider.domain.epoch import Attempt
from airflow_provider.tables.base import StagingLocation
from airflow_provider.tables.factory import TableFormats


def place(formats: TableFormats, attempt: Attempt, sink: str) -> StagingLocation:
    """Return the place at which *attempt* stages the rows of *sink*."""
    table = attempt.sink(sink)
    return formats[table.format].place(
        table,
        job=attempt.job,
        interval=attempt.interval,
        revision=attempt.revision,
        token=attempt.token,
        participant=attempt.participant,
        participant_attempt=attempt.participant_attempt,
    )


def roll_back(formats: TableFormats, places: Iterable[StagingLocation]) -> None:
    """Delete the staged output at *places*; never call it for a published attempt."""
    for staged in places:
        formats[staged.table.format].roll_back(staged)
