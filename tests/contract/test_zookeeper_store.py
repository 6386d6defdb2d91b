"""Mechanisms of the ZooKeeper store alone: hints that go stale, remembered tables, segments, and sizes."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.domain.errors import InvalidInput, PackageTooOld, StoreIncompatible
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, commit_item
from airflow_provider.domain.version import SchemaRecord
from airflow_provider.stores.base import Absent, Delete, Exists, Put, RequirementFailed, Transaction
from airflow_provider.stores.factory import check_schema, open_store, upgrade_schema
from airflow_provider.stores.schema_status import Fit
from airflow_provider.stores.zookeeper import maintenance, records
from airflow_provider.stores.zookeeper.address import parsed
from airflow_provider.stores.zookeeper.session import Deadline, Get, ReplyLostError
from airflow_provider.stores.zookeeper.store import ZookeeperStore
from airflow_provider.testing.store_cases.backend import commit, counter_key, publish, put, write
from airflow_provider.testing.store_cases.samples import bare
from tests.servers.zookeeper import ZookeeperServer
from tests.services.zookeeper import store, url

__all__ = ["store", "url"]  # fixtures of this module

DOMAIN = DomainName("d")


@pytest.fixture
def other(url: str) -> Iterator[ZookeeperStore]:
    """Another client, with hints of its own."""
    with ZookeeperStore(parsed(url)).open() as store:
        yield store


def table(number: int) -> Key:
    return Key(DOMAIN, Kind.TABLE, "", f"table-{number:04d}")


def put_table(key: Key, job: str) -> Put:
    return Put(key, replace(bare(Kind.TABLE), job=job))


def node(store: ZookeeperStore, path: str) -> Any:
    """Look at a node, behind the store's back."""
    (answer,) = store._session.ask(Deadline(10), [Get(path)])
    return answer


def names(store: ZookeeperStore, path: str) -> list[str]:
    (answer,) = store._session.ask(Deadline(10), [records.children(path)])
    return sorted(answer or [])


# --- stale hints ---------------------------------------------------------------------------------------------


def test_a_version_from_before_a_deletion_is_never_valid_again(
    store: ZookeeperStore, other: ZookeeperStore
) -> None:
    key = counter_key(DOMAIN)
    old = write(store, put(key, 1)).versions[key]
    assert other.read(DOMAIN, [key]).records[key].version == old
    store.transact(Transaction(domain=DOMAIN, updates=(Delete(key),)))
    for number in range(2, 5):
        write(store, put(key, number))
    with pytest.raises(RequirementFailed) as failed:
        write(other, put(key, 9), requires=[Exists(key, old)])
    assert failed.value.found == store.read(DOMAIN, [key]).records[key].version
    assert store.read(DOMAIN, [key]).records[key].record.generation == 4


def test_a_deleted_record_has_no_version(store: ZookeeperStore, other: ZookeeperStore) -> None:
    """Also not that of the empty node that stands for it."""
    key = counter_key(DOMAIN)
    version = write(store, put(key)).versions[key]
    store.transact(Transaction(domain=DOMAIN, updates=(Delete(key),)))
    for asked in (store, other):
        for wrong in (version, version + 1, version + 2):
            with pytest.raises(RequirementFailed) as failed:
                asked.transact(Transaction(domain=DOMAIN, requires=(Exists(key, wrong),)))
            assert failed.value.found is None


def test_a_log_that_is_older_than_its_epoch_is_written_on(store: ZookeeperStore, url: str) -> None:
    """A new epoch is taken to have no log; where it has one, that guess is corrected."""
    epoch = Key(DOMAIN, Kind.EPOCH, "job", "start")
    one, two = (Key(DOMAIN, Kind.EVENT, "job/start", name) for name in ("one", "two"))
    write(store, Put(one, bare(Kind.EVENT)), requires=[Absent(one)])
    with ZookeeperStore(parsed(url)).open() as fresh:
        write(fresh, Put(epoch, bare(Kind.EPOCH)), Put(two, bare(Kind.EVENT)), requires=[Absent(epoch)])
        write(fresh, Put(one, bare(Kind.EVENT)), Put(two, bare(Kind.EVENT)))
    assert store.read(DOMAIN, [epoch, one, two]).records.keys() == {epoch, one, two}


