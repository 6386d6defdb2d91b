"""Claims on versions of tables: leases, inputs of open attempts, baselines (protocol section 7)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from airflow_provider.domain.epoch import LockRecord, has_expired
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.lease import LeaseRecord
from airflow_provider.domain.records import Kind, Stamped
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.version import TableRef
from airflow_provider.stores.base import (
    Delete,
    Exists,
    MetadataReader,
    MetadataStore,
    Put,
    RequirementFailed,
    SameStore,
    Transaction,
    pages,
)


def end_expired(store: MetadataStore, domain: DomainName) -> list[str]:
    """End expired claims, each only if it is unchanged since it was read (R23); return their names.

    The lock of a silent attempt stays, because it marks its epoch as open; it cannot be renewed any more.

    :raises StoreIncompatible: a claim cannot be read.
    """
    reading = store.read(domain, [])
    here, now = SameStore(reading.head.incarnation), reading.now
    ended = []
    for lease in list(pages(store, domain, LeaseRecord)):
        record = lease.record
        if has_expired(lease.at, record.ttl, now) and _ended(store, here, lease, Delete(lease.key)):
            ended.append(f"lease {lease.key.item}")
    for lock in list(_locks(store, domain)):
        over = replace(lock.record, ttl=timedelta(0), ended=True)
        silent = not lock.record.ended and has_expired(lock.at, lock.record.ttl, now)
        if silent and _ended(store, here, lock, Put(lock.key, over)):
            ended.append(f"{lock.key.partition} {lock.key.item} of {lock.record.owner}")
    return ended


def _ended(
    store: MetadataStore,
    here: SameStore,
    claim: Stamped[LeaseRecord] | Stamped[LockRecord],
    update: Put | Delete,
) -> bool:
    """End *claim* by *update*; return False if it was renewed or ended since it was read."""
    required = (Exists(claim.key, claim.version),)
    try:
        store.transact(Transaction(domain=claim.key.domain, store=here, requires=required, updates=(update,)))
    except RequirementFailed:
        return False
    return True


def claimed_versions(reader: MetadataReader, domain: DomainName) -> dict[TableName, list[TableRef]]:
    """Return the versions that leases, inputs of live attempts and baselines of open epochs name.

    A claim counts until it is ended, even after its time has run out.

    :raises StoreIncompatible: a claim cannot be read.
    """
    found: defaultdict[TableName, list[TableRef]] = defaultdict(list)
    for table, ref in (*_leased(reader, domain), *_used_by_attempts(reader, domain)):
        if ref is not None and ref.lasting() not in found[table]:
            found[table].append(ref.lasting())
    return dict(found)


def _leased(reader: MetadataReader, domain: DomainName) -> Iterator[tuple[TableName, TableRef | None]]:
    for lease in pages(reader, domain, LeaseRecord):
        yield from ((state.table, state.ref) for state in lease.record.states)


def _used_by_attempts(
    reader: MetadataReader, domain: DomainName
) -> Iterator[tuple[TableName, TableRef | None]]:
    locks = {lock.key._replace(kind=Kind.EPOCH): lock.record for lock in _locks(reader, domain)}
    keys = list(locks)
    for start in range(0, len(keys), 200):
        for key, stamped in reader.read(domain, keys[start : start + 200]).records.items():
            epoch = stamped.record
            if epoch.attempt is None:
                continue
            yield from epoch.attempt.baseline
            if not (locks[key].ended and locks[key].token == epoch.token):
                yield from ((read.table, read.ref) for read in epoch.attempt.inputs)


def _locks(reader: MetadataReader, domain: DomainName) -> Iterator[Stamped[LockRecord]]:
    for job in pages(reader, domain, JobRecord):
        yield from pages(reader, domain, LockRecord, job.key.item)
