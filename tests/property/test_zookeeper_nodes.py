"""What lies in ZooKeeper's nodes, and under which paths: no two names share one, and what is packed comes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.protocol.paths import normpath

from airflow_provider.domain.errors import StoreIncompatible
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind
from airflow_provider.stores.zookeeper.maintenance import MAX_PART_BYTES, shared_out
from airflow_provider.stores.zookeeper.nodes import (
    Changed,
    Checkpoint,
    Copy,
    Index,
    is_deleted,
    new_transaction,
    packed,
    packed_copies,
    packed_head,
    unpacked,
    unpacked_copies,
    unpacked_index,
)
from airflow_provider.stores.zookeeper.paths import Paths, decoded, encoded
from airflow_provider.stores.zookeeper.planning import with_changes

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
HOSTILE = st.sampled_from(
    ["", "%", ".", "..", "/", "//", "a/b", "%2F", "%25", "zookeeper", "\u202e", "\uffff"]
)
PATHS = Paths("/chroot")


@given(one=NAMES | HOSTILE, other=NAMES | HOSTILE)
def test_two_names_never_share_a_path(one: str, other: str) -> None:
    assert decoded(encoded(one)) == one
    assert (encoded(one) == encoded(other)) == (one == other)
    assert encoded(one).casefold() not in {"", ".", ".."}


@given(parts=st.lists(NAMES | HOSTILE, min_size=3, max_size=3))
def test_kazoo_sends_every_path_as_it_is(parts: list[str]) -> None:
    path = PATHS.record(Key(DomainName(parts[0]), Kind.JOB, parts[1], parts[2]))
    assert normpath(path) == path
    assert path.isascii()
    assert path.isprintable()
    assert path.count("/") == 6
    assert PATHS.parents(path) == (
        PATHS.domain(DomainName(parts[0])),
        f"{PATHS.domain(DomainName(parts[0]))}/job",
        PATHS.partition(DomainName(parts[0]), Kind.JOB, parts[1]),
    )


@given(body=st.none() | st.binary(max_size=2000), csn=st.none() | st.integers(1, 2**63))
def test_a_node_comes_back(body: bytes | None, csn: int | None) -> None:
    transaction = new_transaction()
    data = packed(body, csn, transaction)
    node = unpacked("node", data)
    assert (node.body, node.csn, node.transaction) == (body, csn, transaction)
    assert is_deleted(data) == (body is None)
    assert len(data) <= len(body or b"") + 22


@given(data=st.binary(max_size=60).filter(lambda data: data[:1] != b"\x01"))
def test_invalid_node_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(StoreIncompatible, match="/a/node") as refused:
        unpacked("/a/node", data)
    assert "airflow epochs db check" in refused.value.next_step


def test_a_node_of_a_newer_form_is_named() -> None:
    with pytest.raises(StoreIncompatible, match="form 2"):
        unpacked("/a/node", b"\x02" + packed(b"x", None, new_transaction())[1:])
    damaged = packed(b"x" * 100, None, new_transaction())[:-3]
    with pytest.raises(StoreIncompatible, match="decompressed"):
        unpacked("/a/node", damaged)
    for read in (
        lambda: unpacked_copies("/a/node", packed(b"x", 1, new_transaction())),
        lambda: unpacked_index("/a/node", unpacked("/a/node", packed(b"x", 1, new_transaction()))),
    ):
        with pytest.raises(StoreIncompatible, match="a list of"):
            read()


@given(names=st.lists(st.tuples(NAMES, NAMES), max_size=20), version=st.integers(0, 2**31 - 1))
def test_the_head_comes_back_and_lists_each_table_once(names: list[tuple[str, str]], version: int) -> None:
    index = Index(Checkpoint("one", 2), Checkpoint("none", 1))
    for number, name in enumerate(names):
        index = with_changes(index, [Key(DomainName("d"), Kind.TABLE, *name)], version + number)
    data = packed_head(index, 7, new_transaction())
    again = unpacked_index("head", unpacked("head", data))
    assert again == index
    assert (again.checkpoint, again.previous) == (Checkpoint("one", 2), Checkpoint("none", 1))
    latest = {name: Changed(*name, version + number) for number, name in enumerate(names)}
    assert {(one.partition, one.item): one for one in again.tail} == latest


@given(sizes=st.lists(st.integers(0, MAX_PART_BYTES), max_size=12))
def test_parts_of_a_checkpoint_are_small_and_lose_nothing(sizes: list[int]) -> None:
    copies = [Copy("", str(number), 0, 1, b"x" * size) for number, size in enumerate(sizes)]
    parts = shared_out(copies)
    assert [copy for part in parts for copy in part] == copies
    for part in parts:
        assert len(part) <= 1 or sum(len(copy.data) for copy in part) <= MAX_PART_BYTES
        assert unpacked_copies("part", packed_copies(part, new_transaction())) == part
