"""A domain of many tables and epochs for the page: the records that their publishes leave, without files and logs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Commitment, EpochRecord
from airflow_provider.domain.epoch_id import RevisionId
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval, micros
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.publishing import moved_table, succeeding
from airflow_provider.domain.records import epoch_key, slice_key, table_key
from airflow_provider.domain.topology import Job, Table
from airflow_provider.domain.version import CommitRecord, Member, SliceRecord, TableRef
from airflow_provider.stores.base import MetadataStore, Number, Put, Transaction
from airflow_provider.stores.codec import encode
from airflow_provider.stores.factory import open_store
from benchmarks.figures import progress
from tests.committed import FORMATS

ORIGIN = datetime(2013, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
_FEW = 500
"""Number of tables in one commit."""


def domain_of(tables: int, epochs: int) -> str:
    """Return the name of the domain with so many hourly tables, each of a job of its own."""
    return f"page-{tables}x{epochs}"


def write_world(url: str, tables: int, epochs: int) -> str:
    """Write the domain; return its name. Its commit records, which the page does not read, name one epoch each."""
    domain = domain_of(tables, epochs)
    jobs = [
        Job(
            f"load_{number:04d}",
            outputs=[Table(f"table_{number:04d}", domain=domain, format="memory")],
            cadence="@hourly",
            origin=ORIGIN,
        )
        for number in range(tables)
    ]
    with open_store(url) as store:
        service = EpochService(store, FORMATS)
        for job in jobs:
            service.register(job)
        for first in range(0, tables, _FEW):
            _commit(store, jobs[first : first + _FEW], _epoch(epochs - 1))
    _copy(Path(url.removeprefix("sqlite:///")), jobs, epochs)
    progress(f"{domain}: {tables} tables with {epochs} epochs each")
    return domain


def _epoch(number: int) -> Interval:
    return Interval(ORIGIN + number * HOUR, ORIGIN + (number + 1) * HOUR)


def _copy(path: Path, jobs: list[Job], epochs: int) -> None:
    """Write the rows of all earlier epochs beside those of the last one, as they are but for name and time.

    Two million records would take the store a quarter of an hour.
    """
    with closing(sqlite3.connect(path)) as base, base:
        domain = jobs[0].domain
        (version, csn, at) = base.execute(
            "SELECT version, csn, updated_at FROM epochs_record WHERE domain = ? AND kind = 'slice' LIMIT 1",
            (domain,),
        ).fetchone()
        templates = [
            (put.key, put.record, encode(put.key, put.record).decode())
            for number in range(epochs - 1)
            for put in _of_epoch(jobs[0], _epoch(number))
        ]
        for position in range(len(jobs)):
            name = f"_{position:04d}"
            base.executemany(
                "INSERT INTO epochs_record (domain, kind, partition, item, version, csn, updated_at, state,"
                " interval_start, interval_end, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        domain,
                        key.kind.value,
                        key.partition.replace("_0000", name),
                        key.item.replace("_0000", name),
                        version,
                        csn,
                        at,
                        getattr(record, "state", None),
                        micros(record.interval.start),
                        micros(record.interval.end),
                        body.replace("_0000", name),
                    )
                    for key, record, body in templates
                ],
            )


def _of_epoch(job: Job, epoch: Interval) -> list[Put]:
    """Return the two records that a commit of *epoch* leaves."""
    name = RevisionId(job.domain, job.name, epoch, 1)
    owner = Owner(dag_id=job.name, run_id=f"scheduled__{epoch.end.isoformat()}")
    done = Commitment(revision=1, token=1, output_token=1, owner=owner, change_set=name.change_set, inputs=())
    piece = SliceRecord(
        interval=epoch,
        revision=1,
        token=1,
        change_set=name.change_set,
        rows=3,
        files=1,
        size_bytes=1024,
        schema_id=0,
    )
    record = EpochRecord(interval=epoch, token=1, committed=done)
    return [
        Put(epoch_key(job.domain, job.name, epoch.start), record),
        Put(slice_key(name, TableName(job.outputs[0].name)), piece),
    ]


def _commit(store: MetadataStore, jobs: list[Job], epoch: Interval) -> None:
    """Commit the last epoch of *jobs*, and with it the range from the first one on."""
    domain = jobs[0].domain
    reading = store.read(domain, [table_key(domain, job.outputs[0].name) for job in jobs])
    csn = reading.head.csn + 1
    puts = [put for job in jobs for put in _of_epoch(job, epoch)]
    for key, stamped in reading.records.items():
        ref = TableRef(
            format="memory", table_uuid=key.item, version=csn, location=f"memory:{key.item}", schema_id=0
        )
        moved = moved_table(stamped.record, [Interval(ORIGIN, epoch.end)], ref)
        puts.append(Put(key, succeeding(stamped, moved, DEFAULTS)))
    member = Member(job=jobs[0].name, interval=epoch, revision=1)
    change_set = RevisionId(domain, jobs[0].name, epoch, 1).change_set
    commit = CommitRecord(change_set=change_set, members=(member,), by="bench", tables=())
    store.transact(Transaction(domain=domain, updates=tuple(puts), number=Number(commit, expected=csn)))
