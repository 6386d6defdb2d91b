"""Files of other programs become slices as they are: every reader gets their rows, and none is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from airflow_provider.coordination.reading.cut_files import cut_file
from airflow_provider.coordination.reading.queries import queries
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.domain.columns import add, drop, rename
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import (
    InvalidInput,
    SchemaMismatch,
    StoreIncompatible,
    TopologyError,
    Unavailable,
)
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.topology import Job, Table
from airflow_provider.spark.added_files import add_files
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner

COLUMNS = pa.schema(
    [
        ("n", pa.int32()),
        ("name", pa.string()),
        ("price", pa.decimal128(9, 2)),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def rows(*numbers: int) -> pa.Table:
    columns = [
        numbers,
        [f"row {number}" for number in numbers],
        [Decimal(number) for number in numbers],
        [NOON for _ in numbers],
    ]
    return pa.table(columns, schema=COLUMNS)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder of another program."""
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


def written(folder: Path, name: str, table: pa.Table, **options: Any) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **{"store_schema": False, **options})
    return f"file://{path}"


def numbered(name: str, number: int) -> pa.Field:
    return pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(number)})


def one_file(lake: Path, fields: list[pa.Field], metadata: dict[str, str] | None = None) -> str:
    """Write a file of one row of zeros, whose footer has the fields as Arrow describes them."""
    schema = pa.schema(fields, metadata)
    return written(
        lake,
        "1.parquet",
        pa.table([pa.array([0], field.type) for field in fields], schema),
        store_schema=True,
    )


def text_file(lake: Path) -> str:
    (lake / "1.csv").write_text("n,name\n")
    return f"file://{lake}/1.csv"


def job(world: World, **options: Any) -> Job:
    return world.job("old", [Table("old", domain=DOMAIN, format="iceberg", **options)])


def added(
    world: World, attempt: Attempt, files: Any, in_paths: Mapping[str, pa.DataType] | None = None
) -> None:
    (sink,) = attempt.sinks
    service = world.coordinator
    table_format = world.formats[sink.format]
    describe = add_files(service, attempt, sink, table_format, files, in_paths=in_paths or {})
    service.processed(attempt, sink.name)
    service.written(attempt, sink.name, describe())


def publish(
    world: World,
    declared: Job,
    number: int,
    files: Any,
    in_paths: Mapping[str, pa.DataType] | None = None,
    *,
    by: str = "scheduled",
) -> Attempt:
    attempt = world.begin(declared, day(number), owner(by))
    added(world, attempt, files, in_paths)
    world.coordinator.publish(attempt)
    return attempt


def by_epoch(found: pa.Table, column: str = "n") -> list[tuple[datetime, Any]]:
    found = found.select(["_epoch", column]).to_pylist()
    return sorted(((row["_epoch"], row[column]) for row in found), key=str)


def every_reader(world: World, number: int, column: str = "n") -> list[tuple[datetime, Any]]:
    """Return the rows of the cut at the end of a day, as pyiceberg reads it, too."""
    cut = world.cuts.cut(DOMAIN, ["old"], at=barrier(number))
    found = by_epoch(world.cuts.read(cut, "old"), column)
    uri = cut_file(world.cuts, cut, "old").uri
    assert by_epoch(StaticTable.from_metadata(uri).scan().to_arrow(), column) == found
    return found


# --- rows -----------------------------------------------------------------------------------------------------------


