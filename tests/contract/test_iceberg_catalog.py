"""Iceberg as programs without this package see it, and what happens when they interfere."""

from __future__ import annotations

import base64
import datetime as dt
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
import sqlalchemy as sa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo, GreaterThan, IsNull
from pyiceberg.table import StaticTable
from pyiceberg.table import Table as IcebergTable
from pyiceberg.transforms import DayTransform
from pyiceberg.types import LongType, StringType
from pyspark import cloudpickle

import airflow_provider.domain
import airflow_provider.tables
from airflow_provider.domain.errors import (
    ForeignCommit,
    InvalidInput,
    SchemaMismatch,
    StoreUnavailable,
    Unavailable,
)
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import micros
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import Shown
from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.tables.base import EPOCH_COLUMN, WrittenFile
from airflow_provider.tables.cut_files import with_cut_files
from airflow_provider.tables.errors import WarehouseUnavailable
from airflow_provider.tables.factory import make_catalog, open_formats
from airflow_provider.tables.iceberg import manifest_files, manifests
from airflow_provider.tables.iceberg.catalog import KEPT_METADATA_FILES, IcebergCatalog
from airflow_provider.tables.iceberg.catalogs import sql
from airflow_provider.tables.iceberg.file_io import DurableFileIO
from airflow_provider.tables.iceberg.format import IcebergFormat
from airflow_provider.tables.iceberg.manifest_files import content
from airflow_provider.tables.iceberg.publishing import KEPT_SNAPSHOTS
from airflow_provider.testing.table_cases.backend import Publisher, batch, day, expected, new_publisher
from tests.contract.test_table_contract import IcebergBackend
from tests.services.directories import quick_directory


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_directory("epochs-tables-") as found:
        yield found


@pytest.fixture
def backend(folder: Path) -> Iterator[IcebergBackend]:
    with IcebergBackend(folder) as backend:
        yield backend


@pytest.fixture
def publisher(backend: IcebergBackend) -> Publisher:
    return new_publisher(backend)


def outside(folder: Path, table: Table) -> IcebergTable:
    return SqlCatalog(CATALOG_NAME, uri=f"sqlite:///{folder}/store.db").load_table((table.domain, table.name))


@pytest.mark.parametrize("commits", [15, pytest.param(100, marks=pytest.mark.slow)])
def test_an_outsider_never_sees_part_of_a_commit(folder: Path, publisher: Publisher, commits: int) -> None:
    """One query for all pointers, then the tables through pyiceberg: every table is at the same commit."""
    tables = [publisher.table(name) for name in ("one", "two")]
    for table in tables:
        publisher.create(table)
    done = threading.Event()
    failures: list[BaseException] = []

    def commit() -> None:
        try:
            for number in range(commits):
                publications = [
                    publisher.publication(
                        table, (day(number), publisher.stage(table, day(number), [batch([number])]))
                    )
                    for table in tables
                ]
                publisher.commit(
                    *((publication, publisher.format.prepare(publication)) for publication in publications)
                )
        except BaseException as error:  # noqa: BLE001  (raised again below)
            failures.append(error)
        finally:
            done.set()

    seen = set()
    engine = sa.create_engine(f"sqlite:///{folder}/store.db")
    query = sa.text("SELECT metadata_location FROM iceberg_tables WHERE table_namespace = :domain")
    thread = threading.Thread(target=commit)
    thread.start()
    while not done.is_set() or commits not in seen:
        with engine.connect() as connection:
            pointers = connection.execute(query, {"domain": publisher.domain}).scalars().all()
        loaded = [StaticTable.from_metadata(pointer) for pointer in pointers]
        counts = {table.scan().to_arrow().num_rows for table in loaded}
        marks = {
            "0" if (snapshot := table.current_snapshot()) is None else (snapshot.summary or {})["epochs.csn"]
            for table in loaded
        }
        assert len(loaded) == len(tables)
        assert len(counts) == len(marks) == 1, "a reader saw part of a commit"
        assert marks == {str(count) for count in counts}
        seen |= counts
        if failures:
            break
    thread.join()
    engine.dispose()
    assert not failures
    assert len(seen) > 2, f"only the commits {sorted(seen)} were seen: nothing ran side by side"


