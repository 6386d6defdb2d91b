"""Change of a domain's catalog: another name of the same, or another one (R33)."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider.coordination.commits.pointers import as_recorded, declared_tables
from airflow_provider.coordination.commits.sealed import refuse_sealed_domain
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.upkeep.live import busy, live_attempts
from airflow_provider.domain.errors import Conflict
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.records import topology_key
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import Exists, Put, SameStore, Transaction, pages
from airflow_provider.tables.checks import refuse_other_identity


def change_catalog(context: Context, domain: DomainName) -> None:
    """Let *domain* remember the catalog of *context*, whatever it remembered before; may be repeated.

    Its tables are not entered there: :func:`~.recover.recover` does it, for each that the catalog lacks.

    :raises EpochBusy: attempts are live; nothing was changed. ``holders`` lists them.
    :raises TableRecreated: the catalog has another table of that name; nothing was changed.
    :raises DomainMoved: the domain is in another store now. :raises DomainMoving: it is on its way.
    """
    refuse_sealed_domain(context.store, domain)
    _refuse_others_tables(context, domain)
    # Recorded first, so that no attempt can begin by the former catalog while the live ones are looked for.
    before = _record(context, domain, context.formats.catalog)
    if live := live_attempts(context, domain, "silent when the domain's catalog was changed"):
        _record(context, domain, before)
        raise busy(domain, live, "pause the DAGs, let their tasks end, and change the catalog then.")


def _refuse_others_tables(context: Context, domain: DomainName) -> None:
    declared = declared_tables(context.store, domain)
    for stamped in pages(context.store, domain, TableRecord):
        ref = stamped.record.ref
        if ref is None:
            continue
        table = declared.get(TableName(stamped.key.item)) or as_recorded(stamped, ref)
        (identity,) = context.formats[ref.format].identities([table])
        if identity is not None:
            refuse_other_identity(table, ref, identity)


def _record(context: Context, domain: DomainName, catalog: str) -> str:
    """Record *catalog*, and return the address that was recorded before."""
    key = topology_key(domain)

    def write() -> str:
        reading = context.store.read(domain, [key])
        found = reading.get(key)
        if found is None or found.record.catalog == catalog:
            return catalog
        record = replace(found.record, generation=found.record.generation + 1, catalog=catalog)
        context.store.transact(
            Transaction(
                domain=domain,
                store=SameStore(reading.head.incarnation),
                requires=(Exists(key, found.version),),
                updates=(Put(key, record),),
            )
        )
        return found.record.catalog

    lost = Conflict(f"domain {domain!r}: others kept changing its record.", next_step="try again.")
    return context.retry(write, lost)
