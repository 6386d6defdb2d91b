"""Scans of Iceberg tables of other programs as slices: what no file of theirs may have, or mean here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask
from pyiceberg.types import LongType

from airflow_provider.domain.columns import add, drop, rename
from airflow_provider.domain.errors import InvalidInput, SchemaMismatch, Unavailable
from airflow_provider.domain.topology import Table
from airflow_provider.spark.added_files import add_files
from airflow_provider.tables.added_files import FileAddingFormat, with_added_files
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, day, owner
from tests.contract.lakes import Lake
from tests.contract.test_coordination_added_files import every_reader, job, publish, rows, written

DEFAULT = {"id": 50, "name": "c", "required": False, "type": "int", "initial-default": 5, "write-default": 5}


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """A scan whose tasks are not those of the table's own."""

    scan: Any
    changed: Callable[[FileScanTask], FileScanTask]

    def projection(self) -> Any:
        return self.scan.projection()

    @property
    def table_metadata(self) -> Any:
        return self.scan.table_metadata

    def plan_files(self) -> Iterator[FileScanTask]:
        return map(self.changed, self.scan.plan_files())


def with_deletes(task: FileScanTask) -> FileScanTask:
    """As pyiceberg plans a file beside which rows of it are deleted; it writes no such files itself."""
    deletes = DataFile.from_args(content=DataFileContent.POSITION_DELETES, file_path="file:///deletes")
    return FileScanTask(task.file, delete_files={deletes})


def in_orc(task: FileScanTask) -> FileScanTask:
    task.file[2] = FileFormat.ORC
    return task


def defaulted(lake: Lake) -> Any:
    lake.add_default(DEFAULT)
    return lake.table.scan()


def bare(lake: Lake) -> Any:
    lake.separate_by("text")
    lake.append_bare(2, "b")
    return lake.table.scan()


def plain(lake: Lake) -> Any:
    lake.add_plain_file(2)
    return lake.table.scan()


SCANS: dict[str, tuple[Callable[[Lake], Any], str]] = {
    "limit": (lambda lake: lake.table.scan(limit=1), "a scan with a limit"),
    "columns": (lambda lake: lake.table.scan(selected_fields=("value",)), "or of some columns only"),
    "default": (defaulted, "a default of column 'c'"),
    "deletes": (lambda lake: Changed(scan=lake.table.scan(), changed=with_deletes), "by delete files"),
    "another format": (lambda lake: Changed(scan=lake.table.scan(), changed=in_orc), "that is not Parquet"),
    "a value that a partition alone tells": (bare, "'text' among them, of which only the partition tells"),
    "no column ids": (plain, "with the ids of their table's columns"),
}


@pytest.mark.parametrize("case", SCANS.values(), ids=SCANS.keys())
def test_a_scan_of_what_plain_files_do_not_tell_is_refused(
    file_world: World, lake: Lake, case: tuple[Callable[[Lake], Any], str]
) -> None:
    """R19: rows would be too many, or null, or no reader would open the file; the rows are copied by a job instead."""
    lake.append(1)
    scan, told = case
    with pytest.raises(InvalidInput, match=told) as refused:
        publish(file_world, job(file_world), 1, scan(lake))
    assert "copy the rows by a job" in refused.value.next_step


def test_folders_say_nothing_of_the_files_of_a_scan(file_world: World, lake: Lake) -> None:
    lake.append(1)
    scan = lake.table.scan()
    (task,) = scan.plan_files()
    folder = Path(task.file.file_path.removeprefix("file://")).parent
    moved = folder / "text=x" / "1.parquet"
    moved.parent.mkdir()
    Path(task.file.file_path.removeprefix("file://")).rename(moved)

    def at_another_place(found: FileScanTask) -> FileScanTask:
        found.file[1] = f"file://{moved}"
        return found

    declared = job(file_world, partition_by=("text",))
    with pytest.raises(InvalidInput, match="none for a scan"):
        publish(file_world, declared, 1, Changed(scan=scan, changed=at_another_place), {"text": pa.string()})


def dropped(lake: Lake, *columns: str) -> None:
    """Add each of *columns* after the other was dropped, and write a file anew that has the last one."""
    lake.table.delete()
    for number, column in enumerate(columns):
        with lake.table.update_schema() as update:
            if number:
                update.delete_column(columns[number - 1])
            update.add_column(column, LongType())
    lake.table.append(pa.table({"value": [2], columns[-1]: [7]}))
    with lake.table.update_schema() as update:
        update.delete_column(columns[-1])


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (("a",), "a column with the id 2, which their table has dropped; this one has it for '_epoch'"),
        (("a", "b"), "a column with the id 3, which a later column of the table would get"),
    ],
)
def test_a_dropped_column_of_theirs_is_no_column_of_the_table(
    file_world: World, lake: Lake, columns: tuple[str, ...], told: str
) -> None:
    """R32: files go by ids, and those that a file has beside its table's columns stay in it for ever."""
    world, declared = file_world, job(file_world)
    lake.append(1)
    publish(world, declared, 1, lake.table.scan())
    dropped(lake, *columns)
    with pytest.raises(SchemaMismatch, match=told):
        publish(world, declared, 2, lake.table.scan())


