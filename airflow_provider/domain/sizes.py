"""What a record may hold at most, where it cannot be split: refused before any work is done. Pure decisions.

``docs/reference/store.md`` has all kinds of records with their bounds; a test compares them with the code.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider.domain.errors import RecordFull
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.version import TableRecord

MOST_TABLES = 500
"""Of one job: they are one commit, and one transaction."""
MOST_INPUTS = 500
"""Of one job, tables and sources together: an epoch's record names them twice."""
MOST_DECLARATIONS = 10_000
"""Of one job, one after the other: a task of an older DAG version is told from a new declaration by them."""
MOST_LEFT_OUT = 1_000
"""Of each kind that a job once declared and declares no more: edges, tables, sources."""


def refuse_large(job: JobRecord) -> None:
    """:raises RecordFull: the declaration, or what is left of earlier ones, does not fit into the job's record."""
    other_name = "declare the rest as a job of another name, which may read the same inputs."
    new_job = (
        f"`airflow epochs retire {job.name}`, and declare a job of another name, which takes its tables over."
    )
    counted = (
        ("output tables", len(job.outputs), MOST_TABLES, other_name),
        ("inputs", len(job.edges) + len(job.roots), MOST_INPUTS, other_name),
        ("earlier declarations", len(job.earlier), MOST_DECLARATIONS, new_job),
        ("edges of earlier declarations", len(job.past_edges), MOST_LEFT_OUT, new_job),
        ("tables of earlier declarations", len(job.past_outputs), MOST_LEFT_OUT, new_job),
        ("sources of earlier declarations", len(job.past_roots), MOST_LEFT_OUT, new_job),
    )
    for what, number, limit, step in counted:
        if number > limit:
            raise RecordFull.of(f"{what} of job {job.name!r}", number, limit, next_step=step)


def refuse_gaps(interval: Interval, tables: Mapping[TableName, TableRecord], most: int) -> None:
    """Refuse an epoch that would be one more island beside the committed time of a table.

    What touches committed time is always welcome: it makes no gap more.

    :raises RecordFull: naming the table, its gaps and the limit.
    """
    for name, record in tables.items():
        number = len(record.progress.adding(interval).islands)
        if number > max(most, len(record.progress.islands)):
            raise RecordFull.of(
                f"stretches of committed time of table {name!r}",
                number,
                most,
                next_step="fill some of its gaps first: run the epochs between, or `airflow epochs skip` them.",
            )
