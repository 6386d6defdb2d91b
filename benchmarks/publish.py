"""``bench.publish``: eight jobs publish side by side, by turns with eight clients that compare and set one row."""

from __future__ import annotations

import statistics
import time

from airflow_provider.domain.epoch import Attempt
from benchmarks import bare
from benchmarks.figures import figure, percentile, progress
from benchmarks.job import MeasuredJob
from benchmarks.sizes import Size
from benchmarks.stores import Store
from benchmarks.workers import Workers, common_start, wait_until

JOBS = 8
ROUNDS = 5
PUBLISHES = 40
"""Of each job in a round."""
BARE_S = 1.0
"""How long the bare clients compare and set in a round."""


class PublishingJob(MeasuredJob):
    """One of several jobs of a domain, with two sinks of its own."""

    def __init__(self, url: str, position: int) -> None:
        super().__init__(url, "publish", f"job-{position}", [f"first-{position}", f"second-{position}"])
        self._written: list[Attempt] = []

    def prepare(self, epochs: int) -> None:
        """Compute so many epochs, all but their publish."""
        self._written += [self.write(self.begin()) for _ in range(epochs)]

    def publish_all(self, start: float) -> list[tuple[float, float]]:
        """Publish them from *start* on; return when each began and ended."""
        took = []
        wait_until(start)
        while self._written:
            began = time.monotonic()
            self.coordinator.publish(self._written.pop(0))
            took.append((began, time.monotonic()))
        return took


class ComparingClient:
    """A bare client that compares and sets as fast as it can."""

    def __init__(self, client: bare.BareClient) -> None:
        self._client = client

    def compare_and_set_for(self, start: float, seconds: float) -> int:
        """Return how often it came through in *seconds* from *start* on."""
        done = 0
        wait_until(start)
        while time.monotonic() < start + seconds:
            done += self._client.compare_and_set()
        return done

    def close(self) -> None:
        self._client.close()


def library_client(url: str, position: int) -> ComparingClient:
    return ComparingClient(bare.library_client(url, position))


def raw_client(url: str, position: int) -> ComparingClient:
    return ComparingClient(bare.raw_client(url, position))


def measure(store: Store, size: Size = Size.FULL) -> None:
    """Print the rate of bare clients over that of the jobs, both rates, and the slowest publishes."""
    bare.prepare(store.url, 0)
    clients, last = size.of(JOBS, 2), size.of(ROUNDS, 1)
    bare_s = BARE_S / size.of(1, 20)
    with (
        Workers(clients, PublishingJob, store.url, size) as jobs,
        Workers(clients, library_client, store.url, size) as library,
        Workers(clients, raw_client, store.url, size) as raw,
    ):
        jobs.all("prepare", 2)
        jobs.all("publish_all", common_start())
        rounds, waits = [], []
        for number in range(1, last + 1):
            jobs.all("prepare", size.of(PUBLISHES, 2))
            by_library = _bare_rate(library, bare_s)
            ours, took = _publish_rate(jobs)
            by_driver = _bare_rate(raw, bare_s)
            rounds.append((by_library, by_driver, ours))
            waits += took
            progress(
                f"publish on {store.name}, round {number} of {last}: {ours:.0f} publishes a second, "
                f"bare {by_library:.0f}, through the driver {by_driver:.0f}"
            )
    figure(f"bench.publish.{store.name}.ratio", statistics.median(rate / ours for rate, _, ours in rounds))
    figure(
        f"bench.publish.{store.name}.raw_ratio", statistics.median(rate / ours for _, rate, ours in rounds)
    )
    figure(f"bench.publish.{store.name}.per_second", statistics.median(ours for _, _, ours in rounds))
    figure(f"bench.publish.{store.name}.bare_per_second", statistics.median(rate for rate, _, _ in rounds))
    figure(f"bench.publish.{store.name}.p99_ms", percentile(waits, 0.99))


def _bare_rate(clients: Workers, seconds: float) -> float:
    return float(sum(clients.all("compare_and_set_for", common_start(), seconds)) / seconds)


def _publish_rate(jobs: Workers) -> tuple[float, list[float]]:
    """Publishes a second while all jobs were at it, and how long each took in ms."""
    start = common_start()
    answers: list[list[tuple[float, float]]] = jobs.all("publish_all", start)
    end = min(took[-1][1] for took in answers)  # from then on fewer than all were at it
    done = sum(ended <= end for took in answers for _, ended in took)
    waits = [(ended - began) * 1000 for took in answers for began, ended in took]
    return done / (end - start), waits
