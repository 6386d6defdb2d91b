"""Rows from Spark into staged files: types, layout, refusals, and tries that fail."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.columns import add, rename, widen
from airflow_provider.domain.errors import InvalidInput, SchemaMismatch
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Table
from airflow_provider.spark import sinks
from airflow_provider.spark.shipping import shipped
from airflow_provider.tables.base import StagingLocation, TableFormat, TableInfo, TaskWriter, WrittenFile
from airflow_provider.tables.partitioning import fields_of
from airflow_provider.testing.table_cases.backend import Publisher

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE = Table("flights")
HOUR = Interval(datetime(2013, 2, 8, 13, tzinfo=UTC), datetime(2013, 2, 8, 14, tzinfo=UTC))

ALL_TYPES = """
    select true as a_bool, cast(1 as tinyint) as a_byte, cast(2 as smallint) as a_short, 3 as an_int,
      4000000000 as a_long, cast(1.5 as float) as a_float, 2.5D as a_double,
      cast('12345678.90' as decimal(10,2)) as a_decimal, cast('-1e-18' as decimal(38,18)) as a_wide_decimal,
      date'1582-10-04' as an_old_date, timestamp'1883-11-18 00:00:00Z' as an_old_time,
      timestamp'2013-02-08 10:00:00.123456Z' as an_instant, timestamp_ntz'2013-03-10 02:30:00' as a_local_time,
      'ünï \\u0000 text' as a_string, X'00ff' as a_binary, cast(null as string) as a_null,
      array(1, null, 3) as an_array, map('k', named_struct('t', timestamp'2013-02-08 10:00:00Z')) as a_map,
      named_struct('x', 1, 'y', array(named_struct('z', cast(null as int)))) as a_struct
