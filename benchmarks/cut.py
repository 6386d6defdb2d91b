"""``bench.cut``: a consistent cut over many tables, without their file lists."""

from __future__ import annotations

import statistics
import time
import uuid
from datetime import datetime

from airflow_provider.coordination.coordinator import Coordinator
from airflow_provider.coordination.cuts import Cuts
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import change_set_id
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.publishing import moved_table
from airflow_provider.domain.records import table_key
from airflow_provider.domain.topology import EpochJob, EpochTable
from airflow_provider.domain.version import CommitRecord, Member, TableDelta, TableRef
from airflow_provider.stores.base import Exists, MetadataStore, Number, Put, Transaction
from airflow_provider.stores.factory import open_store
from airflow_provider.tables.factory import TableFormats
from benchmarks.figures import figure, percentile, progress
from benchmarks.job import HOUR, ORIGIN
from benchmarks.stores import Store

DOMAIN = DomainName("cut")
TABLES = (100, 1000)
TABLES_OF_A_JOB = 100
EPOCHS = 10
"""Committed of each table: its record holds as many earlier states as it ever does."""
ROUNDS = 5
CUTS = 100
"""In each round."""


def measure(store: Store) -> None:
    """Print how long a cut over each number of tables takes, at the newest barrier and at an old one."""
    names = _publish_tables(store, max(TABLES))
    for number in TABLES:
        with open_store(store.url) as reader:
            cuts = Cuts(reader, TableFormats({}))
            newest = _p99_ms(cuts, names[:number], None)
            old = _p99_ms(cuts, names[:number], ORIGIN + 2 * HOUR)
        progress(
            f"cut of {number} tables on {store.name}: p99 {newest:.2f} ms, at an old barrier {old:.2f} ms"
        )
        figure(f"bench.cut.{store.name}.p99_ms.tables_{number}", newest)
        figure(f"bench.cut.{store.name}.p99_ms.tables_{number}.old", old)


def _publish_tables(store: Store, number: int) -> list[str]:
    """Make so many tables with :data:`EPOCHS` epochs each; return their names.

    The jobs are registered, and the tables' records are moved on by the protocol's own decision, in one numbered
    transaction for each job and epoch, as publish does it; rows are not staged, since no cut looks at them.
    """
    names = [f"table_{position:04d}" for position in range(number)]
    with open_store(store.url) as writer:
        coordinator = Coordinator(writer, TableFormats({}))
        for first in range(0, number, TABLES_OF_A_JOB):
            own = names[first : first + TABLES_OF_A_JOB]
            outputs = [EpochTable(name, domain=DOMAIN, format="memory") for name in own]
            job = EpochJob(f"job_{first:04d}", outputs=outputs, cadence="@hourly", origin=ORIGIN)
            coordinator.register(job)
            for epoch in range(EPOCHS):
                _move_tables(writer, job, Interval(ORIGIN + epoch * HOUR, ORIGIN + (epoch + 1) * HOUR))
    progress(f"cut on {store.name}: {number} tables with {EPOCHS} epochs each")
    return names


def _move_tables(store: MetadataStore, job: EpochJob, epoch: Interval) -> None:
    keys = [table_key(DOMAIN, table.name) for table in job.outputs]
    reading = store.read(DOMAIN, keys)
    moved = {
        key: moved_table(reading.records[key], epoch, _ref(key.item, reading.head.csn + 1), DEFAULTS)
        for key in keys
    }
    deltas = tuple(
        TableDelta(
            table=TableName(key.item),
            interval=epoch,
            revision=1,
            watermark=record.progress.watermark,
            ref=record.ref,
            rows=3,
        )
        for key, record in moved.items()
    )
    member = Member(job=job.name, interval=epoch, revision=1)
    change_set = change_set_id(job.name, epoch, 1)
    commit = CommitRecord(change_set=change_set, members=(member,), by="bench", tables=deltas)
    store.transact(
        Transaction(
            domain=DOMAIN,
            requires=tuple(Exists(key, reading.records[key].version) for key in keys),
            updates=tuple(Put(key, record) for key, record in moved.items()),
            number=Number(commit, expected=reading.head.csn + 1),
        )
    )


def _ref(table: str, csn: int) -> TableRef:
    """A version such as Iceberg's: of the length that its parts have there."""
    identity = uuid.uuid5(uuid.NAMESPACE_URL, table)
    folder = f"file:///srv/warehouse/{DOMAIN}/{table}/metadata"
    return TableRef(
        format="iceberg",
        table_uuid=str(identity),
        version=identity.int % 2**63 + csn,
        location=f"{folder}/snap-{identity.int % 2**63 + csn}-{identity}.avro",
        schema_id=0,
        metadata=f"{folder}/{csn:05d}-{identity}.metadata.json",
    )


def _p99_ms(cuts: Cuts, names: list[str], at: datetime | None) -> float:
    """The median over rounds of each round's 99th percentile."""
    found = cuts.cut(DOMAIN, names, at=at)
    assert len(found.states) == len(names)
    assert found.barrier == (at or ORIGIN + EPOCHS * HOUR)
    rounds = []
    for _ in range(ROUNDS):
        took = []
        for _ in range(CUTS):
            began = time.perf_counter()
            cuts.cut(DOMAIN, names, at=at)
            took.append((time.perf_counter() - began) * 1000)
        rounds.append(percentile(took, 0.99))
    return statistics.median(rounds)
