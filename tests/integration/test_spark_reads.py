"""A state as a DataFrame: by column id, all rows or an error."""

from __future__ import annotations

from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType, StringType

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table, previous, state
from airflow_provider.spark import file_systems, reads, runtime, session
from airflow_provider.spark.epoch_run import epoch_run
from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.stores.factory import catalog_properties
from airflow_provider.testing.arrow_attempts import write_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

EVENTS = Table("events")
SEEN = Table("seen")
WRITER = Job("events", outputs=[EVENTS], cadence="@hourly")
READER = Job("seen", inputs=[state(EVENTS)], outputs=[SEEN], cadence="@hourly")
MIDNIGHT = datetime(2013, 2, 8, tzinfo=UTC)

on_connect = pytest.mark.parametrize("spark", ["connect"], indirect=True)
on_classic = pytest.mark.parametrize("spark", ["classic"], indirect=True)
"""One kind of session is enough where nothing differs between them."""


def hour(number: int) -> Interval:
    return Interval(MIDNIGHT + timedelta(hours=number), MIDNIGHT + timedelta(hours=number + 1))


def commit(number: int, rows: DataFrame, settings: Settings, spark: SparkSession) -> None:
    with epoch_run(WRITER, hour(number), spark=spark, settings=settings) as epoch:
        epoch.write(EVENTS, rows)


def catalog(settings: Settings) -> SqlCatalog:
    return SqlCatalog(CATALOG_NAME, **catalog_properties(settings.store_url))


def test_columns_are_found_by_id_through_renames_and_names_used_again(
    spark: SparkSession, settings: Settings
) -> None:
    old = "id as a, named_struct('x', cast(id as int), 'y', concat('s', id)) as st, array(named_struct('q', id)) as arr"
    commit(0, spark.range(1000).selectExpr(*_columns(old)), settings, spark)
    opened = catalog(settings)
    table = opened.load_table(("default", "events"))
    with table.update_schema() as change:
        change.rename_column("a", "b")
        change.rename_column("st.x", "z")
        change.rename_column("st.y", "x")
        change.rename_column("arr.q", "r")
    with opened.load_table(("default", "events")).update_schema() as change:
        change.add_column("a", LongType())
        change.add_column(("arr", "q"), StringType())
    opened.engine.dispose()
    new = (
        "id + 5000 as b, named_struct('z', cast(-1 as int), 'x', 'new') as st, "
        "array(named_struct('r', -1L, 'q', 'new')) as arr, id as a"
    )
    commit(1, spark.range(10).selectExpr(*_columns(new)), settings, spark)
    with epoch_run(READER, hour(1), spark=spark, settings=settings) as epoch:
        df = epoch.read(EVENTS)
        assert df.columns == ["b", "st", "arr", "a"]
        expected = {
            "true": 1010,
            "b = 5": 1,
            "a is null": 1000,
            "a = 5": 1,
            "b >= 5000": 10,
            "st.z = 7": 1,
            "st.x = 's7'": 1,
            "arr[0].r = 7": 1,
            "arr[0].q is null": 1000,
        }
        assert {condition: df.where(condition).count() for condition in expected} == expected
        assert df.where("b = 7").select("st", "arr").collect()[0].asDict(recursive=True) == {
            "st": {"z": 7, "x": "s7"},
            "arr": [{"r": 7, "q": None}],
        }
        epoch.write(SEEN, df.selectExpr("count(*) as rows"))