def test_outsiders_filter_by_columns_partitions_and_statistics(folder: Path, publisher: Publisher) -> None:
    table = publisher.table(declared={"partition_by": ("origin",), "sort_by": ("id",)})
    rows = pa.record_batch({"id": [1, 2, 3], "origin": ["EWR", "EWR", None]})
    for number in range(2):
        publication = publisher.publication(table, (day(number), publisher.stage(table, day(number), [rows])))
        publisher.commit((publication, publisher.format.prepare(publication)))
    found = outside(folder, table)
    assert [field.name for field in found.spec().fields] == [EPOCH_COLUMN, "origin"]
    assert [found.schema().find_column_name(field.source_id) for field in found.sort_order().fields] == ["id"]
    assert found.scan(EqualTo("origin", "EWR")).to_arrow().num_rows == 4
    assert found.scan(IsNull("origin")).to_arrow().num_rows == 2
    assert len(list(found.scan(GreaterThan("id", 2)).plan_files())) == 2
    assert len(list(found.scan(GreaterThan("id", 3)).plan_files())) == 0
    barrier = day(0).end.isoformat()
    assert found.scan(EqualTo(EPOCH_COLUMN, barrier)).to_arrow().num_rows == 3


def test_outsiders_skip_files_by_transforms(folder: Path, publisher: Publisher) -> None:
    """R22: in the table and in its cuts; bounds of columns alone would leave all files to be read."""
    layout = ("bucket(4, id)", "truncate(1, origin)", "hour(at)")
    table = publisher.table(declared={"partition_by": layout})
    start = dt.datetime(2013, 2, 8, tzinfo=dt.UTC)
    rows = pa.record_batch(
        {
            "id": list(range(64)),
            "origin": [f"{'ab'[number % 2]}{number}" for number in range(64)],
            "at": pa.array([start + dt.timedelta(minutes=number) for number in range(64)]),
        }
    )
    for number in range(2):
        publication = publisher.publication(table, (day(number), publisher.stage(table, day(number), [rows])))
        publisher.commit((publication, publisher.format.prepare(publication)))
    found = outside(folder, table)
    assert [str(field) for field in found.spec().fields] == [
        "1000: _epoch: identity(4)",
        "1001: id_bucket_4: bucket[4](1)",
        "1002: origin_trunc_1: truncate[1](2)",
        "1003: at_hour: hour(3)",
    ]
    state = publisher.state(table, 0)
    cut = StaticTable.from_metadata(
        with_cut_files(publisher.format, "t").cut_file(state, publisher.schemas[table]).uri
    )
    for reader, epochs in ((found, 2), (cut, 1)):
        everything = len(list(reader.scan().plan_files()))
        for condition in (
            EqualTo("id", 7),
            EqualTo("origin", "a8"),
            GreaterThan("at", start + dt.timedelta(hours=1)),
        ):
            assert len(list(reader.scan(condition).plan_files())) < everything
        assert reader.scan(EqualTo("id", 7)).to_arrow()["id"].to_pylist() == [7] * epochs
        assert reader.scan(EqualTo("origin", "a8")).to_arrow()["id"].to_pylist() == [8] * epochs
        late = reader.scan(GreaterThan("at", start + dt.timedelta(hours=1))).to_arrow()
        assert sorted(late["id"].to_pylist()) == sorted([61, 62, 63] * epochs)
    files = publisher.format.files(state)
    assert len(files) > 4
    with duckdb.connect() as other:
        answer = other.read_parquet(files).aggregate("count(*), sum(id)").fetchall()
    assert answer == [(64, sum(range(64)))]


def test_metadata_stays_small_and_names_the_published_commit(folder: Path, publisher: Publisher) -> None:
    """R26, R33: it carries domain, CSN and incarnation, and tells other programs' cleanup to leave it alone."""
    table = publisher.table()
    commits = KEPT_METADATA_FILES + 8
    for number in range(commits):
        publisher.publish(table, day(number), [number])
    found = outside(folder, table)
    assert len(found.metadata.snapshots) == KEPT_SNAPSHOTS
    assert found.scan().to_arrow().num_rows == commits
    files = list(Path(found.location().removeprefix("file://")).glob("metadata/*.metadata.json"))
    assert len(files) <= KEPT_METADATA_FILES + 1
    snapshot = found.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    said = snapshot.summary.additional_properties
    assert said["epochs.domain"] == publisher.domain
    assert said["epochs.csn"] == str(publisher.head()) == str(commits)
    assert said["epochs.incarnation"] == publisher.store.read(publisher.domain, []).head.incarnation
    assert (said["total-records"], said["total-data-files"]) == (str(commits), str(commits))
    assert found.properties["gc.enabled"] == "false", "no other program may clean up what earlier cuts read"
    first = publisher.state(table, 0)
    assert publisher.rows(table, 0) == expected((0, [0]))
    assert len(publisher.format.files(first)) == 1


