"""What to do about inputs that are not there: those of a table that its job has left come by no run of it (R7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_provider.domain.beginning import Missing
from airflow_provider.domain.errors import NotReady
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped, job_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader

DECLARED_AGAIN = (
    "declare it again, by a declaration that the job has not had before (an earlier one counts as an older version of "
    "its DAG)"
)

Tables = Mapping[TableName, Stamped[TableRecord] | None]


def refuse_missing(
    reader: MetadataReader,
    reading: tuple[DomainName, JobName, Interval],
    missing: Sequence[Missing],
    tables: Tables,
) -> None:
    """Refuse an epoch that lacks inputs.

    :param reading: the epoch, and whose it is. :param tables: records of what it reads.
    :raises NotReady: there are some; the next step is what helps where waiting does not.
    """
    if not missing:
        return
    domain, job, interval = reading
    told = with_left(reader, domain, job, missing, tables)
    raise NotReady(
        f"{job} {interval} is not ready: {'; '.join(map(str, told))}.",
        next_step="; ".join(one.way_out for one in told if one.way_out)
        or "wait for these inputs (EpochSensor), or see `airflow epochs explain`.",
        job=job,
        interval=interval,
        missing=told,
    )


def with_left(
    reader: MetadataReader, domain: DomainName, job: JobName, missing: Sequence[Missing], tables: Tables
) -> tuple[Missing, ...]:
    """*missing* of *job*; of a table that its job no longer declares, or that is retired, with what helps then."""
    records = {name: stamped.record for name, stamped in tables.items() if stamped is not None}
    keys = {one.table: job_key(domain, records[one.table].job) for one in missing if one.comes}
    found = reader.read(domain, list(dict.fromkeys(keys.values())))
    # A job that reads its own past and is not stored yet is none of those.
    owners: dict[TableName, JobRecord] = {
        name: found.records[key].record for name, key in keys.items() if key in found.records
    }
    return tuple(
        _told(one, records[one.table], owners[one.table], job) if one.table in owners else one
        for one in missing
    )


def _told(missing: Missing, table: TableRecord, owner: JobRecord, job: JobName) -> Missing:
    """*missing* with the way out that there is, as *owner*, whose *table* it is, stands by now."""
    without = f"leave {missing.table} out of job {job}"
    if table.ended:
        revive = f", or `airflow epochs revive {owner.name}`" if owner.retired else ""
        return replace(missing, way_out=f"{without}: nothing more comes of it{revive}")
    if missing.table in {one.name for one in owner.outputs}:
        return missing
    then = missing.way_out or f"run job {owner.name} for the epochs that lack it"
    left = f"job {owner.name} no longer declares {missing.table}"
    return replace(missing, way_out=f"{left}: {DECLARED_AGAIN}, and {then}; or {without}")
