"""Cases: creating tables, and writing rows into files that no state names yet."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.domain.columns import ColumnChange, add, drop, rename, widen
from airflow_provider.domain.errors import InvalidInput, SchemaMismatch
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.topology import Table
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.testing.table_cases.backend import COLUMNS, JOB, Publisher, TableCases, batch, day

HOSTILE_NAMES = (
    "a=b",
    "..a",
    "A",
    "a",
    "ä ö",
    "%2e%2e",
    "a;b#c?d",
    "*",
    "{x}",
    "a'b",
    "x" * 255,
    "~",
    "$(id)",
    "_a",
)

HOSTILE_COLUMNS = (
    *("a.b", "a b", "`", "ä", "a=b", "%s", "1", "select", "_x", "a,b;{}()", '"', "ID"),
    *("price/kg", "a\\b", ".", " x ", "e\u0301", "\u200d", "\U0001f600", "file"),
)

ODD_SCHEMAS = [
    ("path", pa.schema([("a.b", pa.int64()), ("a", pa.struct([("b", pa.int64())]))]), "a.b"),
    ("nanoseconds", pa.schema([("at", pa.timestamp("ns"))]), "at"),
    ("unsigned", pa.schema([("n", pa.uint64())]), "n"),
    ("null", pa.schema([("nothing", pa.null())]), "nothing"),
    ("duration", pa.schema([("took", pa.duration("us"))]), "took"),
    ("nested", pa.schema([("s", pa.struct([("inner", pa.duration("us"))]))]), "s.inner"),
    ("reserved", pa.schema([("id", pa.int64()), (EPOCH_COLUMN, pa.string())]), EPOCH_COLUMN),
    ("case", pa.schema([("id", pa.int64()), ("ID", pa.int64())]), "ID"),
    ("form", pa.schema([("\u00e9", pa.int64()), ("e\u0301", pa.int64())]), "e\u0301"),
    ("blank", pa.schema([(" ", pa.int64())]), " "),
    ("two lines", pa.schema([("a\nb", pa.int64())]), "a\nb"),
    ("a reader's", pa.schema([("id", pa.int64()), ("_FILE", pa.string())]), "_FILE"),
    ("twice", pa.schema([("id", pa.int64()), ("id", pa.int64())]), "id"),
    ("none", pa.schema([]), "columns"),
]

UTC_NOON = dt.datetime(2013, 2, 8, 12, 0, 0, 1, tzinfo=dt.UTC)
WALL_CLOCK = UTC_NOON.replace(tzinfo=None)
EVERY_TYPE: list[tuple[str, pa.DataType, list[Any]]] = [
    ("flag", pa.bool_(), [True, False, None]),
    ("small", pa.int32(), [-(2**31), 2**31 - 1, None]),
    ("large", pa.int64(), [-(2**63), 2**63 - 1, None]),
    ("real", pa.float32(), [0.5, -1.5, None]),
    ("double", pa.float64(), [1e300, -0.1, None]),
    ("price", pa.decimal128(38, 2), [Decimal("123456789012345678901234567890.12"), Decimal("-0.01"), None]),
    ("day", pa.date32(), [dt.date(1969, 12, 31), dt.date(2013, 2, 8), None]),
    ("instant", pa.timestamp("us", "UTC"), [UTC_NOON, dt.datetime(1900, 1, 1, tzinfo=dt.UTC), None]),
    ("wall", pa.timestamp("us"), [WALL_CLOCK, WALL_CLOCK.replace(year=1900), None]),
    ("text", pa.string(), ["", "blizzard ❄ " * 10, None]),
    ("bytes", pa.binary(), [b"", b"\xff" * 40, None]),
    (
        "pair",
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        [{"a": 1, "b": None}, {"a": None, "b": "x"}, None],
    ),
    ("list", pa.list_(pa.struct([("v", pa.float64())])), [[], [{"v": 1.0}, None, {"v": None}], None]),
    ("map", pa.map_(pa.string(), pa.list_(pa.int64())), [[], [("k", [1, None]), ("l", None)], None]),
]


class WritingCases(TableCases):
    """Creation, places, task writers and the committables of their files."""

    def test_a_table_is_made_once(self, publisher: Publisher, table: Table) -> None:
        assert publisher.format.describe(table) is None
        info = publisher.create(table)
        assert (info.name, info.domain, info.version) == (table.name, publisher.domain, 0)
        assert publisher.format.describe(table) == info
        assert publisher.create(table) == info
        reordered = pa.schema(
            [pa.field("label", pa.large_string()), pa.field("id", pa.int64(), nullable=False)]
        )
        assert publisher.create(table, reordered) == info
        assert publisher.format.arrow_schema(info.schema).names == [*COLUMNS.names, EPOCH_COLUMN]

    def test_racing_creators_get_one_table(self, publisher: Publisher) -> None:
        tables = [publisher.table(f"t{number}") for number in range(3)]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(publisher.create, tables * 4))
        assert len({(info.name, info.table_uuid, info.pointer) for info in found}) == len(tables)

    @pytest.mark.parametrize(
        ("columns", "column"),
        [
            (pa.schema([("id", pa.int32()), ("label", pa.string())]), "id"),
            (pa.schema([("id", pa.int64())]), "label"),
            (pa.schema([*COLUMNS, ("extra", pa.int64())]), "extra"),
        ],
    )
    def test_other_columns_are_refused_by_name(
        self, publisher: Publisher, table: Table, columns: pa.Schema, column: str
    ) -> None:
        """R32: a caller that creates an existing table must have its columns."""
        publisher.create(table)
        with pytest.raises(SchemaMismatch) as refused:
            publisher.create(table, columns)
        assert refused.value.column == column

    @pytest.mark.parametrize(
        ("changes", "column"),
        [
            ((add("more", "double"),), "more"),
            ((rename("name", "label"), rename("label", "title")), "label"),
            ((drop("label"), add("label", "string"), drop("label")), "label"),
            ((rename("label", "title"), add("label", "string")), "title"),
            ((add("more", "double"), rename("more", "rest")), "rest"),
        ],
    )
    def test_a_new_table_has_the_columns_that_its_changes_leave(
        self, publisher: Publisher, table: Table, changes: tuple[ColumnChange, ...], column: str
    ) -> None:
        """R32: its first commit records all of them as made."""
        with pytest.raises(SchemaMismatch) as refused:
            publisher.create(replace(table, column_changes=changes))
        assert refused.value.column == column
        assert publisher.format.describe(table) is None

    def test_a_new_table_has_the_types_that_its_changes_give(
        self, publisher: Publisher, table: Table
    ) -> None:
        """R32: also a renamed column, and where an attempt that published nothing has made the table without them."""
        rows = pa.schema([("id", pa.int32()), ("label", pa.string()), ("rest", pa.float32())])
        changes = (widen("id", "bigint"), add("more", "double"), rename("more", "rest"))
        before = publisher.create(table, rows)
        info = publisher.format.replace(replace(table, column_changes=changes), before, rows)
        found = publisher.format.arrow_schema(info.schema)
        assert [found.field(name).type for name in rows.names] == [pa.int64(), pa.string(), pa.float64()]

    @pytest.mark.parametrize(
        ("columns", "named"), [odd[1:] for odd in ODD_SCHEMAS], ids=[odd[0] for odd in ODD_SCHEMAS]
    )
    def test_columns_that_no_table_can_have(
        self, publisher: Publisher, table: Table, columns: pa.Schema, named: str
    ) -> None:
        with pytest.raises(InvalidInput) as refused:
            publisher.create(table, columns)
        told = refused.value.details
        assert named in (told.get("value"), told["field"], told["field"].removeprefix("column "))
        assert publisher.format.describe(table) is None

    @pytest.mark.parametrize("option", ["partition_by", "sort_by"])
    @pytest.mark.parametrize("column", ["missing", EPOCH_COLUMN])
    def test_a_layout_names_columns(self, publisher: Publisher, option: str, column: str) -> None:
        table = publisher.table(declared={option: (column,)})
        with pytest.raises(InvalidInput, match=option):
            publisher.create(table)

    @pytest.mark.parametrize(
        "kind",
        [pa.struct([("x", pa.int64())]), pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64())],
        ids=str,
    )
    def test_rows_are_sorted_by_columns_that_have_an_order(
        self, publisher: Publisher, kind: pa.DataType
    ) -> None:
        table = publisher.table(declared={"sort_by": ("of",)})
        with pytest.raises(InvalidInput, match=r"sort_by.*a column that has an order"):
            publisher.create(table, pa.schema([("id", pa.int64()), ("of", kind)]))
        assert publisher.format.describe(table) is None

    @pytest.mark.parametrize(
        "layout",
        [
            ("bucket(4, missing)",),
            ("bucket(0, id)",),
            ("bucket(1001, id)",),
            ("days(at)",),
            ("hour(label)",),
            ("day(id)",),
            ("truncate(2, at)",),
            (f"hour({EPOCH_COLUMN})",),
            ("day(at)", "hour(at)"),
            ("bucket(4, id)", "bucket(4,id)"),
            ("truncate(2, taken)",),
        ],
        ids=str,
    )
    def test_a_transform_of_another_kind_is_refused(
        self, publisher: Publisher, layout: tuple[str, ...]
    ) -> None:
        at = pa.timestamp("us", "UTC")
        text = pa.string()
        kinds = {"id": pa.int64(), "label": text, "at": at, "taken": text, "TAKEN_trunc_2": pa.int64()}
        table = publisher.table(declared={"partition_by": layout})
        with pytest.raises(InvalidInput) as refused:
            publisher.create(table, pa.schema(kinds))
        assert refused.value.field == "partition_by"
        assert str(refused.value.value).partition(") (")[0] in " ".join(layout)
        assert publisher.format.describe(table) is None

    def test_rows_separated_by_transforms_come_back(self, publisher: Publisher) -> None:
        """R19: whatever the columns are."""
        layout = (
            "bucket(3, small)",
            "truncate(2, text)",
            "day(instant)",
            "hour(wall)",
            "bucket(2, day)",
            "flag",
        )
        table = publisher.table(declared={"partition_by": layout, "sort_by": ("text",)})
        rows = pa.record_batch(
            [values for _, _, values in EVERY_TYPE],
            schema=pa.schema([(name, kind) for name, kind, _ in EVERY_TYPE]),
        )
        staged = publisher.stage(table, day(0), [rows])
        assert staged.rows == 3
        publication = publisher.publication(table, (day(0), staged))
        prepared = publisher.format.prepare(publication)
        publisher.commit((publication, prepared))
        found = publisher.format.read(publisher.state(table, 0), prepared.schema).drop_columns([EPOCH_COLUMN])
        assert sorted(found.to_pylist(), key=str) == sorted(rows.to_pylist(), key=str)

    def test_places_differ_in_all_that_names_them(self, publisher: Publisher) -> None:
        places = {
            publisher.format.place(
                publisher.table(name),
                job=job,
                interval=day(number),
                revision=revision,
                token=token,
                participant=part,
            ).uri
            for name in HOSTILE_NAMES
            for job in (JOB, JobName("JOB"))
            for number in (0, 1)
            for revision in (1, 2)
            for token in (1, 11)
            for part in (0, 1)
        }
        assert len({place.casefold() for place in places}) == len(HOSTILE_NAMES) * 32
        roots = {place.split(f"/{publisher.domain}/")[0] for place in places}
        assert len(roots) == 1
        assert not any("=" in place or "%" in place or "/../" in place or "*" in place for place in places)

    @pytest.mark.parametrize("name", HOSTILE_NAMES)
    def test_any_name_can_be_written_and_read(self, publisher: Publisher, name: str) -> None:
        table = publisher.table(name)
        publisher.publish(table, day(0), [1])
        assert publisher.rows(table, 0) == [(day(0).end, 1)]

    @pytest.mark.parametrize("name", HOSTILE_COLUMNS)
    def test_any_column_can_be_written_and_read(self, publisher: Publisher, name: str) -> None:
        table = publisher.table(declared={"partition_by": (name,), "sort_by": (name,)})
        rows = pa.record_batch([[1, 2], [{name: 5}, None]], names=[name, "nested"])
        publication = publisher.publication(table, (day(0), publisher.stage(table, day(0), [rows])))
        publisher.commit((publication, publisher.format.prepare(publication)))
        found = publisher.format.read(publisher.state(table, 0), publisher.schemas[table], [name, "nested"])
        assert sorted(found.to_pylist(), key=str) == sorted(rows.to_pylist(), key=str)

    def test_every_type_comes_back(self, publisher: Publisher, table: Table) -> None:
        columns = pa.schema([(name, kind) for name, kind, _ in EVERY_TYPE])
        rows = pa.record_batch([values for _, _, values in EVERY_TYPE], schema=columns)
        shuffled = rows.select(sorted(columns.names))
        staged = publisher.stage(table, day(0), [rows, rows.slice(0, 0), shuffled.slice(1, 2)])
        assert (staged.rows, staged.schema_id) == (5, 0)
        publication = publisher.publication(table, (day(0), staged))
        prepared = publisher.format.prepare(publication)
        publisher.commit((publication, prepared))
        found = publisher.format.read(publisher.state(table, 0), prepared.schema)
        assert found.column(EPOCH_COLUMN).unique().to_pylist() == [day(0).end]
        wanted = [*rows.to_pylist(), *rows.slice(1, 2).to_pylist()]
        key = str  # dicts do not sort
        assert sorted(found.drop_columns([EPOCH_COLUMN]).to_pylist(), key=key) == sorted(wanted, key=key)

    def test_times_keep_their_instant(self, publisher: Publisher, table: Table) -> None:
        publisher.create(table, pa.schema([("at", pa.timestamp("ms", "Europe/Berlin"))]))
        rows = pa.record_batch({"at": pa.array([UTC_NOON], pa.timestamp("us", "America/New_York"))})
        staged = publisher.stage(table, day(0), [rows])
        publication = publisher.publication(table, (day(0), staged))
        publisher.commit((publication, publisher.format.prepare(publication)))
        schema = publisher.schemas[table]
        assert publisher.format.read(publisher.state(table, 0), schema, ["at"]).to_pylist() == [
            {"at": UTC_NOON}
        ]

    @pytest.mark.parametrize(
        ("rows", "column"),
        [
            ({"id": [1]}, "label"),
            ({"id": [1], "label": ["x"], "more": [2]}, "more"),
            ({"id": ["1"], "label": ["x"]}, "id"),
            ({"id": pa.array([2**63], pa.uint64()), "label": ["x"]}, "id"),
            ({"id": [1.5], "label": ["x"]}, "id"),
        ],
    )
    def test_rows_that_do_not_fit(
        self, publisher: Publisher, table: Table, rows: dict[str, Any], column: str
    ) -> None:
        info = publisher.create(table)
        writer = publisher.format.task_writer(publisher.place(table, day(0)), info)
        with pytest.raises(SchemaMismatch) as refused:
            list(writer([pa.record_batch(rows)]))
        assert refused.value.column == column
        assert repr(str(table.name)) in refused.value.message
        assert repr(column) in refused.value.message
        assert repr(column) in refused.value.next_step

    def test_a_misspelt_column_is_named_beside_the_one_that_is_meant(
        self, publisher: Publisher, table: Table
    ) -> None:
        writer = publisher.format.task_writer(publisher.place(table, day(0)), publisher.create(table))
        with pytest.raises(SchemaMismatch, match="rename 'lable' if 'label' is meant"):
            list(writer([pa.record_batch({"id": [1], "lable": ["x"]})]))

    def test_a_wall_clock_time_is_no_instant(self, publisher: Publisher, table: Table) -> None:
        info = publisher.create(table, pa.schema([("at", pa.timestamp("us", "UTC"))]))
        writer = publisher.format.task_writer(publisher.place(table, day(0)), info)
        with pytest.raises(SchemaMismatch, match="at"):
            list(writer([pa.record_batch({"at": pa.array([WALL_CLOCK], pa.timestamp("us"))})]))

    def test_tasks_without_rows_write_nothing(self, publisher: Publisher, table: Table) -> None:
        staged = publisher.stage(table, day(0), [], [batch([])])
        assert (staged.files, staged.rows, staged.size_bytes) == (0, 0, 0)

    def test_each_try_has_names_of_its_own(self, publisher: Publisher, table: Table) -> None:
        info = publisher.create(table)
        place = publisher.place(table, day(0))
        writer = publisher.format.task_writer(place, info)
        first, second = list(writer([batch([1, 2])])), list(writer([batch([1, 2])]))
        assert {file.uri for file in first}.isdisjoint(file.uri for file in second)
        assert [file.checksum for file in first] == [file.checksum for file in second]
        assert all(file.uri.startswith(place.uri) and file.rows == 2 for file in (*first, *second))

    def test_describing_again_says_the_same(self, publisher: Publisher, table: Table) -> None:
        info = publisher.create(table)
        place = publisher.place(table, day(0))
        writer = publisher.format.task_writer(place, info)
        files = [*writer([batch([1])]), *writer([batch([2, 3])])]
        first = publisher.format.describe_output(place, info, files)
        again = publisher.format.describe_output(place, info, list(reversed(files)))
        assert (first.rows, first.files, first.size_bytes, first.checksum) == (
            again.rows,
            again.files,
            again.size_bytes,
            again.checksum,
        )
        assert (first.rows, first.files) == (3, 2)
        other = publisher.format.describe_output(place, info, files[:1])
        assert other.checksum != first.checksum

    def test_only_files_of_the_place_are_described(self, publisher: Publisher, table: Table) -> None:
        info = publisher.create(table)
        elsewhere = publisher.place(table, day(0))
        files = list(publisher.format.task_writer(elsewhere, info)([batch([1])]))
        with pytest.raises(InvalidInput, match="files"):
            publisher.format.describe_output(publisher.place(table, day(0)), info, files)
        with pytest.raises(InvalidInput, match="once"):
            publisher.format.describe_output(elsewhere, info, files * 2)
