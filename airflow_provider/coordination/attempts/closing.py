"""Closing phase of a restatement: no epoch begins that would read what it is about to replace (R28)."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

from airflow_provider.coordination.attempts.missing_inputs import Tables
from airflow_provider.coordination.commits.closings import RangeRead, closings
from airflow_provider.domain.epoch import Provenance
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import EpochBusy
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.records import topology_key
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
    reads = [
        RangeRead(
            table=read.table,
            writer=stamped.record.job,
            low=read.low,
            high=read.high,
            on_upstream_revision=read.on_upstream_revision,
        )
        for read in inputs
        if (stamped := tables.get(read.table)) is not None
    ]
    for found in closings(reader, epoch.domain, names, reads, own=own):
        raise EpochBusy(
            f"{epoch.job} {epoch.interval} reads {', '.join(found.tables)}, which {found.words}.",
            next_step=f"wait: `airflow epochs restate status {quote(found.name)}` shows what the restatement lacks.",
            job=epoch.job,
            interval=epoch.interval,
            until=found.until,
            holders=(f"restatement {found.name}",),
        )
