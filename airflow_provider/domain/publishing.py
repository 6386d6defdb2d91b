"""Publishing: the records of a table and of a slice after a commit (R2, R11). Pure decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider.domain.columns import AppliedChange, ColumnChange
from airflow_provider.domain.cut import newest_version
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import ChangeSetId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.together import MOST_TOGETHER
from airflow_provider.domain.version import Committable, SliceRecord, TableRecord, TableRef
from airflow_provider.domain.watermark import Progress


def refuse_apart(attempts: Sequence[Attempt]) -> None:
    """Refuse attempts that cannot be one commit.

    :raises InvalidInput: none, too many, two at one epoch, or of different jobs or runs.
    """
    expected = f"1 to {MOST_TOGETHER} attempts of one run at different epochs of one job"
    first = attempts[0] if attempts else None
    alike = first is not None and all(
        (other.domain, other.job, other.sinks) == (first.domain, first.job, first.sinks)
        and other.owner.same_generation(first.owner)
        for other in attempts
    )
    if (
        not alike
        or len({attempt.interval for attempt in attempts}) < len(attempts)
        or len(attempts) > MOST_TOGETHER
    ):
        raise InvalidInput(
            field="attempts",
            value=[str(attempt) for attempt in attempts][:4],
            expected=expected,
            next_step="publish the others by themselves.",
        )


def changes_in_turn(progress: Progress, intervals: Sequence[Interval]) -> list[Interval | None]:
    """Return for each of *intervals* the time in which it changes visible rows, committed after those before it."""
    found = []
    for interval in intervals:
        found.append(progress.changed_by(interval))
        progress = progress.adding(interval)
    return found


def moved_table(
    record: TableRecord, intervals: Sequence[Interval], ref: TableRef, declared: Sequence[ColumnChange] = ()
) -> TableRecord:
    """Return the table's *record* after *intervals* committed as *ref*.

    :param declared: column changes of the declaration; the first commit creates the table with them.
    """
    made = record.ref is None
    return replace(
        record,
        progress=record.progress.adding(*intervals),
        ref=ref,
        heard=None,
        changes=tuple(AppliedChange(change) for change in declared) if made else record.changes,
    )


def succeeding(stamped: Stamped[TableRecord], after: TableRecord, defaults: Defaults) -> TableRecord:
    """Return *after* with the table's former state at the head of ``earlier``."""
    earlier = (newest_version(stamped), *stamped.record.earlier)[: defaults.states_remembered]
    return replace(after, earlier=earlier)


def slice_of(
    attempt: Attempt, output: Sequence[Committable], token: int, change_set: ChangeSetId
) -> SliceRecord:
    """Return the record of the slice that *output*, staged under *token*, adds to its table by *change_set*."""
    return SliceRecord(
        interval=attempt.interval,
        revision=attempt.revision,
        token=token,
        change_set=change_set,
        rows=sum(part.rows for part in output),
        files=sum(part.files for part in output),
        size_bytes=sum(part.size_bytes for part in output),
        schema_id=max(part.schema_id for part in output),
    )
