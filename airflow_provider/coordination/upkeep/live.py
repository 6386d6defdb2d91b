"""Live attempts of a domain, whose end a change of its place has to wait for."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any

from airflow_provider.coordination.attempts.end import fence_silent
from airflow_provider.coordination.commits.claims import end_expired
from airflow_provider.coordination.context import Context
from airflow_provider.domain.epoch import LockRecord, has_expired
from airflow_provider.domain.errors import Conflict, EpochBusy
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.restatement import LEASED
from airflow_provider.stores.base import pages


def live_attempts(context: Context, domain: DomainName, reason: str) -> list[Stamped[LockRecord]]:
    """End what has expired: leases, and silent attempts, which are fenced. Return the locks of the live attempts.

    Call it after the domain was closed to new attempts: a look before it could miss a task that begins meanwhile
    (docs/decisions/moving.md).

    :param reason: what the state logs of the fenced attempts say.
    """
    store = context.store
    lost = Conflict(f"domain {domain!r}: others kept changing its claims.", next_step="try again.")
    context.retry(lambda: end_expired(store, domain), lost)
    jobs = [stamped.record.name for stamped in pages(store, domain, JobRecord)]
    live = []
    for lock in [lock for job in jobs for lock in pages(store, domain, LockRecord, job)]:
        if lock.record.ended or has_expired(lock.at, lock.record.ttl, store.read(domain, []).now):
            context.retry(lambda lock=lock: fence_silent(store, lock, reason), lost)  # type: ignore[misc]
        else:
            live.append(lock)
    return live


def busy(domain: DomainName, claims: Sequence[Stamped[Any]], next_step: str) -> EpochBusy:
    """Return the error that names the live *claims*: locks or leases."""
    holders = tuple(
        f"{claim.key.kind} {claim.key.partition} {claim.key.item} of {claim.record.owner}" for claim in claims
    )
    return EpochBusy(
        f"domain {domain!r} is in use: {'; '.join(holders)}.",
        next_step=f"{next_step}{_of_reverts(domain, claims)}",
        holders=holders,
    )


def _of_reverts(domain: DomainName, claims: Sequence[Stamped[Any]]) -> str:
    """Return what ends the leases by which restatements can be reverted: no task or reader does."""
    held = [claim for claim in claims if claim.key.item.startswith(LEASED)]
    commands = "; ".join(
        f"airflow epochs lease drop --domain {quote(domain)} {quote(lease.key.item)} "
        f"--owner {quote(lease.record.owner)}"
        for lease in held
    )
    return f" To give up the reverts of published restatements: `{commands}`." if held else ""
