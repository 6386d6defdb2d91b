"""Sources by their classes: what each takes, and that a stored source is the declared one."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import msgspec
import pytest

from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.file_lists import BoundFile, packed, unpacked
from airflow_provider.domain.source_bounds import FileSource, IcebergSource, PostgresSource, Source
from tests.declarations import SOURCES

OF_OTHERS: dict[str, Callable[[], object]] = {
    "the table of files": lambda: FileSource("r", "/{start}", table="t"),  # type: ignore[call-arg]
    "ids of files": lambda: FileSource("r", "/{start}", id_column="id"),  # type: ignore[call-arg]
    "a place of snapshots": lambda: IcebergSource("r", "l.m.p", location="/"),  # type: ignore[call-arg]
    "a condition of snapshots": lambda: IcebergSource("r", "l.m.p", complete=none_needed()),  # type: ignore[call-arg]
    "a state of rows": lambda: PostgresSource("r", "t", connection="c", id_column="i", reads="state"),  # type: ignore[call-arg]
    "no class": lambda: Source("r", "/{start}"),  # type: ignore[call-arg]
}


@pytest.mark.parametrize("case", sorted(OF_OTHERS))
def test_a_field_of_another_class_cannot_be_given(case: str) -> None:
    with pytest.raises(TypeError):
        OF_OTHERS[case]()


def test_a_damaged_list_of_files_is_no_shorter_one() -> None:
    """I11: an epoch that has read files is never taken for one that has read fewer."""
    files = tuple(BoundFile(uri=f"/in/{number}.csv", size_bytes=number) for number in range(3))
    whole = packed(files)
    assert unpacked(whole) == files
    for damaged in (
        whole[:-1],
        whole[2:],
        b"",
        zlib.compress(b'["/in/", 0, [[0]]]'),
        zlib.compress(b"[1, 2, 3]"),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            unpacked(damaged)


@pytest.mark.parametrize("declared", SOURCES, ids=repr)
def test_a_stored_source_is_the_declared_one(declared: Source) -> None:
    """R36: the record names no class."""
    stored = msgspec.json.encode(declared)
    assert type(declared).__name__.encode() not in stored
    found = msgspec.json.decode(stored, type=Source)
    assert (type(found), found, hash(found)) == (type(declared), declared, hash(declared))
    assert msgspec.json.encode(found) == stored


def test_sources_of_other_classes_differ() -> None:
    assert IcebergSource("r", "l.m.p") != PostgresSource("r", "t", connection="c", id_column="i")


def test_a_source_shows_its_place_and_no_address() -> None:
    shown = [repr(source) for source in SOURCES]
    assert shown[0] == "FileSource('landing', '/in/{start:%Y-%m-%d}/*.csv')"
    assert shown[-2:] == [
        "IcebergSource('ice', 'catalog:lake.raw.events')",
        "PostgresSource('ids', 'db:public.orders')",
    ]
