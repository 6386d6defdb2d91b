"""Opening of a restatement: it claims its epochs, and normal runs leave them alone (R28)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow_provider.coordination.commits.places import refuse_elsewhere
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.restating.plan import Plan
from airflow_provider.domain.errors import TopologyError
from airflow_provider.domain.identifiers import DomainName, RestatementId
from airflow_provider.domain.records import Key, Stamped, restatement_key, retention_key, topology_key
from airflow_provider.domain.restatement import RestatementRecord
from airflow_provider.stores.base import (
    Absent,
    Delete,
    Exists,
    MetadataStore,
    Put,
    Reading,
    SameStore,
    Transaction,
    unchanged,
)

LIFETIME = timedelta(days=7)
"""Time after which a restatement that names no deadline is over."""
_LISTED = 5


def refuse_obstacles(planned: Plan) -> None:
    """:raises TopologyError: something keeps the members from being computed again."""
    if planned.obstacles:
        raise TopologyError(
            f"these epochs cannot be computed again together: {told(planned.obstacles)}.",
            next_step="do what each of these says, then plan again: `airflow epochs restate plan`.",
        )


def store_opened(
    context: Context,
    domain: DomainName,
    reading: Reading,
    name: RestatementId,
    record: RestatementRecord,
    *,
    requires: Sequence[Exists] = (),
) -> None:
    """Store the open restatement *name*.

    :param reading: of :func:`claim_keys`, before its plan; and of its record, where it replaces one that is over.
    :param requires: what it was decided on besides.

    :raises DomainMoved: the domain is elsewhere. :raises WrongWarehouse: its files are.
    """
    topology, key = reading.of(topology_key(domain)), restatement_key(domain, name)
    refuse_sealed(domain, topology)
    refuse_elsewhere(domain, topology, context.formats)
    # The topology is written: of two requests that claim one epoch, one decides again.
    after = replace(topology.record, restating=(*topology.record.restating, name))
    context.store.transact(
        Transaction(
            domain=domain,
            store=SameStore(reading.head.incarnation),
            requires=(*claims(domain, reading), unchanged(reading, key), *requires),
            updates=(Put(topology.key, after), Put(key, record)),
        )
    )


def store_replaced(
    store: MetadataStore,
    domain: DomainName,
    stamped: Stamped[RestatementRecord],
    record: RestatementRecord,
    *,
    before: Reading | None = None,
    requires: Sequence[Exists] = (),
) -> None:
    """Write *record* of a restatement in place of the one that was read.

    :param before: reading of :func:`claim_keys`, where the restatement claims other epochs or ends.
    :param requires: what it was decided on besides.
    """
    reading = before or store.read(domain, [])
    required: list[Exists | Absent] = [Exists(stamped.key, stamped.version), *requires]
    updates: list[Put | Delete] = [Put(stamped.key, record)]
    if before is not None:
        required += claims(domain, before)
        updates.append(Put(key := topology_key(domain), before.of(key).record))
    store.transact(
        Transaction(
            domain=domain,
            store=SameStore(reading.head.incarnation),
            requires=tuple(required),
            updates=tuple(updates),
        )
    )


def claims(domain: DomainName, reading: Reading) -> list[Exists | Absent]:
    """Return requirements that no other restatement claims epochs, and retention expires no state, since *reading*."""
    return [unchanged(reading, topology_key(domain)), unchanged(reading, retention_key(domain))]


def claim_keys(domain: DomainName) -> list[Key[Any]]:
    """Return the keys that :func:`claims` needs, to be read before a plan is made."""
    return [topology_key(domain), retention_key(domain)]


def told(what: Iterable[object]) -> str:
    """Return the first few of *what* as text."""
    words = list(map(str, what))
    more = f" and {len(words) - _LISTED} more" if len(words) > _LISTED else ""
    return "; ".join(words[:_LISTED]) + more
