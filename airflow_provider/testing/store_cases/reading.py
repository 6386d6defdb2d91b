"""Cases: reads return the records that were written, in the requested order, and of one domain only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.stores.base import Delete, MetadataStore, Number, Put, Transaction, pages
from airflow_provider.testing.store_cases.backend import (
    SOON,
    StoreBackend,
    StoreCases,
    commit,
    counter_key,
    publish,
    put,
    write,
)
from airflow_provider.testing.store_cases.samples import bare, sample

HOSTILE_NAMES = (
    "a",
    "A",
    "a%",
    "a_",
    "a'b",
    'a"b',
    "a; DROP TABLE epochs_record; --",
    "../a",
    "a//b",
    "a/b",
    "%2e%2e",
    "a\\b",
    "a\nb",
    "a b",
    "á",
    "a\u0301",
    "\u202ea",
    "\U0001f40d",
    "名" * 300,
    "a" * 1024,
)
"""Distinct names that careless escaping would mix up."""


class ReadingCases(StoreCases):
    """Reads, scans, pages, stamps, domains."""

    def test_an_unknown_domain_is_empty(self, store: MetadataStore, domain: DomainName) -> None:
        reading = store.read(domain, [counter_key(domain)])
        assert reading.head.csn == 0
        assert reading.head.incarnation
        assert reading.records == {}
        assert store.scan(domain, Kind.EPOCH, "") == []
        assert store.changes(domain, 0) == []
        assert store.watch(domain, 0, SOON) == 0
        assert domain not in store.domains()

    @pytest.mark.parametrize("make", [sample, bare])
    @pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.COMMIT])
    def test_a_record_of_each_kind_comes_back_equal(
        self, store: MetadataStore, domain: DomainName, kind: Kind, make: Callable[[Kind], Any]
    ) -> None:
        key, record = Key(domain, kind, "partition", "item"), make(kind)
        receipt = write(store, Put(key, record))
        stamped = store.read(domain, [key]).records[key]
        assert stamped.record == record
        assert type(stamped.record) is type(record)
        assert (stamped.key, stamped.version, stamped.csn) == (key, receipt.versions[key], None)
        assert store.scan(domain, kind, "partition") == [stamped]

    def test_a_commit_comes_back_equal(self, store: MetadataStore, domain: DomainName) -> None:
        commits = [sample(Kind.COMMIT), bare(Kind.COMMIT)]
        for record in commits:
            store.transact(Transaction(domain=domain, number=Number(record)))
        assert [change.record for change in store.changes(domain, 0)] == commits

    def test_many_keys_at_once(self, store: MetadataStore, domain: DomainName) -> None:
        keys = [counter_key(domain, f"{number:05d}", "ab"[number % 2]) for number in range(3000)]
        for half in (0, 1500):  # as many as fit into one transaction of every store
            write(store, *(put(key, half + number) for number, key in enumerate(keys[half : half + 1500])))
        absent = counter_key(domain, "absent", "a")
        found = store.read(domain, [absent, *reversed(keys), *keys]).records
        assert {key: stamped.record.generation for key, stamped in found.items()} == {
            key: number for number, key in enumerate(keys)
        }

    def test_what_was_read_before_is_read_as_others_left_it(
        self, backend: StoreBackend, store: MetadataStore, domain: DomainName
    ) -> None:
        """R3: a client that remembers records still sees those that another client wrote, deleted or made since."""
        names = ("kept", "written", "deleted", "made again", "made")
        kept, written, deleted, again, made = keys = [counter_key(domain, name) for name in names]
        write(store, *(put(key) for key in keys[:4]))
        before = store.read(domain, keys).records
        with backend.open() as other:
            write(other, put(written, 2), put(made, 2), number=commit())
            other.transact(Transaction(domain=domain, updates=(Delete(deleted), Delete(again))))
            write(other, put(again))
            reading = store.read(domain, keys)
            assert reading.records == other.read(domain, keys).records
        found = {key: stamped.record.generation for key, stamped in reading.records.items()}
        assert found == {kept: 1, written: 2, again: 1, made: 2}
        assert reading.records[kept] == before[kept]
        assert reading.records[written].csn == reading.head.csn == 1
        assert reading.records[again].version != before[again].version
        assert store.read(domain, keys).records == reading.records
        assert store.scan(domain, Kind.TOPOLOGY, "") == [reading.records[key] for key in sorted(found)]

    def test_hostile_names_stay_apart(self, store: MetadataStore, domain: DomainName) -> None:
        keys = [counter_key(domain, item, partition) for item in HOSTILE_NAMES for partition in HOSTILE_NAMES]
        write(store, *(put(key, number) for number, key in enumerate(keys)))
        found = store.read(domain, keys).records
        assert [found[key].record.generation for key in keys] == list(range(len(keys)))
        for partition in HOSTILE_NAMES:
            scanned = store.scan(domain, Kind.TOPOLOGY, partition)
            assert [stamped.key.item for stamped in scanned] == sorted(HOSTILE_NAMES)

    @pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 1025, "é" * 513, ""])
    def test_names_that_not_every_store_can_keep_are_refused(
        self, store: MetadataStore, domain: DomainName, name: str
    ) -> None:
        key = counter_key(domain, name)
        with pytest.raises(InvalidInput, match="item"):
            write(store, put(key))
        with pytest.raises(InvalidInput, match="item"):
            store.read(domain, [key])
        assert domain not in store.domains()

    def test_hostile_domains_stay_apart(self, store: MetadataStore, domain: DomainName) -> None:
        domains = [
            DomainName(f"{domain} {name}"[:1000].encode()[:1000].decode(errors="ignore"))
            for name in HOSTILE_NAMES[:-2]
        ]
        for number, name in enumerate(domains):
            write(store, put(counter_key(name), number))
        for number, name in enumerate(domains):
            key = counter_key(name)
            assert store.read(name, [key]).records[key].record.generation == number
        assert [name for name in store.domains() if name in domains] == sorted(domains)

    def test_a_scan_is_sorted_and_bounded(self, store: MetadataStore, domain: DomainName) -> None:
        items = ["B", "a", "a0", "b", "c", "é", "\uffff", "\U0001f40d"]
        write(store, *(put(counter_key(domain, item, "a")) for item in reversed(items)))
        write(store, put(counter_key(domain, "a", "b")), put(counter_key(domain, "zz", "")))

        def scanned(**options: object) -> list[str]:
            found = store.scan(domain, Kind.TOPOLOGY, "a", **options)  # type: ignore[arg-type]
            return [stamped.key.item for stamped in found]

        assert scanned() == items
        assert scanned(start="a") == items[1:]
        assert scanned(start="a\x01") == items[2:]
        assert scanned(end="b") == items[:3]
        assert scanned(start="a0", end="c") == ["a0", "b"]
        assert scanned(start="c", end="a") == []
        assert scanned(limit=2) == ["B", "a"]
        assert scanned(reverse=True) == items[::-1]
        assert scanned(reverse=True, limit=2, end="c") == ["b", "a0"]
        assert scanned(reverse=True, start="a", end="b") == ["a0", "a"]

    def test_pages_miss_nothing(self, store: MetadataStore, domain: DomainName) -> None:
        items = [f"{number:03d}" for number in range(7)]
        write(store, *(put(counter_key(domain, item)) for item in items))
        for size in (1, 2, 7, 8):
            found = pages(store, domain, TopologyRecord, size=size)
            assert [stamped.key.item for stamped in found] == items
        rest = pages(store, domain, TopologyRecord, start="003", size=2)
        assert [stamped.key.item for stamped in rest] == items[3:]

    def test_pages_go_on_behind_the_longest_name(self, store: MetadataStore, domain: DomainName) -> None:
        items = [letter * 1024 for letter in "abc"]
        write(store, *(put(counter_key(domain, item)) for item in items))
        found = pages(store, domain, TopologyRecord, size=1)
        assert [stamped.key.item for stamped in found] == items

    @pytest.mark.parametrize("bound", ["a\0b", "\ud800", "x" * 1026])
    def test_bounds_that_no_name_can_have_are_refused(
        self, store: MetadataStore, domain: DomainName, bound: str
    ) -> None:
        with pytest.raises(InvalidInput, match="start"):
            store.scan(domain, Kind.EPOCH, "", start=bound)
        with pytest.raises(InvalidInput, match="end"):
            store.scan(domain, Kind.EPOCH, "", end=bound)

    @pytest.mark.parametrize("limit", [0, -1])
    def test_a_limit_below_one_is_refused(self, store: MetadataStore, domain: DomainName, limit: int) -> None:
        with pytest.raises(InvalidInput, match="limit"):
            store.scan(domain, Kind.EPOCH, "", limit=limit)
        with pytest.raises(InvalidInput, match="limit"):
            store.changes(domain, 0, limit=limit)

    def test_domains_do_not_see_each_other(self, store: MetadataStore, domain: DomainName) -> None:
        other = DomainName(f"{domain}-other")
        write(store, put(counter_key(domain), 1))
        write(store, put(counter_key(other), 2))
        publish(store, other)
        publish(store, other)
        reading = store.read(domain, [counter_key(domain)])
        assert reading.head.csn == 0
        assert reading.records[counter_key(domain)].record.generation == 1
        assert store.read(other, []).head.csn == 2
        assert store.changes(domain, 0) == []
        assert publish(store, domain).csn == 1
        with pytest.raises(InvalidInput, match="domain"):
            store.read(domain, [counter_key(other)])

    def test_stamps_are_the_transactions(self, store: MetadataStore, domain: DomainName) -> None:
        before = store.read(domain, []).now
        first = write(store, put(counter_key(domain, "one")), put(counter_key(domain, "two")))
        second = write(store, put(counter_key(domain, "two"), 2))
        reading = store.read(domain, [counter_key(domain, "one"), counter_key(domain, "two")])
        one, two = (reading.records[counter_key(domain, name)] for name in ("one", "two"))
        assert (one.at, two.at) == (first.at, second.at)
        assert (one.version, two.version) == (first.versions[one.key], second.versions[two.key])
        assert before <= one.at <= two.at <= reading.now
        assert reading.now.utcoffset() is not None

    def test_another_store_on_the_backend_sees_everything(
        self, store: MetadataStore, domain: DomainName, backend: object
    ) -> None:
        key = counter_key(domain)
        write(store, put(key, 7))
        publish(store, domain)
        with backend.open() as again:  # type: ignore[attr-defined]
            reading = again.read(domain, [key])
            assert reading.head == store.read(domain, []).head
            assert reading.records == store.read(domain, [key]).records
            assert again.changes(domain, 0) == store.changes(domain, 0)
            assert domain in again.domains()
