"""Readers of a table: the epochs that depend on what they have read of it (R18). Pure decisions."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Edge, EdgeKind, OnUpstreamRevision

_MOMENT = timedelta(microseconds=1)


def depends_on(
    epoch: EpochRecord,
    table: str,
    interval: Interval,
    *,
    commits: Interval | None = None,
    full: bool = False,
    released: bool = False,
) -> bool:
    """Return True if the committed revision of *epoch* has read a part of *interval* of *table* that must not change.

    :param commits: the epoch whose slice changes; the rest of *interval* becomes visible. None if any slice may change.
    :param full: each slice of the table is a whole state: a reader depends on the slice that it has read alone, also
        below the origin, where a skip may copy from (R5).
    :param released: what it has read by ``hold`` edges may change (R28).
    """
    if epoch.committed is None:
        return False
    let_go = {OnUpstreamRevision.IGNORE, *([OnUpstreamRevision.HOLD] if released else [])}
    of_slice = commits if full and commits is not None else interval
    # A reader without a version has read "no rows": any epoch of the interval that becomes visible contradicts it.
    return any(
        read.table == table
        and read.on_upstream_revision not in let_go
        and (of_slice if read.ref is not None else interval).meets(read.low, read.high)
        for read in epoch.committed.inputs
    )


def last_dependent_end(edge: Edge, interval: Interval, *, full: bool = False) -> datetime | None:
    """Return the time from which a reader's epochs that start there or later do not read *interval*.

    None if later epochs always do.

    :param full: the table's slices are whole states; a reader gets the one at its barrier.
    """
    if edge.as_of is not None:
        return None
    if full:
        return interval.end if edge.kind is EdgeKind.STATE else interval.end + _MOMENT
    if edge.kind is EdgeKind.INCREMENT:
        return interval.end
    return interval.end + edge.length if edge.kind is EdgeKind.WINDOW and edge.length is not None else None
