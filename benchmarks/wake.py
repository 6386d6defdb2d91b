"""``bench.wake``: from sending a commit to the wake-up of a watcher in another process."""

from __future__ import annotations

import multiprocessing
import random
import statistics
import threading
import time
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

from airflow_provider.domain.identifiers import ChangeSetId, DomainName
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores.base import MetadataStore, Number, StoreCapability, Transaction
from airflow_provider.stores.factory import open_store
from benchmarks.figures import figure, percentile, progress
from benchmarks.sizes import Size
from benchmarks.stores import Store

DOMAIN = DomainName("wake")
COMMITS = 100
WARM_UP = 5
TOLD = 15
"""After so many commits, people are told how far it is."""
PUSHED_PAUSE_S = 0.2
POLLED_PAUSE_S = 1.0
"""Longest pause before a commit: a watch that polls has become slow by then."""
_TIMEOUT = timedelta(seconds=20)


def measure(store: Store, size: Size = Size.FULL) -> None:
    """Print percentiles of the time to wake-up.

    It counts from the moment at which the transaction is sent, so that it is never less than the time from
    the commit itself.
    """
    commits = size.of(COMMITS, 2)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    start: Any = context.Process if size is Size.FULL else threading.Thread
    watcher = start(target=_watch, args=(theirs, store.url, commits + WARM_UP), daemon=True)
    watcher.start()
    if size is Size.FULL:
        theirs.close()
    with open_store(store.url) as writer:
        took = _commit_and_wait(store, writer, ours, commits + WARM_UP)
    ours.close()
    watcher.join(30)
    figure(f"bench.wake.{store.name}.p50_ms", statistics.median(took))
    figure(f"bench.wake.{store.name}.p99_ms", percentile(took, 0.99))


def _commit_and_wait(store: Store, writer: MetadataStore, watcher: Connection, commits: int) -> list[float]:
    pushed = StoreCapability.WATCH in writer.capabilities
    choose = random.Random(0)  # noqa: S311
    took = []
    for number in range(1, commits + 1):
        watcher.recv()  # it is about to wait
        time.sleep(choose.uniform(0.02, PUSHED_PAUSE_S if pushed else POLLED_PAUSE_S))
        sent = time.monotonic()
        commit = CommitRecord(change_set=ChangeSetId(str(number)), members=(), by="bench", tables=())
        writer.transact(Transaction(domain=DOMAIN, number=Number(commit)))
        took.append((watcher.recv() - sent) * 1000)
        if number % TOLD == 0:
            progress(f"wake-up on {store.name}: {number} of {commits} commits")
    return took[WARM_UP:]


def _watch(pipe: Connection, url: str, commits: int) -> None:
    with open_store(url) as reader:
        for seen in range(commits):
            pipe.send(None)
            head = seen
            while head == seen:
                head = reader.watch(DOMAIN, seen, _TIMEOUT)
            pipe.send(time.monotonic())
