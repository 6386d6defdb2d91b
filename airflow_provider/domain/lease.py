"""Leases: timed claims on the states of a cut (protocol section 7). Pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from airflow_provider.domain.cut import Cut, State
from airflow_provider.domain.epoch import has_expired
from airflow_provider.domain.errors import InvalidInput, LeaseHeld
from airflow_provider.domain.format_marks import since
from airflow_provider.domain.identifiers import LeaseId, TableName, lease_id, validate_text
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.keys import Stamped
from airflow_provider.domain.outdated import Outdated
from airflow_provider.domain.read_options import Level


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseRecord:
    """A claim; it expires at the store's stamp plus the time to live.

    :param owner: the reader that may renew, release and drop it.
    :param states: the states that it holds; each names the version of its table.
    :param outdated: labels of the cut when it was claimed: the store may forget later why its rows were outdated.
    """

    owner: str
    ttl: timedelta
    csn: int
    barrier: datetime
    states: tuple[State, ...]
    outdated: tuple[Outdated, ...] = field(default=(), metadata=since(2, optional=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """A claim as its owner holds it; it keeps ``cut`` readable until ``cut.readable_until``."""

    id: LeaseId
    owner: str
    cut: Cut

    @property
    def until(self) -> datetime:
        """Time at which it ends unless it is renewed, by the store's clock."""
        return self.cut.readable_until


def lease_of(stamped: Stamped[LeaseRecord], incarnation: str) -> Lease:
    """Return the lease of a stored record."""
    record = stamped.record
    key = LeaseId(stamped.key.item)
    cut = Cut(
        domain=stamped.key.domain,
        incarnation=incarnation,
        csn=record.csn,
        barrier=record.barrier,
        level=Level.REPEATABLE_READ,
        states={state.table: state for state in record.states},
        readable_until=stamped.at + record.ttl,
        lease=key,
        outdated=record.outdated,
    )
    return Lease(id=key, owner=record.owner, cut=cut)


def derived_id(task: str, interval: Interval, *, revision: int, input_generation: int) -> LeaseId:
    """Return the lease id for the reads of one task at one epoch: a retry finds the lease of the try before (LEA5)."""
    return lease_id(
        f"{task}@{time_key(interval.start)}-{time_key(interval.end)}#r{revision}.g{input_generation}"
    )


def checked_owner(owner: str) -> str:
    """Return *owner*.

    :raises InvalidInput: not text, or blank.
    """
    if not validate_text(owner, "owner").strip():
        raise InvalidInput(
            field="owner",
            value=owner,
            expected="text that says who reads, such as 'dag_id/run_id'",
            next_step="the same text finds the lease again; another one is refused.",
        )
    return owner


def claimed(cut: Cut, owner: str, ttl: timedelta) -> LeaseRecord:
    """Return the record of a new claim on *cut*.

    :raises InvalidInput: a READ_UNCOMMITTED cut: its rows may never be committed.
    """
    if cut.level is Level.READ_UNCOMMITTED:
        raise InvalidInput(
            field="cut",
            value=cut.level.value,
            expected="a cut of committed rows",
            next_step="make the cut at read_committed; output that is not published cannot be held.",
        )
    return LeaseRecord(
        owner=owner,
        ttl=ttl,
        csn=cut.csn,
        barrier=cut.barrier,
        states=tuple(cut.states.values()),
        outdated=cut.outdated,
    )


def refuse_other_holder(stamped: Stamped[LeaseRecord] | None, owner: str, now: datetime) -> None:
    """Refuse a lease id that another owner holds.

    :raises LeaseHeld: a live lease of another owner.
    """
    if stamped is None or stamped.record.owner == owner or has_expired(stamped.at, stamped.record.ttl, now):
        return
    until = stamped.at + stamped.record.ttl
    raise LeaseHeld.of(
        stamped.key.item,
        stamped.record.owner,
        until,
        next_step="choose another id; ids derived from task and epoch never meet.",
    )


def renewed(stamped: Stamped[LeaseRecord], ttl: timedelta, now: datetime) -> LeaseRecord:
    """Return the record after a renewal at or after *now*: it never ends earlier than before (LEA3)."""
    # The time to live counts from the new stamp, which is *now* or later.
    left = stamped.at + stamped.record.ttl - now
    return replace(stamped.record, ttl=max(ttl, left))


def released(stamped: Stamped[LeaseRecord], tables: Iterable[TableName], now: datetime) -> LeaseRecord | None:
    """Return the record without *tables*, which ends at the same time; None if no table remains."""
    gone = set(tables)
    kept = tuple(state for state in stamped.record.states if state.table not in gone)
    outdated = tuple(label for label in stamped.record.outdated if label.table not in gone)
    return replace(renewed(stamped, timedelta(0), now), states=kept, outdated=outdated) if kept else None


def read_ended(
    cut: Cut,
    tables: Iterable[TableName],
    lease: Stamped[LeaseRecord] | None,
    *,
    incarnation: str,
    now: datetime,
) -> str:
    """Return the reason why *tables* of *cut* must not be read at *now*; empty while they may be read (R22)."""
    if cut.incarnation != incarnation:
        return f"it is of incarnation {cut.incarnation} of the store, which is {incarnation} now"
    if cut.lease is None:
        return "" if now < cut.readable_until else f"it was readable until {cut.readable_until.isoformat()}"
    if lease is None:
        return f"its lease {cut.lease!r} has ended"
    if has_expired(lease.at, lease.record.ttl, now):
        return f"its lease {cut.lease!r} ended at {(lease.at + lease.record.ttl).isoformat()}"
    # The lease may have released tables, or hold another cut: an id can be taken again once its lease has ended.
    held: Mapping[TableName, State] = {state.table: state for state in lease.record.states}
    lost = sorted(table for table in tables if held.get(table) != cut.states.get(table))
    return f"its lease {cut.lease!r} no longer holds {', '.join(lost)}" if lost else ""
