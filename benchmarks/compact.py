"""``bench.compact.read``: what compaction makes of a year of hourly epochs: files, reads, and later publishes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from random import Random

import pyarrow as pa

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.compaction import CompactionUnit
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.testing.arrow_attempts import write_rows
from benchmarks.figures import figure, progress
from benchmarks.iceberg_job import DOMAIN, iceberg_coordinator
from benchmarks.job import HOUR, ORIGIN
from benchmarks.sizes import Size
from benchmarks.stores import directory

EPOCHS = 366 * 24
"""Those of the year 2000."""
ROWS = 1_000
"""Rows of an epoch, of seven columns."""
TOGETHER = 60
"""Epochs that become visible in one commit, so that loading the table takes minutes."""
ROUNDS = 5
PUBLISHES = 15


def measure(size: Size = Size.FULL) -> None:
    """Print files and reading times of a year of hours before and after, over a table with the same rows at once."""
    epochs, rows = size.of(EPOCHS, 26), size.of(ROWS, 1)
    with directory("compact") as path, iceberg_coordinator(path) as coordinator:
        hours = Job("hours", outputs=[_table("hours")], cadence="@hourly", origin=ORIGIN)
        for numbers in _together(range(epochs), size.of(TOGETHER, 100)):
            coordinator.publish_together([_written(coordinator, hours, number, rows) for number in numbers])
            progress(f"compact: {numbers[-1] + 1} of {epochs} epochs")
        _publish_at_once(coordinator, epochs, rows)
        around = size.of(PUBLISHES, 1)
        before = [_publish_ms(coordinator, hours, epochs + number, rows) for number in range(around)]
        figure("bench.compact.files_before", _files(coordinator))
        scattered = _read_s(coordinator, "hours")
        began = time.perf_counter()
        unit = CompactionUnit.MONTH if size is Size.FULL else CompactionUnit.DAY
        units = coordinator.retention.compact(DOMAIN, "hours", unit=unit)
        figure("bench.compact.seconds", time.perf_counter() - began)
        progress(f"compact: {len(units)} units, {sum(unit.before for unit in units)} files")
        figure("bench.compact.files", _files(coordinator))
        after = [_publish_ms(coordinator, hours, epochs + around + number, rows) for number in range(around)]
        together, once = [], []
        for _ in range(size.of(ROUNDS, 1)):
            once.append(_read_s(coordinator, "once"))
            together.append(_read_s(coordinator, "hours"))
    figure("bench.compact.read", statistics.median(together) / statistics.median(once))
    figure("bench.compact.read_before", scattered / statistics.median(once))
    figure("bench.compact.publish", statistics.median(after) / statistics.median(before))


def _table(name: str) -> Table:
    return Table(name, domain=DOMAIN, format="iceberg")


def _together(numbers: range, most: int) -> Iterator[range]:
    yield from (numbers[start : start + most] for start in range(0, len(numbers), most))


def _rows(number: int, rows: int) -> pa.Table:
    random = Random(number)  # noqa: S311  (figures, no secrets)
    values = {f"value_{column}": [random.random() for _ in range(rows)] for column in range(5)}
    names = [f"place {random.randrange(200)}" for _ in range(rows)]
    return pa.table({"id": [number * rows + row for row in range(rows)], "place": names, **values})


def _begun(coordinator: EpochService, job: Job, epoch: Interval) -> Attempt:
    attempt = coordinator.begin(job, epoch, Owner(dag_id="bench", run_id="year"))
    assert isinstance(attempt, Attempt), attempt
    return attempt


def _written(coordinator: EpochService, job: Job, number: int, rows: int) -> Attempt:
    attempt = _begun(coordinator, job, Interval(ORIGIN + number * HOUR, ORIGIN + (number + 1) * HOUR))
    write_rows(coordinator, attempt, "hours", _rows(number, rows))
    return attempt


def _publish_at_once(coordinator: EpochService, epochs: int, rows: int) -> None:
    """Publish the same rows as one epoch of another table."""
    year = Job("once", outputs=[_table("once")], cadence="@yearly")
    attempt = _begun(coordinator, year, year.cadence.ending_at(year.cadence.next_after(ORIGIN)))
    every = pa.concat_tables([_rows(number, rows) for number in range(epochs)])
    write_rows(coordinator, attempt, "once", every)
    coordinator.publish(attempt)


def _publish_ms(coordinator: EpochService, job: Job, number: int, rows: int) -> float:
    attempt = _written(coordinator, job, number, rows)
    began = time.perf_counter()
    coordinator.publish(attempt)
    return (time.perf_counter() - began) * 1000


def _files(coordinator: EpochService) -> int:
    return len(coordinator.cuts.files(coordinator.cuts.cut(DOMAIN, ["hours"]), "hours"))


def _read_s(coordinator: EpochService, name: str) -> float:
    """Return the seconds in which all rows of a table are read, piece by piece."""
    cut = coordinator.cuts.cut(DOMAIN, [name])
    state = cut.states[name]  # type: ignore[index]
    schema = coordinator.cuts.schema(DOMAIN, state)
    began = time.perf_counter()
    rows = sum(piece.num_rows for piece in coordinator.formats["iceberg"].scan(state, schema))
    assert rows
    return time.perf_counter() - began
