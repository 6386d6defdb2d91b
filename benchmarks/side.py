"""One side of a comparison: measures the package of the tree that it is given, on demand.

A script of its own (``python side.py TREE``), since the tree may be another commit's: it reads orders as lines of JSON
and answers each with one. Of the tree it uses only what the benchmarks of every commit since 47ba3a3 have: their
``MeasuredJob``, ``IcebergJob``, ``PublishingJob`` and ``Workers``.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

Epoch = dict[str, float]
"""Milliseconds by ``STEP.CLOCK``."""


class Clocks:
    """Processor time and wall time of the steps of an epoch. :ivar took: what they took, by ``STEP.CLOCK``."""

    def __init__(self) -> None:
        self.took: Epoch = {}

    def time(self, step: str, call: Callable[[], Any]) -> Any:
        """Call, and note how many milliseconds it took."""
        wall, cpu = time.perf_counter(), time.process_time()
        answer = call()
        self.took[f"{step}.cpu"] = (time.process_time() - cpu) * 1000
        self.took[f"{step}.wall"] = (time.perf_counter() - wall) * 1000
        return answer


class Side:
    """A store of this tree's package and the jobs that are measured on it.

    :param directory: for a warehouse, and for a catalog where the store has none.
    :param smallest: whether jobs side by side are threads instead of processes.
    """

    def __init__(self, url: str, directory: str, smallest: bool) -> None:
        from airflow_provider.stores.factory import upgrade_schema

        self._url, self._directory, self._smallest = url, directory, smallest
        self._open = ExitStack()
        self._run: dict[str, Callable[[], Epoch]] = {}
        self._crowd: Any = None
        upgrade_schema(url)

    def epochs(self, table: str, number: int) -> list[Epoch]:
        """Run the next epochs of the job whose tables are of the kind *table*."""
        if table not in self._run:
            self._run[table] = self._memory() if table == "memory" else self._iceberg()
        return [self._run[table]() for _ in range(number)]

    def side_by_side(self, jobs: int, publishes: int) -> list[Epoch]:
        """Publish so many epochs of each of so many jobs, all at the same time; return the means of a publish.

        A job of the smallest run is a thread, whose processor time is not told apart.
        """
        from benchmarks.publish import PublishingJob
        from benchmarks.workers import Workers, common_start

        if self._crowd is None:
            size = _smallest_size() if self._smallest else ()
            self._crowd = self._open.enter_context(Workers(jobs, PublishingJob, self._url, *size))
        self._crowd.all("prepare", publishes)
        before = _cpu_of_children()
        answers = self._crowd.all("publish_all", common_start())
        cpu, waits = _cpu_of_children() - before, [ended - began for took in answers for began, ended in took]
        return [{"publish.cpu": cpu * 1000 / len(waits), "publish.wall": sum(waits) * 1000 / len(waits)}]

    def close(self) -> None:
        self._open.close()

    def _memory(self) -> Callable[[], Epoch]:
        from benchmarks.job import MeasuredJob

        job = MeasuredJob(self._url, "against", "memory", ["first", "second"])
        self._open.callback(job.close)

        def run() -> Epoch:
            clocks = Clocks()
            attempt = clocks.time("begin", job.begin)
            job.write(attempt)
            clocks.time("publish", lambda: job.coordinator.publish(attempt))
            return clocks.took

        return run

    def _iceberg(self) -> Callable[[], Epoch]:
        from airflow_provider.stores.factory import open_store
        from airflow_provider.tables.factory import open_formats
        from airflow_provider.testing.arrow_attempts import write_rows
        from benchmarks import iceberg_job

        catalog = f"sqlite:///{self._directory}/catalog.db" if self._url.startswith("zookeeper") else None
        store = self._open.enter_context(open_store(self._url))
        formats = self._open.enter_context(open_formats(self._url, f"{self._directory}/warehouse", catalog))
        # Commits before EpochService was the only facade had a Coordinator, and another class of that name beside it.
        names = vars(iceberg_job)
        facade = names.get("Coordinator") or names["EpochService"]
        coordinator = facade(store, formats)
        job = iceberg_job.IcebergJob(coordinator, "iceberg")
        numbers = iter(range(sys.maxsize))

        def run() -> Epoch:
            clocks = Clocks()
            attempt = clocks.time("begin", lambda: job.begin(next(numbers)))
            write_rows(coordinator, attempt, job.sink, iceberg_job.ROWS)
            clocks.time("publish", lambda: coordinator.publish(attempt))
            return clocks.took

        return run


def _cpu_of_children() -> float:
    """Seconds that the processes of the jobs have computed until now, to the hundredth for each."""
    times = [psutil.Process(child.pid).cpu_times() for child in multiprocessing.active_children()]
    return float(sum(child.user + child.system for child in times))


def _smallest_size() -> tuple[Any, ...]:
    from benchmarks.sizes import Size

    return (Size.SMALLEST,)


def main(tree: str) -> None:
    """Serve orders until their end. What the package prints goes to the standard error."""
    sys.path[0] = tree  # in place of this script's folder, and before the tree that is installed
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    side: Side | None = None
    try:
        for line in sys.stdin:
            method, arguments = json.loads(line)
            try:
                if side is None:
                    side = Side(**arguments)
                    answer: Any = _package(tree)
                else:
                    answer = getattr(side, method)(**arguments)
                answers.write(json.dumps({"answer": answer}) + "\n")
            except Exception as error:  # noqa: BLE001 - it is told where it was asked for
                answers.write(json.dumps({"error": f"{type(error).__name__}: {error}"}) + "\n")
            answers.flush()
    finally:
        if side is not None:
            side.close()


def _package(tree: str) -> str:
    """Return where the measured package lies; it is this tree's, or the comparison would be of the same code twice."""
    import airflow_provider

    place = str(Path(str(airflow_provider.__file__)).parents[1])
    assert place == tree, f"{place} is measured instead of {tree}"
    return place


if __name__ == "__main__":
    main(sys.argv[1])
