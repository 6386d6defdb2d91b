"""Cases: columns that are added, renamed, dropped and widened between commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.domain.columns import ColumnChange, add, drop, rename, widen
from airflow_provider.domain.cut import Staged
from airflow_provider.domain.errors import EpochError, InvalidInput, SchemaMismatch
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import Committable, TableRef
from airflow_provider.tables.base import EPOCH_COLUMN, TableInfo
from airflow_provider.testing.table_cases.backend import Publisher, TableCases, batch, day, expected

NUMBERS = pa.schema(
    [("n", pa.int32()), ("x", pa.float32()), ("price", pa.decimal128(9, 2)), ("kept", pa.string())]
)

IMPOSSIBLE: dict[str, tuple[list[ColumnChange], str, type[EpochError]]] = {
    "add what is there": ([add("kept", "int")], "kept", SchemaMismatch),
    "add twice": ([add("new", "int"), add("new", "int")], "new", SchemaMismatch),
    "rename what is not there": ([rename("nothing", "new")], "nothing", SchemaMismatch),
    "rename onto another": ([rename("n", "kept")], "n", SchemaMismatch),
    "rename again": ([rename("n", "m"), rename("n", "o")], "n", SchemaMismatch),
    "drop what is not there": ([drop("nothing")], "nothing", SchemaMismatch),
    "drop twice": ([drop("n"), drop("n")], "n", SchemaMismatch),
    "drop the epoch": ([drop(EPOCH_COLUMN)], EPOCH_COLUMN, SchemaMismatch),
    "drop all": ([drop("n"), drop("x"), drop("price"), drop("kept")], "columns", InvalidInput),
    "another type": ([widen("kept", "double")], "kept", SchemaMismatch),
    "a type across kinds": ([widen("n", "double")], "n", SchemaMismatch),
    "the same type": ([widen("n", "bigint"), widen("n", "bigint")], "n", SchemaMismatch),
    "fewer digits": ([widen("price", "decimal(8,2)")], "price", SchemaMismatch),
    "another scale": ([widen("price", "decimal(12,3)")], "price", SchemaMismatch),
    "the epoch's name": ([add(EPOCH_COLUMN, "timestamp")], EPOCH_COLUMN, InvalidInput),
    "a name but for case": ([add("KEPT", "int")], "KEPT", InvalidInput),
    "a reader's own name": ([add("_row_id", "bigint")], "_row_id", InvalidInput),
    "a reader's own name again": ([rename("n", "_pos")], "_pos", InvalidInput),
    "the name of a part": ([add("a.b", "int"), add("a", "struct<b:int>")], "a.b", InvalidInput),
    "a good one before": ([add("new", "int"), drop("nothing")], "nothing", SchemaMismatch),
}

Waiting = tuple[int, Committable, dict[int, Any]]
"""A staged slice: its day, its committable, and its values by the identity of their columns."""


class EvolvingCases(TableCases):
    """R32: values are found by column id, in any order of slices and changes."""

    def test_a_column_that_is_added_is_null_in_slices_of_before(
        self, publisher: Publisher, table: Table
    ) -> None:
        """R32: and an earlier version keeps its columns."""
        before = publisher.publish(table, day(0), [1])
        schema = publisher.schemas[table]
        info = publisher.change(table, add("more", "decimal(5,1)"), add("tags", "array<struct<a:int>>"))
        assert publisher.refs[table].schema_id == info.schema_id != before.schema_id
        assert read(publisher, table, 0) == [{**row(1), "more": None, "tags": None}]
        values = {"more": [Decimal("2.5")], "tags": [[{"a": 1}]]}
        added = pa.table({**batch([2]).to_pydict(), **values}, schema=columns_of(publisher, info))
        committed(publisher, table, 1, publisher.stage(table, day(1), added.to_batches()))
        whole = {**row(2), "more": Decimal("2.5"), "tags": [{"a": 1}]}
        assert read(publisher, table, 1) == [{**row(1), "more": None, "tags": None}, whole]
        found = publisher.format.read(publisher.state(table, 0, ref=before), schema)
        assert found.drop_columns([EPOCH_COLUMN]).to_pylist() == [row(1)]

    def test_what_was_staged_before_a_change_is_published_after_it(
        self, publisher: Publisher, table: Table
    ) -> None:
        """R11, R32: an open attempt loses no values by a change, even if it writes after it."""
        publisher.publish(table, day(0), [1])
        info = publisher.create(table)
        early = publisher.stage(table, day(1), [batch([2])], info=info)
        publisher.change(
            table, rename("label", "title"), add("label", "bigint"), drop("id"), add("more", "int")
        )
        late = publisher.stage(table, day(2), [batch([3])], info=info)
        assert early.schema_id == late.schema_id == info.schema_id
        for number, staged in ((1, early), (2, late)):
            committed(publisher, table, number, staged)
        wanted = [{"title": f"row {number}", "label": None, "more": None} for number in (1, 2, 3)]
        assert read(publisher, table, 2) == wanted
        assert publisher.refs[table].schema_id != info.schema_id

    def test_a_slice_is_replaced_under_other_columns(self, publisher: Publisher, table: Table) -> None:
        """R32: a revision of an old epoch has the new columns; its neighbours keep their values."""
        for number in range(3):
            publisher.publish(table, day(number), [number])
        publisher.change(table, rename("label", "title"))
        rows = batch([11]).rename_columns(["id", "title"])
        committed(publisher, table, 1, publisher.stage(table, day(1), [rows]), replaces=True)
        found = sorted((values["id"], values["title"]) for values in read(publisher, table, 2))
        assert found == [(0, "row 0"), (2, "row 2"), (11, "row 11")]

    def test_a_name_that_is_used_again_is_another_column(self, publisher: Publisher, table: Table) -> None:
        """R32: values of a dropped column never come back, neither by one commit nor by several."""
        publisher.publish(table, day(0), [1])
        publisher.change(table, drop("label"))
        assert read(publisher, table, 0) == [{"id": 1}]
        publisher.change(table, add("label", "string"))
        assert read(publisher, table, 0) == [{"id": 1, "label": None}]
        publisher.publish(table, day(1), [2])
        publisher.change(table, drop("label"), add("label", "string"))
        assert read(publisher, table, 1) == [{"id": 1, "label": None}, {"id": 2, "label": None}]
        publisher.change(table, rename("id", "label_of"), rename("label", "id"), rename("label_of", "label"))
        assert read(publisher, table, 1) == [{"label": 1, "id": None}, {"label": 2, "id": None}]

    def test_a_wider_type_holds_old_and_new_values(self, publisher: Publisher, table: Table) -> None:
        """R32: files from before and after the change are read, counted and bounded alike."""
        old = pa.record_batch([[-3, None], [0.5, 1.5], [Decimal("1.25"), None], ["a", "b"]], schema=NUMBERS)
        committed(publisher, table, 0, publisher.stage(table, day(0), [old]))
        wider = (widen("n", "bigint"), widen("x", "double"), widen("price", "decimal(38,2)"))
        info = publisher.change(table, *wider)
        values = [[2**40], [1e300], [Decimal(10**30)], ["c"]]
        new = pa.record_batch(values, schema=columns_of(publisher, info))
        committed(publisher, table, 1, publisher.stage(table, day(1), [new]))
        found = publisher.format.read(publisher.state(table, 1), info.schema, NUMBERS.names)
        assert found.schema.types == [pa.int64(), pa.float64(), pa.decimal128(38, 2), pa.string()]
        assert sorted(found.to_pylist(), key=str) == sorted([*old.to_pylist(), *new.to_pylist()], key=str)
        bounds = publisher.format.statistics(publisher.state(table, 1), info.schema).columns.get("n")
        if bounds is not None and bounds.lower is not None and bounds.upper is not None:
            assert (bounds.nulls, bounds.lower.as_py(), bounds.upper.as_py()) == (1, -3, 2**40)
        with pytest.raises(SchemaMismatch, match="'n'"):
            publisher.change(table, widen("n", "bigint"))

    def test_what_cannot_be_is_refused_by_name(self, publisher: Publisher, table: Table) -> None:
        """R32: a refused change changes nothing."""
        rows = pa.record_batch([[1], [1.0], [Decimal(1)], ["a"]], schema=NUMBERS)
        committed(publisher, table, 0, publisher.stage(table, day(0), [rows]))
        before = publisher.format.describe(table)
        for name, (changes, column, error) in IMPOSSIBLE.items():
            with pytest.raises(error) as refused:
                publisher.change(table, *changes)
            named = refused.value.details
            assert column in (named.get("column"), named.get("value"), named.get("field")), name
            assert named["expected"], name
            assert publisher.format.describe(table) == before, name

    @pytest.mark.parametrize(
        ("option", "change"),
        [
            ("partition_by", drop("label")),
            ("partition_by", rename("label", "title")),
            ("sort_by", drop("label")),
        ],
        ids=str,
    )
    def test_columns_of_the_layout_stay(
        self, publisher: Publisher, option: str, change: ColumnChange
    ) -> None:
        """R32: files are partitioned, and rows sorted, by them."""
        table = publisher.table(declared={option: ("label",)})
        publisher.publish(table, day(0), [1])
        with pytest.raises(SchemaMismatch, match=f"'label'.*{option}") as refused:
            publisher.change(table, change)
        assert refused.value.column == "label"
        assert option in str(refused.value.expected)

    @pytest.mark.parametrize(
        ("change", "column"),
        [
            (drop("label"), "label"),
            (rename("label", "title"), "label"),
            (add("LABEL_trunc_4", "int"), "LABEL_trunc_4"),
            (rename("id", "label_trunc_4"), "id"),
        ],
        ids=str,
    )
    def test_columns_of_a_transform_and_its_name_stay(
        self, publisher: Publisher, change: ColumnChange, column: str
    ) -> None:
        """R32: readers refuse a table with a column that has the name of a partition field."""
        table = publisher.table(declared={"partition_by": ("truncate(4, label)",)})
        publisher.publish(table, day(0), [1])
        with pytest.raises(SchemaMismatch, match="partition_by") as refused:
            publisher.change(table, change)
        assert refused.value.column == column
        publisher.change(table, add("label_trunc", "int"))
        assert publisher.rows(table, 0) == expected((0, [1]))

    def test_tables_with_a_layout_change_beside_it(self, publisher: Publisher) -> None:
        """R32: other columns of a partitioned and sorted table change; the sort column is declared by its new name."""
        before = publisher.table(declared={"partition_by": ("label",), "sort_by": ("id",)})
        publisher.publish(before, day(0), [2, 1])
        table = publisher.table(declared={"partition_by": ("label",), "sort_by": ("number",)})
        publisher.refs[table] = publisher.refs[before]
        publisher.change(table, rename("id", "number"), add("more", "int"))
        rows = pa.record_batch({"number": [3], "label": ["row 3"], "more": pa.array([1], pa.int32())})
        committed(publisher, table, 1, publisher.stage(table, day(1), [rows]))
        assert sorted(values["number"] for values in read(publisher, table, 1)) == [1, 2, 3]

    def test_staged_rows_are_read_under_the_columns_of_the_table(
        self, publisher: Publisher, table: Table
    ) -> None:
        """R32: beside committed rows, and for any columns that they were staged with."""
        publisher.publish(table, day(0), [1])
        early = publisher.stage(table, day(1), [batch([2])])
        info = publisher.change(table, rename("label", "title"))
        state = publisher.state(table, 1, staged=[Staged(interval=day(1), committable=early)])
        found = publisher.format.read(state, info.schema, ["title"])
        assert sorted(found.column("title").to_pylist()) == ["row 1", "row 2"]

    @pytest.mark.parametrize("seed", range(3))
    def test_any_history_of_changes_reads_as_the_model_says(
        self, publisher: Publisher, table: Table, seed: int
    ) -> None:
        """R19, R32: random changes, slices of old and new columns, and revisions; then every version is read."""
        History(publisher=publisher, table=table, random=Random(seed)).run(12)  # noqa: S311


@dataclass(kw_only=True)
class History:
    """Random commits of one table beside a model, in which a value belongs to a column and not to a name.

    :ivar columns: present names, each with the identity of its column. :ivar slices: by day, the value of each column
        of its row, by the column's identity.
    """

    publisher: Publisher
    table: Table
    random: Random
    columns: dict[str, int] = field(default_factory=lambda: {"id": 0, "label": 1})
    slices: dict[int, dict[int, Any]] = field(default_factory=dict)
    waiting: list[Waiting] = field(default_factory=list)
    made: int = 2

    def run(self, steps: int) -> None:
        versions: list[tuple[TableRef, str, list[dict[str, Any]]]] = []
        self._publish(self._staged(0))
        for number in range(1, steps):
            for step in self.random.sample(["change", "stage", "write"], 2):
                if step == "change":
                    self._change()
                elif step == "stage":
                    self._stage(number)
                else:
                    self._write(number)
            ref, schema = self.publisher.refs[self.table], self.publisher.schemas[self.table]
            versions.append((ref, schema, self._rows()))
        for ref, schema, rows in versions:
            state = self.publisher.state(self.table, steps, ref=ref)
            found = self.publisher.format.read(state, schema).drop_columns([EPOCH_COLUMN]).to_pylist()
            assert ordered(found) == ordered(rows)

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {name: values.get(column) for name, column in self.columns.items()}
            for values in self.slices.values()
        ]

    def _change(self) -> None:
        name = self.random.choice(list(self.columns))
        free = self.random.choice([new for new in ("id", "label", "p", "q", "r") if new not in self.columns])
        kind = self.random.choice(["add", "rename", "drop"] if len(self.columns) > 1 else ["add"])
        if kind == "add":
            self.columns[free] = self.made
            self.made += 1
            self.publisher.change(self.table, add(free, "string"))
        elif kind == "rename":
            self.columns = {
                (free if known == name else known): column for known, column in self.columns.items()
            }
            self.publisher.change(self.table, rename(name, free))
        else:
            del self.columns[name]
            self.publisher.change(self.table, drop(name))

    def _stage(self, number: int) -> None:
        """Stage a slice for later: columns may change before it is published."""
        self.waiting.append(self._staged(self.random.choice([number, self.random.randrange(number)])))

    def _write(self, number: int) -> None:
        if not self.waiting:
            self._stage(number)
        self._publish(self.waiting.pop(self.random.randrange(len(self.waiting))))

    def _staged(self, number: int) -> Waiting:
        info = self.publisher.format.describe(self.table) or self.publisher.create(self.table)
        types = columns_of(self.publisher, info)
        values = {
            column.name: number if column.type == pa.int64() else f"{column.name} of {number}"
            for column in types
        }
        rows = pa.RecordBatch.from_pylist([values], schema=types)
        staged = self.publisher.stage(self.table, day(number), [rows], info=info)
        return number, staged, {self.columns[name]: value for name, value in values.items()}

    def _publish(self, waiting: Waiting) -> None:
        number, staged, values = waiting
        committed(self.publisher, self.table, number, staged, replaces=number in self.slices)
        self.slices[number] = values


def row(number: int) -> dict[str, Any]:
    """Return the row of :func:`batch` with this id."""
    found: dict[str, Any] = batch([number]).to_pylist()[0]
    return found


def columns_of(publisher: Publisher, info: TableInfo) -> pa.Schema:
    """Return a table's columns without the epoch, as rows for it have them."""
    schema = publisher.format.arrow_schema(info.schema)
    return pa.schema([(column.name, column.type) for column in schema if column.name != EPOCH_COLUMN])


def committed(
    publisher: Publisher, table: Table, number: int, staged: Committable, *, replaces: bool = False
) -> None:
    """Publish *staged* as the slice of a day."""
    publication = publisher.publication(
        table, (day(number), staged), removes=[day(number)] if replaces else []
    )
    publisher.commit((publication, publisher.format.prepare(publication)))


def read(publisher: Publisher, table: Table, until: int) -> list[dict[str, Any]]:
    """Return the rows up to a day under the table's newest columns, by epoch."""
    found = publisher.format.read(publisher.state(table, until), publisher.schemas[table])
    rows: list[dict[str, Any]] = found.sort_by(EPOCH_COLUMN).drop_columns([EPOCH_COLUMN]).to_pylist()
    return rows


def ordered(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *rows* sorted, each with its columns sorted by name."""
    return sorted((dict(sorted(values.items())) for values in rows), key=str)
