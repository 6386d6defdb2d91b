"""``bench.protocol``: one epoch, begin to publish, over as many bare transactions, by turns in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from benchmarks import bare
from benchmarks.figures import figure, percentile, progress
from benchmarks.job import MeasuredJob
from benchmarks.sizes import Size
from benchmarks.stores import Store

MOST_TRANSACTIONS = 6
ROUNDS = 5
EPOCHS = 40
"""In each round."""
WARM_UP = 10


def measure(store: Store, size: Size = Size.FULL) -> None:
    """Print the ratio through the store's library and through the raw driver, and how long an epoch took."""
    bare.prepare(store.url, 2)
    job = MeasuredJob(store.url, "protocol", "job", ["first", "second"])
    library, raw = bare.library_client(store.url, 1), bare.raw_client(store.url, 2)
    try:
        for _ in range(size.of(WARM_UP, 1)):
            job.run()
            _many(library.transaction, MOST_TRANSACTIONS)
            _many(raw.transaction, MOST_TRANSACTIONS)
        rounds = []
        for number in range(1, size.of(ROUNDS, 1) + 1):
            rounds.append(_round((job, library, raw), size.of(EPOCHS, 2)))
            epoch, by_library, by_driver = rounds[-1]
            progress(
                f"protocol on {store.name}, round {number}: epoch {epoch:.2f} ms, {MOST_TRANSACTIONS} bare "
                f"transactions {by_library:.2f} ms, through the driver {by_driver:.2f} ms"
            )
    finally:
        for measured in (job, library, raw):
            measured.close()
    ours, by_library, by_driver = (statistics.median(times) for times in zip(*rounds, strict=True))
    ratios = [(times[0] / times[1], times[0] / times[2]) for times in rounds]
    figure(f"bench.protocol.{store.name}.ratio", statistics.median(to_library for to_library, _ in ratios))
    figure(f"bench.protocol.{store.name}.raw_ratio", statistics.median(to_driver for _, to_driver in ratios))
    figure(f"bench.protocol.{store.name}.epoch_ms", ours)
    figure(f"bench.protocol.{store.name}.bare_ms", by_library)
    figure(f"bench.protocol.{store.name}.raw_ms", by_driver)
    figure(f"bench.protocol.{store.name}.transactions", MOST_TRANSACTIONS)


def _round(
    clients: tuple[MeasuredJob, bare.BareClient, bare.BareClient], epochs: int
) -> tuple[float, float, float]:
    """The medians of an epoch, of as many transactions through the library, and through the driver, in ms."""
    (job, library, raw), ours, by_library, by_driver = clients, [], [], []
    for _ in range(epochs):
        before = job.transactions()
        ours.append(_ms(job.run))
        sent = job.transactions() - before
        assert sent == MOST_TRANSACTIONS, f"an epoch with two sinks took {sent} transactions"
        by_library.append(_ms(lambda: _many(library.transaction, MOST_TRANSACTIONS)))
        by_driver.append(_ms(lambda: _many(raw.transaction, MOST_TRANSACTIONS)))
    return percentile(ours, 0.5), percentile(by_library, 0.5), percentile(by_driver, 0.5)


def _many(transaction: Callable[[], None], times: int) -> None:
    for _ in range(times):
        transaction()


def _ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000
