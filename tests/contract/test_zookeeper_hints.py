"""What a ZooKeeper client remembers of records, when the servers are not those that it learned it from."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from kazoo.client import KazooClient

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, Stamped
from airflow_provider.stores.base import Put
from airflow_provider.stores.factory import upgrade_schema
from airflow_provider.stores.zookeeper.address import parsed
from airflow_provider.stores.zookeeper.records import SEGMENT
from airflow_provider.stores.zookeeper.session import Deadline, Get
from airflow_provider.stores.zookeeper.store import ZookeeperStore
from airflow_provider.testing.store_cases.backend import commit, counter_key, publish, put, write
from airflow_provider.testing.store_cases.samples import bare
from tests.servers.zookeeper import ZookeeperServer, expire_session
from tests.services.zookeeper import store, url

__all__ = ["store", "url"]  # fixtures of this module

DOMAIN = DomainName("d")
TABLES = [Key(DOMAIN, Kind.TABLE, "", f"table-{number:04d}") for number in range(40)]
COUNTER = counter_key(DOMAIN)


def put_table(key: Key, job: str) -> Put:
    return Put(key, replace(bare(Kind.TABLE), job=job))


@pytest.fixture
def backed_up(zookeeper_directory: Path) -> Iterator[ZookeeperServer]:
    """A server of this test's own, whose data may be put back."""
    with ZookeeperServer(directory=zookeeper_directory / "backed-up") as server:
        yield server
    shutil.rmtree(server.directory)


def test_a_restored_backup_is_read_although_it_gives_versions_again(backed_up: ZookeeperServer) -> None:
    """R33: neither a node nor the head says of a lost record that it is the one that was written instead."""
    url = backed_up.url()
    upgrade_schema(url)
    data, backup = backed_up.directory / "data", backed_up.directory / "backup"
    with ZookeeperStore(parsed(url)).open() as store:
        write(store, *(put_table(key, "first") for key in TABLES), put(COUNTER), number=commit())
        backed_up.kill()
        shutil.copytree(data, backup)
        backed_up.start()
        write(store, put_table(TABLES[7], "lost"), put(COUNTER, 2), number=commit())
        for number in range(2 * SEGMENT):
            publish(store, DOMAIN, f"lost {number}")
        assert len(store.changes(DOMAIN, 0)) == 2 * SEGMENT + 2
        lost = store.read(DOMAIN, [*TABLES, COUNTER]).records
        assert lost[TABLES[7]].record.job == "lost"
        backed_up.kill()
        shutil.rmtree(data)
        backup.rename(data)
        backed_up.start()
        with ZookeeperStore(parsed(url)).open() as other:
            write(other, put_table(TABLES[7], "instead"), put(COUNTER, 3), number=commit())
            for number in range(3 * SEGMENT):  # a server that is behind what a client has seen lets it wait
                publish(other, DOMAIN, f"instead {number}")
            instead = {change.record.change_set for change in other.changes(DOMAIN, 2)}
            expected = other.read(DOMAIN, [*TABLES, COUNTER]).records
        found = store.read(DOMAIN, [*TABLES, COUNTER]).records
        assert found[TABLES[7]].version == lost[TABLES[7]].version, "the case that is tested"
        assert found[COUNTER].version == lost[COUNTER].version
        assert (found[TABLES[7]].record.job, found[COUNTER].record.generation) == ("instead", 3)
        assert found == expected
        assert {change.record.change_set for change in store.changes(DOMAIN, 2)} == instead


def test_tables_of_another_head_of_the_same_version_are_read_again(url: str) -> None:
    """R33: over one connection, the chroot is deleted and made anew, and its head gets the version of the first one."""
    address = parsed(url)
    with ZookeeperStore(address).open() as store, ZookeeperStore(address).open() as other:
        write(store, *(put_table(key, "first") for key in TABLES), number=commit())
        before, connection = store.read(DOMAIN, TABLES), store._session.generation
        client = KazooClient(hosts=address.hosts[0])
        client.start()
        client.delete(address.chroot, recursive=True)
        client.stop()
        client.close()
        upgrade_schema(url)
        other._known.clear()
        write(other, *(put_table(key, "second") for key in TABLES), number=commit())
        after = store.read(DOMAIN, TABLES)
        assert (before.head.csn, connection) == (after.head.csn, store._session.generation), "the case"
        assert {stamped.record.job for stamped in after.records.values()} == {"second"}
        assert {stamped.record.job for stamped in store.scan(DOMAIN, Kind.TABLE, "")} == {"second"}


def test_records_read_in_two_sessions_are_read_again(store: ZookeeperStore, url: str) -> None:
    """R3: the server of a new session may be behind the head that the former one gave; nor is that remembered."""
    write(store, *(put_table(key, "first") for key in TABLES), number=commit())
    write(store, put_table(TABLES[7], "second"), number=commit())
    with ZookeeperStore(parsed(url)).open() as reader:
        session, ask = reader._session, reader._session.ask
        heads = 0

        def expiring(deadline: Deadline, requests: Sequence[Any]) -> list[Any]:
            nonlocal heads
            answers = ask(deadline, requests)
            if Get(reader._paths.head(DOMAIN)) in requests:
                heads += 1
                if heads == 1:
                    expire(reader)
            return answers

        session.ask = expiring  # type: ignore[method-assign]
        found = reader.read(DOMAIN, TABLES).records
        assert heads == 2
        assert jobs(found) == {"first": 39, "second": 1}


def expire(reader: ZookeeperStore) -> None:
    """Let the session end, and wait for the next one."""
    former = reader._session._client.client_id
    expire_session(",".join(reader._address.hosts), former)
    deadline = Deadline(60)
    while reader._session._client.client_id in (former, None) or not reader._session._client.connected:
        assert deadline.left_s() > 0
        sleep(0.01)


def jobs(found: Mapping[Key, Stamped[Any]]) -> dict[str, int]:
    names = [stamped.record.job for stamped in found.values()]
    return {name: names.count(name) for name in names}
