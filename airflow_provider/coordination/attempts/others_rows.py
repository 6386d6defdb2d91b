"""Rows of a table's previous job, which the job that has taken the table over does not compute again (R7)."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider.coordination.commits.slices import newest_slice
from airflow_provider.domain.beginning import of_another
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped, epoch_key, slice_writer, table_key
from airflow_provider.domain.topology import Job
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader


def refuse_others_rows(
    reader: MetadataReader,
    job: Job,
    interval: Interval,
    own: Mapping[TableName, Stamped[TableRecord] | None],
) -> None:
    """Refuse to compute again an epoch of *job* where a table has rows of its previous job.

    Copies of rows that *job* has computed are its own: this is how a table is renamed (docs/decisions/rename.md).

    :param own: the tables that the next revision writes.
    :raises TopologyError: the revision would replace rows of the previous job.
    """
    for name, stamped in own.items():
        if stamped is None or not stamped.record.progress.covers(interval):
            continue
        newest = newest_slice(reader, job.domain, name, interval.start)
        writer = job.name if newest is None else slice_writer(newest.key)
        if writer != job.name and not _copied(reader, job, interval, writer):
            raise of_another(job.name, interval, name, own)


def _copied(reader: MetadataReader, job: Job, interval: Interval, writer: JobName) -> bool:
    """Return whether *writer* has read, for the same epoch, a table of *job* that *job* no longer writes."""
    epoch = reader.read(job.domain, [key := epoch_key(job.domain, writer, interval.start)]).get(key)
    if epoch is None or epoch.record.committed is None:
        return False
    written = {table.name for table in job.outputs}
    left = {read.table for read in epoch.record.committed.inputs} - written
    tables = reader.read(job.domain, [table_key(job.domain, name) for name in left]).records
    return any(stamped.record.job == job.name for stamped in tables.values())
