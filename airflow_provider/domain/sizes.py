"""Limits of records that cannot be split; beyond them a request is refused before any work is done. Pure decisions.

``docs/reference/store.md`` lists all kinds of records with their bounds; a test compares the list with the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from shlex import quote

from airflow_provider.domain.errors import RecordFull
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.registration import MOST_LEFT_SOURCES, JobRecord
from airflow_provider.domain.version import TableRecord

MOST_TABLES = 500
"""Maximum number of output tables of one job: one transaction commits all of them."""
MOST_INPUTS = 500
"""Maximum number of tables and sources that one job reads: an epoch's record names each twice."""
MOST_DECLARATIONS = 10_000
"""Maximum number of declarations of one job: they tell an older version of its DAG from a new declaration."""
MOST_LEFT_OUT = 1_000
"""Maximum number of edges, of tables, and of sources that a job no longer declares."""
MOST_RESTATED = 5_000
"""Maximum number of epochs of a restatement, where a store's transaction may be large."""
MOST_RESTATED_IN_SMALL_TRANSACTIONS = 100
"""The same where it has to be small (ZooKeeper)."""
MOST_RESTATED_BYTES = 900_000
"""Maximum size of the record of a restatement's commit."""
_MEMBER_BYTES = 115
_DELTA_BYTES = 700


def refuse_large(job: JobRecord) -> None:
    """Refuse a job whose record would be too large.

    :raises RecordFull: the declaration, or the parts kept of earlier ones, exceed a limit.
    """
    other_name = "declare the rest as a job of another name, which may read the same inputs."
    new_job = (
        f"`airflow epochs retire {quote(job.name)} --reason …`, and declare a job of another name, which takes its "
        "tables over."
    )
    old_name = (
        "declare a source by one of the names that it has had, as it was declared then; or declare a job of another "
        "name with tables of its own."
    )
    counted = (
        ("output tables", len(job.outputs), MOST_TABLES, other_name),
        ("inputs", len(job.edges) + len(job.sources), MOST_INPUTS, other_name),
        ("earlier declarations", len(job.earlier), MOST_DECLARATIONS, new_job),
        ("edges of earlier declarations", len(job.past_edges), MOST_LEFT_OUT, new_job),
        ("tables of earlier declarations", len(job.past_outputs), MOST_LEFT_OUT, new_job),
        ("sources of earlier declarations", len(job.past_sources), MOST_LEFT_OUT, new_job),
        ("sources that were left", len(job.left_sources), MOST_LEFT_SOURCES, old_name),
    )
    for what, number, limit, step in counted:
        if number > limit:
            raise RecordFull.of(f"{what} of job {job.name!r}", number, limit, next_step=step)


def refuse_large_group(job: JobRecord, others: Iterable[JobRecord]) -> None:
    """Refuse a job with which one barrier of its group would be more than one commit holds.

    :raises RecordFull: with the size of the commit's record.
    """
    jobs = [job, *(other for other in others if other.group == job.group and not other.retired)]
    size = restated_bytes([known.name for known in jobs], sum(len(known.outputs) for known in jobs))
    if job.group is not None and size > MOST_RESTATED_BYTES:
        raise RecordFull.of(
            f"bytes of the commit of group {job.group.name!r}",
            size,
            MOST_RESTATED_BYTES,
            next_step="leave jobs with many tables out of the group.",
        )


def refuse_gaps(interval: Interval, tables: Mapping[TableName, TableRecord], most: int) -> None:
    """Refuse an epoch that would add a stretch of committed time beyond the limit of a table.

    An epoch that touches committed time adds none, and is never refused.

    :raises RecordFull: names the table, its stretches and the limit.
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


def restated_bytes(jobs: Iterable[str], tables: int) -> int:
    """Return the size of the record of a commit, at most.

    :param jobs: the job of each of its epochs. :param tables: number of its tables.
    """
    return sum(_MEMBER_BYTES + len(job.encode()) for job in jobs) + _DELTA_BYTES * tables
