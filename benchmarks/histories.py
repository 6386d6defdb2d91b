"""Tables with a history: what their publishes leave in a store, without the rows, which no cut looks at."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.expired_states import expired_pages, hull_of
from airflow_provider.coordination.commits.table_commits import told_hull
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import table_key
from airflow_provider.domain.topology import Job, Table
from airflow_provider.stores.base import MetadataStore
from airflow_provider.stores.factory import open_store
from benchmarks.figures import progress
from benchmarks.job import HOUR, ORIGIN
from benchmarks.stores import Store
from tests import committed
from tests.committed import FORMATS

TABLES_OF_A_JOB = 100
MOVES = DEFAULTS.states_remembered + 2
"""After so many a table's record holds as many earlier states as it ever does."""


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


def commit_epoch(store: MetadataStore, job: Job, number: int, *, moves: bool) -> None:
    """Commit the hour *number* of *job*, as :func:`tests.committed.commit_epoch`."""
    epoch = Interval(ORIGIN + number * HOUR, ORIGIN + (number + 1) * HOUR)
    committed.commit_epoch(store, job, epoch, origin=ORIGIN, moves=moves)
