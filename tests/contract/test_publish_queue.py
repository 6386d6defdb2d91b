"""PublishQueues: processes that publish side by side come in turn, and none can stop the others."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Event, Lock
from time import sleep
from typing import Any

import pytest

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.stores.base import MetadataStore
from airflow_provider.stores.factory import open_store
from tests.services.stores import empty_store

DOMAIN = DomainName("queue")
THREADS = 4
LONG, SHORT = timedelta(seconds=60), timedelta(milliseconds=20)


@pytest.fixture(params=["sqlite", "postgresql", "zookeeper"])
def url(request: Any, tmp_path: Path) -> str:
    """A store with a publish queue."""
    return empty_store(request.param, request, tmp_path)


@pytest.fixture
def stores(url: str) -> Iterator[list[MetadataStore]]:
    """Clients of one store, as of several processes."""
    stores = [open_store(url) for _ in range(THREADS)]
    yield stores
    for store in stores:
        store.close()


def test_one_comes_after_the_other(stores: list[MetadataStore]) -> None:
    inside: list[int] = []
    most, guard, together = [0], Lock(), Barrier(THREADS)

    def work(number: int) -> int:
        together.wait()
        for _ in range(10):
            with stores[number].publish_queue(DOMAIN, LONG):
                with guard:
                    inside.append(number)
                    most[0] = max(most[0], len(inside))
                stores[number].read(DOMAIN, [])
                with guard:
                    inside.remove(number)
        return number

    with ThreadPoolExecutor(THREADS) as threads:
        assert sorted(threads.map(work, range(THREADS))) == list(range(THREADS))
    assert most == [1]


def test_a_stopped_holder_does_not_stop_the_queue(stores: list[MetadataStore]) -> None:
    entered, end = Event(), Event()

    def hold() -> None:
        with stores[0].publish_queue(DOMAIN, LONG):
            entered.set()
            assert end.wait(60)

    with ThreadPoolExecutor(1) as threads:
        holder = threads.submit(hold)
        assert entered.wait(60)
        with stores[1].publish_queue(DOMAIN, SHORT):
            assert not holder.done()
        end.set()
        holder.result(60)
    with stores[1].publish_queue(DOMAIN, LONG):
        pass


def test_a_turn_with_failed_work_is_passed_on(stores: list[MetadataStore]) -> None:
    with pytest.raises(RuntimeError, match="of the work"), stores[0].publish_queue(DOMAIN, LONG):
        raise RuntimeError("of the work")
    with ThreadPoolExecutor(1) as threads:

        def other() -> bool:
            with stores[1].publish_queue(DOMAIN, LONG):
                return True

        assert threads.submit(other).result(60)


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_threads_of_a_process_queue_with_one_connection(url: str) -> None:
    """Those who wait for longer than they want to go on without one, and need the pool's for their publish."""
    with open_store(url) as store:
        pool: Any = store._dialect.engine().pool  # type: ignore[attr-defined]
        together, used = Barrier(2 * THREADS), []

        def work(number: int) -> None:
            together.wait()
            with store.publish_queue(DOMAIN, LONG if number % 2 else SHORT):
                used.append(pool.checkedout())
                sleep(0.02)

        with ThreadPoolExecutor(2 * THREADS) as threads:
            list(threads.map(work, range(2 * THREADS)))
        assert max(used) == 1
        assert pool.checkedout() == 0