def test_a_name_that_is_another_ones_when_files_come_there_is_refused(
    file_world: World, tmp_path: Path
) -> None:
    """R32: two attempts describe the first files of a table at once, one before a column is renamed, one after."""
    world, table = file_world, Table("old", domain=DOMAIN, format="iceberg")
    attempt = world.begin(world.job("old", [table]), day(1))
    write_rows(world.coordinator, attempt, "old", rows(1))
    world.coordinator.publish(attempt)
    late = world.begin(world.job("old", [table]), day(2))
    service, table_format = world.coordinator, world.formats["iceberg"]
    described = add_files(
        service, late, late.sink("old"), table_format, [written(tmp_path, "2.parquet", rows(2))], in_paths={}
    )
    world.clock.advance(PAST_TTL)
    renamed = world.job("old", [replace(table, column_changes=(rename("n", "number"),))])
    file = written(tmp_path, "3.parquet", rows(3).rename_columns(["number", "name", "price", "at"]))
    publish(world, renamed, 3, [file])
    service.processed(late, "old")
    service.written(late, "old", described())
    with pytest.raises(Unavailable, match="columns of table 'old' got other names since") as refused:
        service.publish(late)
    assert "begin again" in refused.value.next_step
    again = world.begin(renamed, day(2), owner("again"))
    write_rows(service, again, "old", rows(2).rename_columns(["number", "name", "price", "at"]))
    service.publish(again)
    assert [value for _, value in every_reader(world, 3, "number")] == [1, 2, 3]


def test_names_of_columns_that_cannot_be_read_are_no_names(file_world: World, tmp_path: Path) -> None:
    """R22: without them the columns of files that have no ids would be null."""
    world = file_world
    publish(world, job(world), 1, [written(tmp_path, "1.parquet", rows(1))])
    assert world.warehouse is not None
    (names,) = world.warehouse.rglob("names-*/*.json")
    names.write_text(names.read_text()[:-1])
    with pytest.raises(Unavailable, match=f"{names.name} is damaged"):
        world.cuts.read(world.cuts.cut(DOMAIN, ["old"]), "old")


def test_names_that_iceberg_takes_for_one_are_refused(file_world: World, tmp_path: Path) -> None:
    """R32: a part of a column that was dropped, and a later column with a dot in its name."""
    world, table = file_world, Table("old", domain=DOMAIN, format="iceberg")
    parts = pa.table({"n": [1], "a": [{"b": 1}]})
    publish(world, world.job("old", [table]), 1, [written(tmp_path, "1.parquet", parts)])
    changed = world.job("old", [replace(table, column_changes=(drop("a"), add("a.b", "bigint")))])
    with pytest.raises(SchemaMismatch, match=r"table 'old': its columns, .* have no name mapping"):
        publish(world, changed, 2, [written(tmp_path, "2.parquet", pa.table({"n": [2], "a.b": [2]}))])


def test_a_table_whose_files_have_to_say_their_epoch_takes_none_of_others(
    file_world: World, tmp_path: Path
) -> None:
    """R36: tables of the first releases; their readers would take the column for damaged."""
    world, declared = file_world, job(file_world)
    attempt = world.begin(declared, day(1))
    write_rows(world.coordinator, attempt, "old", rows(1))
    adding = world.formats["iceberg"]
    assert isinstance(adding, FileAddingFormat)
    (table,) = declared.outputs
    info = adding.describe(table)
    assert info is not None
    columns = json.loads(info.schema)
    next(field for field in columns["fields"] if field["name"] == "_epoch")["required"] = True
    old = replace(info, schema=json.dumps(columns))
    found = adding.look_at(table, [written(tmp_path, "2.parquet", rows(2))], {})
    with pytest.raises(SchemaMismatch, match="made by an earlier version"):
        adding.describe_added(world.coordinator.place(attempt, "old"), old, found)


def test_tables_in_memory_take_no_files_of_others(world: World) -> None:
    table = Table("old", domain=DOMAIN, format="memory")
    with pytest.raises(InvalidInput, match="declare the table with format='iceberg'"):
        with_added_files(world.formats["memory"], table)