def test_files_without_column_ids_are_read_by_their_names(file_world: World, lake: Path) -> None:
    """Files of the folder, then rows that the job writes itself, in one table."""
    world, declared = file_world, job(file_world)
    publish(
        world, declared, 1, [written(lake, "1/a.parquet", rows(1)), written(lake, "1/b.parquet", rows(2))]
    )
    publish(world, declared, 2, [written(lake, "2/a.parquet", rows(3))])
    attempt = world.begin(declared, day(3))
    write_rows(world.coordinator, attempt, "old", rows(4))
    world.coordinator.publish(attempt)
    assert every_reader(world, 2) == [(barrier(1), 1), (barrier(1), 2), (barrier(2), 3)]
    assert every_reader(world, 3)[-1] == (barrier(3), 4)
    newest = StaticTable.from_metadata(str(world.pointers.pointer(DOMAIN, "old")))
    assert by_epoch(newest.scan().to_arrow()) == every_reader(world, 3)
    assert newest.scan(row_filter=EqualTo("_epoch", barrier(2).isoformat())).to_arrow()["n"].to_pylist() == [
        3
    ]
    cut = world.cuts.cut(DOMAIN, ["old"], at=barrier(3))
    assert world.cuts.read(cut, "old", columns=["name"])["name"].to_pylist() == [
        f"row {n}" for n in (1, 2, 3, 4)
    ]


def test_columns_change_after_files_were_added(file_world: World, lake: Path) -> None:
    """R32: a renamed column has the old files' values, a new one of the old name has none of them."""
    world, table = file_world, Table("old", domain=DOMAIN, format="iceberg")
    publish(world, world.job("old", [table]), 1, [written(lake, "1.parquet", rows(1))])
    changed = replace(table, column_changes=(rename("n", "number"), add("n", "string"), drop("price")))
    declared = world.job("old", [changed])
    with pytest.raises(SchemaMismatch, match="'n'"):
        publish(world, declared, 2, [written(lake, "2.parquet", rows(2))])
    attempt = world.begin(declared, day(2))
    values = rows(2).drop_columns(["price"]).rename_columns(["number", "name", "at"])
    write_rows(world.coordinator, attempt, "old", values.append_column("n", pa.array(["two"])))
    world.coordinator.publish(attempt)
    assert every_reader(world, 2, "number") == [(barrier(1), 1), (barrier(2), 2)]
    found = world.cuts.read(world.cuts.cut(DOMAIN, ["old"]), "old")
    assert sorted(found["n"].to_pylist(), key=str) == [None, "two"]


def test_files_whose_columns_swapped_their_names_are_refused(file_world: World, lake: Path) -> None:
    """R32: their names are those of other columns in the files of before."""
    world, table = file_world, Table("old", domain=DOMAIN, format="iceberg")
    pair = pa.table({"a": [1], "b": [10]})
    publish(world, world.job("old", [table]), 1, [written(lake, "1.parquet", pair)])
    swapped = replace(table, column_changes=(rename("a", "c"), rename("b", "a"), rename("c", "b")))
    with pytest.raises(SchemaMismatch, match="could not be told apart"):
        publish(world, world.job("old", [swapped]), 2, [written(lake, "2.parquet", pair)])


def test_a_file_may_lack_columns_and_have_narrower_ones(file_world: World, lake: Path) -> None:
    world, declared = file_world, job(file_world)
    wide = rows(1).set_column(0, "n", pa.array([1 << 40]))
    publish(world, declared, 1, [written(lake, "1.parquet", wide)])
    publish(world, declared, 2, [written(lake, "2.parquet", rows(2).drop_columns(["name"]))])
    assert every_reader(world, 2) == [(barrier(1), 1 << 40), (barrier(2), 2)]
    assert every_reader(world, 2, "name") == [(barrier(1), "row 1"), (barrier(2), None)]
    state = world.cuts.cut(DOMAIN, ["old"]).states["old"]
    schema = world.cuts.schema(DOMAIN, state)
    bounds = world.formats["iceberg"].statistics(state, schema).columns["n"]
    assert (bounds.lower.as_py(), bounds.upper.as_py()) == (2, 1 << 40)