def _columns(selection: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth = [""], 0
    for character in selection:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


@on_connect
def test_the_epoch_of_each_row_comes_only_on_request(spark: SparkSession, settings: Settings) -> None:
    for number in range(2):
        commit(number, spark.sql("select 1 as id"), settings, spark)
    with epoch_run(READER, hour(1), spark=spark, settings=settings) as epoch:
        assert epoch.read("events").columns == ["id"]
        marked = epoch.read("events", with_epoch=True)
        assert (
            marked.selectExpr(
                "sort_array(collect_set(_epoch)) = "
                f"array({', '.join(_literal(hour(number).end) for number in range(2))}) as same"
            )
            .collect()[0]
            .same
        )
        epoch.write(SEEN, marked.drop("_epoch"))


def _literal(moment: datetime) -> str:
    return f"timestamp'{moment.isoformat()}'"


@on_connect
@pytest.mark.usefixtures("runtime_jar")
@pytest.mark.parametrize("way", ["runtime", "files", "python"])
def test_the_columns_that_are_named_are_read(
    spark: SparkSession, settings: Settings, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way of reading returns them in the order given; Python reads no others from the files."""
    commit(0, spark.sql("select 1 as id, 2 as `price/kg`, named_struct('x', 3) as st"), settings, spark)
    if way != "runtime":
        monkeypatch.setattr(runtime, "opens", lambda *_: False)
    if way == "python":
        monkeypatch.setattr(reads, "opens", lambda *_: False)
    asked: list[list[str]] = []
    shipped = reads.shipped_reader
    monkeypatch.setattr(
        reads,
        "shipped_reader",
        lambda files, found, added: asked.append(list(found.names)) or shipped(files, found, added),
    )
    with epoch_run(READER, hour(0), spark=spark, settings=settings) as epoch:
        found = epoch.read(EVENTS, columns=["st", "price/kg"])
        assert [tuple(row) for row in found.collect()] == [((3,), 2)]
        assert found.columns == ["st", "price/kg"]
        assert epoch.read(EVENTS, columns=["id"], with_epoch=True).columns == ["id", "_epoch"]
        for wrong in (["id", "none"], [], ["id", "id"], "id", ["_epoch"]):
            with pytest.raises(InvalidInput, match="columns.*id, price/kg, st"):
                epoch.read(EVENTS, columns=wrong)
        epoch.write(SEEN, epoch.read(EVENTS, columns=["id"]))
    assert [len(names) for names in asked] == ([3, 2, 2] if way == "python" else [])


@on_connect
@pytest.mark.usefixtures("runtime_jar")
@pytest.mark.parametrize("way", ["runtime", "files"])
def test_a_part_of_a_compacted_day_is_read(
    spark: SparkSession, settings: Settings, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R41: an epoch within the day gets the rows up to its barrier, in whichever way."""
    if way != "runtime":
        monkeypatch.setattr(runtime, "opens", lambda *_: False)
    with EpochService.open(settings) as service:
        for number in (20, 21, 22, 23, 24):
            attempt = service.begin(WRITER, hour(number), Owner(dag_id="events", run_id=str(number)))
            assert isinstance(attempt, Attempt)
            write_rows(service, attempt, "events", pa.table({"id": [number]}))
            service.publish(attempt)
        assert [unit.before for unit in service.retention.compact("default", EVENTS, unit="day")] == [4]
    with epoch_run(READER, hour(22), spark=spark, settings=settings) as epoch:
        found = epoch.read(EVENTS)
        assert sorted(row.id for row in found.collect()) == [20, 21, 22]
        assert found.where("id > 20").count() == 2
        epoch.write(SEEN, found)


@on_connect
def test_field_ids_are_not_copied_into_other_files(spark: SparkSession, settings: Settings) -> None:
    commit(0, spark.sql("select 1 as id, named_struct('x', 2) as st"), settings, spark)
    with epoch_run(READER, hour(0), spark=spark, settings=settings) as epoch:
        assert "parquet.field.id" not in epoch.read("events").schema.json()
        epoch.write(SEEN, epoch.read("events"))


@on_connect
def test_a_state_without_rows_has_the_tables_columns(spark: SparkSession, settings: Settings) -> None:
    commit(0, spark.sql("select 1L as id, 'x' as label").where("id > 1"), settings, spark)
    with epoch_run(READER, hour(0), spark=spark, settings=settings) as epoch:
        df = epoch.read("events")
        assert (df.dtypes, df.count()) == ([("id", "bigint"), ("label", "string")], 0)
        epoch.write(SEEN, df)


@on_connect
def test_a_job_that_reads_its_own_past_starts_from_nothing(spark: SparkSession, settings: Settings) -> None:
    balance = Table("balance", kind="full")  # type: ignore[arg-type]
    job = Job("balance", inputs=[previous(balance)], outputs=[balance], cadence="@hourly", origin=MIDNIGHT)

    def read_without_columns() -> None:
        with epoch_run(job, hour(0), spark=spark, settings=settings) as epoch:
            epoch.read(balance)

    with pytest.raises(InvalidInput, match="no commit yet"):
        read_without_columns()
    for number in range(3):
        with epoch_run(job, hour(number), spark=spark, settings=settings) as epoch:
            before = epoch.read(balance, schema="amount bigint")
            epoch.write(balance, before.selectExpr("coalesce(max(amount), 0) + 10 as amount"))
    with EpochService.open(settings) as service:
        assert service.cuts.read(service.cuts.cut("default", ["balance"]), "balance")[
            "amount"
        ].to_pylist() == [30]


@pytest.mark.parametrize("reader", ["runtime", "files"])
def test_a_missing_file_is_an_error_and_never_fewer_rows(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    """Classic Spark passes on errors of Java's own."""
    commit(0, spark.range(100).repartition(2), settings, spark)

    def read_a_lost_file() -> None:
        with epoch_run(READER, hour(0), spark=spark, settings=settings) as epoch:
            df = epoch.read("events")
            next(iter((tmp_path / "warehouse").rglob("data/**/*.parquet"))).unlink()
            epoch.write(SEEN, df.selectExpr("sum(id) as total"))

    if reader == "files":
        without_runtime(monkeypatch)
    with pytest.raises(Exception, match="NOT_EXIST|PATH_NOT_FOUND|File does not exist|Failed to open"):
        read_a_lost_file()
    with EpochService.open(settings) as service:
        assert service.cuts.cut("default", ["events"]).csn == 1


@on_classic
@pytest.mark.parametrize("setting", sorted(session.REFUSED))
def test_a_session_that_would_lose_rows_is_refused(
    spark: SparkSession, settings: Settings, setting: str
) -> None:
    commit(0, spark.range(3), settings, spark)
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(InvalidInput, match=setting):
            commit(1, spark.range(3), settings, spark)
    finally:
        spark.conf.unset(setting)


def test_settings_for_speed_give_way_to_the_users(spark: SparkSession) -> None:
    [(name, value)] = session.SUGGESTED.items()
    [required] = session.REQUIRED
    for given in (None, "3"):
        for setting in (name, required):
            spark.conf.unset(setting)
        if given is not None:
            spark.conf.set(name, given)
        session.session(spark)
        assert spark.conf.get(name) == (given or value)
    spark.conf.unset(name)


@on_classic
def test_a_setting_taken_back_in_the_block_is_noticed(spark: SparkSession, settings: Settings) -> None:
    [required] = session.REQUIRED

    def write_without_it() -> None:
        with epoch_run(WRITER, hour(0), spark=spark, settings=settings) as epoch:
            epoch.spark.conf.set(required, "false")
            epoch.write(EVENTS, spark.range(3))

    with pytest.raises(InvalidInput, match=required):
        write_without_it()


EVERY_TYPE = """
    id as id, cast(id as int) as small, id % 2 = 0 as even, cast(id as float) / 3 as single, id / 3 as double,
    cast(id as decimal(20, 4)) as amount, concat('ä', id) as text, cast(concat('b', id) as binary) as raw,
    date_add(date'1899-12-31', cast(id as int)) as day, timestamp'2013-02-08 00:00:00.123456 UTC' as moment,
    timestamp_ntz'1800-01-01 00:00:00.000001' as local,
    if(id % 3 = 0, null, named_struct('a.b', id, 'c', array(id))) as st,
    map('k', named_struct('x', id)) as m, array(array(id, null), null) as nested,
    if(id > 5, null, 'x') as `odd name.``x`, id as `price/kg`, id as `e\u0301 `
"""


def test_every_reader_gives_the_same_rows(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg's runtime, Spark's own Parquet reader, and Python where Spark has no file system for the files."""
    for number in range(2):
        commit(number, spark.range(number, 9).selectExpr(*_columns(EVERY_TYPE)), settings, spark)
    with epoch_run(READER, hour(1), spark=spark, settings=settings) as epoch:
        by_reader = {"BatchScan": epoch.read(EVENTS, with_epoch=True)}
        without_runtime(monkeypatch)
        by_reader["FileScan"] = epoch.read(EVENTS, with_epoch=True)
        monkeypatch.setattr(file_systems, "HADOOPS_OWN", frozenset())
        assert "InArrow" not in _plan(epoch.read(EVENTS)), "Spark says itself what it can open"
        through_python(monkeypatch)
        by_reader["InArrow"] = epoch.read(EVENTS, with_epoch=True)
        found = {}
        for name, df in by_reader.items():
            assert _fields(df) == _fields(by_reader["FileScan"]), name
            assert name in _plan(df)
            found[name] = sorted(df.collect(), key=lambda row: (row._epoch, row.id))
        assert len(found["BatchScan"]) == 17
        assert found["BatchScan"] == found["FileScan"] == found["InArrow"]
        epoch.write(SEEN, df.selectExpr("count(*) as rows"))


def _fields(df: DataFrame) -> list[tuple[str, DataType, dict[str, Any]]]:
    return [(field.name, field.dataType, field.metadata) for field in df.schema.fields]


def without_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Spark not find Iceberg's runtime."""
    monkeypatch.setattr(runtime, "RUNTIME", "nowhere")


UNLIKE = """
    (double('nan'), 1.0F, double('nan'), 'aaaaaaaaaaaaaaaaaaaaaaaz', '\ufb00', x'00', 1.23,
     timestamp'1900-01-01 00:00:00 UTC', date'0001-01-01'),
    (-3.0D, float('nan'), double('nan'), 'aaaaaaaaaaaaaaaaaaaaaaab', '\ufb00', x'ffffffffffffff', -9.99, null, null),
    (null, null, null, null, null, null, null, timestamp'2030-01-01 00:00:00.999999 UTC', date'9999-12-31');
    (5.0D, -0.0F, 1.0D, 'b', '\U0001f600', x'61', 5.00, timestamp'1960-01-01 00:00:00 UTC', date'1969-12-31'),
    (double('-inf'), 6.0F, null, null, '\U0001f600', null, null, null, null)
"""
"""Rows of two epochs whose order, equality or bounds engines see differently."""
QUESTIONS = [
    *(f"{function}({column})" for column in "dfnsebpt" for function in ("min", "max", "count")),
    *("min(st.x)", "max(st.x)", "count(st)", "min(day)", "max(day)", "count(*)"),
    *(
        f"count_if({condition})"
        for condition in (
            "d > 1", "d >= double('inf')", "d != 1", "not (d <= 1)", "d = double('nan')", "d in (5, double('nan'))",
            "isnan(d)", "d < 0", "f = 0", "f >= 0", "f between -0.0F and 0", "n > 1", "n = n", "st.x > 1", "st is null",
            "s > 'aaaaaaaaaaaaaaaaaaaaaaac'", "s like 'aaaaaaaaaaaaaaaaaaaaaaaa%'", "not (s <= 'b')",
            "e > '\ufb00'", "e >= '\U0001f600'", "e != '\ufb00'", "b > x'80'", "b = x'00'", "p > 1.2", "p = 1.230",
            "t > timestamp'2000-01-01'", "day < date'1000-01-01'", "day <=> null",
        )
    ),
]  # fmt: skip


@on_classic
@pytest.mark.usefixtures("runtime_jar")
def test_answers_are_sparks_where_iceberg_compares_otherwise(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN, -0.0, long texts, letters beyond the first plane: filters and aggregates that the runtime may answer."""
    columns = "d, f, n, s, e, b, p, t, day"
    for number, values in enumerate(UNLIKE.split(";")):
        rows = spark.sql(f"SELECT * FROM VALUES {values} AS v({columns})")  # noqa: S608
        commit(number, rows.repartition(1).selectExpr("*", "named_struct('x', d) AS st"), settings, spark)
    with epoch_run(READER, hour(1), spark=spark, settings=settings) as epoch:
        by_runtime = epoch.read(EVENTS)
        found = {question: str(_answer(by_runtime, question)) for question in QUESTIONS}
        without_runtime(monkeypatch)
        (sparks,) = epoch.read(EVENTS).selectExpr(*QUESTIONS).collect()
        assert found == dict(zip(QUESTIONS, map(str, sparks), strict=True))
        assert found["max(d)"] == "nan"
        epoch.write(SEEN, spark.sql("select 1L as rows"))


def _answer(df: DataFrame, question: str) -> object:
    """Ask for a count as a filter, which readers of files may use, too."""
    condition = question.removeprefix("count_if(")
    if condition != question:
        return df.where(condition.removesuffix(")")).count()
    return df.selectExpr(question).collect()[0][0]


@on_classic
@pytest.mark.usefixtures("runtime_jar")
@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("day = date'2013-02-02'", 99),
        ("id > 197", 1),
        ("st.x = 105", 1),
        (f"_epoch < {_literal(hour(1).end)}", 99),
    ],
)
def test_the_runtime_opens_no_file_that_a_filter_excludes(
    spark: SparkSession, settings: Settings, tmp_path: Path, condition: str, rows: int
) -> None:
    """A partition, a column's bounds, a nested field's, an epoch: of the other files nothing is left."""
    events = Table("events", partition_by=["day"])
    writes = Job("events", outputs=[events], cadence="@hourly")
    selection = (
        "id",
        "date_add(date'2013-02-01', cast(id div 100 as int)) as day",
        "named_struct('x', id) as st",
    )
    for number, wanted in enumerate((spark.range(100, 199), spark.range(0, 50))):
        with epoch_run(writes, hour(number), spark=spark, settings=settings) as epoch:
            epoch.write(events, wanted.repartition(1).selectExpr(*selection))
    with epoch_run(READER, hour(1), spark=spark, settings=settings) as epoch:
        df = epoch.read(EVENTS, with_epoch=True)
        for path in (tmp_path / "warehouse").rglob("data/**/*.parquet"):
            if pq.read_table(path, columns=["id"]).column("id")[0].as_py() < 100:
                path.unlink()
        assert df.where(condition).selectExpr("count(id * 2) as rows").collect() == [(rows,)]
        epoch.write(SEEN, spark.sql("select 1L as rows"))


@on_classic
@pytest.mark.usefixtures("runtime_jar")
@pytest.mark.parametrize(
    ("layout", "condition"),
    [
        ("bucket(4, id)", "id = 7"),
        ("truncate(1, name)", "name = 'b7'"),
        ("hour(at)", "at between timestamp'2013-02-01 07:00:00Z' and timestamp'2013-02-01 07:30:00Z'"),
    ],
)
def test_the_runtime_opens_no_file_that_a_transform_excludes(
    spark: SparkSession, settings: Settings, tmp_path: Path, layout: str, condition: str
) -> None:
    """R22: also in a cut; plain files give the same rows."""
    events = Table("events", partition_by=[layout])
    selection = (
        "id",
        "concat(if(id % 2 = 0, 'a', 'b'), id) as name",
        "timestamp_seconds(1359676800 + id * 3600) as at",
    )
    with epoch_run(
        Job("events", outputs=[events], cadence="@hourly"), hour(0), spark=spark, settings=settings
    ) as epoch:
        epoch.write(events, spark.range(0, 24, 1, 2).selectExpr(*selection))
    with EpochService.open(settings) as service:
        found = service.cuts.read(service.cuts.cut("default", ["events"]), "events", ["id"])
    assert sorted(found["id"].to_pylist()) == list(range(24))
    with epoch_run(READER, hour(0), spark=spark, settings=settings) as epoch:
        df = epoch.read(EVENTS)
        others = [
            path
            for path in (tmp_path / "warehouse").rglob("data/**/*.parquet")
            if 7 not in pq.read_table(path, columns=["id"]).column("id").to_pylist()
        ]
        assert others
        for path in others:
            path.unlink()
        assert df.where(condition).selectExpr("id * 2").collect() == [(14,)]
        epoch.write(SEEN, spark.sql("select 1L as rows"))


@on_classic
@pytest.mark.usefixtures("runtime_jar")
def test_a_prefix_of_letters_beyond_the_first_plane_finds_its_rows(
    spark: SparkSession, settings: Settings
) -> None:
    """Iceberg takes a letter of two UTF-16 units for all that a file of two characters has in common."""
    events = Table("events", partition_by=["truncate(2, name)"])
    writes = Job("events", outputs=[events], cadence="@hourly")
    with epoch_run(writes, hour(0), spark=spark, settings=settings) as epoch:
        names = "concat(if(id % 2 = 0, '\U0001f600', 'b'), id) as name"
        epoch.write(events, spark.range(24).selectExpr("id", names))
    with epoch_run(READER, hour(0), spark=spark, settings=settings) as epoch:
        df = epoch.read(EVENTS)
        assert "BatchScan" in _plan(df)
        assert df.where("startswith(name, '\U0001f600')").count() == 12
        epoch.write(SEEN, spark.sql("select 1L as rows"))


def test_a_warehouse_that_readers_may_not_write_is_read_as_files(
    spark: SparkSession, settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    commit(0, spark.range(3), settings, spark)
    next((tmp_path / "warehouse").rglob("events/metadata")).with_name("cuts").write_text("no directory")
    with epoch_run(READER, hour(0), spark=spark, settings=settings) as epoch:
        df = epoch.read(EVENTS)
        assert "FileScan" in _plan(df)
        assert "Spark reads events as plain files" in caplog.text
        epoch.write(SEEN, df)


def test_a_runtime_that_does_not_work_is_told_once_and_left_alone(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One for another version of Spark; here a format that is there and opens no tables."""
    commit(0, spark.range(3), settings, spark)
    monkeypatch.setattr(runtime, "RUNTIME", "parquet")
    with epoch_run(READER, hour(0), spark=spark, settings=settings) as epoch:
        for _ in range(2):
            assert "FileScan" in _plan(epoch.read(EVENTS))
        epoch.write(SEEN, epoch.read(EVENTS))
    assert caplog.text.count("Iceberg's runtime does not work in this Spark session") == 1


def through_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Spark say that it has no file system for any file."""
    monkeypatch.setattr(reads, "opens", lambda *_: False)


def test_a_scheme_without_a_file_system_is_told_once(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    columns = spark.range(1).schema
    assert file_systems.opens(spark, "file", "file:///", columns)
    for _ in range(2):
        assert not file_systems.opens(spark, "epochs-nowhere", "epochs-nowhere://b/f.parquet", columns)
    (told,) = (record.getMessage() for record in caplog.records if "epochs-nowhere" in record.getMessage())
    assert "spark.hadoop.fs.epochs-nowhere.impl" in told


@on_classic
def test_spark_takes_a_table_that_python_reads_for_as_large_as_it_is(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it Spark sends tables of any size whole to each worker."""
    wide = spark.range(20_000).selectExpr("id", "repeat(sha2(string(id), 512), 10) as text")
    commit(0, wide.repartition(3), settings, spark)
    bytes_on_disk = sum(
        path.stat().st_size for path in Path(settings.warehouse.removeprefix("file://")).rglob("*.parquet")
    )
    through_python(monkeypatch)
    with epoch_run(READER, hour(0), spark=spark, settings=settings) as epoch:
        rows = epoch.read(EVENTS)
        assert 0.3 < _estimate(rows) / bytes_on_disk < 10
        narrow = rows.select("id")
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "50000")
        try:
            others = narrow.selectExpr("id + 1 as other")
            assert "BroadcastHashJoin" not in _plan(narrow.join(others, narrow.id == others.other))
            assert "BroadcastHashJoin" in _plan(narrow.join(spark.range(10), "id"))
        finally:
            spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
        spark.conf.set("spark.sql.cbo.enabled", "true")
        try:
            assert _estimate(epoch.read(EVENTS)) / bytes_on_disk > 0.3
        finally:
            spark.conf.unset("spark.sql.cbo.enabled")
        epoch.write(SEEN, rows.selectExpr("count(*) as rows"))


def _estimate(df: DataFrame) -> int:
    return int(str(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


@on_classic
@pytest.mark.parametrize("count", [1, 2, 4, 5, 9])
def test_each_file_is_read_once_by_python(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """One of them has no rows; there are fewer files than tasks, as many, and more; their size is known, or not."""
    monkeypatch.setattr(reads, "_MOST_TASKS", 4)
    ids = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    for number in range(count):
        rows = pa.table([[] if number == 1 else [number]], schema=pa.schema([ids]))
        pq.write_table(rows, tmp_path / f"{number}.parquet")
    files = [f"file://{tmp_path}/{number}.parquet" for number in range(count)]
    through_python(monkeypatch)
    for size in ({"rows": 5_000, "size_bytes": 10**8}, {}):
        found = reads.files_dataframe(spark, files, pa.schema([ids]), **size)
        assert sorted(row.id for row in found.collect()) == [number for number in range(count) if number != 1]


@pytest.mark.parametrize("name", ["_x.parquet", ".x.parquet", "x.parquet._COPYING_"])
def test_a_file_that_spark_passes_over_has_its_rows(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """R22: Spark's own reader returns none of them, and no error."""
    ids = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    for each in (name, "y.parquet"):
        pq.write_table(pa.table([[1, 2]], schema=pa.schema([ids])), tmp_path / each)
    for names in ([name], [name, "y.parquet"]):
        files = [f"file://{tmp_path}/{each}" for each in names]
        assert reads.files_dataframe(spark, files, pa.schema([ids])).count() == 2 * len(names)


def _plan(df: DataFrame) -> str:
    with redirect_stdout(StringIO()) as text:
        df.explain()
    return text.getvalue()