"""

on_connect = pytest.mark.parametrize("spark", ["connect"], indirect=True)
on_classic = pytest.mark.parametrize("spark", ["classic"], indirect=True)
"""One kind of session is enough where nothing differs between them."""


@pytest.fixture
def iceberg(service: EpochService) -> TableFormat:
    return service.formats["iceberg"]


def staged(df: DataFrame, table: Table, table_format: TableFormat) -> tuple[TableInfo, list[WrittenFile]]:
    """Stage *df* as the first attempt at one hour."""
    info = sinks.target(df, table, table_format)
    return info, sinks.stage(df, place_in(table, table_format), info, table_format)


def published(df: DataFrame, table: Table, service: EpochService) -> TableInfo:
    """Stage *df* and commit it."""
    iceberg = service.formats["iceberg"]
    info, files = staged(df, table, iceberg)
    publisher = Publisher(iceberg, service.store, table.domain)
    committable = iceberg.describe_output(place_in(table, iceberg), info, files)
    publication = publisher.publication(table, (HOUR, committable))
    publisher.commit((publication, iceberg.prepare(publication)))
    return info


def place_in(table: Table, table_format: TableFormat) -> StagingLocation:
    return table_format.place(table, job=JobName("clean"), interval=HOUR, revision=1, token=1)


def rows_in(files: Iterable[WrittenFile]) -> pa.Table:
    tables = [pq.read_table(file.uri.removeprefix("file://"), partitioning=None) for file in files]
    return pa.concat_tables(tables)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_type_keeps_its_value_in_any_session_time_zone(
    spark: SparkSession, iceberg: TableFormat, zone: str
) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    _, files = staged(spark.sql(ALL_TYPES), TABLE, iceberg)
    instant = datetime(2013, 2, 8, 10, tzinfo=UTC)
    [row] = rows_in(files).to_pylist()
    assert row == {
        "a_bool": True,
        "a_byte": 1,
        "a_short": 2,
        "an_int": 3,
        "a_long": 4_000_000_000,
        "a_float": 1.5,
        "a_double": 2.5,
        "a_decimal": Decimal("12345678.90"),
        "a_wide_decimal": Decimal("-1e-18"),
        "an_old_date": date(1582, 10, 4),
        "an_old_time": datetime(1883, 11, 18, tzinfo=UTC),
        "an_instant": instant + timedelta(microseconds=123456),
        "a_local_time": datetime(2013, 3, 10, 2, 30),  # noqa: DTZ001  (without a zone on purpose)
        "a_string": "ünï \0 text",
        "a_binary": b"\x00\xff",
        "a_null": None,
        "an_array": [1, None, 3],
        "a_map": [("k", {"t": instant})],
        "a_struct": {"x": 1, "y": [{"z": None}]},
        "_epoch": HOUR.end,
    }


@on_classic
@pytest.mark.parametrize(
    ("select", "column"),
    [
        ("null as v", "v"),
        ("array(null) as v", "v.element"),
        ("interval '1' day as v", "v"),
        ("interval '1' month as v", "v"),
        ("make_interval(1) as v", "v"),
        ("named_struct('deep', map('k', interval '1' day)) as v", "v.deep.value"),
        ("parse_json('1') as v", "v"),
        ("time'10:00:00' as v", "v"),
        ("'a' collate UNICODE_CI as v", "v"),
    ],
)
def test_a_type_that_tables_lack_is_refused_by_column(
    spark: SparkSession, iceberg: TableFormat, select: str, column: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        sinks.target(spark.sql(f"select 1 as id, {select}"), TABLE, iceberg)
    assert refused.value.column == column
    assert "before epoch.write" in str(refused.value)
    assert iceberg.describe(TABLE) is None


@on_classic
@pytest.mark.parametrize(
    ("select", "column"),
    [
        ("1 as id", "label"),
        ("1 as id, 'a' as label, 2 as extra", "extra"),
        ("1 as id, 2 as label", "label"),
        ("1 as id, 'a' as LABEL", "label"),
        ("cast('1.5' as double) as id, 'a' as label", "id"),
        ("'a' as label, 'b' as label, 1 as id", "label"),
    ],
)
def test_columns_that_do_not_fit_the_table_are_named(
    spark: SparkSession, service: EpochService, iceberg: TableFormat, select: str, column: str
) -> None:
    published(spark.sql("select 1L as id, 'a' as label"), TABLE, service)
    with pytest.raises(SchemaMismatch) as refused:
        sinks.target(spark.sql(f"select {select}"), TABLE, iceberg)
    assert refused.value.column == column


@on_classic
def test_a_first_attempt_with_wrong_columns_leaves_nothing_in_the_way(
    spark: SparkSession, service: EpochService, iceberg: TableFormat
) -> None:
    wrong, _ = staged(spark.sql("select '1' as id, 'a' as lable"), TABLE, iceberg)
    again, _ = staged(spark.sql("select '2' as id, 'b' as lable"), TABLE, iceberg)
    assert again == wrong, "the same columns are no reason to make the table anew"
    partitioned = Table("flights", partition_by=("label",))
    corrected = published(spark.sql("select 1L as id, 'a' as label"), partitioned, service)
    assert corrected.table_uuid != wrong.table_uuid
    assert iceberg.arrow_schema(corrected.schema).names == ["id", "label", "_epoch"]


@on_classic
@pytest.mark.parametrize("select", ["1 as id", "1 as id, 'fast' as rate"], ids=["lacks", "other type"])
def test_first_rows_that_do_not_fit_the_declared_changes_are_named(
    spark: SparkSession, iceberg: TableFormat, select: str
) -> None:
    """R32: the first commit records them as made."""
    table = Table("flights", column_changes=[add("rate", "double")])
    with pytest.raises(SchemaMismatch) as refused:
        sinks.target(spark.sql(f"select {select}"), table, iceberg)
    assert refused.value.column == "rate"


@on_classic
def test_first_rows_are_written_in_the_types_of_the_declared_changes(
    spark: SparkSession, iceberg: TableFormat
) -> None:
    """R32: wider ones, which an older table has by now."""
    table = Table("flights", column_changes=[widen("id", "bigint"), add("rate", "double")])
    info, files = staged(spark.sql("select 1 as id, cast(0.5 as float) as rate"), table, iceberg)
    found = iceberg.arrow_schema(info.schema)
    assert [found.field(name).type for name in ("id", "rate")] == [pa.int64(), pa.float64()]
    [row] = rows_in(files).drop_columns("_epoch").to_pylist()
    assert row == {"id": 1, "rate": 0.5}


@on_classic
def test_another_layout_of_an_unpublished_table_is_taken(
    spark: SparkSession, service: EpochService, iceberg: TableFormat
) -> None:
    rows = spark.sql("select 1L as id, 'a' as label")
    unpublished, _ = staged(rows, TABLE, iceberg)
    partitioned = Table("flights", partition_by=("label",))
    assert published(rows, partitioned, service).table_uuid != unpublished.table_uuid
    with pytest.raises(SchemaMismatch, match="partition_by"):
        published(rows, TABLE, service)


@on_connect
def test_columns_are_matched_by_name_and_narrower_numbers_widened(
    spark: SparkSession, iceberg: TableFormat
) -> None:
    staged(spark.sql("select 1L as id, cast(1 as decimal(12,2)) as price, 1.5D as rate"), TABLE, iceberg)
    other = spark.sql("select cast(0.5 as float) as rate, cast(7 as tinyint) as id, 2.50BD as price")
    _, files = staged(other, TABLE, iceberg)
    [row] = rows_in(files).drop_columns("_epoch").to_pylist()
    assert row == {"id": 7, "price": Decimal("2.50"), "rate": 0.5}


@on_connect
def test_a_first_write_of_constants_makes_columns_that_may_be_null(
    spark: SparkSession, iceberg: TableFormat
) -> None:
    staged(spark.sql("select 1 as id, 'x' as label"), TABLE, iceberg)
    _, files = staged(spark.sql("select 2 as id, cast(null as string) as label"), TABLE, iceberg)
    assert rows_in(files)["label"].to_pylist() == [None]


def test_odd_column_names_work_as_partition_and_sort_columns(
    spark: SparkSession, iceberg: TableFormat
) -> None:
    table = Table("odd", partition_by=("a.b c",), sort_by=("naïve`tick",))
    df = spark.range(6).selectExpr("id % 2 as `a.b c`", "-id as `naïve``tick`")
    _, files = staged(df, table, iceberg)
    assert sum(file.rows for file in files) == 6


def test_a_sort_column_that_the_rows_lack_is_named(spark: SparkSession) -> None:
    """R32: such as one that was renamed, while sort_by has its former name."""
    table = Table("ticks", sort_by=("tick",), column_changes=[rename("tick", "at")])
    with pytest.raises(InvalidInput, match=r"sort_by: \['tick'\] is not accepted; .* have: at\. .*new name"):
        sinks.laid_out(spark.range(3).toDF("at"), table)


@on_connect
def test_a_partition_value_has_files_of_its_own_sorted_inside(
    spark: SparkSession, iceberg: TableFormat
) -> None:
    table = Table("laid_out", partition_by=("origin",), sort_by=("distance",))
    df = spark.range(0, 3000, 1, 6).selectExpr("concat('A', id % 3) as origin", "hash(id) as distance", "id")
    _, files = staged(df, table, iceberg)
    by_origin: dict[str, list[int]] = defaultdict(list)
    for file in files:
        rows = rows_in([file])
        [origin] = set(rows["origin"].to_pylist())
        distances = rows["distance"].to_pylist()
        assert distances == sorted(distances)
        by_origin[origin] += rows["id"].to_pylist()
    assert {origin: len(ids) for origin, ids in by_origin.items()} == {"A0": 1000, "A1": 1000, "A2": 1000}
    assert len(files) <= 6, "rows of one value came together before they were written"


@on_connect
@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("bucket(4, name)", "name"),
        ("truncate(1000, id)", "id"),
        ("truncate(2, name)", "name"),
        ("hour(at)", "at"),
        ("hour(clock)", "clock"),
        ("day(on)", "on"),
    ],
)
def test_a_transform_separates_files_whatever_the_order_of_rows(
    spark: SparkSession, iceberg: TableFormat, text: str, column: str
) -> None:
    """R4: rows of one value come together, in UTC, and are sorted by what the table says inside each file."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    table = Table("laid_out", partition_by=(text,), sort_by=("rank",))
    # Around 1970, and around an hour that clocks of New York skip: where rounding and zones go wrong.
    df = spark.range(-2000, 2000, 1, 6).selectExpr(
        "id",
        "concat('n', pmod(id, 7), '-', pmod(id, 3)) as name",
        "timestamp_micros(id * 97000000) as at",
        "timestamp_ntz'2013-03-10 02:00:00' + make_dt_interval(0, 0, 0, pmod(hash(id), 9000)) as clock",
        "date_add(date'1970-01-01', cast(id div 1000 as int)) as on",
        "hash(id) as rank",
    )
    _, files = staged(df, table, iceberg)
    values = set()
    for file in files:
        rows = rows_in([file])
        (field,) = fields_of([text], rows.column_names)
        [value] = set(field.values(rows[column].combine_chunks()).to_pylist())
        assert rows["rank"].to_pylist() == sorted(rows["rank"].to_pylist())
        values.add(value)
    assert sum(file.rows for file in files) == 4000
    assert len(values) > 2
    assert len(files) < len(values) + 6, "rows of one value came together before they were written"


