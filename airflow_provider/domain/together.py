"""Several epochs of one run: which may be one commit, and which one task may compute."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.topology import Job


class CommitMode(StrEnum):
    """When the epochs of one run become visible."""

    EACH = "each"
    TOGETHER = "together"


MOST_TOGETHER = 100
"""Maximum number of epochs in one commit: each of them writes records of its own in the transaction."""


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
