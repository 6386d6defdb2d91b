"""Cases of cut files: another program that opens one gets the rows of its state, and no others (R19, R24)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.domain.columns import add, drop, rename
from airflow_provider.domain.cut import Staged, State
from airflow_provider.domain.errors import InvalidInput, Unavailable
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Table
from airflow_provider.tables import storage
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.cut_files import CutFile, CutFileFormat, with_cut_files
from airflow_provider.testing.table_cases.backend import (
    Publisher,
    TableBackend,
    TableCases,
    batch,
    day,
    expected,
    new_publisher,
    rows_of,
)
from airflow_provider.testing.table_cases.model import DAYS, HISTORIES, Slice, published
from airflow_provider.testing.table_cases.showing import BOUNDS, shows


class CutFileBackend(TableBackend):
    """Backend of a format with cut files."""

    @abstractmethod
    def opened(self, uri: str) -> pa.Table:
        """Return the rows that another program reads from the cut file at *uri*."""


def cut_file(publisher: Publisher, table: Table, state: State) -> CutFile:
    return with_cut_files(publisher.format, table.name).cut_file(state, publisher.schemas[table])


def there(uri: str) -> bool:
    return not storage.missing([uri])


def content(uri: str) -> bytes:
    filesystem, path = storage.filesystem(uri)
    with filesystem.open_input_stream(path) as stream:
        return bytes(stream.read())


class CutFileCases(TableCases):
    """Cut files against the format's own reading."""

    cut_histories = 8
    """Random histories whose every state is written as a cut file."""

    def test_a_cut_file_is_the_state_in_any_history(self, backend: CutFileBackend) -> None:
        """R19: of any version, at any barrier, from any lower bound, whatever the catalog shows."""

        @settings(max_examples=self.cut_histories)
        @given(kind=st.sampled_from(TableKind), history=HISTORIES, data=st.data())
        def a_cut_file_is_the_state(
            kind: TableKind, history: list[tuple[Slice, ...]], data: st.DataObject
        ) -> None:
            publisher = new_publisher(backend)
            table = publisher.table(kind=kind)
            drawn = [shows(data.draw(BOUNDS)) for _ in history]
            low = data.draw(st.none() | st.integers(0, DAYS - 1))
            for commit in published(publisher, table, history, drawn):
                for until in range(DAYS):
                    state = publisher.state(table, until, since=low, ref=commit.ref)
                    wanted = rows_of(publisher.format.read(state, publisher.schemas[table]))
                    found = cut_file(publisher, table, state)
                    assert rows_of(backend.opened(found.uri)) == wanted
                    assert (found.rows, found.files) == (len(wanted), len(publisher.format.files(state)))

        a_cut_file_is_the_state()

    def test_the_same_state_has_one_file(
        self, backend: CutFileBackend, publisher: Publisher, full_table: Table
    ) -> None:
        """R19: whichever process asks, and states that differ have files that differ."""
        for number in range(3):
            publisher.publish(full_table, day(number), [number])
        state = publisher.state(full_table, 1)
        first = cut_file(publisher, full_table, state)
        before = content(first.uri)
        other = Publisher(backend.format(), publisher.store, publisher.domain)
        other.schemas = publisher.schemas
        assert cut_file(other, full_table, state) == first
        assert content(first.uri) == before
        uris = {cut_file(publisher, full_table, publisher.state(full_table, until)).uri for until in range(3)}
        assert len(uris) == 3

    def test_each_lower_bound_has_its_own_file(
        self, backend: CutFileBackend, publisher: Publisher, table: Table
    ) -> None:
        """R19: the same version at the same barrier, read from another time on."""
        for number in range(3):
            publisher.publish(table, day(number), [number])
        for low in (None, 0, 1):
            uri = cut_file(publisher, table, publisher.state(table, 2, since=low)).uri
            assert rows_of(backend.opened(uri)) == publisher.rows(table, 2, since=low)

    def test_writers_at_once_make_one_file(
        self, backend: CutFileBackend, publisher: Publisher, full_table: Table
    ) -> None:
        """R19: each gets a file that can be read."""
        for number in range(3):
            publisher.publish(full_table, day(number), [number, 10 + number])
        state, schema = publisher.state(full_table, 1), publisher.schemas[full_table]
        formats = [with_cut_files(backend.format(), full_table.name) for _ in range(4)]
        ready = Barrier(len(formats))

        def write(table_format: CutFileFormat) -> tuple[str, pa.Table]:
            ready.wait()
            uri = table_format.cut_file(state, schema).uri
            return uri, backend.opened(uri)

        with ThreadPoolExecutor(len(formats)) as pool:
            found = list(pool.map(write, formats))
        assert len({uri for uri, _ in found}) == 1
        assert all(rows_of(rows) == expected((1, [1, 11])) for _, rows in found)

    def test_a_cut_file_has_the_columns_of_its_version(
        self, backend: CutFileBackend, publisher: Publisher, table: Table
    ) -> None:
        """R32: columns are found by id, also where a name was given to another column."""
        refs = [publisher.publish(table, day(0), [1])]
        schemas = [publisher.schemas[table]]
        for changes in ([rename("label", "title"), add("label", "bigint")], [drop("label")]):
            publisher.change(table, *changes)
            refs.append(publisher.refs[table])
            schemas.append(publisher.schemas[table])
        wanted: list[dict[str, object]] = [
            {"label": "row 1"},
            {"title": "row 1", "label": None},
            {"title": "row 1"},
        ]
        for ref, schema, columns in zip(refs, schemas, wanted, strict=True):
            state = publisher.state(table, 0, ref=ref)
            found = backend.opened(with_cut_files(publisher.format, table.name).cut_file(state, schema).uri)
            assert found.column_names == publisher.format.read(state, schema).column_names
            assert found.to_pylist() == [{"id": 1, **columns, EPOCH_COLUMN: day(0).end}]

    def test_a_state_without_rows_has_a_file(
        self, backend: CutFileBackend, publisher: Publisher, table: Table
    ) -> None:
        publisher.publish(table, day(1), [1])
        for until in (0, 2):
            found = cut_file(publisher, table, publisher.state(table, until, since=until))
            assert (found.rows, found.files) == (0, 0)
            assert backend.opened(found.uri).schema.names == ["id", "label", EPOCH_COLUMN]
            assert backend.opened(found.uri).num_rows == 0

    def test_unpublished_rows_have_no_cut_file(self, publisher: Publisher, table: Table) -> None:
        staged = publisher.stage(table, day(0), [batch([1])])
        output = (Staged(interval=day(0), committable=staged),)
        schema = publisher.create(table).schema
        states: Sequence[State] = (publisher.state(table, 0), publisher.state(table, 0, staged=output))
        for state in states:
            with pytest.raises(InvalidInput, match="committed rows"):
                with_cut_files(publisher.format, table.name).cut_file(state, schema)

    def test_a_version_that_is_gone_has_no_cut_file(
        self, backend: CutFileBackend, publisher: Publisher, table: Table
    ) -> None:
        """R22: also if its cut file was written before."""
        publisher.publish(table, day(0), [1])
        publisher.publish(table, day(1), [2])
        states = [publisher.state(table, until) for until in (0, 1)]
        cut_file(publisher, table, states[0])
        backend.lose(publisher.refs[table].location)
        for state in states:
            with pytest.raises(Unavailable, match="is missing"):
                cut_file(publisher, table, state)

    def test_cut_files_go_with_their_version(
        self, backend: CutFileBackend, publisher: Publisher, table: Table
    ) -> None:
        """R24: those of versions that stay are not touched."""
        expired = publisher.publish(table, day(0), [1])
        kept = publisher.publish(table, day(0), [2], replaces=True)
        newest = publisher.publish(table, day(0), [3], replaces=True)
        files = [
            [
                cut_file(publisher, table, publisher.state(table, 0, since=low, ref=ref)).uri
                for low in (None, 0)
            ]
            for ref in (expired, kept, newest)
        ]
        deleted = publisher.format.vacuum(table, [expired], [kept, newest])
        assert set(files[0]) <= set(deleted)
        assert [there(uri) for of_version in files for uri in of_version] == [False] * 2 + [True] * 4
        assert rows_of(backend.opened(files[1][0])) == expected((0, [2]))
        assert publisher.format.vacuum(table, [expired], [kept, newest]) == []

    def test_cut_files_of_late_readers_go_with_the_next_vacuum(
        self, publisher: Publisher, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """R24: a reader that was slower than the vacuum writes the last file of all."""
        refs = [publisher.publish(table, day(0), [number], replaces=number > 0) for number in range(3)]
        write, late = storage.write_whole, []

        def slowly(found: object, path: str, content: bytes) -> None:
            if path.endswith(".json"):
                late.append(path)
                publisher.format.vacuum(table, refs[:1], refs[1:])
            write(found, path, content)

        with monkeypatch.context() as patch:
            patch.setattr(storage, "write_whole", slowly)
            uri = cut_file(publisher, table, publisher.state(table, 0, ref=refs[0])).uri
        assert late
        assert there(uri)
        assert uri in publisher.format.vacuum(table, refs[1:2], refs[2:])
        assert not there(uri)
