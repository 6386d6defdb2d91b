"""Tables with a history: what their publishes leave in a store, without the rows, which no cut looks at."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from threading import RLock

from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.expired_states import expired_pages, hull_of
from airflow_provider.coordination.commits.table_commits import told_hull
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch_id import RevisionId
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.publishing import moved_table, succeeding
from airflow_provider.domain.records import table_key
from airflow_provider.domain.topology import Job, Table
from airflow_provider.domain.version import CommitRecord, Member, TableDelta, TableRef
from airflow_provider.stores.base import Exists, MetadataStore, Number, Put, Transaction
from airflow_provider.stores.factory import open_store
from airflow_provider.stores.memory import MemoryCatalog
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.memory import MemoryFormat
from benchmarks.figures import progress
from benchmarks.job import HOUR, ORIGIN
from benchmarks.stores import Store

TABLES_OF_A_JOB = 100
MOVES = DEFAULTS.states_remembered + 2
"""After so many a table's record holds as many earlier states as it ever does."""

FORMATS = TableFormats(
    {"memory": lambda: MemoryFormat(MemoryCatalog(RLock()), swaps=False)}, following={"memory"}
)
"""What the tables are declared as; no row is written, and no cut here looks for one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """A domain of so many tables, all of which have so many hourly epochs.

    :param commits: how many of the domain's commits are there, the newest; all, if there are no more. An older one
        is counted in the tables' records only: they are as they were with it.
    """

    domain: DomainName
    tables: int
    epochs: int
    commits: int

    @property
    def names(self) -> list[str]:
        return [f"table_{position:04d}" for position in range(self.tables)]

    def write(self, store: Store) -> None:
        """Register the jobs, and commit their epochs one by one."""
        with open_store(store.url) as writer:
            coordinator = EpochService(writer, FORMATS)
            jobs = [self._job(first) for first in range(0, self.tables, TABLES_OF_A_JOB)]
            for job in jobs:
                coordinator.register(job)
            counted = max(0, self.epochs - self.commits // len(jobs), 0)
            for number in range(counted, self.epochs):
                for job in jobs:
                    commit_epoch(writer, job, number, moves=number >= self.epochs - MOVES)
        progress(
            f"{self.domain} on {store.name}: {self.tables} tables with {self.epochs} epochs each, "
            f"{(self.epochs - counted) * len(jobs)} commits"
        )

    def expire(self, store: Store, number: int) -> None:
        """Expire so many barriers of each table, every second one from its first on, as retention records them."""
        epochs = [
            Interval(ORIGIN + hour * HOUR, ORIGIN + (hour + 1) * HOUR) for hour in range(0, 2 * number, 2)
        ]
        with open_store(store.url) as writer:
            for name in map(TableName, self.names if number else []):
                key = table_key(self.domain, name)
                reading = writer.read(self.domain, [key])
                stamped = reading.of(key)
                requires, pages = expired_pages(writer, self.domain, name, epochs, DEFAULTS)
                hull = hull_of(stamped, Interval(epochs[0].start, epochs[-1].end))
                assert hull is not None
                commit = CommitBuilder(self.domain, reading, DEFAULTS)
                commit.require(*requires)
                commit.update(*pages)
                writer.transact(told_hull(commit, stamped, hull))

    def _job(self, first: int) -> Job:
        own = self.names[first : first + TABLES_OF_A_JOB]
        outputs = [Table(name, domain=self.domain, format="memory") for name in own]
        return Job(f"job_{first:04d}", outputs=outputs, cadence="@hourly", origin=ORIGIN)


def commit_epoch(
    store: MetadataStore, job: Job, number: int, *, moves: bool, epoch: Interval | None = None
) -> None:
    """Commit the epoch *number* of *job* in one numbered transaction, as publish does.

    :param moves: whether the tables' records move with it, by the protocol's own decision. Of a long history only
        the last moves are made, the first of them for all that was before: nothing is left of the others but a commit.
    """
    epoch = epoch or Interval(ORIGIN + number * HOUR, ORIGIN + (number + 1) * HOUR)
    keys = [table_key(job.domain, table.name) for table in job.outputs] if moves else []
    reading = store.read(job.domain, keys)
    csn = reading.head.csn + 1
    refs = {TableName(table.name): _ref(table, csn) for table in job.outputs}
    moved = {
        key: succeeding(
            stamped,
            moved_table(
                stamped.record, [Interval(job.origin or ORIGIN, epoch.end)], refs[TableName(key.item)]
            ),
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
