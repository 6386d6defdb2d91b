"""``bench.starve``: one committer whose preparation takes ten times as long as another needs from commit to commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from airflow_provider.domain.topology import Job, Table
from airflow_provider.tables.base import Prepared, Publication, TableFormat
from airflow_provider.tables.factory import TableFormats
from benchmarks.figures import figure, progress
from benchmarks.job import MeasuredJob
from benchmarks.sizes import Size
from benchmarks.stores import Store

ROUNDS = 5
QUICK_COMMITS = 20
"""After so many commits of the quick one its interval is known."""
TIMES_SLOWER = 10


class SlowFormat:
    """Memory tables that are prepared slowly. :ivar prepared: how often."""

    def __init__(self, inner: TableFormat, seconds: float) -> None:
        self._inner, self._seconds, self.prepared = inner, seconds, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def prepare(self, publication: Publication) -> Prepared:
        """Prepare on what is there now, and be ready late."""
        self.prepared += 1
        prepared = self._inner.prepare(publication)
        time.sleep(self._seconds)
        return prepared


class SlowFormats(Mapping[str, Any]):
    """The formats of a job, of which memory is slow."""

    def __init__(self, formats: TableFormats, slow: SlowFormat) -> None:
        self._formats, self._slow, self.following = formats, slow, formats.following
        self.warehouse = formats.warehouse

    def writable(self, job: Job) -> Job:
        """See :meth:`TableFormats.writable`."""
        return self._formats.writable(job)

    def swapped(self, tables: Iterable[Table]) -> list[str]:
        """See :meth:`TableFormats.swapped`."""
        return self._formats.swapped(tables)

    def __getitem__(self, name: str) -> Any:
        return self._slow

    def __iter__(self) -> Iterator[str]:
        return iter(self._formats)

    def __len__(self) -> int:
        return len(self._formats)


def measure(store: Store, size: Size = Size.FULL) -> None:
    """Print the slow one's longest publish over one of its preparations."""
    quick = MeasuredJob(store.url, "starve", "quick", ["quick"])
    slow = MeasuredJob(store.url, "starve", "slow", ["slow"])
    commits: list[float] = []
    stop = threading.Event()

    def commit() -> None:
        while not stop.is_set():
            quick.run()
            commits.append(time.monotonic())

    committer = threading.Thread(target=commit)
    committer.start()
    try:
        known = size.of(QUICK_COMMITS, 2)
        while len(commits) <= known and committer.is_alive():
            time.sleep(0.01)
        interval = (commits[known] - commits[0]) / known
        needed = [_needed(slow, interval * TIMES_SLOWER) for _ in range(size.of(ROUNDS, 1))]
    finally:
        stop.set()
        committer.join()
        quick.close()
        slow.close()
    progress(
        f"starve on {store.name}: a commit every {interval * 1000:.0f} ms; publishes over a preparation {needed}"
    )
    figure(f"bench.starve.{store.name}.ratio", max(needed))


def _needed(job: MeasuredJob, seconds: float) -> float:
    """Publish one epoch; return the time that it took over that of one preparation."""
    attempt = job.write(job.begin())
    before = job.coordinator.context
    formats = before.formats
    slow = SlowFormat(formats["memory"], seconds)
    slowed: Any = SlowFormats(formats, slow)
    job.coordinator.context = replace(before, formats=slowed)
    try:
        began = time.monotonic()
        job.coordinator.publish(attempt)
        return (time.monotonic() - began) / seconds
    finally:
        job.coordinator.context = before
