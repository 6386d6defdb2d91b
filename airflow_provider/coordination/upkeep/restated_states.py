"""States that restatements need: of open ones, and of published ones that can still be taken back (R24, R28, R30)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from shlex import quote

from airflow_provider.coordination.commits.open_restatements import open_restatements
from airflow_provider.domain.epoch import has_expired
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import DomainName, RestatementId, TableName
from airflow_provider.domain.lease import LeaseRecord
from airflow_provider.domain.records import Stamped, job_key, restatement_key
from airflow_provider.domain.restatement import LEASED, RestatementRecord
from airflow_provider.domain.retention import full_states_read
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader, pages


@dataclass(frozen=True, kw_only=True, slots=True)
class _Revertible:
    """A published restatement that can be taken back. :param lease: on the versions with its former rows."""

    name: RestatementId
    record: RestatementRecord
    lease: Stamped[LeaseRecord]

    @property
    def until(self) -> datetime:
        return self.lease.at + self.lease.record.ttl


def refuse_restated(reader: MetadataReader, stamped: Stamped[TableRecord], barrier: datetime) -> None:
    """Refuse to expire a state of a full table that a restatement reads or computes, or that its revert needs.

    :raises InvalidInput: naming the restatement, and for a revert the time until which it needs the state.
    """
    domain, name = stamped.key.domain, TableName(stamped.key.item)
    if not stamped.record.kind.loses_expired:
        return
    for restatement, found in open_restatements(reader, domain):
        if _needs(reader, found.record, stamped, barrier):
            raise not_expired(
                name,
                barrier,
                f"a barrier that restatement {restatement!r} does not compute or read",
                next_step="publish it or abandon it first.",
                restatement=restatement,
            )
    for published in _revertible(reader, domain):
        if _needs(reader, published.record, stamped, barrier):
            lease = published.lease
            raise not_expired(
                name,
                barrier,
                f"a barrier that a revert of restatement {published.name!r} does not need; it may be reverted until "
                f"{published.until.isoformat()}",
                next_step=f"expire it after that. To give up the revert now: `airflow epochs lease drop --domain "
                f"{quote(domain)} {quote(lease.key.item)} --owner {quote(lease.record.owner)}`.",
                restatement=published.name,
                until=published.until,
            )


def _revertible(reader: MetadataReader, domain: DomainName) -> Iterator[_Revertible]:
    """Yield the published restatements whose former rows are still held."""
    now = reader.read(domain, []).now
    held = takewhile(
        lambda lease: lease.key.item.startswith(LEASED), pages(reader, domain, LeaseRecord, start=LEASED)
    )
    for lease in held:
        name = RestatementId(lease.key.item.removeprefix(LEASED))
        stamped = reader.read(domain, [key := restatement_key(domain, name)]).get(key)
        if stamped is not None and not has_expired(lease.at, lease.record.ttl, now):
            yield _Revertible(name=name, record=stamped.record, lease=lease)


def _needs(
    reader: MetadataReader, record: RestatementRecord, stamped: Stamped[TableRecord], barrier: datetime
) -> bool:
    """Return True if a member of the restatement computes or reads the state of the table at *barrier*."""
    domain, name = stamped.key.domain, TableName(stamped.key.item)
    for epochs in record.members:
        known = reader.read(domain, [key := job_key(domain, epochs.job)]).get(key)
        if known is None:
            continue  # a job of a group that has never run, or one that was dropped
        job = known.record
        states = {
            state
            for interval in epochs.intervals
            for state in full_states_read(job, interval, {name: stamped.record})
        }
        own = stamped.record.job == job.name and any(each.end == barrier for each in epochs.intervals)
        if own or (name, barrier) in states:
            return True
    return False


def not_expired(
    table: TableName,
    barrier: datetime,
    expected: str,
    *,
    next_step: str = "see `airflow epochs status` for the barriers that the table has.",
    restatement: str = "",
    until: datetime | None = None,
) -> InvalidInput:
    """Return the error for a state that is not expired.

    :param restatement: the one that needs it. :param until: time from which it does not need it any more.
    """
    return InvalidInput(
        f"{table} at {barrier.isoformat()} cannot be expired; expected {expected}.",
        next_step=next_step,
        field="barrier",
        value=barrier.isoformat(),
        expected=expected,
        table=table,
        restatement=restatement,
        until=until,
    )