def test_wrong_hints_are_corrected(store: ZookeeperStore, other: ZookeeperStore, rng: random.Random) -> None:
    """Two clients change the same keys in turns, never reading: each is always wrong about what is there."""
    keys = [counter_key(DOMAIN, name, partition) for name in "abc" for partition in ("", "p")]
    model: dict[Key, int] = {}
    for number in range(120):
        client, key = rng.choice([store, other]), rng.choice(keys)
        requires = [Absent(key)] if rng.random() < 0.4 else []
        update = Delete(key) if rng.random() < 0.4 else put(key, number)
        try:
            client.transact(Transaction(domain=DOMAIN, requires=tuple(requires), updates=(update,)))
        except RequirementFailed:
            assert requires
            assert key in model
            continue
        assert not requires or key not in model
        if isinstance(update, Delete):
            model.pop(key, None)
        else:
            model[key] = number
    found = store.read(DOMAIN, keys).records
    assert {key: stamped.record.generation for key, stamped in found.items()} == model


def test_a_requirement_on_a_commit_holds_also_when_it_was_folded(store: ZookeeperStore) -> None:
    for number in range(3):
        publish(store, DOMAIN, f"change-{number}")
    (first,) = store.changes(DOMAIN, 0, limit=1)
    mark = counter_key(DOMAIN)
    missing = first.key._replace(item=commit_item(4))
    for _ in range(2):
        write(store, put(mark), requires=[Exists(first.key, first.version), Absent(missing)])
        for wrong in (Absent(first.key), Exists(first.key, 2), Exists(missing, 4)):
            with pytest.raises(RequirementFailed):
                write(store, put(mark), requires=[wrong])
        for number in range(records.SEGMENT + records.UNFOLDED):
            publish(store, DOMAIN, f"later-{number}")
        missing = first.key._replace(item=commit_item(store.read(DOMAIN, []).head.csn + 1))
    assert node(store, store._paths.record(first.key)) is None


# --- deleted records -----------------------------------------------------------------------------------------


def lease(number: int) -> Key:
    return Key(DOMAIN, Kind.LEASE, "", f"lease-{number:04d}")


