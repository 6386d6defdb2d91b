"""Consistent cuts: choose the state of each table that a reader gets (protocol section 6). Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider.domain.epoch import Provenance
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.expired import ExpiredStates
from airflow_provider.domain.identifiers import DomainName, LeaseId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.keys import Stamped
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.outdated import Outdated
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Edge, EdgeKind
from airflow_provider.domain.version import (
    NOTHING_SHOWN,
    TOLD_APART_SINCE,
    Committable,
    TableRecord,
    TableRef,
    TableVersion,
    shown,
)
from airflow_provider.domain.watermark import Progress

_LONGEST_SEARCH = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Staged:
    """Output that is WRITTEN and not published; only READ_UNCOMMITTED returns it."""

    interval: Interval
    committable: Committable


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """State of one table in a cut: its rows with ``low < _epoch <= barrier`` as of one commit.

    :param kind: the state of a full table is only the slice that ends at ``barrier``.
    :param low: start of the rows, the origin of an incremental table; None for all rows up to the barrier.
    :param ref: version of the table; None if nothing was committed: the state has no rows.
    :param staged: unpublished output that replaces or follows committed rows (READ_UNCOMMITTED only).
    """

    table: TableName
    kind: TableKind
    barrier: datetime
    low: datetime | None
    csn: int
    ref: TableRef | None
    staged: tuple[Staged, ...] = ()

    @property
    def format(self) -> str | None:
        """Name of the table's format; None where nothing is committed or staged."""
        parts = [output.committable.format for output in self.staged]
        return self.ref.format if self.ref is not None else next(iter(parts), None)

    def has(self, end: datetime) -> bool:
        """Return True if the slice that ends at *end* belongs to the state."""
        return self.kind.has(end, low=self.low, barrier=self.barrier)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """A state per table at one barrier and one CSN.

    :param readable_until: by the store's clock; of a leased cut as of the last renewal by this program.
    :param lease: the lease that keeps it readable; None for the grace that every cut has.
    :param outdated: labels of rows computed from an earlier state of an input (R18).
    """

    domain: DomainName
    incarnation: str
    csn: int
    barrier: datetime
    level: Level
    states: Mapping[TableName, State]
    readable_until: datetime
    lease: LeaseId | None = None
    outdated: tuple[Outdated, ...] = ()

    @property
    def behind(self) -> Mapping[TableName, timedelta]:
        """Lag behind the cut's barrier, of each table that is read at an earlier one."""
        own = {table: self.barrier - state.barrier for table, state in self.states.items()}
        return {table: lag for table, lag in own.items() if lag and self.level is not Level.READ_UNCOMMITTED}

    @property
    def begins(self) -> Mapping[TableName, datetime]:
        """Time from which each incremental table has rows, if that differs between the tables; otherwise empty.

        Up to the latest of these times a join lacks rows of some of the tables.
        """
        own = {table: state.low for table, state in self.states.items() if state.low is not None}
        return own if len(set(own.values())) > 1 else {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines to print: tables that begin later than others (:attr:`begins`), and outdated rows."""
        begins = self.begins
        first = min(begins, key=lambda table: (begins[table], table), default=None)
        later = [
            f"{table}: no rows before {low.isoformat()}, while {first} has rows from {begins[first].isoformat()} on"
            for table, low in sorted(begins.items())
            if first is not None and low > begins[first]
        ]
        return (*later, *(str(label) for label in self.outdated))


def as_of(stamped: Stamped[TableRecord], csn: int) -> TableVersion | None:
    """Return origin, watermark and version of the table at *csn*; None if its record does not reach back so far.

    Then the caller reads the head again.
    """
    if (stamped.csn or 0) <= csn:
        return newest_version(stamped)
    return next((moved for moved in stamped.record.earlier if moved.csn <= csn), None)


def newest_version(stamped: Stamped[TableRecord]) -> TableVersion:
    """Return origin, watermark and version of the table now, without the parts of its version that expire."""
    progress, ref = stamped.record.progress, stamped.record.ref
    return TableVersion(
        csn=stamped.csn or 0,
        origin=progress.origin,
        watermark=progress.watermark,
        ref=None if ref is None else ref.lasting(),
    )


def shown_states(stamped: Stamped[TableRecord]) -> list[State]:
    """Return the states that engines without cuts see of a table: the state at its newest barrier, or none."""
    record = stamped.record
    seen = shown(record, record.progress, TOLD_APART_SINCE)
    if seen == NOTHING_SHOWN:
        return []
    return [
        State(
            table=TableName(stamped.key.item),
            kind=record.kind,
            barrier=seen.until,
            low=seen.after,
            csn=stamped.csn or 0,
            ref=record.ref,
        )
    ]


def reached(record: TableRecord, moved: TableVersion, barrier: datetime) -> bool:
    """Return True if *barrier* is on the table's calendar, after its origin, and not beyond its watermark."""
    if moved.watermark is None or moved.origin is None:
        return False
    return moved.origin < barrier <= moved.watermark and record.cadence.is_barrier(barrier)


def resolve(
    tables: Mapping[TableName, tuple[TableRecord, TableVersion]], at: datetime | None = None
) -> datetime | None:
    """Return the greatest barrier at or before *at* that all *tables* have reached; None when there is none.

    Calendars that have common barriers meet within a few steps, since each step goes down to a barrier of the slowest;
    the search ends after :data:`_LONGEST_SEARCH` steps.
    """
    marks = [moved.watermark for _, moved in tables.values() if moved.watermark is not None]
    if not tables or len(marks) < len(tables):
        return None
    origin = max(moved.origin for _, moved in tables.values() if moved.origin is not None)
    cadences = list(dict.fromkeys(record.cadence for record, _ in tables.values()))
    barrier = min([*marks, at] if at is not None else marks)
    for _ in range(_LONGEST_SEARCH):
        lower = min(cadence.floor(barrier) for cadence in cadences)
        if lower <= origin:
            return None
        if lower == barrier:
            return barrier
        barrier = lower
    return None


def following(
    tables: Mapping[TableName, tuple[TableRecord, TableVersion]], after: datetime
) -> datetime | None:
    """Return the least barrier later than *after* that all *tables* have reached; None when there is none."""
    cadences = list(dict.fromkeys(record.cadence for record, _ in tables.values()))
    barrier = max(cadence.next_after(after) for cadence in cadences)
    for _ in range(_LONGEST_SEARCH):
        if all(reached(record, moved, barrier) for record, moved in tables.values()):
            return barrier
        barrier = max(cadence.next_after(barrier) for cadence in cadences)
        if any(moved.watermark is None or barrier > moved.watermark for _, moved in tables.values()):
            return None
    return None


def nearest_kept(
    tables: Mapping[TableName, tuple[TableRecord, TableVersion]], retention: ExpiredStates, barrier: datetime
) -> tuple[datetime, ...]:
    """Return the nearest common barriers before and after *barrier* that are not expired: two, one or none."""

    def expired(moment: datetime) -> list[Interval]:
        return [gone for table in tables if (gone := retention.range_at(table, moment)) is not None]

    before: datetime | None = barrier
    while before is not None and (ranges := expired(before)):
        before = resolve(tables, min(gone.start for gone in ranges))
    after: datetime | None = barrier
    while after is not None and (ranges := expired(after)):
        after = following(tables, max(gone.end for gone in ranges))
    return tuple(dict.fromkeys(moment for moment in (before, after) if moment is not None))


def lagging(
    tables: Mapping[TableName, tuple[TableRecord, TableVersion]], barrier: datetime
) -> tuple[Missing, ...]:
    """Return each table that has not reached *barrier*, with the reason."""
    found = []
    for name, (record, moved) in sorted(tables.items()):
        if reached(record, moved, barrier):
            continue
        watermark = moved.watermark
        if not record.cadence.is_barrier(barrier):
            reason = f"{barrier.isoformat()} is no barrier of its cadence {record.cadence}"
        elif moved.origin is not None and barrier <= moved.origin:
            reason = _before_its_origin(record.progress, moved.origin, barrier)
        elif watermark is None:
            begins = "" if moved.origin is None else f" {moved.origin.isoformat()}"
            reason = f"nothing is committed from its origin{begins} on"
        else:
            reason = f"its watermark is {watermark.isoformat()}"
        if record.ended:
            reason += f", and nothing more comes of it: {record.ended}"
        found.append(Missing(name=name, watermark=watermark, wanted=barrier, reason=reason))
    return tuple(found)


def _before_its_origin(progress: Progress, origin: datetime, barrier: datetime) -> str:
    if progress.begins is not None and barrier <= progress.begins:
        return f"its origin is {progress.begins.isoformat()}, as its job declares: there is nothing before"
    return f"its origin is {origin.isoformat()}" if progress.reaches is None else _reaching(progress, origin)


def edge_range(edge: Edge, epoch: Interval, input_record: TableRecord) -> tuple[datetime | None, datetime]:
    """Return the range ``[low, high)`` of event time that *edge* reads for *epoch*; ``high`` is a barrier of the input.

    The range depends on topology and epoch alone, never on what is committed. Increments of consecutive epochs tile
    the time, also with ``as_of``; the increment of a slower table may be empty.
    """
    cadence, lag = input_record.cadence, edge.as_of

    def aligned(moment: datetime) -> datetime:
        return moment if lag is None else cadence.floor(_before(moment, lag))

    high = aligned(epoch.start if edge.kind is EdgeKind.PREVIOUS else epoch.end)
    if not input_record.kind.accumulates:
        return cadence.last_before(high), high
    if edge.kind is EdgeKind.INCREMENT:
        return aligned(epoch.start), high
    if edge.kind is EdgeKind.WINDOW and edge.length is not None:
        return aligned(_before(epoch.start, edge.length)), high
    return None, high


def starts_with(edge: Edge, record: TableRecord, high: datetime) -> bool:
    """Return True if *edge* reads only time before the table's declared origin: no rows, and no epoch to wait for."""
    begins = record.progress.begins
    return edge.kind is EdgeKind.PREVIOUS and begins is not None and high <= begins


def before_origin(record: TableRecord, moved: TableVersion, low: datetime | None) -> str:
    """Return the reason why a range from *low* on cannot be read; empty if it can.

    Before an origin that is not declared, and while epochs below the origin are being computed, "no rows" may mean
    "not yet".
    """
    progress, origin = record.progress, moved.origin
    if origin is None or (low is not None and low >= origin):
        return ""
    if progress.start is not None and progress.start < origin:
        since = progress.start if low is None else max(low, progress.start)
        return f"needs all from {since.isoformat()}; {_reaching(progress, origin)}"
    if low is None or progress.declared:
        return ""
    return f"needs all from {low.isoformat()}; it begins at {origin.isoformat()} and declares no origin"


def _reaching(progress: Progress, origin: datetime) -> str:
    missing = progress.next_missing
    return (
        f"its origin is {origin.isoformat()} until all epochs from {progress.start and progress.start.isoformat()} on "
        f"are there, the first that is missing begins at {missing and missing.isoformat()}"
    )


def _before(moment: datetime, length: timedelta) -> datetime:
    """Return *moment* minus *length*.

    :raises InvalidInput: there is no such time.
    """
    try:
        return moment - length
    except OverflowError as error:
        raise InvalidInput(
            field="interval",
            value=moment.isoformat(),
            expected=f"a time that has one {length} before it, which the edge reads",
        ) from error


def state_of(provenance: Provenance, kind: TableKind) -> State:
    """Return the state that an edge's provenance names."""
    starts = [start for start in (provenance.low, provenance.origin) if start is not None]
    return State(
        table=provenance.table,
        kind=kind,
        barrier=provenance.high,
        low=max(starts, default=None),
        csn=provenance.csn,
        ref=provenance.ref,
    )