def test_nested_columns_are_found_by_name(file_world: World, lake: Path) -> None:
    kind = pa.struct([("x", pa.int64()), ("tags", pa.list_(pa.string()))])
    value = {"x": 1, "tags": ["a", None]}
    table = pa.table(
        {
            "n": [1],
            "point": pa.array([value], kind),
            "of": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    publish(file_world, job(file_world), 1, [written(lake, "1.parquet", table)])
    assert every_reader(file_world, 1) == [(barrier(1), 1)]
    (row,) = file_world.cuts.read(file_world.cuts.cut(DOMAIN, ["old"]), "old").to_pylist()
    assert (row["point"], row["of"]) == (value, [("k", 1)])


def test_values_in_folders_names_are_columns(file_world: World, lake: Path) -> None:
    """Hive's layout: such a column is in no file."""
    world, declared = file_world, job(file_world, partition_by=("region", "day"))
    types = {"region": pa.string(), "day": pa.date32()}
    files = [
        written(lake, "day=2024-01-01/region=a%2Fb/x.parquet", rows(1)),
        written(lake, "day=2024-01-01/region=__HIVE_DEFAULT_PARTITION__/x.parquet", rows(2)),
    ]
    publish(world, declared, 1, files, types)
    assert every_reader(world, 1) == [(barrier(1), 1), (barrier(1), 2)]
    found = every_reader(world, 1, "region")
    assert sorted((value for _, value in found), key=str) == [None, "a/b"]
    found = world.cuts.read(world.cuts.cut(DOMAIN, ["old"]), "old").sort_by("n")
    assert found["day"].to_pylist() == [datetime(2024, 1, 1, tzinfo=UTC).date()] * 2


def test_a_folders_value_that_is_not_asked_for_is_no_null(file_world: World, lake: Path) -> None:
    world, declared = file_world, job(file_world, partition_by=("region",))
    publish(world, declared, 1, [written(lake, "region=eu/1.parquet", rows(1))], {"region": pa.string()})
    with pytest.raises(InvalidInput, match="the column 'region' among in_paths"):
        publish(world, declared, 2, [written(lake, "region=us/2.parquet", rows(2))])


def test_a_column_that_partitions_may_be_in_the_files(file_world: World, lake: Path) -> None:
    world, declared = file_world, job(file_world, partition_by=("name",))
    publish(world, declared, 1, [written(lake, "1.parquet", rows(1)), written(lake, "2.parquet", rows(2))])
    assert every_reader(world, 1) == [(barrier(1), 1), (barrier(1), 2)]
    uri = cut_file(world.cuts, world.cuts.cut(DOMAIN, ["old"]), "old").uri
    assert StaticTable.from_metadata(uri).scan(row_filter="name = 'row 2'").to_arrow()["n"].to_pylist() == [2]
    with pytest.raises(InvalidInput, match="one value of 'name'"):
        publish(world, declared, 2, [written(lake, "3.parquet", rows(3, 4))])


def test_a_table_by_transforms_takes_no_files(file_world: World, lake: Path) -> None:
    """Only the rows would tell a file's values."""
    declared = job(file_world, partition_by=("bucket(4, n)",))
    with pytest.raises(InvalidInput, match=r"bucket\(4, n\).*epoch.write"):
        publish(file_world, declared, 1, [written(lake, "1.parquet", rows(1))])


@pytest.fixture
def iceberg(tmp_path: Path) -> Any:
    """A table of another program: days, and a column that was renamed after the first one."""
    catalog = SqlCatalog(
        "theirs", uri=f"sqlite:///{tmp_path}/theirs.db", warehouse=f"file://{tmp_path}/theirs"
    )
    catalog.create_namespace("db")
    schema = Schema(
        NestedField(1, "n", LongType(), required=False),
        NestedField(2, "dropped", LongType(), required=False),
        NestedField(3, "day", StringType(), required=False),
    )
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "day"))
    table = catalog.create_table("db.events", schema, partition_spec=spec)
    table.append(pa.table({"n": [1, 2], "dropped": [0, 0], "day": ["1", "2"]}))
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("dropped")
        update.rename_column("n", "number")
    table.append(pa.table({"number": [3], "day": ["1"]}))
    yield table
    catalog.close()


