"""Files of tables that were dropped: a vacuum deletes them as it deletes superseded versions (R24, R39)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from airflow_provider.coordination.context import Context
from airflow_provider.domain.compaction import CompactionRecord
from airflow_provider.domain.dropping import DroppedTable, last_drop
from airflow_provider.domain.errors import Conflict
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import topology_key
from airflow_provider.domain.retention import Version, VersionsRecord
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Table
from airflow_provider.stores.base import (
    Exists,
    MetadataReader,
    Put,
    SameStore,
    Transaction,
    scan,
)
from airflow_provider.tables.base import StagingFolder, StagingLocation


@dataclass(frozen=True, slots=True)
class Drops:
    """The tables of a domain that were dropped, and whose files may still be there."""

    entries: tuple[DroppedTable, ...]

    @classmethod
    def of(cls, reader: MetadataReader, domain: DomainName) -> Drops:
        topology = reader.read(domain, [key := topology_key(domain)]).get(key)
        known = () if topology is None else topology.record.dropped
        return cls(tuple(entry for entry in known if not entry.deleted))

    @property
    def names(self) -> list[TableName]:
        return [entry.table for entry in self.entries]

    def still_newest(self, table: TableName, newest: Version | None, horizon: int) -> Version | None:
        """Return *newest*, the newest version of *table* at *horizon*; None if the table was dropped by then."""
        csn = last_drop(self.entries, table)
        return None if newest is None or newest.csn < csn <= horizon else newest

    def kind(self, table: TableName, kind: TableKind | None) -> TableKind | None:
        """Return the kind by which files of *table* are told apart: one that shares files, if any of them did.

        :param kind: that of the table which has the name now; None if none has it.
        """
        known = [entry.kind for entry in self.entries if entry.table == table]
        kinds = [*known, *([] if kind is None else [kind])]
        return next((kind for kind in kinds if kind.shares_files), kinds[0] if kinds else None)


def highest_token(reader: MetadataReader, table: Table) -> int:
    """Return the highest token whose files in the folder of *table* may be those of a dropped table; 0 for none."""
    entries = Drops.of(reader, table.domain).entries
    return max((entry.token for entry in entries if entry.table == table.name), default=0)


def vacuum_dropped(context: Context, domain: DomainName, horizon: int) -> list[str]:
    """Delete what is left in the staging places of dropped tables, once no version of them is left; return the places.

    :param horizon: behind which nothing can be claimed any more.
    """
    deleted = []
    for entry in Drops.of(context.store, domain).entries:
        if entry.csn > horizon or _has_versions(context.store, domain, entry):
            continue
        if scan(context.store, domain, CompactionRecord, entry.table, limit=1):
            continue  # a vacuum ends it, a day after its begin, and finds it by the table's name
        if entry.format:
            deleted += _delete_places(context, domain, entry)
        _note(context, domain, entry)
    return deleted


def _has_versions(reader: MetadataReader, domain: DomainName, entry: DroppedTable) -> bool:
    """Return True if a claim still keeps a version of the dropped table."""
    first = scan(reader, domain, VersionsRecord, entry.table, limit=1)
    return any(version.csn < entry.csn for page in first for version in page.record.versions)


def _delete_places(context: Context, domain: DomainName, entry: DroppedTable) -> list[str]:
    table = Table(entry.table, domain=domain, kind=entry.kind, format=entry.format)
    deleted = []
    for job in entry.jobs:
        for remains in context.formats[entry.format].staged(table, job):
            if remains.token <= entry.token:
                place = _place(context, table, job, remains)
                context.formats[entry.format].roll_back(place)
                deleted.append(place.uri)
    return deleted


def _place(context: Context, table: Table, job: JobName, remains: StagingFolder) -> StagingLocation:
    by_end = remains.start is None
    # The name of such a place says no start, and none is asked for.
    start = remains.barrier - timedelta(days=1) if remains.start is None else remains.start
    return context.formats[table.format].place(
        table,
        job=job,
        interval=Interval(start, remains.barrier),
        revision=remains.revision,
        token=remains.token,
        participant=remains.participant,
        participant_attempt=remains.participant_attempt,
        by_end=by_end,
    )


def _note(context: Context, domain: DomainName, entry: DroppedTable) -> None:
    """Note that the files of *entry* are deleted."""

    def request() -> None:
        reading = context.store.read(domain, [key := topology_key(domain)])
        topology = reading.of(key)
        known = tuple(
            replace(dropped, deleted=True)
            if (dropped.table, dropped.csn) == (entry.table, entry.csn)
            else dropped
            for dropped in topology.record.dropped
        )
        context.store.transact(
            Transaction(
                domain=domain,
                store=SameStore(reading.head.incarnation),
                requires=(Exists(key, topology.version),),
                updates=(Put(key, replace(topology.record, dropped=known)),),
            )
        )

    context.retry(request, Conflict.of_others(f"domain {domain!r}", "changing it"))
