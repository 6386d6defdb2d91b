"""``bench.files``: publishing an epoch of 20,000 files that 200 participants wrote."""

from __future__ import annotations

import shutil
import statistics
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from airflow_provider.domain.epoch import Attempt
from airflow_provider.tables.base import WrittenFile
from benchmarks.figures import figure, progress
from benchmarks.iceberg_job import ROWS, IcebergJob, iceberg_coordinator
from benchmarks.sizes import Size
from benchmarks.stores import directory

PARTICIPANTS = 200
FILES = 100
"""Of each participant."""
EPOCHS = 2
"""The first one comes to an empty table, the second one to one with manifests."""


def measure(size: Size = Size.FULL) -> None:
    """Print how long each participant's WRITTEN took, and publish, which only lists what they wrote."""
    participants, files = size.of(PARTICIPANTS, 2), size.of(FILES, 2)
    with directory("files") as path, iceberg_coordinator(path) as coordinator:
        job = IcebergJob(coordinator, "files", participants=participants)
        written, published = [], []
        for number in range(EPOCHS):
            attempt = job.begin(number)
            joined = (
                coordinator.join(attempt, participant, attempt.owner) for participant in range(participants)
            )
            written += [write_files(job, writer, files) for writer in joined]
            began = time.perf_counter()
            coordinator.publish(attempt)
            published.append(time.perf_counter() - began)
            progress(
                f"files, epoch {number + 1} of {EPOCHS}: {participants * files} files, a participant's manifest "
                f"{statistics.median(written):.3f} s, publish {published[-1]:.2f} s"
            )
    figure("bench.files.publish_seconds", max(published))
    figure("bench.files.written_seconds", statistics.median(written))


def write_files(job: IcebergJob, attempt: Attempt, number: int, rows: pa.Table = ROWS) -> float:
    """Stage files for one participant, and report them; return how long that took, the files not counted.

    One file is written; the others are copies of it: publish looks that they are there, and reads none.
    """
    coordinator, table = job.coordinator, attempt.sink(job.sink)
    table_format = coordinator.formats[table.format]
    info = table_format.create(table, rows.schema)
    place = coordinator.place(attempt, job.sink)
    (file,) = table_format.task_writer(place, info)(rows.to_batches())
    files = [_copy(file, place.uri, position) for position in range(number)]
    Path(file.uri.removeprefix("file://")).unlink()
    began = time.perf_counter()
    committable = table_format.describe_output(place, info, files)
    coordinator.processed(attempt, job.sink)
    coordinator.written(attempt, job.sink, committable)
    return time.perf_counter() - began


def _copy(file: WrittenFile, folder: str, number: int) -> WrittenFile:
    copied = replace(file, uri=f"{folder}{number:05d}-{file.uri.rpartition('/')[2]}")
    shutil.copy(file.uri.removeprefix("file://"), copied.uri.removeprefix("file://"))
    return copied