def test_files_of_an_iceberg_table_keep_their_column_ids(file_world: World, iceberg: Any) -> None:
    world, declared = file_world, job(file_world)
    for number in (1, 2):
        publish(world, declared, number, iceberg.scan(row_filter=EqualTo("day", str(number))))
    assert every_reader(world, 2, "number") == [(barrier(1), 1), (barrier(1), 3), (barrier(2), 2)]
    attempt = world.begin(declared, day(3))
    write_rows(world.coordinator, attempt, "old", pa.table({"number": [4], "day": ["3"]}))
    world.coordinator.publish(attempt)
    assert every_reader(world, 3, "day")[-1] == (barrier(3), "3")


def test_a_scan_that_takes_parts_of_files_is_refused(file_world: World, iceberg: Any) -> None:
    with pytest.raises(InvalidInput, match="some rows only"):
        publish(file_world, job(file_world), 1, iceberg.scan(row_filter="number < 3"))


def test_a_scan_that_takes_no_file_is_refused(file_world: World, iceberg: Any) -> None:
    with pytest.raises(InvalidInput, match="at least one file"):
        publish(file_world, job(file_world), 1, iceberg.scan(row_filter=EqualTo("day", "none")))


def test_output_that_is_not_published_is_read_uncommitted(file_world: World, lake: Path) -> None:
    world, declared = file_world, job(file_world)
    publish(world, declared, 1, [written(lake, "1.parquet", rows(1))])
    attempt = world.begin(declared, day(2))
    added(world, attempt, [written(lake, "2.parquet", rows(2))])
    world.coordinator.complete(attempt)
    cut = world.cuts.cut(DOMAIN, ["old"], level=Level.READ_UNCOMMITTED)
    assert by_epoch(world.cuts.read(cut, "old")) == [(barrier(1), 1), (barrier(2), 2)]


def test_the_column_that_partitions_is_found_beside_parts_of_its_name(file_world: World, lake: Path) -> None:
    """Leaves of a struct or of a map come first in the footer."""
    world, declared = file_world, job(file_world, partition_by=("key",))
    files = [
        written(
            lake,
            f"{key}.parquet",
            pa.table(
                {
                    "of": pa.array([[("inner", 1)]], pa.map_(pa.string(), pa.int64())),
                    "key": [key],
                    "n": [number],
                }
            ),
        )
        for number, key in enumerate(("eu", "us"), 1)
    ]
    publish(world, declared, 1, files)
    uri = cut_file(world.cuts, world.cuts.cut(DOMAIN, ["old"]), "old").uri
    assert StaticTable.from_metadata(uri).scan(row_filter="key = 'eu'").to_arrow()["n"].to_pylist() == [1]


@pytest.mark.parametrize("partition_by", [(), ("price",)])
def test_short_decimals_of_other_writers_are_integers(
    file_world: World, lake: Path, partition_by: tuple[str, ...]
) -> None:
    """Spark keeps decimals of up to 18 digits so."""
    world, declared = file_world, job(file_world, partition_by=partition_by)
    publish(world, declared, 1, [written(lake, "1.parquet", rows(2), store_decimal_as_integer=True)])
    assert every_reader(world, 1, "price") == [(barrier(1), Decimal(2))]
    uri = cut_file(world.cuts, world.cuts.cut(DOMAIN, ["old"]), "old").uri
    assert StaticTable.from_metadata(uri).scan(row_filter="price = 2.00").to_arrow()["n"].to_pylist() == [2]


def test_epochs_that_are_not_published_yet_keep_the_table(file_world: World, lake: Path) -> None:
    """The first file decides the columns; a later one may lack some, in another order."""
    world, declared = file_world, job(file_world)
    attempts = [world.begin(declared, day(number), owner(str(number))) for number in (1, 2)]
    added(world, attempts[0], [written(lake, "1.parquet", rows(1))])
    added(world, attempts[1], [written(lake, "2.parquet", rows(2).select(["name", "n"]))])
    for attempt in attempts:
        world.coordinator.publish(attempt)
    assert every_reader(world, 2) == [(barrier(1), 1), (barrier(2), 2)]


