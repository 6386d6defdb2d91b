"""Ways out for missing inputs that waiting alone does not bring: inputs of the job's own past, and of a table that its
job no longer declares (R7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote

from airflow_provider.coordination.commits.similar_names import meant
from airflow_provider.domain.admission import holder
from airflow_provider.domain.beginning import resolve_inputs
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import NotReady
from airflow_provider.domain.filling import skip_of_rest
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.records import Stamped, epoch_key, job_key, lock_key, table_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import Edge, Table
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader

DECLARED_AGAIN = (
    "declare it again, by a declaration that the job has not had before (an earlier one counts as an older version of "
    "its DAG)"
)

Tables = Mapping[TableName, Stamped[TableRecord] | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolving(EpochId):
    """Epoch with inputs resolved by *edges* at *csn*. :param outputs: tables that its job declares."""

    outputs: Sequence[Table]
    edges: Sequence[Edge]
    csn: int


def refuse_missing(
    reader: MetadataReader, epoch: Resolving, missing: Sequence[Missing], tables: Tables
) -> None:
    """Refuse an epoch that lacks inputs.

    :param tables: records of the tables that it reads.
    :raises NotReady: inputs are missing; the next step is the way out where waiting does not help.
    """
    if not missing:
        return
    told = with_way_out(reader, epoch, missing, tables)
    raise NotReady(
        f"{epoch.job} {epoch.interval} is not ready: {'; '.join(map(str, told))}.",
        next_step="; ".join(dict.fromkeys(entry.way_out for entry in told if entry.way_out))
        or "wait for these inputs (EpochSensor), or see `airflow epochs explain`.",
        job=epoch.job,
        interval=epoch.interval,
        missing=told,
    )


def with_way_out(
    reader: MetadataReader, epoch: Resolving, missing: Sequence[Missing], tables: Tables
) -> tuple[Missing, ...]:
    """Return *missing* of *epoch*, each with the way out where waiting alone does not help.

    Waiting does not help for a table of the job itself, a table that its job no longer declares, or a retired one.
    """
    records = {name: stamped.record for name, stamped in tables.items() if stamped is not None}
    keys = {entry.table: job_key(epoch.domain, records[entry.table].job) for entry in missing if entry.comes}
    found = reader.read(epoch.domain, list(dict.fromkeys(keys.values())))
    # A job that reads its own past has no record before its first begin.
    owners: dict[TableName, JobRecord] = {
        name: found.of(key).record for name, key in keys.items() if key in found.records
    }
    own = {table.name for table in epoch.outputs}

    def told(entry: Missing) -> Missing:
        record = records.get(entry.table)
        if entry.comes and record is not None and record.job == epoch.job and entry.table in own:
            return _with_own_epoch(reader, epoch, entry, tables)
        if record is None:
            return replace(entry, reason=entry.reason + meant(reader, epoch.domain, entry.table))
        owner = owners.get(entry.table)
        return entry if owner is None else _told(entry, record, owner, epoch.job)

    return tuple(told(entry) for entry in missing)


def _with_own_epoch(reader: MetadataReader, epoch: Resolving, missing: Missing, tables: Tables) -> Missing:
    """Return *missing*, of a table of the job itself, with the first epoch of the job that the table lacks.

    Waiting brings it only while that epoch is being computed. Obstacles of that epoch come first.
    """
    stamped = tables[missing.table]
    start = None if stamped is None else stamped.record.progress.next_missing
    if missing.way_out or stamped is None:
        return missing
    if start is None or start >= epoch.interval.start:
        # A skip before the first epoch of a table without a declared origin.
        way_out = f"run job {epoch.job} for {epoch.interval}, or leave it: there is no earlier state to copy"
        return replace(missing, way_out=way_out)
    first = Interval(start, stamped.record.cadence.next_after(start))
    _, before, _ = resolve_inputs(epoch.edges, first, tables, epoch.csn)
    obstacles = [entry.way_out for entry in before if entry.way_out]
    first_key, lock = epoch_key(epoch.domain, epoch.job, start), lock_key(epoch.domain, epoch.job, start)
    outputs = {table.name: table_key(epoch.domain, table.name) for table in epoch.outputs}
    reading = reader.read(epoch.domain, [first_key, lock, *outputs.values()])
    known = reading.get(first_key)
    live = holder(None if known is None else known.record, reading.get(lock), reading.now)
    way_out = f"run job {epoch.job} for {first} first, such as by clearing its task"
    if known is None:
        own = {name: reading.get(key) for name, key in outputs.items()}
        way_out = skip_of_rest(epoch.job, first, own) or way_out
    if obstacles:
        way_out = "; ".join(dict.fromkeys(obstacles))
    elif live is not None:
        way_out = f"wait for {first} of job {epoch.job}, which {live[0]} computes"
    reason = f"{missing.reason}; the job itself has not committed {first}"
    return replace(missing, reason=reason, way_out=way_out)


def _told(missing: Missing, table: TableRecord, owner: JobRecord, job: JobName) -> Missing:
    """Return *missing* with a way out that fits the present declaration of *owner*, the job of *table*."""
    without = f"leave {missing.table} out of job {job}"
    if table.ended:
        revive = f", or `airflow epochs revive {quote(owner.name)}`" if owner.retired else ""
        return replace(missing, way_out=f"{without}: nothing more comes of it{revive}")
    if missing.table in {output.name for output in owner.outputs}:
        return missing
    then = missing.way_out or f"run job {owner.name} for the epochs that lack it"
    left = f"job {owner.name} no longer declares {missing.table}"
    return replace(missing, way_out=f"{left}: {DECLARED_AGAIN}, and {then}; or {without}")