def test_states_that_another_program_expired_stop_neither_readers_of_others_nor_publishes(
    publisher: Publisher, backend: IcebergBackend
) -> None:
    """R26: Iceberg's expiry deletes the manifests of states that no listed snapshot shows."""
    table = publisher.table(kind=TableKind.FULL)
    for number in range(4):
        ref = publisher.publish(table, day(number), [number], shows=Shown(day(number).start, day(number).end))
    hidden = [
        str(manifest.manifest_path)
        for manifest in manifest_files.read_list(DurableFileIO(), ref.location)
        if manifests.epochs_of(manifest) != (micros(day(3).end), micros(day(3).end))
    ]
    assert len(hidden) == 3
    for uri in hidden:
        backend.lose(uri)
    fresh = Publisher(backend.format(), publisher.store, publisher.domain)
    fresh.refs, fresh.schemas = publisher.refs, publisher.schemas
    assert fresh.rows(table, 3) == expected((3, [3]))
    with pytest.raises(Unavailable, match=hidden[0].rpartition("/")[2]):
        fresh.rows(table, 0)
    gone = {file.uri: file.barrier for file in fresh.format.missing(table, [ref])}
    assert gone.keys() == {*hidden}
    assert {*gone.values()} == {day(number).end for number in range(3)}
    for number in range(4, 4 + 2 * manifests.FOLD_AT):
        fresh.publish(table, day(number), [number], shows=Shown(day(number).start, day(number).end))
        assert fresh.rows(table, number) == expected((number, [number]))
    assert fresh.rows(table, 3) == expected((3, [3]))


def test_a_publish_takes_back_the_permission_to_expire_files(folder: Path, publisher: Publisher) -> None:
    table = publisher.table()
    ref = publisher.publish(table, day(0), [1])
    assert not publisher.format.compare(table, ref).unprotected
    with outside(folder, table).transaction() as transaction:
        transaction.set_properties({"gc.enabled": "true", "write.parquet.row-limit": "7"})
    assert publisher.format.compare(table, ref).unprotected == "gc.enabled=true"
    ref = publisher.publish(table, day(1), [2])
    assert not publisher.format.compare(table, ref).unprotected
    found = outside(folder, table).properties
    assert (found["gc.enabled"], found["write.parquet.row-limit"]) == ("false", "7")


def test_foreign_tag_keeps_its_snapshot(folder: Path, publisher: Publisher) -> None:
    table = publisher.table()
    ref = publisher.publish(table, day(0), [1])
    outside(folder, table).manage_snapshots().create_tag(ref.version, "audit").commit()
    for number in range(1, KEPT_SNAPSHOTS + 3):
        publisher.publish(table, day(number), [number])
    assert outside(folder, table).scan(snapshot_id=ref.version).to_arrow().num_rows == 1


def test_a_commit_of_another_program_is_refused(folder: Path, publisher: Publisher) -> None:
    table = publisher.table()
    publisher.publish(table, day(0), [1])
    loaded = outside(folder, table)
    foreign = loaded.scan().to_arrow()
    loaded.append(foreign)
    staged = publisher.stage(table, day(1), [batch([2])])
    with pytest.raises(ForeignCommit, match="another program wrote"):
        publisher.format.prepare(publisher.publication(table, (day(1), staged)))
    assert publisher.rows(table, 0) == expected((0, [1])), "cuts do not look at the head"


def test_a_layout_without_epochs_is_put_back(folder: Path, publisher: Publisher) -> None:
    table = publisher.table()
    publisher.create(table, pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))]))
    with outside(folder, table).update_spec() as update:
        update.remove_field(EPOCH_COLUMN)
        update.add_field("at", DayTransform(), "at_day")
    publication = publisher.publication(table)
    publisher.commit((publication, publisher.format.prepare(publication)))
    assert [field.name for field in outside(folder, table).spec().fields] == [EPOCH_COLUMN]


def test_another_layout_than_declared_is_refused(publisher: Publisher) -> None:
    publisher.create(publisher.table())
    with pytest.raises(SchemaMismatch, match="partition_by"):
        publisher.create(publisher.table(declared={"partition_by": ("label",)}))


