"""Consistent cuts: which state of each table a reader gets (protocol section 6). Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from airflow_provider.domain.epoch import Provenance
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.topology import Edge, EdgeKind, TableKind
from airflow_provider.domain.version import Committable, Moved, TableRecord, TableRef


class Level(StrEnum):
    """Isolation of a read."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"
    REPEATABLE_READ = "repeatable_read"


@dataclass(frozen=True, kw_only=True, slots=True)
class Staged:
    """Output that is WRITTEN and not published: only READ_UNCOMMITTED returns it."""

    interval: Interval
    committable: Committable


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """What a reader gets of one table: its rows with ``low < _epoch <= barrier`` as of one commit.

    :param kind: of a full table only the slice that ends at ``barrier`` is its state.
    :param low: None for all rows up to the barrier.
    :param ref: None when nothing was committed: the state has no rows.
    :param staged: unpublished output that replaces or follows (READ_UNCOMMITTED only).
    """

    table: TableName
    kind: TableKind
    barrier: datetime
    low: datetime | None
    csn: int
    ref: TableRef | None
    staged: tuple[Staged, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """A state per table at one barrier and one CSN."""

    domain: DomainName
    incarnation: str
    csn: int
    barrier: datetime
    level: Level
    states: Mapping[TableName, State]
    readable_until: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Lag:
    """Why a table holds a cut back."""

    table: TableName
    watermark: datetime | None
    wanted: datetime
    reason: str


def as_of(stamped: Stamped[TableRecord], csn: int) -> Moved | None:
    """Where the table stood at *csn*; None when its record has forgotten (read the head again)."""
    record = stamped.record
    if (stamped.csn or 0) <= csn:
        return Moved(csn=stamped.csn or 0, progress=record.progress, ref=record.ref)
    return next((moved for moved in record.earlier if moved.csn <= csn), None)


def reached(record: TableRecord, moved: Moved, barrier: datetime) -> bool:
    """Whether *barrier* is one of the table's and its watermark has come to it."""
    progress = moved.progress
    if progress.watermark is None or progress.origin is None:
        return False
    return progress.origin < barrier <= progress.watermark and record.cadence.is_barrier(barrier)


def resolve(
    tables: Mapping[TableName, tuple[TableRecord, Moved]], at: datetime | None = None
) -> datetime | None:
    """The greatest barrier at or before *at* that all *tables* have reached; None when there is none."""
    marks = [moved.progress.watermark for _, moved in tables.values()]
    if not marks or any(mark is None for mark in marks):
        return None
    barrier = min(mark for mark in marks if mark is not None)
    if at is not None:
        barrier = min(barrier, at)
    origin = max(moved.progress.origin for _, moved in tables.values() if moved.progress.origin is not None)
    while barrier > origin:
        lower = min(record.cadence.floor(barrier) for record, _ in tables.values())
        if lower == barrier:
            return barrier
        barrier = lower
    return None


def lagging(tables: Mapping[TableName, tuple[TableRecord, Moved]], barrier: datetime) -> tuple[Lag, ...]:
    """Each table that has not reached *barrier*, and why."""
    found = []
    for name, (record, moved) in sorted(tables.items()):
        if reached(record, moved, barrier):
            continue
        watermark = moved.progress.watermark
        if not record.cadence.is_barrier(barrier):
            reason = f"{barrier.isoformat()} is no barrier of its cadence {record.cadence}"
        elif watermark is None:
            reason = "nothing is committed from its origin on"
        elif moved.progress.origin is not None and barrier <= moved.progress.origin:
            reason = f"its origin is {moved.progress.origin.isoformat()}"
        else:
            reason = f"its watermark is {watermark.isoformat()}"
        found.append(Lag(table=name, watermark=watermark, wanted=barrier, reason=reason))
    return tuple(found)


def edge_range(edge: Edge, epoch: Interval, input_record: TableRecord) -> tuple[datetime | None, datetime]:
    """The range ``[low, high)`` of event time that *edge* reads for *epoch*; ``high`` is a barrier of the input.

    A function of topology and epoch alone, never of what happens to be committed.
    """
    high = epoch.start if edge.kind is EdgeKind.PREVIOUS else epoch.end
    shift = None
    if edge.as_of is not None:
        shifted = input_record.cadence.floor(high - edge.as_of)
        shift, high = high - shifted, shifted
    low = {
        EdgeKind.INCREMENT: epoch.start,
        EdgeKind.WINDOW: epoch.start - edge.length if edge.length else epoch.start,
    }.get(edge.kind)
    if low is not None and shift is not None:
        low = input_record.cadence.floor(low - shift)
    if input_record.kind is TableKind.FULL:
        low = input_record.cadence.last_before(high)
    return low, high


def state_of(provenance: Provenance, kind: TableKind) -> State:
    """The state that an edge's provenance names."""
    return State(
        table=provenance.table,
        kind=kind,
        barrier=provenance.high,
        low=provenance.low,
        csn=provenance.csn,
        ref=provenance.ref,
    )
