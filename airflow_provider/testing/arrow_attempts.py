"""Attempts without Spark: the same barriers, with rows of an Arrow table, in this process."""

from __future__ import annotations

import pyarrow as pa

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.version import Committable


def stage_rows(service: EpochService, attempt: Attempt, sink: str, rows: pa.Table) -> Committable:
    """Stage *rows* for *sink* and describe them; creates the table if it is new, and reports nothing yet."""
    table = attempt.sink(sink)
    table_format = service.formats[table.format]
    info = service.columns(attempt, sink)
    if info is None or not info.version:
        info = table_format.create(table, rows.schema)
    place = service.place(attempt, sink)
    files = list(table_format.task_writer(place, info)(rows.to_batches()))
    return table_format.describe_output(place, info, files)


def write_rows(service: EpochService, attempt: Attempt, sink: str, rows: pa.Table) -> Committable:
    """Stage *rows* for *sink*; report PROCESSED, then WRITTEN."""
    committable = stage_rows(service, attempt, sink, rows)
    service.processed(attempt, sink)
    service.written(attempt, sink, committable)
    return committable


def read_rows(service: EpochService, attempt: Attempt, table: str) -> pa.Table | None:
    """Return the rows of *table* that the attempt reads; None if the table has no rows yet."""
    state, schema = service.input(attempt, table)
    return None if state.format is None else service.formats[state.format].read(state, schema)