@on_connect
def test_no_rows_make_no_file_and_still_a_table(spark: SparkSession, iceberg: TableFormat) -> None:
    info, files = staged(spark.range(0).selectExpr("id", "'x' as label"), TABLE, iceberg)
    assert files == []
    assert iceberg.arrow_schema(info.schema).names == ["id", "label", "_epoch"]


@on_classic
def test_large_output_arrives_whole(spark: SparkSession, iceberg: TableFormat) -> None:
    df = spark.range(0, 400_000, 1, 4).selectExpr("id", "repeat('x', 50) as filler")
    _, files = staged(df, TABLE, iceberg)
    rows = rows_in(files)
    assert sum(file.rows for file in files) == 400_000
    assert len(set(rows["id"].to_pylist())) == 400_000
    assert all(Path(file.uri.removeprefix("file://")).stat().st_size == file.size_bytes for file in files)


@dataclass(frozen=True)
class FailsAfterWriting:
    """A format whose every task writes its files, then fails at its first try."""

    inner: TableFormat

    def task_writer(self, place: StagingLocation, info: TableInfo) -> TaskWriter:
        write = self.inner.task_writer(place, info)

        def try_twice(batches: Iterable[pa.RecordBatch]) -> Iterator[WrittenFile]:
            from pyspark import TaskContext

            files = list(write(batches))
            context = TaskContext.get()
            if context is None or context.attemptNumber() == 0:
                raise RuntimeError(f"lost after writing {len(files)} files")
            yield from files

        return try_twice


