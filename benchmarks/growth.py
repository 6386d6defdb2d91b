"""``bench.publish.growth``: what publishing costs as a table's history grows, its Iceberg metadata included."""

from __future__ import annotations

import statistics
import time

from benchmarks.figures import figure, progress
from benchmarks.iceberg_job import IcebergJob, iceberg_coordinator
from benchmarks.sizes import Size
from benchmarks.stores import directory

EPOCHS = 1000
AROUND = 20
"""So many publishes around the early epoch, and as many around the late one, by turns."""


def measure(size: Size = Size.FULL) -> None:
    """Print the median of publishes around a table's 1,000th epoch over that around another table's 10th."""
    with directory("growth") as path, iceberg_coordinator(path) as coordinator:
        old, young = IcebergJob(coordinator, "old"), IcebergJob(coordinator, "young")
        epochs, around = size.of(EPOCHS, 3), size.of(AROUND, 2)
        first = epochs - around // 2
        for number in range(first):
            _publish_ms(old, number)
            if number % 200 == 199:
                progress(f"growth: {number + 1} of {epochs} epochs")
        late, early = [], []
        for number in range(around):
            early.append(_publish_ms(young, number))
            late.append(_publish_ms(old, first + number))
    figure("bench.publish.growth", statistics.median(late) / statistics.median(early))
    figure("bench.publish.growth.early_ms", statistics.median(early))
    figure("bench.publish.growth.late_ms", statistics.median(late))


def _publish_ms(job: IcebergJob, number: int) -> float:
    attempt = job.written(number)
    began = time.perf_counter()
    job.coordinator.publish(attempt)
    return (time.perf_counter() - began) * 1000
