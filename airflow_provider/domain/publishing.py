"""Publishing: the records of a table and of a slice after a commit (R2, R11). Pure decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from airflow_provider.domain.columns import AppliedChange, ColumnChange
from airflow_provider.domain.cut import newest_version
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import ChangeSetId
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.topology import Job
from airflow_provider.domain.version import Committable, SliceRecord, TableRecord, TableRef
from airflow_provider.domain.watermark import Progress


class CommitMode(StrEnum):
    """When the epochs of one run become visible."""

    EACH = "each"
    TOGETHER = "together"


MOST_TOGETHER = 100
"""Maximum number of epochs in one commit: each of them writes records of its own in the transaction."""


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


def refuse_together(job: Job, epochs: Sequence[Interval]) -> None:
    """Refuse to commit *epochs* together before the first of them begins.

    :raises InvalidInput: an epoch would read the output of those before it, which is not committed yet; or too many.
    """
    if job.group is not None:
        raise InvalidInput(
            f"job {job.name!r} belongs to group {job.group.name!r}, which publishes each of its epochs.",
            next_step='leave commit="each": the group commits one barrier of all its jobs.',
            field="commit",
            value="together",
            expected="a job outside of groups",
        )
    own = sorted({edge.table for edge in job.edges} & {table.name for table in job.outputs})
    if own:
        raise InvalidInput(
            f"job {job.name!r} reads its own output ({', '.join(own)}), which its epochs would have to find committed.",
            next_step='leave commit="each": every epoch then reads what those before it have committed.',
            field="commit",
            value="together",
            expected="a job whose epochs do not read each other's output",
        )
    if len(epochs) > MOST_TOGETHER:
        raise InvalidInput(
            field="interval",
            value=f"{len(epochs)} epochs",
            expected=f"at most {MOST_TOGETHER} epochs in one commit",
            next_step="run shorter intervals, such as a `batch` of a day.",
        )


def refuse_batch(job: Job, batch: Cadence | None) -> None:
    """Refuse a task that computes several epochs of a job in a group, one after the other.

    :raises InvalidInput: its second epoch may wait for the commit of the first, which waits for tasks after this one.
    """
    if job.group is not None and batch is not None:
        raise InvalidInput(
            field="batch",
            value=str(batch),
            expected=f"no batch: tasks of group {job.group.name!r} compute one epoch each",
            next_step="run the DAG by the cadence of the group.",
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
