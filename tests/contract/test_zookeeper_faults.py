"""The ZooKeeper store when something fails: replies, servers, sessions, leaders, and those who stand in the queue."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from kazoo.client import KazooClient

from airflow_provider.domain.errors import InvalidInput, OutcomeUnknown, StoreUnavailable
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.stores.base import Absent, Exists, RequirementFailed, Transaction
from airflow_provider.stores.factory import upgrade_schema
from airflow_provider.stores.zookeeper import publish_queues, transacting
from airflow_provider.stores.zookeeper.address import parsed
from airflow_provider.stores.zookeeper.session import Deadline, ReplyLostError
from airflow_provider.stores.zookeeper.store import ZookeeperStore
from airflow_provider.testing.store_cases.backend import LATER, commit, counter_key, publish, put, write
from tests.servers.zookeeper import (
    ZookeeperEnsemble,
    ZookeeperServer,
    expire_session,
)
from tests.services.proxy import Loss, Proxy
from tests.services.zookeeper import store, url

__all__ = ["store", "url"]  # fixtures of this module

DOMAIN = DomainName("d")
KEY = counter_key(DOMAIN)
TIMEOUT = timedelta(seconds=5)
SOON_S = 12.0
"""Far more than the timeout, also on a busy machine, and less than the 15 and 30 s of a store that was told none."""
HEAD = b"/domains/d/head"


@pytest.fixture
def proxy(zookeeper: ZookeeperServer) -> Iterator[Proxy]:
    with Proxy(zookeeper.port) as proxy:
        yield proxy


@pytest.fixture
def far_store(url: str, zookeeper: ZookeeperServer, proxy: Proxy) -> Iterator[ZookeeperStore]:
    """An impatient store behind a network."""
    far = url.replace(zookeeper.hosts, f"127.0.0.1:{proxy.port}") + "?session_timeout=1"
    with ZookeeperStore(parsed(far), timeout=TIMEOUT).open() as store:
        yield store


# --- a network ------------------------------------------------------------------------------------------------


def test_a_lost_reply_is_asked_about(far_store: ZookeeperStore, store: ZookeeperStore, proxy: Proxy) -> None:
    """The transaction was made: its receipt is what it would have been."""
    write(far_store, put(KEY), number=commit("first"))
    proxy.loss = Loss(when=HEAD, reply=True, hang=False)
    receipt = write(far_store, put(KEY, 2), requires=[Exists(KEY, 1)], number=commit("second"))
    assert proxy.lost.is_set()
    stamped = store.read(DOMAIN, [KEY]).records[KEY]
    assert (receipt.csn, receipt.versions) == (2, {KEY: stamped.version})
    assert (stamped.csn, stamped.at, stamped.record.generation) == (2, receipt.at, 2)
    assert [change.record.change_set for change in store.changes(DOMAIN, 0)] == ["first", "second"]
    assert publish(far_store, DOMAIN, "third").csn == 3


def test_a_lost_request_is_an_unknown_outcome(
    far_store: ZookeeperStore, store: ZookeeperStore, proxy: Proxy
) -> None:
    """It did not arrive, and that cannot be known: nothing is guessed, and nothing sent twice."""
    publish(far_store, DOMAIN, "first")
    proxy.loss = Loss(when=HEAD, reply=False, hang=False)
    with pytest.raises(OutcomeUnknown, match="not confirmed") as unknown:
        publish(far_store, DOMAIN, "lost")
    assert "read what the transaction" in unknown.value.next_step
    assert publish(far_store, DOMAIN, "second").csn == 2
    assert [change.record.change_set for change in store.changes(DOMAIN, 0)] == ["first", "second"]


def test_transaction_with_overwritten_traces_has_an_unknown_outcome(
    store: ZookeeperStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, put(KEY))
    change = store._session.change
    with ZookeeperStore(parsed(url)).open() as other:

        def lose(deadline: Deadline, operations: Any) -> Any:
            change(deadline, operations)
            write(other, put(KEY, 9))
            raise ReplyLostError("planted")

        monkeypatch.setattr(store._session, "change", lose)
        with pytest.raises(OutcomeUnknown):
            write(store, put(KEY, 2))


def test_requirements_alone_are_asked_again(store: ZookeeperStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """They change nothing, so a lost reply is no unknown outcome."""
    version = write(store, put(KEY)).versions[KEY]
    change = store._session.change
    lost = []

    def lose(deadline: Deadline, operations: Any) -> Any:
        if not lost:
            lost.append(operations)
            raise ReplyLostError("planted")
        return change(deadline, operations)

    monkeypatch.setattr(store._session, "change", lose)
    store.transact(Transaction(domain=DOMAIN, requires=(Exists(KEY, version),)))
    assert lost


@pytest.mark.parametrize("reply", [True, False])
def test_a_black_hole_ends_a_commit_at_the_deadline(
    far_store: ZookeeperStore, store: ZookeeperStore, proxy: Proxy, reply: bool
) -> None:
    publish(far_store, DOMAIN, "first")
    proxy.loss = Loss(when=HEAD, reply=reply, hang=True)
    began = time.monotonic()
    with suppress(OutcomeUnknown):  # after the session has moved to another connection it can be asked about
        assert publish(far_store, DOMAIN, "second").csn == 2
    assert proxy.lost.is_set()
    assert time.monotonic() - began < SOON_S
    assert publish(store, DOMAIN, "third").csn == 2 + reply


def test_a_black_hole_ends_a_read_at_the_deadline(far_store: ZookeeperStore, proxy: Proxy) -> None:
    publish(far_store, DOMAIN, "first")
    proxy.loss = Loss(when=HEAD, reply=True, hang=True)
    began = time.monotonic()
    with suppress(StoreUnavailable):
        assert far_store.read(DOMAIN, []).head.csn == 1
    assert proxy.lost.is_set()
    assert time.monotonic() - began < SOON_S
    assert far_store.read(DOMAIN, []).head.csn == 1


def test_a_call_that_was_lost_is_made_up_for_by_looking(
    far_store: ZookeeperStore, store: ZookeeperStore
) -> None:
    """The watch is taken away from kazoo; the slow poll beneath sees the commit nevertheless."""
    with ThreadPoolExecutor(1) as threads:
        watch = threads.submit(far_store.watch, DOMAIN, 0, LATER)
        client = far_store._session._client
        while not client._data_watchers:
            time.sleep(0.01)
        client._data_watchers.clear()
        publish(store, DOMAIN)
        assert watch.result(10) == 1


# --- servers --------------------------------------------------------------------------------------------------


def commits_during(stores: list[ZookeeperStore], fault: Any) -> None:
    """Commit from several clients while *fault* happens: nothing acknowledged is lost, nothing is there twice."""
    done = threading.Event()
    began = [threading.Event() for _ in stores]

    def work(number: int, store: ZookeeperStore) -> tuple[list[int], int]:
        acknowledged, unknown = [], 0
        while not done.is_set():
            try:
                receipt = write(
                    store,
                    put(counter_key(DOMAIN, str(number))),
                    number=commit(f"by {number}-{uuid.uuid4().hex}"),
                )
            except OutcomeUnknown:
                unknown += 1
            else:
                acknowledged.append(receipt.csn or 0)
                if len(acknowledged) > 5:
                    began[number].set()
        return acknowledged, unknown

    with ThreadPoolExecutor(len(stores)) as threads:
        workers = [threads.submit(work, number, store) for number, store in enumerate(stores)]
        try:
            for event in began:
                assert event.wait(120)
            fault()
            for store in stores:
                assert store.read(DOMAIN, []).head.csn > 0
                publish(store, DOMAIN, uuid.uuid4().hex)
        finally:
            done.set()
        results = [worker.result() for worker in workers]
    acknowledged = sorted(csn for csns, _ in results for csn in csns)
    kept = stores[0].changes(DOMAIN, 0, limit=100_000)
    assert [stamped.csn for stamped in kept] == list(range(1, len(kept) + 1))
    assert len({stamped.record.change_set for stamped in kept}) == len(kept)
    assert set(acknowledged) <= {stamped.csn for stamped in kept}
    assert len(acknowledged) == len(set(acknowledged))
    assert len(kept) - len(acknowledged) - len(stores) <= sum(unknown for _, unknown in results)


def test_a_server_that_is_restarted_in_the_middle_loses_nothing(
    zookeeper: ZookeeperServer, store: ZookeeperStore, url: str
) -> None:
    with ZookeeperStore(parsed(url)).open() as other:
        commits_during([store, other], zookeeper.restart)


def test_a_leader_that_is_killed_in_the_middle_loses_nothing(zookeeper_ensemble: ZookeeperEnsemble) -> None:
    url = zookeeper_ensemble.url()
    upgrade_schema(url)
    killed = []
    with ZookeeperStore(parsed(url)).open() as one, ZookeeperStore(parsed(url)).open() as two:
        try:
            commits_during([one, two], lambda: killed.append(zookeeper_ensemble.kill_leader()))
        finally:
            for server in killed:
                server.start()
            zookeeper_ensemble.wait()


def test_a_session_that_expires_in_the_middle_loses_nothing(
    zookeeper: ZookeeperServer, store: ZookeeperStore, url: str
) -> None:
    def expire() -> None:
        session = store._session._client.client_id
        expire_session(zookeeper.hosts, session)
        while store._session._client.client_id in (session, None):
            store.read(DOMAIN, [])

    with ZookeeperStore(parsed(url)).open() as other:
        commits_during([store, other], expire)


def test_a_watch_outlives_its_session(zookeeper: ZookeeperServer, store: ZookeeperStore, url: str) -> None:
    with ThreadPoolExecutor(1) as threads, ZookeeperStore(parsed(url)).open() as other:
        watch = threads.submit(store.watch, DOMAIN, 0, LATER)
        while not store._session._client._data_watchers:
            time.sleep(0.01)
        expire_session(zookeeper.hosts, store._session._client.client_id)
        assert publish(other, DOMAIN).csn == 1
        assert watch.result(10) == 1


def test_nothing_hangs_while_the_servers_are_away(zookeeper: ZookeeperServer, url: str) -> None:
    with ZookeeperStore(parsed(url)).open() as store:
        version = write(store, put(KEY)).versions[KEY]
        zookeeper.kill()
        timeout_s, store._timeout_s = store._timeout_s, 1.0
        try:
            uses = (
                lambda: store.read(DOMAIN, [KEY]),
                lambda: store.scan(DOMAIN, KEY.kind, ""),
                lambda: store.changes(DOMAIN, 0),
                store.domains,
                lambda: store.watch(DOMAIN, 0, LATER),
                lambda: write(store, put(KEY, 2), requires=[Exists(KEY, version)], number=commit()),
            )
            began = time.monotonic()
            with ThreadPoolExecutor(len(uses)) as threads:
                for used in [threads.submit(use) for use in uses]:
                    with pytest.raises(StoreUnavailable) as failed:
                        used.result()
                    assert zookeeper.hosts in str(failed.value)
            assert time.monotonic() - began < SOON_S
        finally:
            zookeeper.start()
        store._timeout_s = timeout_s  # kazoo pauses before it tries again; nothing was sent
        assert write(store, put(KEY, 2), requires=[Exists(KEY, version)]).versions[KEY] == version + 1


def test_a_store_closes_while_the_servers_are_away(zookeeper: ZookeeperServer, url: str) -> None:
    store = ZookeeperStore(parsed(url)).open()
    zookeeper.kill()
    try:
        began = time.monotonic()
        store.close()
        assert time.monotonic() - began < SOON_S
    finally:
        zookeeper.start()


def test_a_store_that_is_closed_under_a_call_stays_closed(zookeeper: ZookeeperServer, url: str) -> None:
    """A call that waits for the servers then does not open the connection again."""
    store = ZookeeperStore(parsed(url)).open()
    publish(store, DOMAIN)
    with ThreadPoolExecutor(2) as threads:
        watch = threads.submit(store.watch, DOMAIN, 1, LATER)
        zookeeper.kill()
        try:
            while store._session._client.connected:
                time.sleep(0.01)
            read = threads.submit(store.read, DOMAIN, [])
            store.close()
            for call in (watch, read):
                with pytest.raises(InvalidInput, match="open store"):
                    call.result(20)
        finally:
            zookeeper.start()
    assert store._session._client is None


def test_no_server_is_said_soon() -> None:
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="refused"):
        ZookeeperStore(parsed("zookeeper://127.0.0.1:1/x"), timeout=timedelta(seconds=1)).open()
    assert time.monotonic() - began < SOON_S


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_waits_for_no_lock_of_its_parent(store: ZookeeperStore) -> None:
    publish(store, DOMAIN)
    store._writer._domains[DOMAIN].acquire()
    try:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                began = time.monotonic()
                publish(store, DOMAIN)
                status = int(time.monotonic() - began > 20)
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        store._writer._domains[DOMAIN].release()
    assert publish(store, DOMAIN).csn == 3


# --- the queue for the head -----------------------------------------------------------------------------------


def test_queue_serves_writers_in_order(
    store: ZookeeperStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish_queues, "LONGEST_WAIT_S", 20.0)
    publish(store, DOMAIN)
    order: list[int] = []
    stores = [ZookeeperStore(parsed(url)).open() for _ in range(3)]
    first = store._writer.queues.take(DOMAIN, Deadline(10))
    folder = store._paths.folder(DOMAIN, "turns")

    def queue(number: int) -> None:
        own = stores[number]._writer.queues.take(DOMAIN, Deadline(20))
        order.append(number)
        stores[number]._writer.queues.leave(own, Deadline(10))

    with ThreadPoolExecutor(3) as threads:
        waiting = []
        for number in range(3):
            waiting.append(threads.submit(queue, number))
            while len(store._session._client.get_children(folder)) < number + 2:
                time.sleep(0.01)
        assert order == []
        store._writer.queues.leave(first, Deadline(10))
        for turn in waiting:
            turn.result(20)
    assert order == [0, 1, 2]
    assert store._session._client.get_children(folder) == []
    for opened in stores:
        opened.close()


def test_paused_writer_does_not_stop_the_queue(
    store: ZookeeperStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transacting, "RACES_BEFORE_QUEUE", 0)
    publish(store, DOMAIN)
    with ZookeeperStore(parsed(url)).open() as paused:
        stands = paused._writer.queues.take(DOMAIN, Deadline(10))
        waits: list[float] = []
        wait = threading.Event.wait

        def counted(event: threading.Event, timeout: float | None = None) -> bool:
            if timeout is not None and threading.current_thread() is threading.main_thread():
                waits.append(timeout)
            return wait(event, timeout)

        monkeypatch.setattr(publish_queues.Event, "wait", counted)
        waited = []
        for csn in (2, 3, 4):
            assert publish(store, DOMAIN).csn == csn
            waited.append(len(waits))
        assert waited == [1, 1, 1], "only the first one waited for it"
        folder = store._paths.folder(DOMAIN, "turns")
        left = store._session._client.get_children(folder)
        assert left == [str(stands).rpartition("/")[2]]


def test_a_place_in_the_queue_that_is_gone_does_no_harm(
    store: ZookeeperStore, zookeeper: ZookeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transacting, "RACES_BEFORE_QUEUE", 0)
    take = store._writer.queues.take

    def take_and_lose(domain: DomainName, deadline: Deadline) -> str | None:
        own = take(domain, deadline)
        client = KazooClient(hosts=zookeeper.hosts)
        client.start()
        client.delete(own)
        client.stop()
        client.close()
        monkeypatch.undo()
        return own

    publish(store, DOMAIN)
    monkeypatch.setattr(transacting, "RACES_BEFORE_QUEUE", 0)
    monkeypatch.setattr(store._writer.queues, "take", take_and_lose)
    assert publish(store, DOMAIN).csn == 2


def test_a_turn_is_given_on_by_the_commit_itself(store: ZookeeperStore, url: str) -> None:
    publish(store, DOMAIN)
    with ZookeeperStore(parsed(url)).open() as other, ThreadPoolExecutor(1) as threads:
        with store.publish_queue(DOMAIN, LATER):
            folder = store._paths.folder(DOMAIN, "turns")
            client = store._session._client
            waiting = threads.submit(other._writer.queues.take, DOMAIN, Deadline(20), 20.0)
            while len(client.get_children(folder)) < 2:
                time.sleep(0.01)
            with pytest.raises(RequirementFailed):
                write(store, put(KEY), requires=[Exists(KEY, 7)], number=commit())
            assert len(client.get_children(folder)) == 2
            assert not waiting.done()
            publish(store, DOMAIN)
            own = waiting.result(20)
            assert client.get_children(folder) == [str(own).rpartition("/")[2]]
            publish(store, DOMAIN)
        other._writer.queues.leave(own, Deadline(10))
        assert client.get_children(folder) == []


def test_concurrent_publishes_leave_no_gap_and_no_queue(url: str, store: ZookeeperStore) -> None:
    stores = [ZookeeperStore(parsed(url)).open() for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        taken = threads.map(
            lambda number: [
                publish(stores[number], DOMAIN, f"{number}-{turn}").csn or 0 for turn in range(25)
            ],
            range(4),
        )
        assert sorted(csn for csns in taken for csn in csns) == list(range(1, 101))
    for opened in stores:
        opened.close()
    folder = store._paths.folder(DOMAIN, "turns")
    client = store._session._client
    assert client.exists(folder) is None or client.get_children(folder) == []
    assert write(store, put(KEY), requires=[Absent(KEY)], number=commit()).csn == 101