def test_names_that_change_while_files_are_described_are_described_anew(
    file_world: World, lake: Path
) -> None:
    """R32: an attempt of before the change does not publish files whose column has lost its name meanwhile."""
    world, table = file_world, Table("old", domain=DOMAIN, format="iceberg")
    attempt = world.begin(world.job("old", [table]), day(1))
    write_rows(world.coordinator, attempt, "old", rows(1))
    world.coordinator.publish(attempt)
    late = world.begin(world.job("old", [table]), day(2))
    changed = replace(table, column_changes=(add("more", "bigint"),))
    newer = world.begin(world.job("old", [changed]), day(3))
    added(world, newer, [written(lake, "3.parquet", rows(3).append_column("more", pa.array([30])))])
    world.coordinator.publish(newer)
    added(world, late, [written(lake, "2.parquet", rows(2))])
    world.coordinator.publish(late)
    assert every_reader(world, 3, "more") == [(barrier(1), None), (barrier(2), None), (barrier(3), 30)]


# --- owners ----------------------------------------------------------------------------------------------------------


def test_a_vacuum_leaves_the_files_to_their_owner(file_world: World, lake: Path) -> None:
    """R24: also those of a slice that a revision has replaced; the revision may have them, too."""
    world, declared = file_world, job(file_world)
    first, second = (written(lake, f"{number}.parquet", rows(number)) for number in (1, 2))
    publish(world, declared, 1, [first])
    publish(world, declared, 1, [first, second], by="second")
    attempt = world.begin(declared, day(1), owner("third"))
    write_rows(world.coordinator, attempt, "old", rows(5))
    world.coordinator.publish(attempt)
    world.clock.advance(2 * DEFAULTS.retention_grace)
    deleted = world.retention.vacuum(DOMAIN).deleted
    assert deleted
    assert not [uri for uri in deleted if uri.startswith(f"file://{lake}")]
    assert sorted(path.name for path in lake.iterdir()) == ["1.parquet", "2.parquet"]
    assert every_reader(world, 1) == [(barrier(1), 5)]


@pytest.mark.parametrize("what", ["gone", "changed"])
def test_files_that_their_owner_has_changed_are_not_published(
    file_world: World, lake: Path, what: str
) -> None:
    """I6."""
    world, declared = file_world, job(file_world)
    uri = written(lake, "1.parquet", rows(1))
    attempt = world.begin(declared, day(1))
    added(world, attempt, [uri])
    if what == "gone":
        Path(uri.removeprefix("file://")).unlink()
    else:
        written(lake, "1.parquet", rows(1, 2, 3))
    with pytest.raises(Unavailable, match=r"1\.parquet"):
        world.coordinator.publish(attempt)


def test_a_file_that_its_owner_wrote_anew_is_an_error(file_world: World, lake: Path) -> None:
    """R22, I6: its rows are not those that were committed; doctor names it."""
    world, declared = file_world, job(file_world)
    publish(world, declared, 1, [written(lake, "1.parquet", rows(1))])
    cut = world.cuts.cut(DOMAIN, ["old"])
    written(lake, "1.parquet", rows(1, 2, 3))
    with pytest.raises(Unavailable, match=r"when it was added it had"):
        world.cuts.read(cut, "old")
    assert [symptom.subject for symptom in examine(world.store, world.formats, DOMAIN).urgent] == [
        "files of old"
    ]


def test_participants_do_not_add_one_file_twice(file_world: World, lake: Path) -> None:
    world, declared = file_world, job(file_world)
    uri = written(lake, "1.parquet", rows(1))
    attempt = world.begin(declared, day(1), participants=2)
    for number in (0, 1):
        added(world, world.coordinator.join(attempt, number, owner()), [uri])
    with pytest.raises(InvalidInput, match="no other participant"):
        world.coordinator.publish(attempt)


