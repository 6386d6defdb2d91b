"""``bench.swap.wrong_reads``: reads of a cascade while restatements of all of it are published, one after the other."""

from __future__ import annotations

import threading
from contextlib import closing

import pyarrow as pa

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table, increment
from airflow_provider.testing.arrow_attempts import write_rows
from benchmarks.figures import figure, progress
from benchmarks.job import HOUR, ORIGIN, MeasuredJob
from benchmarks.sizes import Size
from benchmarks.stores import Store

SWAPS = 20
READS = 10_000
READERS = 2
EPOCHS = 3
DOMAIN = DomainName("swap_reads")
TABLES = [Table(f"table_{number}", domain=DOMAIN, format="memory") for number in range(3)]
JOBS = [
    Job(
        f"job_{number}",
        outputs=[table],
        inputs=[increment(TABLES[0])] if number else [],
        cadence="@hourly",
        origin=ORIGIN,
    )
    for number, table in enumerate(TABLES)
]


def measure(store: Store, size: Size = Size.FULL) -> None:
    """Print how many reads were made, and how many of them saw rows of two generations."""
    swaps, reads = size.of(SWAPS, 2), size.of(READS, 20)
    opened = MeasuredJob(store.url, DOMAIN, "opens", ["unused"])
    with closing(opened):
        service = opened.coordinator
        _compute(service, generation=0)
        reading = _Reading(service)
        with reading:
            for generation in range(1, swaps + 1):
                _restate(service, generation)
                reading.wait_for(reads * generation // swaps, generation)
            progress(f"swap reads on {store.name}: {swaps} swaps, {reading.reads} reads")
    figure(f"bench.swap.{store.name}.reads", reading.reads)
    figure(f"bench.swap.{store.name}.wrong_reads", reading.wrong)


class _Reading:
    """Threads that read all tables by one cut after the other, as long as the block lasts."""

    def __init__(self, service: EpochService) -> None:
        self._service = service
        self._changed = threading.Condition()
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._read) for _ in range(READERS)]
        self._error: Exception | None = None
        self.reads = self.wrong = 0
        self._seen = set[int]()

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, reads: int, generation: int) -> None:
        """Wait until so many reads were made, and a generation of rows was read.

        :raises Exception: the error of a reader, which ends the measurement.
        """
        with self._changed:
            self._changed.wait_for(lambda: (self.reads >= reads and generation in self._seen) or self._error)
        if self._error is not None:
            raise self._error

    def _read(self) -> None:
        names = [str(table.name) for table in TABLES]
        try:
            while not self._is_over.is_set():
                cut = self._service.cuts.cut(DOMAIN, names)
                rows = [self._service.cuts.read(cut, name, ["value"]).column("value") for name in names]
                self._note([value for column in rows for value in column.to_pylist()])
        except Exception as error:  # noqa: BLE001 - raised by wait_for
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _note(self, values: list[int]) -> None:
        with self._changed:
            self.reads += 1
            self.wrong += len(values) != len(TABLES) * EPOCHS or len(set(values)) != 1
            self._seen.update(values)
            self._changed.notify_all()


def _compute(service: EpochService, *, generation: int, within: str = "") -> None:
    for number in range(EPOCHS):
        epoch = Interval(ORIGIN + number * HOUR, ORIGIN + (number + 1) * HOUR)
        for job in JOBS:
            owner = Owner(dag_id="bench", run_id=f"{generation} {number}")
            attempt = (
                service.begin_within(within, job, epoch, owner)
                if within
                else service.begin(job, epoch, owner)
            )
            assert isinstance(attempt, Attempt), attempt
            rows = pa.table({"value": pa.array([generation], pa.int64())})
            write_rows(service, attempt, job.outputs[0].name, rows)
            service.complete(attempt)
            service.stage(attempt) if within else service.publish(attempt)


def _restate(service: EpochService, generation: int) -> None:
    name, span = f"swap-{generation}", Interval(ORIGIN, ORIGIN + EPOCHS * HOUR)
    operations = service.restatements
    operations.open(DOMAIN, [JOBS[0].name], span, name=name, reason="it is measured", by="bench")
    _compute(service, generation=generation, within=name)
    operations.publish(DOMAIN, name)
