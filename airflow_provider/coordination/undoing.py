"""What an attempt that ended without a commit left, and where it lies (R16)."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider.domain.epoch import Abandoned, AttemptRecord, BarrierRecord, EpochState
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import EpochJob
from airflow_provider.tables.base import Place
from airflow_provider.tables.factory import TableFormats


def abandoned(left: AttemptRecord, adopts: int | None) -> tuple[Abandoned, ...]:
    """What *left* leaves to be deleted, nothing when the next attempt adopts it."""
    output = Abandoned(revision=left.revision, token=left.output_token, participants=left.participants)
    return () if adopts == output.token else (output,)


def passed_begin(log: Iterable[BarrierRecord], token: int) -> bool:
    """Whether the attempt with *token* came past its begin, hence has undone what it was to undo."""
    return any(one.token == token and one.state is not EpochState.OPEN for one in log)


def places_of(
    formats: TableFormats, job: EpochJob, interval: Interval, left: Iterable[Abandoned]
) -> list[Place]:
    """Every place at which those who *left* may have staged."""
    return [
        formats[table.format].place(
            table,
            job=job.name,
            interval=interval,
            revision=one.revision,
            token=one.token,
            participant=participant,
        )
        for one in left
        for table in job.outputs
        for participant in range(one.participants)
    ]
