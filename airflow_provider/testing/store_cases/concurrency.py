"""Cases: concurrent transactions behave as if one came after the other, in threads, processes and forked children."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, Event
from time import monotonic, sleep
from typing import Any

import pytest

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key
from airflow_provider.stores.base import (
    Absent,
    Exists,
    MetadataStore,
    RequirementFailed,
    StoreCapability,
    Transaction,
)
from airflow_provider.testing.store_cases.backend import (
    LATER,
    SOON,
    StoreBackend,
    StoreCases,
    commit,
    counter_key,
    publish,
    put,
    write,
)

THREADS = 8
PROCESSES = 3
PRELOADED = (__name__, "sqlalchemy", "alembic", "psycopg", "kazoo.client")
"""Modules that the fork server imports once for all processes; it ignores those that are not installed."""
TRANSFERS = 12
ACCOUNTS = 4
BALANCE = 100


def accounts(domain: DomainName) -> list[Key[Any]]:
    """Return the keys of the accounts between which money is moved."""
    return [counter_key(domain, f"account-{number}") for number in range(ACCOUNTS)]


def transfer(store: MetadataStore, domain: DomainName, seed: int) -> list[int]:
    """Move money between accounts, each time by the balances just read; return the CSNs taken."""
    choose = random.Random(seed)  # noqa: S311 - not for secrets
    taken: list[int] = []
    while len(taken) < TRANSFERS:
        giver, taker = choose.sample(accounts(domain), 2)
        records = store.read(domain, [giver, taker]).records
        amount = choose.randint(1, 10)
        try:
            receipt = write(
                store,
                put(giver, records[giver].record.generation - amount),
                put(taker, records[taker].record.generation + amount),
                requires=[Exists(key, records[key].version) for key in (giver, taker)],
                number=commit(f"{seed}-{len(taken)}"),
            )
        except RequirementFailed:
            continue
        assert receipt.csn is not None
        taken.append(receipt.csn)
    return taken


def transfer_elsewhere(opener: Callable[[], MetadataStore], domain: DomainName, seed: int) -> list[int]:
    """Run :func:`transfer` in another process."""
    with opener() as store:
        return transfer(store, domain, seed)


def claim(store: MetadataStore, key: Key[Any], number: int) -> bool:
    """Create *key* if it does not exist; return whether this call created it."""
    try:
        write(store, put(key, number), requires=[Absent(key)])
    except RequirementFailed:
        return False
    return True


def claim_elsewhere(opener: Callable[[], MetadataStore], keys: list[Key[Any]], number: int) -> list[bool]:
    """Claim each of *keys* in another process."""
    with opener() as store:
        return [claim(store, key, number) for key in keys]


@contextmanager
def executor(backend: StoreBackend) -> Iterator[tuple[Executor, Callable[[], MetadataStore] | None]]:
    """Yield an executor of processes and the function that opens the backend there; of threads if it cannot be."""
    opener = backend.opener()
    if opener is None:
        with ThreadPoolExecutor(PROCESSES) as threads:
            yield threads, None
    else:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(PRELOADED))  # once, for all processes of all stores
        with ProcessPoolExecutor(PROCESSES, mp_context=context) as processes:
            yield processes, opener


def answers(futures: Iterable[Future[list[int]]]) -> list[int]:
    return sorted(number for future in futures for number in future.result())


class ConcurrencyCases(StoreCases):
    """Races, conservation, watching, forks, closing."""

    def test_one_of_many_threads_wins(self, store: MetadataStore, domain: DomainName) -> None:
        start = Barrier(THREADS)
        keys = [counter_key(domain, f"{number:02d}") for number in range(5)]

        def run(number: int) -> list[bool]:
            start.wait()
            return [claim(store, key, number) for key in keys]

        with ThreadPoolExecutor(THREADS) as threads:
            won = list(threads.map(run, range(THREADS)))
        for position, key in enumerate(keys):
            winners = [number for number, mine in enumerate(won) if mine[position]]
            assert winners == [store.read(domain, [key]).records[key].record.generation]

    def test_threads_conserve_a_sum_and_leave_no_gap(self, store: MetadataStore, domain: DomainName) -> None:
        keys = accounts(domain)
        write(store, *(put(key, BALANCE) for key in keys))
        done = Event()

        def audit() -> int:
            audits = 0
            while not done.is_set() or not audits:
                reading = store.read(domain, keys)
                if StoreCapability.SNAPSHOT_READ in store.capabilities:
                    found = reading.records.values()
                    assert sum(account.record.generation for account in found) == ACCOUNTS * BALANCE
                    assert max(account.csn or 0 for account in found) <= reading.head.csn
                audits += 1
                sleep(0.001)
            return audits

        with ThreadPoolExecutor(THREADS + 1) as threads:
            audits = threads.submit(audit)
            try:
                taken = answers([threads.submit(transfer, store, domain, seed) for seed in range(THREADS)])
            finally:
                done.set()
            assert audits.result() > 0
        assert taken == list(range(1, THREADS * TRANSFERS + 1))
        self._check_sum(store, domain, len(taken))

    def test_processes_conserve_a_sum_and_one_of_them_wins(
        self, backend: StoreBackend, store: MetadataStore, domain: DomainName
    ) -> None:
        write(store, *(put(key, BALANCE) for key in accounts(domain)))
        claimed = [counter_key(domain, f"{number:02d}", "a") for number in range(5)]
        with executor(backend) as (others, opener):
            jobs = [
                others.submit(transfer_elsewhere, opener or backend.open, domain, seed)
                for seed in range(PROCESSES)
            ]
            claims = [
                others.submit(claim_elsewhere, opener or backend.open, claimed, seed)
                for seed in range(PROCESSES)
            ]
            mine = transfer(store, domain, PROCESSES)
            taken = sorted(answers(jobs) + mine)
            won = [future.result() for future in claims]
        assert taken == list(range(1, (PROCESSES + 1) * TRANSFERS + 1))
        self._check_sum(store, domain, len(taken))
        found = store.read(domain, claimed).records
        for position, key in enumerate(claimed):
            winners = [number for number, mine in enumerate(won) if mine[position]]
            assert winners == [found[key].record.generation]

    def _check_sum(self, store: MetadataStore, domain: DomainName, commits: int) -> None:
        found = store.read(domain, accounts(domain)).records.values()
        assert sum(account.record.generation for account in found) == ACCOUNTS * BALANCE
        changes = store.changes(domain, 0)
        assert [change.csn for change in changes] == list(range(1, commits + 1))
        assert len({change.record.change_set for change in changes}) == commits
        assert len({change.version for change in changes}) == commits
        times = [change.at for change in changes]
        assert times == sorted(times)

    # --- watching --------------------------------------------------------------------------------------------

    def test_a_watch_sees_what_was_committed_before_it(
        self, store: MetadataStore, domain: DomainName
    ) -> None:
        publish(store, domain)
        began = monotonic()
        assert store.watch(domain, 0, LATER) == 1
        assert monotonic() - began < LATER.total_seconds() / 2

    def test_a_watch_wakes_up(self, backend: StoreBackend, store: MetadataStore, domain: DomainName) -> None:
        other = DomainName(f"{domain}-other")
        with backend.open() as watching, ThreadPoolExecutor(2) as threads:
            began = monotonic()
            watch = threads.submit(watching.watch, domain, 1, LATER)
            sleep(0.05)
            publish(store, other)
            publish(store, domain)
            sleep(0.05)
            publish(store, domain)
            csn = watch.result()
            while csn < 2:
                csn = watching.watch(domain, 1, LATER)
        assert csn == 2
        assert monotonic() - began < LATER.total_seconds() / 2

    def test_a_watch_ends(self, store: MetadataStore, domain: DomainName) -> None:
        publish(store, domain)
        assert store.watch(domain, 1, SOON) == 1
        assert store.watch(domain, 1, -SOON) == 1
        assert store.watch(domain, 99, 0 * SOON) == 1

    # --- children and closing --------------------------------------------------------------------------------

    @pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
    def test_a_child_may_use_the_store_that_it_inherited(
        self, backend: StoreBackend, store: MetadataStore, domain: DomainName
    ) -> None:
        """The child's commits stay although its parent closes the store meanwhile."""
        if backend.opener() is None:
            return
        publish(store, domain, "parent")
        ready, go = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                publish(store, domain, "child")
                os.write(ready[1], b"x")
                os.read(go[0], 1)
                publish(store, domain, "child again")
                status = 0
            finally:
                os._exit(status)
        os.read(ready[0], 1)
        store.close()
        os.write(go[1], b"x")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        for end in (*ready, *go):
            os.close(end)
        with backend.open() as again:
            names = [change.record.change_set for change in again.changes(domain, 0)]
        assert names == ["parent", "child", "child again"]

    def test_a_store_may_be_closed_twice(self, backend: StoreBackend, domain: DomainName) -> None:
        store = backend.open()
        publish(store, domain)
        store.close()
        store.close()
        for use in (
            lambda: store.read(domain, []),
            lambda: store.watch(domain, 0, SOON),
            lambda: store.transact(Transaction(domain=domain, number=commit())),
        ):
            with pytest.raises(InvalidInput, match="open store"):
                use()
        with backend.open() as again:
            assert again.read(domain, []).head.csn == 1
