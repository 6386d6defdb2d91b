"""Rewrites of a table's past: their log, and the reads that they invalidate (R13). Pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import Provenance
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.topology import EdgeKind, OnUpstreamRevision
from airflow_provider.domain.version import Rewrite, RewriteLog
from airflow_provider.domain.watermark import merged

_END_OF_TIME = datetime.max.replace(tzinfo=UTC)


def rewritten_since(
    log: Stamped[RewriteLog], csn: int, low: datetime | None, high: datetime, *, but: int = 0
) -> Rewrite | None:
    """Return the newest rewrite that touched ``[low, high)`` after *csn*, if any (R13).

    An unchanged record is no proof by itself: each rewrite's CSN is compared with the CSN that was read.

    :param but: CSN of a commit whose rewrites do not count, unless they are merged with those of others.
    """
    record = log.record
    rewrites = list(record.earlier)
    # A record cannot name its own CSN: the newest rewrite's is the stamp of the record.
    if record.latest is not None and log.csn is not None:
        rewrites.insert(0, Rewrite(csn=log.csn, low=record.latest.start, high=record.latest.end))
    for rewrite in rewrites:
        if rewrite.csn == rewrite.oldest == but:
            continue
        if rewrite.csn > csn and rewrite.low < high and (low is None or low < rewrite.high):
            return rewrite
    return None


def realigned_since(log: RewriteLog, read: Provenance, interval: Interval) -> Rewrite | None:
    """Return the newest change of the table's calendar after *read* that may give its reader another barrier, if any.

    An edge without ``as_of`` reads exactly the barrier that it asks for, and never counts. With it, an edge whose lag
    ends before the next barrier of the new calendar counts although it gets the same barrier again: the provenance does
    not tell the lag.

    :param interval: the reader's epoch.
    """
    asked = interval.start if read.kind is EdgeKind.PREVIOUS else interval.end
    if read.high >= asked:
        return None
    return next(
        (change for change in log.calendars if change.csn > read.csn and change.low <= read.high), None
    )


def invalidated(
    inputs: Iterable[Provenance], logs: Mapping[TableName, Stamped[RewriteLog]], interval: Interval
) -> list[tuple[Provenance, Rewrite]]:
    """Return the inputs that are not what they were when they were read, each with what changed it.

    It is a change of the table's calendar, a rollback or another rewrite; edges that ignore upstream revisions ignore
    the last alone.

    :param interval: the reader's epoch.
    """
    found = []
    for read in inputs:
        log = logs[read.table]
        change = taken_back_since(log.record, read) or realigned_since(log.record, read, interval)
        if change is None and read.on_upstream_revision is not OnUpstreamRevision.IGNORE:
            change = rewritten_since(log, read.csn, read.low, read.high)
        if change is not None:
            found.append((read, change))
    return found


def taken_back_since(log: RewriteLog, read: Provenance) -> Rewrite | None:
    """Return the newest rollback that has taken back a part of what *read* names, if any."""
    return next(
        (
            gone
            for gone in log.taken_back
            if gone.csn > read.csn and gone.low < read.high and (read.low is None or read.low < gone.high)
        ),
        None,
    )


def with_rewrite(stamped: Stamped[RewriteLog], interval: Interval, defaults: Defaults) -> RewriteLog:
    """Return the log after a rewrite of *interval*; the rewrite's CSN will be the record's stamp."""
    return replace(_written_out(stamped, defaults), latest=interval)


def with_rewrites(
    stamped: Stamped[RewriteLog], intervals: Iterable[Interval], csn: int, defaults: Defaults
) -> RewriteLog:
    """Return the log after the commit *csn* has rewritten all *intervals*, at least one."""
    spans = merged(intervals)
    if len(spans) == 1:
        return with_rewrite(stamped, spans[0], defaults)
    log = _written_out(stamped, defaults)
    found = tuple(Rewrite(csn=csn, low=span.start, high=span.end) for span in spans)
    return replace(log, earlier=_bounded((*found, *log.earlier), defaults.rewrites_remembered))


def with_rollback(
    stamped: Stamped[RewriteLog], intervals: Iterable[Interval], csn: int, defaults: Defaults
) -> RewriteLog:
    """Return the log after the commit *csn* has taken *intervals* back, at least one."""
    hulls = merged(intervals)
    gone = tuple(Rewrite(csn=csn, low=hull.start, high=hull.end) for hull in hulls)
    taken_back = _bounded((*gone, *stamped.record.taken_back), defaults.rewrites_remembered)
    return replace(with_rewrites(stamped, hulls, csn, defaults), taken_back=taken_back)


def with_binds(stamped: Stamped[RewriteLog], binds: int, defaults: Defaults) -> RewriteLog:
    """Return the log after epochs of its table fell behind their source.

    The write makes a commit that requires the log as it was decide again. It is no rewrite: from now on the newest
    rewrite names its own CSN, and ``latest`` is empty.

    :param binds: how often a source was bound anew in the domain.
    """
    return replace(_written_out(stamped, defaults), binds=binds)


def with_calendar(stamped: Stamped[RewriteLog], since: datetime, csn: int, defaults: Defaults) -> RewriteLog:
    """Return the log after the commit *csn* has changed the table's calendar from *since* on. It is no rewrite."""
    change = Rewrite(csn=csn, low=since, high=_END_OF_TIME)
    # The change covers the earlier ones that begin where it does, or later.
    calendars = (change, *(known for known in stamped.record.calendars if known.low < since))
    return replace(
        _written_out(stamped, defaults), calendars=_bounded(calendars, defaults.rewrites_remembered)
    )


def _written_out(stamped: Stamped[RewriteLog], defaults: Defaults) -> RewriteLog:
    """Return the log with the CSN of its newest rewrite written out: the next write replaces the stamp that was it."""
    record = stamped.record
    earlier = record.earlier
    if record.latest is not None and stamped.csn is not None:
        earlier = (Rewrite(csn=stamped.csn, low=record.latest.start, high=record.latest.end), *earlier)
    return replace(record, latest=None, earlier=_bounded(earlier, defaults.rewrites_remembered))


def _bounded(rewrites: tuple[Rewrite, ...], limit: int) -> tuple[Rewrite, ...]:
    """Return at most *limit* rewrites, newest first: the nearest in event time are merged, with the greater CSN.

    Merging the oldest instead would cover time that none of them touched, and refuse its readers for no reason. The
    rewrites of a backfill touch each other, and merge without such a gap.
    """
    found = sorted(rewrites, key=lambda rewrite: (rewrite.low, rewrite.high))
    while len(found) > limit:
        gaps = [(later.low - earlier.high, place) for place, (earlier, later) in enumerate(pairwise(found))]
        place = min(gaps)[1]
        first, second = found[place : place + 2]
        found[place : place + 2] = [
            Rewrite(
                csn=max(first.csn, second.csn),
                low=first.low,
                high=max(first.high, second.high),
                first=min(first.oldest, second.oldest),
            )
        ]
    return tuple(sorted(found, key=lambda rewrite: rewrite.csn, reverse=True))
