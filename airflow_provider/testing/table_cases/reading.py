"""Cases: a state has exactly its rows, after any commits before and after it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from airflow_provider.domain.cut import Staged
from airflow_provider.domain.errors import InvalidInput, Unavailable
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Table
from airflow_provider.tables import filtered, parquet_files
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.capabilities import TableCapability, refuse_without
from airflow_provider.tables.cut_files import CutFileFormat
from airflow_provider.tables.filters import FilterTuple, filters_on
from airflow_provider.testing.table_cases.backend import (
    COLUMNS,
    Publisher,
    TableBackend,
    TableCases,
    batch,
    day,
    expected,
)


class ReadingCases(TableCases):
    """States of incremental and full tables, at older versions, with staged output and changed columns."""

    def test_what_a_format_can_do_is_declared(self, publisher: Publisher) -> None:
        assert publisher.format.capabilities <= frozenset(TableCapability)
        assert publisher.format.name
        has = TableCapability.CUT_FILES in publisher.format.capabilities
        assert isinstance(publisher.format, CutFileFormat) == has

    def test_shared_files_are_parquet_with_column_ids(self, publisher: Publisher, table: Table) -> None:
        """Another process opens them by their URIs alone."""
        publisher.publish(table, day(0), [1])
        if TableCapability.SHARED_FILES not in publisher.format.capabilities:
            with pytest.raises(InvalidInput, match="lacks the capability 'shared files'"):
                refuse_without(TableCapability.SHARED_FILES, publisher.format, table.name)
            return
        (uri,) = publisher.format.files(publisher.state(table, 0))
        rows = parquet_files.read(uri, publisher.format.arrow_schema(publisher.schemas[table]))
        assert rows.select(["id"]).to_pylist() == [{"id": 1}]

    def test_states_at_every_barrier_and_version(self, publisher: Publisher, table: Table) -> None:
        """R19: each version, read at each barrier, has the rows that were committed up to its publication."""
        refs = [publisher.publish(table, day(number), [number]) for number in (0, 1, 3, 2)]
        committed = [(0,), (0, 1), (0, 1, 3), (0, 1, 2, 3)]
        for ref, days in zip(refs, committed, strict=True):
            for until in range(5):
                wanted = expected(*((number, [number]) for number in days if number <= until))
                assert publisher.rows(table, until, ref=ref) == wanted
        assert publisher.rows(table, 3, since=0) == expected((1, [1]), (2, [2]), (3, [3]))
        assert publisher.rows(table, 2, since=1) == expected((2, [2]))
        assert publisher.rows(table, 2, since=2) == []

    def test_a_full_table_is_its_slice_at_the_barrier(self, publisher: Publisher, full_table: Table) -> None:
        publisher.publish(full_table, day(0), [1])
        older = publisher.publish(full_table, day(1), [1, 2])
        publisher.publish(full_table, day(0), [9], replaces=True)
        assert publisher.rows(full_table, 1) == expected((1, [1, 2]))
        assert publisher.rows(full_table, 0) == expected((0, [9]))
        assert publisher.rows(full_table, 0, ref=older) == expected((0, [1]))
        assert publisher.rows(full_table, 2) == []

    def test_before_the_first_commit_there_are_no_rows(self, publisher: Publisher, table: Table) -> None:
        info = publisher.create(table)
        found = publisher.format.read(publisher.state(table, 5), info.schema)
        assert (found.num_rows, found.schema.names) == (0, ["id", "label", EPOCH_COLUMN])
        assert publisher.format.files(publisher.state(table, 5)) == []

    def test_epochs_at_both_ends_of_time(self, publisher: Publisher, table: Table) -> None:
        first = Interval(datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 1, 1, tzinfo=UTC))
        last = Interval(datetime(9999, 12, 31, tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
        publisher.publish(table, last, [2])
        publisher.publish(table, first, [1])
        everything = replace(publisher.state(table, 0), barrier=last.end)
        for state, ids in ((everything, [1, 2]), (replace(everything, low=first.end), [2])):
            found = publisher.format.read(state, publisher.schemas[table])
            assert sorted(found.column("id").to_pylist()) == ids

    def test_staged_output_replaces_and_follows(self, publisher: Publisher, table: Table) -> None:
        for number in range(2):
            publisher.publish(table, day(number), [number])
        staged = [
            Staged(interval=day(number), committable=publisher.stage(table, day(number), [batch(ids)]))
            for number, ids in ((1, [11]), (2, [12]), (0, []))
        ]
        assert publisher.rows(table, 2, staged=staged[:2]) == expected((0, [0]), (1, [11]), (2, [12]))
        assert publisher.rows(table, 1, staged=staged) == expected((1, [11]))
        assert publisher.rows(table, 2) == expected((0, [0]), (1, [1]))

    def test_rows_come_in_pieces_too(self, publisher: Publisher, table: Table) -> None:
        for number in range(3):
            publisher.publish(table, day(number), [number])
        state, schema = publisher.state(table, 1), publisher.schemas[table]
        pieces = list(publisher.format.scan(state, schema, ["id"]))
        assert sorted(row_id for piece in pieces for row_id in piece.column("id").to_pylist()) == [0, 1]
        assert {tuple(piece.schema.names) for piece in pieces} == {("id",)}

    @pytest.mark.parametrize(
        ("filters", "ids"),
        [
            ([("id", "=", 10)], [10]),
            ([("id", "in", [1, 21, 99])], [1, 21]),
            ([("id", ">", 10), ("label", "!=", "row 20")], [11, 21]),
            ([("label", ">=", "row 2"), ("label", "<=", "row 20")], [20]),
            ([("id", "<", 0)], []),
        ],
    )
    def test_filters_leave_out_files_without_rows_for_them(
        self, publisher: Publisher, table: Table, filters: list[FilterTuple], ids: list[int]
    ) -> None:
        """R22: of committed and of staged rows; no row that meets them is lost, and null meets none."""
        for number in range(2):
            publisher.publish(table, day(number), [10 * number, 10 * number + 1])
        rows = pa.record_batch([[20, 21, None], ["row 20", "row 21", None]], schema=COLUMNS)
        staged = Staged(interval=day(2), committable=publisher.stage(table, day(2), [rows]))
        state, schema = replace(publisher.state(table, 2), staged=(staged,)), publisher.schemas[table]
        found = filtered.read(publisher.format, state, schema, ["label"], filters)
        assert found.column_names == ["label"]
        assert sorted(found.column("label").to_pylist()) == [f"row {number}" for number in ids]
        opened = publisher.format.sized(state, filters_on(filters, COLUMNS, schema)).files
        assert set(opened) <= {*publisher.format.files(state)}
        assert len(opened) >= len({number // 10 for number in ids})

    def test_statistics_count_all_rows_and_bound_all_values(self, publisher: Publisher, table: Table) -> None:
        """R14: of committed and of staged rows; an unknown bound is None, never a guess."""
        for number in range(3):
            publisher.publish(table, day(number), [number, 10 * number])
        long = "ä" * 40
        rows = pa.record_batch([[5, None, -3], [long, None, "b"]], schema=COLUMNS)
        staged = [Staged(interval=day(1), committable=publisher.stage(table, day(1), [rows]))]
        schema = publisher.schemas[table]
        for until, since, waiting, ids, nulls in (
            (1, None, [], [0, 0, 1, 10], 0),
            (2, 1, [], [2, 20], 0),
            (1, 0, staged, [-3, 5], 1),
            (5, 4, [], [], 0),
        ):
            state = replace(publisher.state(table, until, since=since), staged=tuple(waiting))
            found = publisher.format.statistics(state, schema)
            assert found.rows == len(ids) + nulls
            sized = publisher.format.sized(state)
            assert sized.files == publisher.format.files(state)
            assert sized.rows in (found.rows, None)
            assert sized.size_bytes is None or (sized.size_bytes > 0) == bool(sized.files)
            for name, least in (("id", min(ids, default=0)), ("label", "b")):
                bounds = found.columns.get(name)
                if bounds is None:
                    continue
                assert bounds.nulls in (nulls, None)
                if ids and bounds.lower is not None and waiting:
                    assert bounds.lower.as_py() <= least
                if ids and bounds.upper is not None and waiting:
                    assert bounds.upper.as_py() >= (max(ids) if name == "id" else long)

    def test_columns_are_chosen_by_name(self, publisher: Publisher, table: Table) -> None:
        publisher.publish(table, day(0), [1])
        schema = publisher.schemas[table]
        found = publisher.format.read(publisher.state(table, 0), schema, ["label", "id"])
        assert found.to_pylist() == [{"label": "row 1", "id": 1}]
        with pytest.raises(InvalidInput, match="nothing"):
            publisher.format.read(publisher.state(table, 0), schema, ["nothing"])

    def test_a_renamed_column_keeps_its_values(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """R32: columns are matched by id: the old and the new schema read the same values."""
        if TableCapability.COLUMN_IDS not in publisher.format.capabilities:
            pytest.skip("the format matches columns by name")
        before = publisher.publish(table, day(0), [1])
        old = publisher.schemas[table]
        backend.rename_column(table, "label", "title")
        info = publisher.format.describe(table)
        assert info is not None
        assert info.schema_id != before.schema_id
        assert publisher.format.read(publisher.state(table, 0), info.schema, ["title"]).to_pylist() == [
            {"title": "row 1"}
        ]
        assert publisher.format.read(publisher.state(table, 0), old, ["label"]).to_pylist() == [
            {"label": "row 1"}
        ]
        renamed = batch([2]).rename_columns(["id", "title"])
        publication = publisher.publication(table, (day(1), publisher.stage(table, day(1), [renamed])))
        prepared = publisher.format.prepare(publication)
        publisher.commit((publication, prepared))
        assert prepared.ref.schema_id == info.schema_id
        found = publisher.format.read(publisher.state(table, 1), prepared.schema, ["title"]).column("title")
        assert sorted(found.to_pylist()) == ["row 1", "row 2"]

    def test_a_missing_file_is_never_skipped(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """R22: a state that lacks a file is not read in part; the error names the file."""
        publisher.publish(table, day(0), [1])
        first = publisher.format.files(publisher.state(table, 0))
        ref = publisher.publish(table, day(1), [2])
        backend.lose(first[0])
        with pytest.raises(Unavailable) as refused:
            publisher.rows(table, 1)
        assert refused.value.uri == first[0]
        backend.lose(ref.location)
        fresh = Publisher(backend.format(), publisher.store, publisher.domain)
        fresh.refs, fresh.schemas = publisher.refs, publisher.schemas
        with pytest.raises(Unavailable):
            fresh.rows(table, 1, since=0)
