"""``bench.swap``: a restatement's publish over that of one epoch of as many tables, and its plan (R28)."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table, increment
from airflow_provider.stores.base import StoreCapability
from airflow_provider.testing.arrow_attempts import write_rows
from benchmarks.figures import figure, progress
from benchmarks.job import HOUR, ORIGIN, ROWS, MeasuredJob
from benchmarks.sizes import Size
from benchmarks.stores import Store, directory

TABLES = 100
JOBS = 10
"""Jobs of the cascade, each with a tenth of the tables; the first is read by all others."""
EPOCHS = 30
EPOCHS_IN_SMALL_TRANSACTIONS = 1


def measure(store: Store, size: Size = Size.FULL) -> None:
    """Print how long a restatement of 100 tables takes to plan and to publish, beside one epoch of 100 tables."""
    _measure(store.url, store.name, size)


def measure_iceberg(size: Size = Size.FULL) -> None:
    """Print the same of Iceberg tables, on SQLite."""
    with directory("swap") as home:
        _measure(f"sqlite:///{home}/store.db", "iceberg", size, warehouse=f"{home}/warehouse")


def _measure(url: str, name: str, size: Size, warehouse: str = "") -> None:
    sinks = [f"one_{number}" for number in range(size.of(TABLES, 2))]
    one = MeasuredJob(url, "swap", "one", sinks, warehouse=warehouse)
    try:
        one.run()
        attempt = one.write(one.begin())
        _Cascade(one, name, size).measure(_seconds(lambda: one.coordinator.publish(attempt)))
    finally:
        one.close()


def _seconds(publish: Callable[[], object]) -> float:
    """Return the seconds that *publish* takes, without garbage collections that are due before it.

    Each walks through all that the benchmark has imported and staged, for a quarter of a second.
    """
    gc.collect()
    began = time.perf_counter()
    publish()
    return time.perf_counter() - began


class _Cascade:
    """Jobs whose tables are restated. :param opened: a job on the same store, with its service."""

    def __init__(self, opened: MeasuredJob, name: str, size: Size) -> None:
        self.service, self.name = opened.coordinator, name
        jobs, tables = size.of(JOBS, 2), size.of(TABLES, 2)
        is_large = StoreCapability.LARGE_TRANSACTIONS in opened.store.capabilities
        self.epochs = size.of(EPOCHS, 2) if is_large else EPOCHS_IN_SMALL_TRANSACTIONS
        domain = opened.job.domain
        outputs = [
            [
                Table(f"table_{job}_{table}", domain=domain, format=opened.table_format)
                for table in range(tables // jobs)
            ]
            for job in range(jobs)
        ]
        read = [increment(outputs[0][0])]
        options = {"cadence": "@hourly", "origin": ORIGIN}
        self.jobs = [
            Job(f"job_{number}", outputs=own, inputs=read if number else [], **options)  # type: ignore[arg-type]
            for number, own in enumerate(outputs)
        ]

    def measure(self, alone: float) -> None:
        """Print the figures. :param alone: seconds of the publish of one epoch of as many tables."""
        for number in range(self.epochs):
            for job in self.jobs:
                self.service.publish(self._written(job, number))
        progress(f"swap: {self.epochs} epochs of {len(self.jobs)} jobs are committed")
        domain, span = self.jobs[0].domain, Interval(ORIGIN, ORIGIN + self.epochs * HOUR)
        operations = self.service.restatements
        began = time.perf_counter()
        operations.plan(domain, [self.jobs[0].name], span)
        planned = time.perf_counter() - began
        options = {"name": "swap", "reason": "it is measured", "by": "bench"}
        operations.open(domain, [self.jobs[0].name], span, **options)  # type: ignore[arg-type]
        for number in range(self.epochs):
            for job in self.jobs:
                self.service.stage(self._written(job, number, within="swap"))
        progress("swap: all of them are staged")
        took = _seconds(lambda: operations.publish(domain, "swap"))
        figure(f"bench.swap.{self.name}.tables_100", took / alone)
        figure(f"bench.swap.{self.name}.seconds", took)
        figure(f"bench.swap.{self.name}.epochs", self.epochs * len(self.jobs))
        figure(f"bench.closure.{self.name}.seconds", planned)

    def _written(self, job: Job, number: int, within: str = "") -> Attempt:
        epoch = Interval(ORIGIN + number * HOUR, ORIGIN + (number + 1) * HOUR)
        owner = Owner(dag_id="bench", run_id=f"{within}{number}")
        attempt = (
            self.service.begin_within(within, job, epoch, owner)
            if within
            else self.service.begin(job, epoch, owner)
        )
        assert isinstance(attempt, Attempt), attempt
        for sink in attempt.sinks:
            write_rows(self.service, attempt, sink.name, ROWS)
        self.service.complete(attempt)
        return attempt
