"""Records by which a registration tells open readers that an origin or a calendar changes: they begin again (R13)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.dependents import rewrite_requirements
from airflow_provider.coordination.context import Context
from airflow_provider.domain.errors import DependentReaders
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.origins import origin_is_read, uncovered
from airflow_provider.domain.records import Stamped, rewrite_log_key, topology_key
from airflow_provider.domain.rewrites import with_calendar, with_rewrite
from airflow_provider.domain.topology import Job
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import Exists, Put, Reading


def tell_readers(
    context: Context,
    job: Job,
    commit: CommitBuilder,
    moved: Sequence[tuple[Stamped[TableRecord], TableRecord]],
) -> None:
    """Add what the registration of *job* requires and writes for the readers of its *moved* tables.

    Attempts that took time that is to come for empty begin again, and so do those that aligned with the calendar of
    before: also one that begins after the registration has looked at the readers, and one that reuses the inputs of
    an attempt that has failed.

    :param commit: its reading has the topology, and the rewrite logs of the tables.
    :param moved: records of the tables, each as it was read and as it will be.
    :raises TopologyError: committed epochs took that time for empty.
    """
    names = [TableName(stamped.key.item) for stamped, _ in moved]
    for name, (stamped, after) in zip(names, moved, strict=True):
        span = uncovered(stamped.record.progress, after.progress)
        since = after.cadence.until(stamped.record.cadence)
        if span is None and since is None:
            continue
        log = commit.reading.of(rewrite_log_key(job.domain, name))
        told = log
        if since is not None:
            told = replace(told, record=with_calendar(told, since, commit.csn, context.defaults))
        if span is not None:
            commit.require(*_unread(context, job, commit.reading, (name, span), own=names))
            told = replace(told, record=with_rewrite(told, span, context.defaults))
        commit.hold(log)
        commit.update(Put(log.key, told.record))


def _unread(
    context: Context, job: Job, reading: Reading, rows: tuple[TableName, Interval], own: Collection[TableName]
) -> list[Exists]:
    """:raises TopologyError: committed epochs have read that there are no such *rows*."""
    (table, span), topology = rows, reading.of(topology_key(job.domain))
    try:
        return rewrite_requirements(
            context.store, job.domain, [table], span, topology, defaults=context.defaults, own=own
        )
    except DependentReaders as error:
        raise origin_is_read(job.name, table, span, error) from error
