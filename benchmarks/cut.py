"""``bench.cut``: a consistent cut over many tables, without their file lists."""

from __future__ import annotations

import statistics
import time
from datetime import datetime

from airflow_provider.coordination.cuts import Cuts
from airflow_provider.stores.factory import open_store
from airflow_provider.tables.factory import TableFormats
from benchmarks.figures import figure, percentile, progress
from benchmarks.job import HOUR, ORIGIN, MeasuredJob
from benchmarks.stores import Store

TABLES = (100, 1000)
TABLES_OF_A_JOB = 50
EPOCHS = 10
"""Committed of each table: its record holds as many earlier states as it ever does."""
ROUNDS = 5
CUTS = 200
"""In each round."""


def measure(store: Store) -> None:
    """Print how long a cut over each number of tables takes, at the newest barrier and at an old one."""
    names = _publish_tables(store, max(TABLES))
    for number in TABLES:
        with open_store(store.url) as reader:
            cuts = Cuts(reader, TableFormats({}))
            newest = _p99_ms(cuts, names[:number], None)
            old = _p99_ms(cuts, names[:number], ORIGIN + 2 * HOUR)
        progress(
            f"cut of {number} tables on {store.name}: p99 {newest:.2f} ms, at an old barrier {old:.2f} ms"
        )
        figure(f"bench.cut.{store.name}.p99_ms.tables_{number}", newest)
        figure(f"bench.cut.{store.name}.p99_ms.tables_{number}.old", old)


def _publish_tables(store: Store, number: int) -> list[str]:
    """Make so many tables with :data:`EPOCHS` epochs each; return their names."""
    names = [f"table_{position:04d}" for position in range(number)]
    for first in range(0, number, TABLES_OF_A_JOB):
        job = MeasuredJob(store.url, "cut", f"job_{first:04d}", names[first : first + TABLES_OF_A_JOB])
        for _ in range(EPOCHS):
            job.run()
        job.close()
        if (first + TABLES_OF_A_JOB) % 200 == 0:
            progress(f"cut on {store.name}: {first + TABLES_OF_A_JOB} of {number} tables published")
    return names


def _p99_ms(cuts: Cuts, names: list[str], at: datetime | None) -> float:
    """The median over rounds of each round's 99th percentile."""
    found = cuts.cut("cut", names, at=at)
    assert len(found.states) == len(names)
    assert found.barrier == (at or ORIGIN + EPOCHS * HOUR)
    rounds = []
    for _ in range(ROUNDS):
        took = []
        for _ in range(CUTS):
            began = time.perf_counter()
            cuts.cut("cut", names, at=at)
            took.append((time.perf_counter() - began) * 1000)
        rounds.append(percentile(took, 0.99))
    return statistics.median(rounds)
