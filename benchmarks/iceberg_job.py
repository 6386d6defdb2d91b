"""An hourly job with one Iceberg table of twenty columns, on a store of its own in SQLite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Job, Table
from airflow_provider.stores.factory import open_store
from airflow_provider.tables.factory import open_formats
from airflow_provider.testing.arrow_attempts import write_rows
from benchmarks.job import HOUR, ORIGIN

DOMAIN = DomainName("bench")
ROWS = pa.table({"id": [1, 2, 3], **{f"value_{number:02d}": [1.0, 2.0, 3.0] for number in range(19)}})


@contextmanager
def iceberg_coordinator(directory: Path, warehouse: str = "") -> Iterator[EpochService]:
    """A coordinator whose store is new in *directory*, and so is its warehouse unless it is given."""
    url = f"sqlite:///{directory}/store.db"
    with open_store(url) as store, open_formats(url, warehouse or f"{directory}/warehouse") as formats:
        yield EpochService(store, formats)


class IcebergJob:
    """A job of one table, which has its name.

    :param participants: how many write each epoch.
    """

    def __init__(
        self,
        coordinator: EpochService,
        name: str,
        *,
        participants: int = 1,
        kind: TableKind = TableKind.INCREMENTAL,
        partition_by: Sequence[str] = (),
    ) -> None:
        self.coordinator = coordinator
        self.sink = name
        self._participants = participants
        table = Table(name, domain=DOMAIN, format="iceberg", kind=kind, partition_by=partition_by)
        self._job = Job(f"{name}_job", outputs=[table], cadence="@hourly", origin=ORIGIN)

    def begin(self, number: int) -> Attempt:
        """Begin the epoch *number*."""
        epoch = Interval(ORIGIN + number * HOUR, ORIGIN + (number + 1) * HOUR)
        owner = Owner(dag_id="bench", run_id=str(number))
        attempt = self.coordinator.begin(self._job, epoch, owner, participants=self._participants)
        assert isinstance(attempt, Attempt), attempt
        return attempt

    def written(self, number: int) -> Attempt:
        """Begin the epoch *number* and report three rows, so that only its publish is missing."""
        attempt = self.begin(number)
        write_rows(self.coordinator, attempt, self.sink, ROWS)
        return attempt