def test_deleted_records_are_cleared_away_and_no_version_comes_back(
    store: ZookeeperStore, other: ZookeeperStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another client believes in the old nodes: it is not fooled by new ones at the same version of their data."""
    for client in (store, other):  # no commit clears by chance what is cleared below
        monkeypatch.setattr(client._maintenance.random, "random", lambda: 1.0)
    keys = [lease(number) for number in range(60)]
    old = write(store, *(Put(key, bare(Kind.LEASE)) for key in keys)).versions
    assert other.read(DOMAIN, keys).records.keys() == set(keys)
    other.transact(Transaction(domain=DOMAIN, requires=tuple(Exists(key, old[key]) for key in keys)))
    store.transact(Transaction(domain=DOMAIN, updates=tuple(Delete(key) for key in keys[:50])))
    folder = store._paths.partition(DOMAIN, Kind.LEASE, "")
    assert store._maintenance.clear((DOMAIN, Kind.LEASE, ""), Deadline(10)) == 50
    assert len(names(store, folder)) == 10
    assert store._maintenance.clear((DOMAIN, Kind.LEASE, ""), Deadline(10)) == 0
    new = write(
        store, *(Put(key, bare(Kind.LEASE)) for key in keys[:20]), requires=[Absent(keys[0])]
    ).versions
    for key in keys[:20]:
        assert node(store, store._paths.record(key))[1].version == 0
        assert new[key] > old[key] + 1
    for key in keys[:20]:
        with pytest.raises(RequirementFailed) as failed:
            other.transact(Transaction(domain=DOMAIN, requires=(Exists(key, old[key]),)))
        assert failed.value.found == new[key]
    write(
        other,
        Put(keys[30], bare(Kind.LEASE)),
        Put(keys[1], bare(Kind.LEASE)),
        Put(keys[55], bare(Kind.LEASE)),
    )
    found = store.read(DOMAIN, keys).records
    assert found.keys() == {*keys[:20], keys[30], *keys[50:]}
    assert found[keys[1]].version == new[keys[1]] + 1
    assert found[keys[30]].version > old[keys[30]] + 1
    assert found[keys[55]].version == old[keys[55]] + 1
    assert [stamped.key for stamped in other.scan(DOMAIN, Kind.LEASE, "")] == sorted(found)


def test_clients_that_make_and_delete_while_it_is_cleared_agree(
    store: ZookeeperStore, other: ZookeeperStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_FEWEST_CLEARED", 1)
    seen: list[dict[Key, set[int]]] = [{}, {}]

    def work(number: int, client: ZookeeperStore) -> int:
        choose = random.Random(number)
        done = 0
        for _ in range(150):
            key = lease(choose.randrange(4))
            stamped = client.read(DOMAIN, [key]).records.get(key)
            requires = Absent(key) if stamped is None else Exists(key, stamped.version)
            update = Delete(key) if stamped and choose.random() < 0.6 else Put(key, bare(Kind.LEASE))
            try:
                receipt = client.transact(Transaction(domain=DOMAIN, requires=(requires,), updates=(update,)))
            except RequirementFailed:
                continue
            for version in receipt.versions.values():
                assert version not in seen[number].setdefault(key, set())
                seen[number][key].add(version)
            done += 1
        return done

    with ThreadPoolExecutor(2) as threads:
        done = [threads.submit(work, number, client) for number, client in enumerate((store, other))]
        assert all(future.result() > 0 for future in done)
    for key, versions in seen[0].items():
        assert versions.isdisjoint(seen[1].get(key, set())), "a version was given to two writes"


# --- tables at one head --------------------------------------------------------------------------------------


def test_a_cut_over_many_tables_reads_few_nodes(store: ZookeeperStore, url: str) -> None:
    keys = [table(number) for number in range(200)]
    write(store, *(put_table(key, "first") for key in keys), number=commit())
    write(store, put_table(keys[7], "second"), number=commit())
    with ZookeeperStore(parsed(url)).open() as reader:
        assert len(reader.read(DOMAIN, keys).records) == 200
        asked: list[int] = []
        ask = reader._session.ask
        reader._session.ask = lambda deadline, requests: (
            asked.append(len(requests)),
            ask(deadline, requests),
        )[1]  # type: ignore[method-assign]
        found = reader.read(DOMAIN, keys)
        assert asked == [2], "one message: the head, behind a sync"
        write(store, put_table(keys[8], "first"), number=commit())
        asked.clear()
        assert reader.read(DOMAIN, keys).records[keys[8]].csn == 3
        assert asked == [2, 200], "then the tables, since the head has moved"
        write(store, put_table(keys[9], "unnumbered"))
        assert reader.read(DOMAIN, keys).records[keys[9]].record.job == "unnumbered"
        store.transact(Transaction(domain=DOMAIN, updates=(Delete(keys[9]),)))
        assert keys[9] not in reader.read(DOMAIN, keys).records
        asked.clear()
        found = reader.read(DOMAIN, keys)
        assert asked == [2, 1], "the head, and the table that is not there"
    assert [found.records[key].record.job for key in keys[6:9]] == ["first", "second", "first"]
    assert (found.records[keys[7]].csn, found.records[keys[8]].csn, found.head.csn) == (2, 3, 3)
    direct = store._records.nodes(keys, Deadline(10))
    assert found.records == direct


def test_remembered_tables_equal_the_nodes_while_others_commit(
    store: ZookeeperStore, other: ZookeeperStore, url: str
) -> None:
    """Never older than the head that was read, and equal to the nodes once all writes have ended."""
    keys = [table(number) for number in range(40)]
    write(store, *(put_table(key, "0") for key in keys[:30]), number=commit())
    done = threading.Event()

    def author(client: ZookeeperStore, seed: int) -> None:
        choose = random.Random(seed)
        for number in range(1, 60):
            chosen = choose.sample(keys, 2)
            updates = [put_table(key, f"{number}") for key in chosen]
            if choose.random() < 0.2:
                client.transact(Transaction(domain=DOMAIN, updates=(Delete(chosen[0]),)))
            else:
                write(client, *updates, number=commit())

    def reader() -> int:
        reads = 0
        with ZookeeperStore(parsed(url)).open() as client:
            while not done.is_set() or not reads:
                reading = client.read(DOMAIN, keys)
                assert len(reading.records) >= 2
                stamps = [record.csn or 0 for record in reading.records.values()]
                commits = client.changes(DOMAIN, 0, limit=1000)
                assert [stamped.csn for stamped in commits] == list(range(1, len(commits) + 1))
                assert max(stamps) <= commits[-1].csn
                reads += 1
            for _ in range(2):
                assert client.read(DOMAIN, keys).records == client._records.nodes(keys, Deadline(10))
            assert [table.key for table in client.scan(DOMAIN, Kind.TABLE, "")] == sorted(
                client.read(DOMAIN, keys).records
            )
        return reads

    with ThreadPoolExecutor(3) as threads:
        reading = threads.submit(reader)
        try:
            for writing in [
                threads.submit(author, client, seed) for seed, client in enumerate((store, other))
            ]:
                writing.result()
        finally:
            done.set()
        assert reading.result() > 0


# --- commits in segments -------------------------------------------------------------------------------------


def test_old_commits_are_folded_and_read_all_the_same(store: ZookeeperStore, url: str) -> None:
    total = 3 * records.SEGMENT + records.UNFOLDED + 5
    done = threading.Event()

    def reader() -> int:
        reads = 0
        with ZookeeperStore(parsed(url)).open() as client:
            while not done.is_set() or not reads:
                found = client.changes(DOMAIN, 0, limit=10_000)
                assert [stamped.csn for stamped in found] == list(range(1, len(found) + 1))
                reads += 1
        return reads

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(reader)
        try:
            made = [publish(store, DOMAIN, f"change-{number}").at for number in range(total)]
        finally:
            done.set()
        assert reading.result() > 0
    assert len(names(store, store._paths.folder(DOMAIN, "segments"))) == 3
    own = names(store, store._paths.partition(DOMAIN, Kind.COMMIT, ""))
    assert len(own) == total - 3 * records.SEGMENT
    with open_store(url) as client:
        found = client.changes(DOMAIN, 0, limit=10_000)
        assert [stamped.record.change_set for stamped in found] == [
            f"change-{number}" for number in range(total)
        ]
        assert [stamped.at for stamped in found] == made
        assert [stamped.version for stamped in found] == list(range(1, total + 1))
        assert client.scan(DOMAIN, Kind.COMMIT, "", reverse=True, limit=2) == found[:-3:-1]
        assert (
            client.scan(DOMAIN, Kind.COMMIT, "", start=found[60].key.item, end=found[70].key.item)
            == found[60:70]
        )
        assert client.read(DOMAIN, [found[3].key]).records == {found[3].key: found[3]}


def test_a_fold_that_was_interrupted_is_whole_or_nothing(
    store: ZookeeperStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = records.SEGMENT + records.UNFOLDED - 1
    for number in range(total):
        publish(store, DOMAIN, f"change-{number}")
    before = store.changes(DOMAIN, 0)
    change = store._session.change
    for made in (False, True):

        def interrupted(deadline: Deadline, operations: Any, made: bool = made) -> Any:
            if made:
                change(deadline, operations)
            raise ReplyLostError("planted")

        monkeypatch.setattr(store._session, "change", interrupted)
        with pytest.raises(ReplyLostError):
            store._maintenance.fold(DOMAIN, total + 1, Deadline(10))
        monkeypatch.undo()
        assert len(names(store, store._paths.folder(DOMAIN, "segments"))) == made
        store._known.clear()
        assert store.changes(DOMAIN, 0) == before
    publish(store, DOMAIN, "last")
    assert [stamped.csn for stamped in store.changes(DOMAIN, 0)] == list(range(1, total + 2))


# --- sizes ---------------------------------------------------------------------------------------------------


def test_a_transaction_that_does_not_fit_is_refused_by_its_size(
    store: ZookeeperStore, rng: random.Random
) -> None:
    keys = [Key(DOMAIN, Kind.SCHEMA, "table", str(number)) for number in range(3)]
    updates = [Put(key, SchemaRecord(schema=rng.randbytes(300_000).hex())) for key in keys]
    with pytest.raises(InvalidInput, match=r"takes about \d{6,7} bytes") as refused:
        write(store, *updates)
    assert "fewer tables" in refused.value.next_step
    assert store.read(DOMAIN, keys).records == {}
    write(store, *updates[:2])
    assert len(store.read(DOMAIN, keys).records) == 2


# --- the layout ----------------------------------------------------------------------------------------------


def test_opening_makes_nothing_and_upgrading_makes_one_layout(zookeeper: ZookeeperServer) -> None:
    url = zookeeper.url(f"a/{uuid.uuid4().hex}/b")
    with pytest.raises(StoreIncompatible, match="airflow epochs db upgrade"):
        open_store(url)
    assert check_schema(url).fit is Fit.EMPTY
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: upgrade_schema(url), range(4)))
    assert {check.fit for check in found if check} == {Fit.CURRENT}
    with open_store(url) as one, open_store(url) as two:
        assert one.read(DOMAIN, []).head == two.read(DOMAIN, []).head


def test_another_layout_is_refused_by_name(store: ZookeeperStore, url: str) -> None:
    def set_to(text: bytes) -> None:
        path = store._paths.schema
        store._session.ask(Deadline(10), [lambda client: client.set_async(path, text)])

    set_to(b"9999")
    for use in (open_store, upgrade_schema):
        with pytest.raises(PackageTooOld, match="9999.*upgrade the package"):
            use(url)
    assert check_schema(url).fit is Fit.NEWER
    store._session.ask(Deadline(10), [lambda client: client.delete_async(store._paths.schema)])
    assert check_schema(url).fit is Fit.ABSENT
    with pytest.raises(StoreIncompatible, match="db upgrade"):
        open_store(url)


def test_a_missing_node_of_the_layout_is_named(store: ZookeeperStore, url: str) -> None:
    store._session.ask(Deadline(10), [lambda client: client.delete_async(store._paths.clock)])
    with pytest.raises(StoreIncompatible, match="clock and incarnation"):
        open_store(url)


def test_a_store_of_another_incarnation_is_noticed(store: ZookeeperStore, zookeeper: ZookeeperServer) -> None:
    """R33: after a backup was restored, hints of the former store are worth nothing."""
    incarnation = store.read(DOMAIN, []).head.incarnation
    publish(store, DOMAIN, "first", incarnation=incarnation)
    path = store._paths.incarnation
    store._session.ask(Deadline(10), [lambda client: client.set_async(path, b"restored")])
    with pytest.raises(RequirementFailed) as refused:
        publish(store, DOMAIN, "second", incarnation=incarnation)
    assert refused.value.found == "restored"
    zookeeper.restart()
    assert store.read(DOMAIN, []).head.incarnation == "restored"
    assert publish(store, DOMAIN, "second", incarnation="restored").csn == 2


def test_a_connection_that_outlives_a_new_incarnation_is_told(store: ZookeeperStore, url: str) -> None:
    """R20, R33: a reader that only reads meets `epochs db restored` of another process without losing its session."""
    before = store.read(DOMAIN, []).head.incarnation
    with open_store(url) as other:
        after = other.new_incarnation()
    deadline = Deadline(10)
    while (found := store.read(DOMAIN, []).head.incarnation) == before and deadline.left_s():
        pass
    assert found == after


def test_time_goes_on_between_writes(store: ZookeeperStore) -> None:
    receipt = write(store, put(counter_key(DOMAIN)))
    first = store.read(DOMAIN, []).now
    second = store.read(DOMAIN, []).now
    later = write(store, put(counter_key(DOMAIN), 2))
    assert receipt.at <= first <= second <= later.at
    assert later.at - receipt.at < timedelta(minutes=1)
