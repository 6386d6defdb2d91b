"""Attempts without Spark: the same barriers, with rows of an Arrow table, in this process."""

from __future__ import annotations

import pyarrow as pa

from airflow_provider.coordination.coordinator import Coordinator
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.version import Committable


def stage_rows(coordinator: Coordinator, attempt: Attempt, sink: str, rows: pa.Table) -> Committable:
    """Stage *rows* for *sink* and describe them; creates the table if it is new, and reports nothing yet."""
    table = attempt.sink(sink)
    table_format = coordinator.formats[table.format]
    info = coordinator.columns(attempt, sink)
    if info is None or not info.version:
        info = table_format.create(table, rows.schema)
    place = coordinator.place(attempt, sink)
    files = list(table_format.task_writer(place, info)(rows.to_batches()))
    return table_format.describe_output(place, info, files)


def write_rows(coordinator: Coordinator, attempt: Attempt, sink: str, rows: pa.Table) -> Committable:
    """Stage *rows* for *sink*; report PROCESSED, then WRITTEN."""
    committable = stage_rows(coordinator, attempt, sink, rows)
    coordinator.processed(attempt, sink)
    coordinator.written(attempt, sink, committable)
    return committable


def read_rows(coordinator: Coordinator, attempt: Attempt, table: str) -> pa.Table | None:
    """Return the rows of *table* that the attempt reads; None if the table has no commit."""
    state, schema = coordinator.input(attempt, table)
    if state.ref is None:
        return None
    return coordinator.formats[state.ref.format].read(state, schema)
