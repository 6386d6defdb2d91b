"""The transaction that opens an attempt (protocol section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from airflow_provider.coordination.attempts.bounds import Bounded
from airflow_provider.coordination.attempts.within import Within
from airflow_provider.domain.epoch import (
    AttemptEvent,
    AttemptRecord,
    EpochRecord,
    EpochState,
    LockRecord,
    committed_csn,
)
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.records import (
    Stamped,
    entry_key,
    fence_of,
    lock_of,
    restatement_key,
    retention_key,
    topology_key,
)
from airflow_provider.stores.base import (
    MetadataStore,
    Put,
    Reading,
    RequirementFailed,
    SameStore,
    Transaction,
    unchanged,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewAttempt:
    """Attempt that nothing refuses. :param before: the epoch's record. :param ttl: of its lock."""

    epoch: EpochId
    before: Stamped[EpochRecord] | None
    record: AttemptRecord
    bounded: Bounded
    ttl: timedelta


def store_attempt(store: MetadataStore, new: NewAttempt, reading: Reading, within: Within) -> int | None:
    """Write the attempt; return the version of its epoch, or None when something that was decided on has changed."""
    name, record, bounded = new.epoch, new.record, new.bounded
    domain, before = name.domain, new.before.record if new.before else None
    epoch = EpochRecord(
        interval=name.interval,
        token=record.token,
        attempt=record,
        committed=before.committed if before else None,
        committed_csn=committed_csn(new.before) if new.before else None,
        replaced=before.replaced if before else None,
        taken_back=before.taken_back if before else None,
    )
    lock = LockRecord(token=record.token, owner=record.owner, ttl=new.ttl)
    log = AttemptEvent(
        state=EpochState.OPEN,
        sink="",
        token=record.token,
        participant=0,
        owner=record.owner,
        note="".join((record.note, *(f", {note}" for note in bounded.notes))),
    )
    fence = fence_of(name)
    # Inputs and baselines are claims: none may appear behind the back of retention (R24).
    required = [topology_key(domain), fence, lock_of(name), retention_key(domain), *bounded.required]
    if record.restatement is not None:  # it may be abandoned, or get further members
        required.append(restatement_key(domain, record.restatement))
    transaction = Transaction(
        domain=domain,
        store=SameStore(reading.head.incarnation),
        requires=(*(unchanged(reading, key) for key in required), *bounded.readers),
        updates=(
            Put(fence, epoch),
            Put(lock_of(name), lock),
            Put(entry_key(name, log), log),
            *(Put(key, found) for key, found in bounded.updates.items()),
            *within.opening(reading),
        ),
    )
    try:
        receipt = store.transact(transaction)
    except RequirementFailed:
        return None
    return receipt.versions[fence]
