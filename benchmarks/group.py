"""``bench.group``: a chain of jobs as one commit group over the same chain with a commit for each job (R40)."""

from __future__ import annotations

import time
from dataclasses import replace

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Group, Job, Table, increment
from airflow_provider.testing.arrow_attempts import write_rows
from benchmarks.figures import figure, progress
from benchmarks.job import HOUR, ORIGIN, ROWS, MeasuredJob
from benchmarks.sizes import Size
from benchmarks.stores import Store, directory

JOBS = 4
EPOCHS = 40
WARM_UP = 5


def measure(store: Store, size: Size = Size.FULL) -> None:
    """Print the protocol time of a chain from its first begin until all of it is visible: grouped over each alone."""
    _measure(store.url, store.name, size)


def measure_iceberg(size: Size = Size.FULL) -> None:
    """Print the same of Iceberg tables, on SQLite."""
    with directory("group") as home:
        _measure(f"sqlite:///{home}/store.db", "iceberg", size, warehouse=f"{home}/warehouse")


def _measure(url: str, name: str, size: Size, warehouse: str = "") -> None:
    one = MeasuredJob(url, "group", "one", ["one"], warehouse=warehouse)
    try:
        alone, grouped = _chain(one, "each", is_grouped=False), _chain(one, "together", is_grouped=True)
        took = {False: 0.0, True: 0.0}
        for number in range(size.of(WARM_UP + EPOCHS, 2)):  # by turns: both meet the same machine
            for is_grouped, jobs in ((False, alone), (True, grouped)):
                seconds = _run(one.coordinator, jobs, number)
                took[is_grouped] += seconds if number >= size.of(WARM_UP, 1) else 0.0
        progress(f"group: {size.of(EPOCHS, 1)} epochs of two chains of {JOBS} jobs are committed")
        figure(f"bench.group.{name}.ratio", took[True] / took[False])
        figure(f"bench.group.{name}.seconds", took[True] / size.of(EPOCHS, 1))
    finally:
        one.close()


def _chain(opened: MeasuredJob, name: str, *, is_grouped: bool) -> list[Job]:
    """Return jobs each of which reads the table of the one before."""
    domain = opened.job.domain
    tables = [Table(f"{name}_{number}", domain=domain, format=opened.table_format) for number in range(JOBS)]
    group = Group(name, jobs=[table.name for table in tables]) if is_grouped else None
    return [
        Job(
            table.name,
            outputs=[table],
            inputs=[increment(tables[number - 1])] if number else [],
            cadence="@hourly",
            origin=ORIGIN,
            group=group,
        )
        for number, table in enumerate(tables)
    ]


def _run(service: EpochService, jobs: list[Job], number: int) -> float:
    """Compute one epoch of all jobs; return the seconds without those in which rows were written."""
    epoch, owner = (
        Interval(ORIGIN + number * HOUR, ORIGIN + (number + 1) * HOUR),
        Owner(dag_id="bench", run_id=str(number)),
    )
    began, writing = time.perf_counter(), 0.0
    for job in jobs:
        attempt = service.begin(job, epoch, replace(owner))
        assert isinstance(attempt, Attempt), attempt
        wrote = time.perf_counter()
        for sink in attempt.sinks:
            write_rows(service, attempt, sink.name, ROWS)
        writing += time.perf_counter() - wrote
        service.complete(attempt)
        if attempt.restatement is None:
            service.publish(attempt)
        else:
            service.stage(attempt)
    return time.perf_counter() - began - writing
