"""Epochs that are committed without rows: what their publish leaves in a store, for those who only look at that."""

from __future__ import annotations

import uuid
from datetime import datetime
from threading import RLock

from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch_id import RevisionId
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.publishing import moved_table, succeeding
from airflow_provider.domain.records import table_key
from airflow_provider.domain.topology import Job, Table
from airflow_provider.domain.version import CommitRecord, Member, TableDelta, TableRef
from airflow_provider.stores.base import Exists, MetadataStore, Number, Put, Transaction
from airflow_provider.stores.memory import MemoryCatalog
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.memory import MemoryFormat

FORMATS = TableFormats(
    {"memory": lambda: MemoryFormat(MemoryCatalog(RLock()), swaps=False)}, following={"memory"}
)
"""What the tables are declared as; no row is written, and no cut here looks for one."""


def commit_epoch(
    store: MetadataStore, job: Job, epoch: Interval, *, origin: datetime, moves: bool = True
) -> None:
    """Commit *epoch* of *job* in one numbered transaction, as publish does.

    :param origin: from which on all epochs until then are committed.
    :param moves: whether the tables' records move with it, by the protocol's own decision. Of a long history only
        the last moves are made, the first of them for all that was before: nothing is left of the others but a commit.
    """
    keys = [table_key(job.domain, table.name) for table in job.outputs] if moves else []
    reading = store.read(job.domain, keys)
    csn = reading.head.csn + 1
    refs = {TableName(table.name): _ref(table, csn) for table in job.outputs}
    moved = {
        key: succeeding(
            stamped,
            moved_table(stamped.record, [Interval(origin, epoch.end)], refs[TableName(key.item)]),
            DEFAULTS,
        )
        for key, stamped in reading.records.items()
    }
    deltas = tuple(
        TableDelta(table=name, interval=epoch, revision=1, watermark=epoch.end, ref=ref.lasting(), rows=3)
        for name, ref in refs.items()
    )
    member = Member(job=job.name, interval=epoch, revision=1)
    change_set = RevisionId(job.domain, job.name, epoch, 1).change_set
    commit = CommitRecord(change_set=change_set, members=(member,), by="bench", tables=deltas)
    store.transact(
        Transaction(
            domain=job.domain,
            requires=tuple(Exists(key, reading.of(key).version) for key in keys),
            updates=tuple(Put(key, record) for key, record in moved.items()),
            number=Number(commit, expected=csn),
        )
    )


def _ref(table: Table, csn: int) -> TableRef:
    """A version such as Iceberg's: of the length that its parts have there."""
    identity = uuid.uuid5(uuid.NAMESPACE_URL, table.name)
    folder = f"file:///srv/warehouse/{table.domain}/{table.name}/metadata"
    return TableRef(
        format="iceberg",
        table_uuid=str(identity),
        version=identity.int % 2**63 + csn,
        location=f"{folder}/snap-{identity.int % 2**63 + csn}-{identity}.avro",
        schema_id=0,
        metadata=f"{folder}/{csn:05d}-{identity}.metadata.json",
    )