def test_the_sort_order_in_the_metadata_is_the_declared_one(folder: Path, publisher: Publisher) -> None:
    """Other programs sort by it when they compact; what is no declaration of the job changes nothing."""
    orders, ref = [], None
    for number, names in enumerate([(), ("id",), ("label", "id"), ("id",), (), ("gone",)]):
        table = publisher.table(declared={"sort_by": () if names == ("gone",) else names})
        if ref is not None:
            publisher.refs[table] = ref
        staged = publisher.stage(table, day(number), [batch([number])])
        publication = publisher.publication(table, (day(number), staged))
        publication = replace(publication, table=replace(table, sort_by=names))
        prepared = publisher.format.prepare(publication)
        publisher.commit((replace(publication, table=table), prepared))
        ref = prepared.ref
        found = outside(folder, table)
        columns = [found.schema().find_column_name(field.source_id) for field in found.sort_order().fields]
        orders.append((found.metadata.default_sort_order_id, columns, len(found.metadata.sort_orders)))
    assert orders == [
        (0, [], 1),
        (1, ["id"], 2),
        (2, ["label", "id"], 3),
        (1, ["id"], 3),
        (1, ["id"], 3),
        (1, ["id"], 3),
    ]


def test_another_transform_than_declared_is_refused(publisher: Publisher) -> None:
    publisher.create(publisher.table(declared={"partition_by": ("bucket(4, label)",)}))
    for other in ("bucket(8, label)", "label", "truncate(4, label)", "bucket(4, id)"):
        with pytest.raises(SchemaMismatch, match="partition_by") as refused:
            publisher.create(publisher.table(declared={"partition_by": (other,)}))
        assert "bucket[4] of label" in refused.value.message
    assert publisher.create(publisher.table(declared={"partition_by": ("bucket(4,label)",)}))


def test_a_column_may_be_named_as_a_transform_is_spelled(folder: Path, publisher: Publisher) -> None:
    table = publisher.table(declared={"partition_by": ("bucket(4, id)",)})
    publisher.create(table, pa.schema([("id", pa.int64()), ("bucket(4, id)", pa.int64())]))
    assert [field.name for field in outside(folder, table).spec().fields] == [EPOCH_COLUMN, "bucket(4, id)"]
    with pytest.raises(SchemaMismatch, match="partition_by"):
        publisher.format.create(
            publisher.table(declared={"partition_by": ("id",)}),
            pa.schema([("id", pa.int64()), ("bucket(4, id)", pa.int64())]),
        )


def test_an_added_column_is_null_in_earlier_slices(folder: Path, publisher: Publisher) -> None:
    table = publisher.table()
    columns = pa.schema([("id", pa.int64()), ("pair", pa.struct([("a", pa.int64())]))])
    old = pa.record_batch([[1, 2], [{"a": 5}, None]], schema=columns)
    publication = publisher.publication(table, (day(0), publisher.stage(table, day(0), [old])))
    publisher.commit((publication, publisher.format.prepare(publication)))

    with outside(folder, table).update_schema() as update:
        update.add_column("title", StringType())
        update.add_column(("pair", "b"), LongType())
        update.rename_column(("pair", "a"), "first")
    info = publisher.format.describe(table)
    assert info is not None
    found = publisher.format.read(publisher.state(table, 0), info.schema, ["id", "pair", "title"]).to_pylist()
    assert found == [
        {"id": 1, "pair": {"first": 5, "b": None}, "title": None},
        {"id": 2, "pair": None, "title": None},
    ]


def test_a_lost_metadata_file_is_named(publisher: Publisher) -> None:
    table = publisher.table()
    info = publisher.create(table)
    Path(info.pointer.removeprefix("file://")).unlink()
    with pytest.raises(Unavailable, match="pointer of table 'flights'"):
        publisher.format.describe(table)


