"""Publishing tables that a committed epoch lacks (R7): the others were computed again with them, and stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

from airflow_provider.coordination.commits.slices import newest_slice
from airflow_provider.coordination.commits.stayed_rows import rows_that_stayed
from airflow_provider.domain.epoch import Attempt, EpochRecord
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.filling import tables_to_fill
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Key, table_key, topology_key
from airflow_provider.domain.topology import Job
from airflow_provider.domain.version import Committable, TableRecord
from airflow_provider.stores.base import MetadataReader, Reading


def keys_of_fill(job: Job) -> list[Key[Any]]:
    """Return the keys of the records that :func:`fills_of` needs, without the epoch's own."""
    return [topology_key(job.domain), *_table_keys(job).values()]


def _table_keys(job: Job) -> Mapping[TableName, Key[TableRecord]]:
    """Return the keys of the tables that *job* writes or reads, by name."""
    names = (*(table.name for table in job.outputs), *(edge.table for edge in job.edges))
    return {name: table_key(job.domain, name) for name in names}


def fills_of(
    reading: Reading, job: Job, epoch: EpochRecord | None, interval: Interval, *, skips: bool = False
) -> tuple[TableName, ...]:
    """Return the tables that the next revision of *epoch* adds; empty where it computes all.

    :param reading: has the records of :func:`keys_of_fill`. :param skips: the revision leaves the tables empty.
    """
    tables = {name: reading.get(key) for name, key in _table_keys(job).items()}
    stayed = rows_that_stayed(reading, job.domain)
    return tables_to_fill(epoch, interval, tables, job=job, skips=skips, stayed=stayed)


def refuse_other_rows(
    reader: MetadataReader,
    attempt: Attempt,
    fills: Sequence[TableName],
    output: Mapping[TableName, Sequence[Committable]],
) -> None:
    """Refuse to add tables to an epoch whose committed tables the same code now computes with other rows.

    :param fills: the tables to add; empty where all are published.
    :param output: of all tables; that of committed tables is only compared.
    :raises InvalidInput: the number of rows of a committed table differs.
    """
    for table, parts in output.items() if fills else ():
        if table in fills:
            continue
        newest = newest_slice(reader, attempt.domain, table, attempt.interval.start)
        rows = sum(part.rows for part in parts)
        if newest is not None and newest.record.rows != rows:
            raise InvalidInput(
                f"{attempt}: it would add {', '.join(fills)} to a committed epoch, but of {table} it has computed "
                f"{rows} rows, and {newest.record.rows} are committed: the two would not belong together.",
                next_step=f"`airflow epochs skip {quote(attempt.job)}` for the epoch leaves the new tables empty "
                "there; or compute the epoch with what it was computed with.",
                field="rows",
                table=table,
                value=rows,
                expected=f"{newest.record.rows}, as committed",
            )