def test_files_of_a_failed_try_are_never_heard_of(spark: SparkSession, iceberg: TableFormat) -> None:
    df = spark.range(0, 100, 1, 2)
    info = sinks.target(df, TABLE, iceberg)
    place = place_in(TABLE, iceberg)
    files = sinks.stage(df, place, info, FailsAfterWriting(iceberg))  # type: ignore[arg-type]
    on_disk = set(Path(place.uri.removeprefix("file://")).rglob("*.parquet"))
    heard_of = {Path(file.uri.removeprefix("file://")) for file in files}
    assert heard_of < on_disk
    assert len(on_disk) == 2 * len(heard_of) == 4
    committable = iceberg.describe_output(place, info, files)
    assert (committable.rows, committable.files) == (100, 2)


def test_workers_need_pyarrow_and_not_this_package(service: EpochService, tmp_path: Path) -> None:
    table_format = service.formats["iceberg"]
    schema = pa.schema([("id", pa.int64())])
    info = table_format.create(TABLE, schema)
    run: Callable[..., Any] = shipped(table_format.task_writer(place_in(TABLE, table_format), info), ["id"])
    from pyspark import cloudpickle

    (tmp_path / "function").write_bytes(cloudpickle.dumps(run))
    program = f"""
import sys
for absent in ("airflow_provider", "pyiceberg", "msgspec", "sqlalchemy", "pendulum", "croniter", "airflow"):
    sys.modules[absent] = None
import pickle, pyarrow
run = pickle.loads(open({str(tmp_path / "function")!r}, "rb").read())
[described] = run(iter([pyarrow.RecordBatch.from_pydict({{"id": [1, 2, 3]}})]))
print(described.to_pylist()[0]["rows"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("3", 0), done.stderr
