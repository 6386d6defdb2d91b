"""A job, mostly with sinks of the memory table, as the measurements run it: epoch after epoch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from threading import RLock

import pyarrow as pa

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt, Published
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.stores.base import StoreCapability
from airflow_provider.stores.factory import open_store
from airflow_provider.stores.memory import MemoryCatalog
from airflow_provider.tables.factory import TableFormats, open_formats
from airflow_provider.tables.memory import MemoryFormat
from airflow_provider.testing.arrow_attempts import write_rows
from airflow_provider.testing.faults import FaultyStore
from tests.servers.pointers import StoreCatalog

ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
ROWS = pa.table({"id": [1, 2, 3], "value": [1.0, 2.0, 3.0]})


class MeasuredJob:
    """An hourly job in a process of its own: its store, its tables, its next epoch.

    :param sinks: names of its tables.
    :param warehouse: directory of its tables, which are Iceberg's then; empty: tables in memory.
    """

    def __init__(
        self, url: str, domain: str, name: str, sinks: Sequence[str], *, warehouse: str = ""
    ) -> None:
        self.store = FaultyStore(open_store(url), lambda _: None)  # counts its calls
        self.table_format = "iceberg" if warehouse else "memory"
        self._opened = ExitStack()
        self._opened.callback(self.store.close)
        formats = (
            self._opened.enter_context(open_formats(url, warehouse)) if warehouse else self._in_memory(url)
        )
        self.coordinator = EpochService(self.store, formats, random=Random(name))  # noqa: S311
        outputs = [Table(sink, domain=DomainName(domain), format=self.table_format) for sink in sinks]
        self.job = Job(name, outputs=outputs, cadence="@hourly", origin=ORIGIN)
        self._epochs = count()

    def _in_memory(self, url: str) -> TableFormats:
        swaps = StoreCapability.CATALOG_SWAP in self.store.capabilities
        catalog = StoreCatalog(url) if swaps else MemoryCatalog(RLock())
        if isinstance(catalog, StoreCatalog):
            self._opened.callback(catalog.close)
        tables = MemoryFormat(catalog, swaps=swaps)
        return TableFormats({"memory": lambda: tables}, following=() if swaps else {"memory"})

    def begin(self) -> Attempt:
        """Begin the next epoch."""
        number = next(self._epochs)
        epoch = Interval(ORIGIN + number * HOUR, ORIGIN + (number + 1) * HOUR)
        attempt = self.coordinator.begin(self.job, epoch, Owner(dag_id="bench", run_id=str(number)))
        assert isinstance(attempt, Attempt), attempt
        return attempt

    def write(self, attempt: Attempt) -> Attempt:
        """Stage three rows for each sink and report them."""
        for sink in attempt.sinks:
            write_rows(self.coordinator, attempt, sink.name, ROWS)
        return attempt

    def run(self) -> Published:
        """One epoch, from its begin to its publish."""
        return self.coordinator.publish(self.write(self.begin()))

    def transactions(self) -> int:
        """How many transactions were sent to the store until now."""
        return sum(call.method == "transact" for call in self.store.calls)

    def close(self) -> None:
        self._opened.close()
