"""The heartbeat: a living attempt renews its lock, with which it claims its inputs, too (R3, R23)."""

from __future__ import annotations

from datetime import timedelta

from airflow_provider.coordination.attempts.fence import fenced
from airflow_provider.coordination.attempts.join import newer_try, overtaken
from airflow_provider.coordination.context import Context
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import LeaseExpired
from airflow_provider.domain.records import fence_of, lock_of
from airflow_provider.stores.base import (
    Exists,
    MetadataStore,
    Put,
    RequirementFailed,
    SameStore,
    Transaction,
)


def heartbeat(context: Context, attempt: Attempt) -> timedelta:
    """Renew the attempt's lock; return how long it lasts from now on.

    :raises Fenced: the attempt is over. :raises LeaseExpired: it was silent for longer than its lock lasts.
    """
    return context.retry(lambda: _renew(context.store, attempt))


def _renew(store: MetadataStore, attempt: Attempt) -> timedelta:
    key, fence = lock_of(attempt), fence_of(attempt)
    without = newer_try(attempt)
    reading = store.read(attempt.domain, [key, fence, *(newer.key for newer in without)])
    lock, epoch = reading.get(key), reading.get(fence)
    if any(newer.key in reading.records for newer in without):
        raise overtaken(store, attempt, without)
    if (
        epoch is None
        or epoch.record.token != attempt.token
        or reading.head.incarnation != attempt.incarnation
    ):
        raise fenced(store, attempt)
    if lock is None or lock.record.token != attempt.token:
        # A heartbeat that overlaps the attempt's own publish or staging meets no lock; it must not fail the task.
        if epoch.record.attempt is None or epoch.record.attempt.staged:
            return attempt.ttl
        raise fenced(store, attempt)
    if lock.record.ended:
        raise LeaseExpired(
            f"{attempt}: its lock was silent for {attempt.ttl}, and its claim on its inputs was ended.",
            next_step="begin again: a new attempt reads inputs that are there.",
            attempt=str(attempt),
        )
    try:
        store.transact(
            Transaction(
                domain=attempt.domain,
                store=SameStore(attempt.incarnation),
                requires=(Exists(fence, attempt.fence), Exists(key, lock.version), *without),
                # The content stays: the store's time of this write is the heartbeat.
                updates=(Put(key, lock.record),),
            )
        )
    except RequirementFailed:
        return _renew(store, attempt)
    return attempt.ttl
