"""``bench.publish.removed_1000``: what a publish costs that takes files out of the catalog's sight, and says so."""

from __future__ import annotations

import statistics
import time

from airflow_provider.domain.table_kind import TableKind
from benchmarks.figures import figure, progress
from benchmarks.files import write_files
from benchmarks.iceberg_job import IcebergJob, iceberg_coordinator
from benchmarks.sizes import Size
from benchmarks.stores import directory

FILES = 1000
ROUNDS = 9
"""Epochs of each of two tables, by turns."""


def measure(size: Size = Size.FULL) -> None:
    """Print the median publish of a full table's next state over that of an incremental table's next epoch.

    Both add as many files; the full table's state before, of as many, is shown no more.
    """
    files, rounds = size.of(FILES, 2), size.of(ROUNDS, 1)
    removing, adding = [], []
    with directory("removed") as path, iceberg_coordinator(path) as coordinator:
        states = IcebergJob(coordinator, "states", kind=TableKind.FULL)
        epochs = IcebergJob(coordinator, "epochs")
        for number in range(rounds + 1):
            took = [_publish_ms(job, number, files) for job in (states, epochs)]
            if number:  # the first state replaces none
                removing.append(took[0])
                adding.append(took[1])
                progress(f"removed, round {number} of {rounds}: {took[0]:.0f} ms and {took[1]:.0f} ms")
    figure("bench.publish.removed_1000", statistics.median(removing) / statistics.median(adding))
    figure("bench.publish.removed_1000.removing_ms", statistics.median(removing))
    figure("bench.publish.removed_1000.adding_ms", statistics.median(adding))


def _publish_ms(job: IcebergJob, number: int, files: int) -> float:
    attempt = job.begin(number)
    write_files(job, attempt, files)
    began = time.perf_counter()
    job.coordinator.publish(attempt)
    return (time.perf_counter() - began) * 1000
