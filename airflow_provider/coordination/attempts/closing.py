"""Closing phase of a restatement: no epoch begins that would read what it is about to replace (R28)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from shlex import quote

from airflow_provider.coordination.attempts.missing_inputs import Tables
from airflow_provider.domain.epoch import Provenance
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import EpochBusy
from airflow_provider.domain.identifiers import JobName, RestatementId, TableName
from airflow_provider.domain.records import restatement_key, topology_key
from airflow_provider.domain.restatement import RestatementRecord, is_over, within
from airflow_provider.domain.topology import OnUpstreamRevision
from airflow_provider.stores.base import MetadataReader, Reading


def refuse_closing(
    reader: MetadataReader,
    reading: Reading,
    epoch: EpochId,
    inputs: Iterable[Provenance],
    tables: Tables,
    *,
    own: RestatementId | None,
) -> None:
    """Refuse a begin of *epoch* that reads what a restatement is about to replace, until that has closed.

    It would become a member once it is committed, and keep the restatement from being published. Nothing rests on this
    check: publish finds each reader by itself.

    :param reading: has the topology. :param inputs: what the epoch reads. :param tables: records of these tables.
    :param own: the change set within which the epoch is computed; it waits for the others only.
    :raises EpochBusy: with the restatement, and the time until which it closes.
    """
    topology = reading.get(topology_key(epoch.domain))
    names = () if topology is None else topology.record.restating
    keys = {name: restatement_key(epoch.domain, name) for name in names if name != own}
    if not keys:
        return
    found = reader.read(epoch.domain, list(keys.values()))
    for name, key in keys.items():
        stamped = found.get(key)
        if stamped is None or is_over(stamped.record, incarnation=found.head.incarnation, now=found.now):
            continue
        until = stamped.record.closing_until
        replaced = _replaced(stamped.record, inputs, tables)
        if until is not None and stamped.record.is_closing(found.now) and replaced:
            raise EpochBusy(
                f"{epoch.job} {epoch.interval} reads {', '.join(replaced)}, which restatement {name!r} is about to "
                f"replace: until {until.isoformat()}, or its publish, no further epoch begins to read it.",
                next_step=f"wait: `airflow epochs restate status {quote(name)}` shows what the restatement lacks.",
                job=epoch.job,
                interval=epoch.interval,
                until=until,
                holders=(f"restatement {name}",),
            )


def _replaced(record: RestatementRecord, inputs: Iterable[Provenance], tables: Tables) -> list[TableName]:
    """Return the tables of *inputs* in whose ranges *record* has members."""
    writers: Mapping[TableName, JobName] = {
        name: stamped.record.job for name, stamped in tables.items() if stamped is not None
    }
    return [
        read.table
        for read in inputs
        if read.on_upstream_revision is not OnUpstreamRevision.IGNORE
        and read.table in writers
        and within(record.of(writers[read.table]), read.low, read.high)
    ]
