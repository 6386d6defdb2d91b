"""Publishing: the records of a table and of a slice after a commit (R2, R11). Pure decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider.domain.columns import AppliedChange, ColumnChange
from airflow_provider.domain.cut import newest_version
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.version import Committable, SliceRecord, TableRecord, TableRef


def moved_table(
    record: TableRecord, interval: Interval, ref: TableRef, declared: Sequence[ColumnChange] = ()
) -> TableRecord:
    """Return the table's *record* after *interval* committed as *ref*.

    :param declared: column changes of the declaration; the first commit creates the table with them.
    """
    made = record.ref is None
    return replace(
        record,
        progress=record.progress.adding(interval),
        ref=ref,
        heard=None,
        changes=tuple(AppliedChange(change) for change in declared) if made else record.changes,
    )


def succeeding(stamped: Stamped[TableRecord], after: TableRecord, defaults: Defaults) -> TableRecord:
    """Return *after* with the table's former state at the head of ``earlier``."""
    earlier = (newest_version(stamped), *stamped.record.earlier)[: defaults.states_remembered]
    return replace(after, earlier=earlier)


def slice_of(attempt: Attempt, output: Sequence[Committable], token: int) -> SliceRecord:
    """Return the record of the slice that *output*, staged under *token*, adds to its table."""
    return SliceRecord(
        interval=attempt.interval,
        revision=attempt.revision,
        token=token,
        change_set=attempt.change_set,
        rows=sum(part.rows for part in output),
        files=sum(part.files for part in output),
        size_bytes=sum(part.size_bytes for part in output),
        schema_id=max(part.schema_id for part in output),
    )