def test_one_question_finds_many_tables(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    one, unknown, two = (publisher.table(name) for name in ("one", "unknown", "two"))
    known = [publisher.create(table).table_uuid for table in (one, two)]
    answers: list[object] = []
    selected = sql._selected
    monkeypatch.setattr(sql, "_selected", lambda *asked: answers.append(asked) or selected(*asked))
    assert publisher.format.identities([two, unknown, one]) == [known[1], None, known[0]]
    assert len(answers) == 1


def test_a_catalog_that_cannot_be_asked_is_unavailable_until_it_can(
    folder: Path, publisher: Publisher
) -> None:
    table = publisher.table()
    info = publisher.create(table)
    with closing(sqlite3.connect(f"{folder}/store.db", isolation_level=None)) as other:
        other.execute("ALTER TABLE iceberg_tables RENAME TO hidden_tables")
        with pytest.raises(StoreUnavailable, match="no such table"):
            publisher.format.describe(table)
        other.execute("ALTER TABLE hidden_tables RENAME TO iceberg_tables")
    assert publisher.format.describe(table) == info


def test_a_damaged_file_is_named(publisher: Publisher) -> None:
    table = publisher.table()
    publisher.publish(table, day(0), [1])
    (uri,) = publisher.format.files(publisher.state(table, 0))
    Path(uri.removeprefix("file://")).write_bytes(b"PAR1 no more PAR1")
    with pytest.raises(Unavailable) as refused:
        publisher.rows(table, 0)
    assert refused.value.uri == uri


def test_a_warehouse_that_cannot_be_written_is_named(folder: Path, backend: IcebergBackend) -> None:
    (folder / "ware house").touch()
    with pytest.raises(WarehouseUnavailable) as refused:
        new_publisher(backend).create(Table(TableName("t")))
    assert refused.value.warehouse == f"file://{folder}/ware house"


def test_links_lead_no_deletion_out_of_the_warehouse(publisher: Publisher, tmp_path: Path) -> None:
    table = publisher.table()
    publisher.create(table)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data.parquet").touch()
    place = publisher.place(table, day(0))
    staged = Path(place.uri.removeprefix("file://"))
    staged.parent.mkdir(parents=True)
    staged.symlink_to(precious)
    with pytest.raises(InvalidInput, match="inside the warehouse"):
        publisher.format.roll_back(place)
    staged.unlink()
    staged.mkdir()
    (staged / "link").symlink_to(precious)
    publisher.format.roll_back(place)
    assert not staged.exists()
    assert (precious / "data.parquet").exists()


def test_a_database_without_the_catalog_is_a_typed_error(folder: Path) -> None:
    formats = open_formats(f"sqlite:///{folder}/absent/store.db", str(folder / "warehouse"))
    with formats, pytest.raises(StoreUnavailable, match="db check"):
        formats["iceberg"].describe(Table(TableName("t")))


@pytest.mark.parametrize(
    ("store_url", "warehouse", "field"),
    [
        ("memory://x", "/data", "store url"),
        ("sqlite:////tmp/x.db", "relative", "warehouse"),
        ("sqlite:///:memory:", "/data", "store url"),
    ],
)
def test_addresses_that_cannot_be(store_url: str, warehouse: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        open_formats(store_url, warehouse)["iceberg"]
    assert refused.value.field == field


def test_formats_are_opened_by_name() -> None:
    formats = open_formats("memory://names", "/unused")
    assert formats["memory"] is formats["memory"]
    assert list(formats) == ["memory"], "those that the store can serve"
    assert list(open_formats("sqlite:////tmp/x.db", "/unused")) == ["iceberg"]
    with pytest.raises(InvalidInput, match="'iceberg', 'memory'"):
        formats["delta"]
    with pytest.raises(InvalidInput, match="other processes"):
        open_formats("sqlite:////tmp/x.db", "/unused")["memory"]


def test_the_task_writer_needs_pyarrow_only(publisher: Publisher) -> None:
    """Spark ships it by value: workers have no part of this package."""
    table = publisher.table()
    info = publisher.create(table)
    place = publisher.place(table, day(0))
    shipped = (airflow_provider.tables, airflow_provider.domain)
    for module in shipped:
        cloudpickle.register_pickle_by_value(module)
    try:
        pickled = cloudpickle.dumps(publisher.format.task_writer(place, info))
    finally:
        for module in shipped:
            cloudpickle.unregister_pickle_by_value(module)
    worker = """
import base64, builtins, sys
class Absent:
    def find_spec(self, name, *rest):
        if name.split(".")[0] in {"airflow_provider", "airflow", "pyiceberg", "pendulum", "msgspec", "sqlalchemy"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import pyarrow as pa
from pyspark import cloudpickle
writer = cloudpickle.loads(base64.b64decode(sys.stdin.read()))
(file,) = writer([pa.record_batch({"id": [7], "label": ["x"]})])
print(file.uri, file.size_bytes, file.rows, file.checksum, file.description, sep="\\n")
"""
    ran = subprocess.run(
        [sys.executable, "-c", worker],
        input=base64.b64encode(pickled).decode(),
        text=True,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr

    uri, size, rows, checksum, description = ran.stdout.splitlines()
    file = WrittenFile(
        uri=uri, size_bytes=int(size), rows=int(rows), checksum=checksum, description=description
    )
    staged = publisher.format.describe_output(place, info, [file])
    publication = publisher.publication(table, (day(0), staged))
    publisher.commit((publication, publisher.format.prepare(publication)))
    assert publisher.rows(table, 0) == expected((0, [7]))


def test_many_formats_make_one_catalogs_table(backend: IcebergBackend) -> None:
    publisher = new_publisher(backend)
    formats = [backend.format() for _ in range(4)]
    found = []
    barrier = threading.Barrier(len(formats))

    def create(own: IcebergFormat) -> None:
        barrier.wait()
        found.append(own.create(publisher.table(), batch([]).schema))

    threads = [threading.Thread(target=create, args=(own,)) for own in formats]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(formats)
    assert len({info.table_uuid for info in found}) == 1


def test_a_place_that_cannot_be_written_is_told_apart(tmp_path: Path) -> None:
    """No such disk, and a file where a directory should be: neither is a file that is missing from a state."""
    (tmp_path / "file").write_text("no directory")
    for warehouse in ("file:///proc/none", f"file://{tmp_path}/file/warehouse"):
        make_catalog(url := f"sqlite:///{tmp_path}/catalog.db")
        formats = open_formats(url, warehouse)
        with pytest.raises(WarehouseUnavailable, match=f"{warehouse} cannot be written") as told:
            formats["iceberg"].create(Table("t"), pa.schema([("id", pa.int64())]))
        formats.close()
        assert str(told.value.path).startswith(warehouse.removeprefix("file://"))
        assert "cannot be read" not in str(told.value)
        assert "permissions" in told.value.next_step


@pytest.mark.parametrize("failed", [StoreUnavailable("no answer"), WarehouseUnavailable("no answer")])
def test_a_pointer_that_cannot_be_moved_fails_no_publish(
    folder: Path, failed: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """R17: the commit stands, whatever the catalog or the warehouse says then; the next publish moves the pointer."""

    def fail(*_: object) -> bool:
        raise failed

    with IcebergBackend(folder, elsewhere=True) as backend:
        publisher = new_publisher(backend)
        table = publisher.table()
        publisher.publish(table, day(0), [1])
        with monkeypatch.context() as patch:
            patch.setattr(IcebergCatalog, "move", fail)
            publisher.publish(table, day(1), [2])
        assert "stays behind for now: no answer" in caplog.text
        assert backend.engine_rows(table) == expected((0, [1]))
        publisher.publish(table, day(2), [3])
        assert backend.engine_rows(table) == expected((0, [1]), (1, [2]), (2, [3]))


def test_output_of_many_files_has_manifests_of_near_values(
    backend: IcebergBackend, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I6, R22: readers skip whole manifests by their summaries; what is lost is noticed in any of them."""
    monkeypatch.setattr(manifests, "MOST_STAGED_FILES", 2)
    table = publisher.table(declared={"partition_by": ("label",)})
    staged = publisher.stage(table, day(0), [batch([3]), batch([1]), batch([]), batch([2]), batch([0])])
    assert [part.files for part in staged.parts] == [2, 2]
    read: list[object] = []
    monkeypatch.setattr(manifest_files, "content", lambda *asked: read.append(asked) or content(*asked))
    publisher.format.verify(table, [staged])
    assert not read, "one listing of the place tells that all files are there"
    listed = [manifests.staged(part, 1) for part in staged.parts]
    summaries = [(manifest.partitions or [])[1] for manifest in listed]
    assert [(found.lower_bound, found.upper_bound) for found in summaries] == [
        (b"row 0", b"row 1"),
        (b"row 2", b"row 3"),
    ]
    publication = publisher.publication(table, (day(0), staged))
    publisher.commit((publication, publisher.format.prepare(publication)))
    assert publisher.rows(table, 0) == backend.engine_rows(table) == expected((0, [0, 1, 2, 3]))
    uri = (
        with_cut_files(publisher.format, "t")
        .cut_file(publisher.state(table, 0), publisher.schemas[table])
        .uri
    )
    assert StaticTable.from_metadata(uri).scan(EqualTo("label", "row 2")).to_arrow()["id"].to_pylist() == [2]
    for lost in (*publisher.format.files(publisher.state(table, 0)), *(part.uri for part in staged.parts)):
        path = Path(lost.removeprefix("file://"))
        whole = path.read_bytes()
        path.unlink()
        with pytest.raises(Unavailable) as missing:
            publisher.format.verify(table, [staged])
        assert missing.value.details["uri"] == lost
        path.write_bytes(whole)
