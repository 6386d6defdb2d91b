"""Epochs that read what a restatement replaces, and are committed before it is published: they join it (R28)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from airflow_provider.coordination.context import Context
from airflow_provider.coordination.restating.holding import refuse_kept_back
from airflow_provider.coordination.restating.opening import claim_keys, refuse_obstacles, store_replaced
from airflow_provider.coordination.restating.plan import replanned
from airflow_provider.coordination.upkeep.members_now import MembersNow
from airflow_provider.domain.errors import Conflict, DependentReaders
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.restatement import HeldEpochs, RestatementState, epochs_of, refuse_closed

_KeptBack = tuple[list[tuple[JobName, Interval]], tuple[HeldEpochs, ...], datetime | None]


def extend(context: Context, now: MembersNow, error: DependentReaders) -> None:
    """Make committed epochs that have read since what the restatement *now* replaces its members.

    Does nothing where none is left to join or to hold it: others have released them, computed them again or taken them
    back since publish found them (*error*), or have published the restatement. Then publish decides anew.

    :raises NotReady: naming them, and those that hold it. :raises TopologyError: they cannot be computed again.
    :raises InvalidInput: it is over.
    """
    store, where, key = context.store, now.domain, now.stamped.key

    def operation() -> _KeptBack:
        reading = store.read(where, [*claim_keys(where), key])
        current = reading.of(key)
        record = current.record
        if record.state is RestatementState.PUBLISHED:
            return [], (), None
        refuse_closed(now.name, record, incarnation=reading.head.incarnation, now=reading.now)
        planned = replanned(store, where, now.name, record)
        known = set(now.record.epochs)
        new = [epoch for epoch in epochs_of(planned.members) if epoch not in known]
        # An earlier call, with a lost reply, or another publisher may have added them already.
        if set(new) - set(record.epochs):
            refuse_obstacles(planned)
            closed = record.closed_at(reading.now, context.defaults.closing_phase)
            record = replace(closed, members=planned.members)
            store_replaced(store, where, current, record, before=reading)
        return new, planned.held, record.closing_until if record.is_closing(reading.now) else None

    lost = Conflict.of_others(f"restatement {now.name!r}", "changing it")
    new, held, closing_until = context.retry(operation, lost)
    refuse_kept_back(now.name, new, held, closing_until, error)