def test_a_file_counts_once(file_world: World, lake: Path) -> None:
    """Another epoch of the table may not have it; a retry of its own may."""
    world, declared = file_world, job(file_world)
    uri = written(lake, "1.parquet", rows(1))
    publish(world, declared, 1, [uri])
    with pytest.raises(InvalidInput, match="the epoch that ends at 2024"):
        publish(world, declared, 2, [uri])
    world.coordinator.abort(world.begin(declared, day(1), owner("again")), "tried")
    assert every_reader(world, 1) == [(barrier(1), 1)]


def test_a_revert_brings_no_file_back_that_another_epoch_has_got(file_world: World, lake: Path) -> None:
    """R30: its rows would be in two epochs."""
    world, declared, why = file_world, job(file_world), {"reason": "wrong", "by": "me"}
    first, second, third = (written(lake, f"{number}.parquet", rows(number)) for number in (1, 2, 3))
    publish(world, declared, 1, [first])
    operations = world.coordinator.restatements
    operations.open(DOMAIN, ["old"], day(1), name="fix", **why)
    attempt = world.coordinator.begin_within("fix", declared, day(1), owner())
    added(world, attempt, [second])
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    operations.publish(DOMAIN, "fix")
    publish(world, declared, 2, [first])
    with pytest.raises(TopologyError, match=r"had .*1\.parquet, which another epoch of old has since"):
        operations.revert(DOMAIN, "fix", **why)
    publish(world, declared, 2, [third], by="again")
    operations.revert(DOMAIN, "fix", **why)
    assert every_reader(world, 2) == [(barrier(1), 1), (barrier(2), 3)]


# --- refusals --------------------------------------------------------------------------------------------------------


