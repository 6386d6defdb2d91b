"""What an epoch waits for that will not come by itself, for `doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from airflow_provider.coordination.explain import Explanation
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.registration import JobRecord


def in_vain(
    job: JobRecord,
    found: Explanation,
    owners: Mapping[TableName, JobRecord],
    lapsed: Mapping[JobName, datetime],
) -> Iterator[str]:
    """Yield a line for each table, of which its job is over, that the epoch *found* of *job* waits for."""
    waits = [edge.table for edge in job.edges if any(_about(line, edge.table) for line in found.waiting_for)]
    for table in dict.fromkeys(waits):
        owner = owners.get(table)
        if owner is None:
            yield f"it waits for {table}, which no job has ever written"
        elif table in owner.past_outputs:
            yield f"it waits for {table}, which its job {owner.name} has left"
        elif owner.retired:
            yield f"it waits for {table}, whose job {owner.name} is retired: {owner.retired}"
        elif owner.name in lapsed:
            yield f"it waits for {table}, whose job {owner.name} has lapsed since {lapsed[owner.name].isoformat()}"
    yield from (line for line in found.waiting_for if line.endswith("is withdrawn"))


def _about(line: str, table: TableName) -> bool:
    return line.startswith((f"{table}:", f"{table} "))
