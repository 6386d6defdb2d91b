"""What publishing changes, and what forbids it (R2, R11, R13, R18). Pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

from airflow_provider.domain.columns import AppliedChange, ColumnChange
from airflow_provider.domain.cut import standing
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import Attempt, EpochRecord, Provenance
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.topology import Edge, EdgeKind, OnUpstreamRevision
from airflow_provider.domain.version import (
    Committable,
    FenceRecord,
    Rewrite,
    SliceRecord,
    TableDelta,
    TableRecord,
    TableRef,
)

_MOMENT = timedelta(microseconds=1)


def rewritten_since(
    fence: Stamped[FenceRecord], csn: int, low: datetime | None, high: datetime
) -> Rewrite | None:
    """The rewrite that touched ``[low, high)`` after *csn*, if any (R13).

    An unchanged record is no proof by itself: what counts is each rewrite's CSN against the CSN that was read.
    """
    record = fence.record
    rewrites = list(record.earlier)
    if record.latest is not None and fence.csn is not None:
        rewrites.insert(0, Rewrite(csn=fence.csn, low=record.latest.start, high=record.latest.end))
    for one in rewrites:
        if one.csn > csn and one.low < high and (low is None or low < one.high):
            return one
    return None


def invalidated(
    inputs: Iterable[Provenance], fences: Mapping[TableName, Stamped[FenceRecord]]
) -> list[tuple[Provenance, Rewrite]]:
    """The inputs that are no longer what was read; edges that ignore upstream revisions are not asked."""
    found = []
    for one in inputs:
        if one.on_upstream_revision is OnUpstreamRevision.IGNORE:
            continue
        rewrite = rewritten_since(fences[one.table], one.csn, one.low, one.high)
        if rewrite is not None:
            found.append((one, rewrite))
    return found


def moved_table(
    stamped: Stamped[TableRecord],
    interval: Interval,
    ref: TableRef,
    defaults: Defaults,
    declared: Sequence[ColumnChange] = (),
) -> TableRecord:
    """The table's record after *interval* committed as *ref*; what it was goes to the head of ``earlier``.

    :param declared: changes of its columns; those that it has when this is its first commit.
    """
    record = stamped.record
    made = record.ref is None
    return replace(
        record,
        progress=record.progress.adding(interval),
        ref=ref,
        earlier=(standing(stamped), *record.earlier)[: defaults.states_remembered],
        heard=None,
        changes=tuple(AppliedChange(one) for one in declared) if made else record.changes,
    )


def marked_fence(stamped: Stamped[FenceRecord], interval: Interval, defaults: Defaults) -> FenceRecord:
    """The fence after a rewrite of *interval*; the rewrite's CSN will be the record's stamp."""
    record = stamped.record
    earlier = record.earlier
    if record.latest is not None and stamped.csn is not None:
        newest = Rewrite(csn=stamped.csn, low=record.latest.start, high=record.latest.end)
        earlier = (newest, *earlier)
    return replace(record, latest=interval, earlier=_bounded(earlier, defaults.rewrites_remembered))


def touched_fence(stamped: Stamped[FenceRecord], binds: int, defaults: Defaults) -> FenceRecord:
    """The fence after epochs of its table were left behind their source: who requires it as it was looks again.

    :param binds: the domain's count. The record's stamp is no longer that of its newest rewrite.
    """
    record = stamped.record
    earlier = record.earlier
    if record.latest is not None and stamped.csn is not None:
        earlier = (Rewrite(csn=stamped.csn, low=record.latest.start, high=record.latest.end), *earlier)
    return FenceRecord(earlier=_bounded(earlier, defaults.rewrites_remembered), binds=binds)


def _bounded(rewrites: tuple[Rewrite, ...], limit: int) -> tuple[Rewrite, ...]:
    """At most *limit* rewrites, newest first: those nearest in time become one, as late as the later of them.

    A hull of the oldest would cover time that none of them touched, and refuse who read that. Ranges that touch leave
    no such time between them, which is what backfills do.
    """
    found = sorted(rewrites, key=lambda rewrite: (rewrite.low, rewrite.high))
    while len(found) > limit:
        gaps = [(later.low - earlier.high, place) for place, (earlier, later) in enumerate(pairwise(found))]
        place = min(gaps)[1]
        first, second = found[place : place + 2]
        found[place : place + 2] = [
            Rewrite(csn=max(first.csn, second.csn), low=first.low, high=max(first.high, second.high))
        ]
    return tuple(sorted(found, key=lambda rewrite: rewrite.csn, reverse=True))


def depends_on(
    epoch: EpochRecord, table: str, interval: Interval, *, commits: Interval | None = None, full: bool = False
) -> bool:
    """Whether the committed revision of *epoch* read a part of *interval* of *table* and minds a change.

    :param commits: the one epoch whose slice changes; the rest of *interval* becomes visible. None where any may.
    :param full: each slice of the table is a whole state: who has read one minds no other, also where it was below the
        origin, as what a skip copies may be (R5).
    """
    if epoch.committed is None:
        return False
    of_slice = commits if full and commits is not None else interval
    return any(
        one.table == table
        and one.on_upstream_revision is not OnUpstreamRevision.IGNORE
        and (of_slice if one.ref is not None else interval).meets(one.low, one.high)
        for one in epoch.committed.inputs
    )


def last_dependent_end(edge: Edge, interval: Interval, *, full: bool = False) -> datetime | None:
    """No epoch of a reader that starts at or after it reads *interval*; None when later ones still do.

    :param full: the table's slices are whole states, of which a reader gets the one at its barrier.
    """
    if edge.as_of is not None:
        return None
    if full:
        return interval.end if edge.kind is EdgeKind.STATE else interval.end + _MOMENT
    if edge.kind is EdgeKind.INCREMENT:
        return interval.end
    return interval.end + edge.length if edge.kind is EdgeKind.WINDOW and edge.length is not None else None


def slice_of(attempt: Attempt, output: Sequence[Committable], token: int) -> SliceRecord:
    """What *output*, staged under *token*, contributes to its table."""
    return SliceRecord(
        interval=attempt.interval,
        revision=attempt.revision,
        token=token,
        change_set=attempt.change_set,
        rows=sum(one.rows for one in output),
        files=sum(one.files for one in output),
        size_bytes=sum(one.size_bytes for one in output),
        schema_id=max(one.schema_id for one in output),
    )


def delta_of(
    attempt: Attempt, table: TableName, moved: TableRecord, output: Sequence[Committable]
) -> TableDelta:
    """What publishing *output* does to *table*, whose record becomes *moved*."""
    return TableDelta(
        table=table,
        interval=attempt.interval,
        revision=attempt.revision,
        watermark=moved.progress.watermark,
        ref=None if moved.ref is None else moved.ref.lasting(),
        rows=sum(part.rows for part in output),
    )