REFUSED: dict[str, tuple[Any, str]] = {
    "none": (lambda _: [], "at least one file"),
    "a text": (lambda lake: written(lake, "1.parquet", rows(1)), "a list of URIs"),
    "twice": (lambda lake: [written(lake, "1.parquet", rows(1))] * 2, "each once"),
    "another place": (lambda _: ["gs://bucket/1.parquet"], "where this package reads"),
    "two types": (
        lambda lake: [
            written(lake, "1.parquet", rows(1)),
            written(lake, "2.parquet", rows(2).set_column(0, "n", pa.array(["2"]))),
        ],
        "int32, as the other files have it",
    ),
    "old times": (
        lambda lake: [written(lake, "1.parquet", rows(1), use_deprecated_int96_timestamps=True)],
        "column at",
    ),
    "unsigned": (
        lambda lake: [written(lake, "1.parquet", pa.table({"n": pa.array([1], pa.uint32())}))],
        "unsigned",
    ),
    "a folder": (lambda lake: [f"file://{lake}"], "there is a folder"),
    "no file": (lambda lake: [f"file://{lake}/no.parquet"], "there is nothing"),
    "no Parquet": (lambda lake: [text_file(lake)], "a Parquet file"),
    "a path of its own": (
        lambda lake: [written(lake, "a/1.parquet", rows(1)).replace("/a/", "/a/../a/")],
        "own path",
    ),
    "ids": (lambda lake: [one_file(lake, [numbered("n", 1)])], "as a scan of it"),
    "one id twice": (lambda lake: [one_file(lake, [numbered("n", 1), numbered("m", 1)])], "or none"),
    "one name twice": (
        lambda lake: [one_file(lake, [pa.field("n", pa.int64()), pa.field("n", pa.int64())])],
        "each name once",
    ),
    "another zone": (
        lambda lake: [one_file(lake, [pa.field("t", pa.timestamp("us", "Europe/Berlin"))])],
        "times in UTC",
    ),
    "old calendar": (
        lambda lake: [one_file(lake, [pa.field("n", pa.int64())], {"org.apache.spark.legacyDateTime": ""})],
        "present calendar",
    ),
    "own column": (lambda lake: [written(lake, "1.parquet", pa.table({"_epoch": [1]}))], "_epoch"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_other_files_are_refused(file_world: World, lake: Path, case: tuple[Any, str]) -> None:
    files, why = case
    with pytest.raises(InvalidInput, match=why):
        publish(file_world, job(file_world), 1, files(lake))
    assert file_world.formats["iceberg"].describe(job(file_world).outputs[0]) is None


@pytest.mark.parametrize(
    ("path", "types", "why"),
    [
        ("x.parquet", {"region": pa.string()}, "a folder region="),
        ("region=x/x.parquet", {"region": pa.int64()}, "of the type int64"),
        ("n=1/x.parquet", {"n": pa.int64()}, "that the files lack"),
    ],
)
def test_other_folders_are_refused(
    file_world: World, lake: Path, path: str, types: dict[str, pa.DataType], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        publish(
            file_world, job(file_world, partition_by=tuple(types)), 1, [written(lake, path, rows(1))], types
        )


def test_columns_that_the_table_lacks_are_refused(file_world: World, lake: Path) -> None:
    world, declared = file_world, job(file_world)
    publish(world, declared, 1, [written(lake, "1.parquet", rows(1))])
    more = rows(2).append_column("more", pa.array([1]))
    with pytest.raises(SchemaMismatch, match="'more'"):
        publish(world, declared, 2, [written(lake, "2.parquet", more)])
    other = rows(2).set_column(1, "name", pa.array([1]))
    with pytest.raises(SchemaMismatch, match="'name'"):
        publish(world, declared, 2, [written(lake, "3.parquet", other)])


def test_files_with_ids_of_another_table_are_refused(file_world: World, iceberg: Any) -> None:
    world, declared = file_world, job(file_world)
    attempt = world.begin(declared, day(1))
    write_rows(world.coordinator, attempt, "old", pa.table({"day": ["1"], "number": [1]}))
    world.coordinator.publish(attempt)
    with pytest.raises(SchemaMismatch, match="has the id 1, which the table has for 'day'"):
        publish(world, declared, 2, iceberg.scan(row_filter=EqualTo("day", "1")))


def test_columns_of_an_attempt_that_came_to_nothing_do_not_bind(file_world: World, iceberg: Any) -> None:
    """The table was made by rows of the same names, and never published."""
    world, declared = file_world, job(file_world)
    attempt = world.begin(declared, day(1))
    write_rows(world.coordinator, attempt, "old", pa.table({"day": ["1"], "number": [1]}))
    world.coordinator.abort(attempt, "the run was stopped")
    publish(world, declared, 1, iceberg.scan(row_filter=EqualTo("day", "1")))
    assert every_reader(world, 1, "number") == [(barrier(1), 1), (barrier(1), 3)]


def test_files_in_the_tables_own_folder_are_refused(file_world: World) -> None:
    world, declared = file_world, job(file_world)
    attempt = world.begin(declared, day(1))
    write_rows(world.coordinator, attempt, "old", rows(1))
    world.coordinator.publish(attempt)
    (own,) = world.cuts.files(world.cuts.cut(DOMAIN, ["old"]), "old")
    with pytest.raises(InvalidInput, match="outside of"):
        publish(world, declared, 2, [own])


def test_duckdb_is_sent_to_the_metadata_file(file_world: World, lake: Path) -> None:
    """Files alone do not say their epoch."""
    publish(file_world, job(file_world), 1, [written(lake, "1.parquet", rows(1))])
    with pytest.raises(InvalidInput, match="metadata_location"):
        queries(file_world.cuts, file_world.cuts.cut(DOMAIN, ["old"]), "duckdb")


def test_an_older_package_may_use_the_store(
    file_world: World, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R36: it would read the files without their epoch."""
    world = file_world
    monkeypatch.setattr(type(world.store), "format", 1)
    with pytest.raises(StoreIncompatible, match="needs a store of format 2"):
        publish(world, job(world), 1, [written(lake, "1.parquet", rows(1))])
