"""Inputs that an epoch waits for and that do not come by themselves, for `doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from airflow_provider.coordination.upkeep.explain import Explanation
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.records import table_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import EdgeKind
from airflow_provider.stores.base import MetadataReader


def owners_of(jobs: Sequence[JobRecord]) -> dict[TableName, JobRecord]:
    """Return the job of each table, also of tables that it has left."""
    # Another job may have taken over a retired job's table: the later entry wins.
    retired_first = sorted(jobs, key=lambda job: not job.retired)
    owners = {table: job for job in retired_first for table in job.past_outputs}
    return owners | {table.name: job for job in retired_first for table in job.outputs}


def in_vain(
    job: JobRecord,
    found: Explanation,
    owners: Mapping[TableName, JobRecord],
    inactive: Mapping[JobName, datetime],
) -> Iterator[str]:
    """Yield a line for each table of an ended job that the epoch *found* of *job* waits for."""
    waits = [edge.table for edge in job.edges if any(_about(line, edge.table) for line in found.waiting_for)]
    for table in dict.fromkeys(waits):
        owner = owners.get(table)
        if owner is None:
            yield f"it waits for {table}, which no job has ever written"
        elif table in owner.past_outputs:
            yield f"it waits for {table}, which its job {owner.name} has left"
        elif owner.retired:
            yield f"it waits for {table}, whose job {owner.name} is retired: {owner.retired}"
        elif owner.name in inactive:
            since = inactive[owner.name].isoformat()
            yield f"it waits for {table}, whose job {owner.name} has been inactive since {since}"
    yield from (line for line in found.waiting_for if line.endswith("is expired"))


def out_of_order(
    reader: MetadataReader, domain: DomainName, job: JobRecord, found: Explanation
) -> Iterator[str]:
    """Yield a line if *found* has not begun and later epochs of *job* are committed.

    This concerns jobs that read their own past: no later epoch begins before *found* (R12). Epochs of other jobs may
    come in any order.
    """
    past = {edge.table for edge in job.edges if edge.kind is EdgeKind.PREVIOUS}
    keys = [table_key(domain, table.name) for table in job.outputs if table.name in past]
    records = reader.read(domain, keys).records.values() if keys else ()
    islands = [island for stamped in records for island in stamped.record.progress.islands]
    if any(island.start >= found.interval.end for island in islands):
        yield "it has not begun; later epochs are committed, and the next ones, which read the job's own past, wait"


def _about(line: str, table: TableName) -> bool:
    return line.startswith((f"{table}:", f"{table} "))
