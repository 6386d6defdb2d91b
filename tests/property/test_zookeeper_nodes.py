"""What lies in ZooKeeper's nodes, and under which paths: no two names share one, and what is packed comes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.protocol.paths import normpath

from airflow_provider.domain.errors import StoreIncompatible
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind
from airflow_provider.stores.zookeeper.nodes import (
    Copy,
    is_deleted,
    new_transaction,
    packed,
    packed_copies,
    packed_head,
    unpacked,
    unpacked_copies,
)
from airflow_provider.stores.zookeeper.paths import Paths, decoded, encoded

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
    with pytest.raises(StoreIncompatible, match="a list of"):
        unpacked_copies("/a/node", packed(b"x", 1, new_transaction()))


@given(sizes=st.lists(st.integers(0, 2000), max_size=12))
def test_segments_come_back(sizes: list[int]) -> None:
    copies = [Copy("", str(number), 0, 1, b"x" * size) for number, size in enumerate(sizes)]
    assert unpacked_copies("segment", packed_copies(copies, new_transaction())) == copies


def test_two_heads_never_name_one_checkpoint() -> None:
    """R36: clients of format 1 publish a checkpoint only while the head names the one before."""
    heads = [unpacked("head", packed_head(7, new_transaction())) for _ in range(2)]
    assert [head.csn for head in heads] == [7, 7]
    assert heads[0].body != heads[1].body
