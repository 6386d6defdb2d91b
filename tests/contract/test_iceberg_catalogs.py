"""The contract of a catalog of Iceberg tables, on each catalog that the package knows."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hive_metastore import ttypes
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.snapshots import Snapshot

from airflow_provider.domain.errors import InvalidInput, StoreUnavailable
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.topology import Table
from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.tables.factory import check_catalog, make_catalog
from airflow_provider.tables.iceberg.catalogs import hive as hive_catalog
from airflow_provider.tables.iceberg.catalogs.base import PointerCatalog
from airflow_provider.tables.iceberg.catalogs.opening import open_catalog
from airflow_provider.tables.iceberg.format import IcebergFormat
from airflow_provider.tables.iceberg.publishing import with_snapshot
from tests.contract.outside_catalogs import HivePlace, OutsidePlace, RemarkedPlace, RestPlace
from tests.servers.hive import HiveMetastore
from tests.servers.ports import free_port

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("parts", pa.list_(pa.struct([("name", pa.string()), ("found", pa.timestamp("us", "UTC"))]))),
        ("tags", pa.map_(pa.string(), pa.binary())),
    ]
)
TABLE = Table(TableName("flights"), domain=DomainName("shop"), format="iceberg")


class SqlitePlace(OutsidePlace):
    """Catalog in a SQLite file, which is not the store's."""

    folds_names = False

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/catalog.db"

    def outsider(self, options: Mapping[str, str] = {}) -> Catalog:
        return SqlCatalog(CATALOG_NAME, uri=self.url, **options)


@pytest.fixture(
    params=["sqlite", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("hive", "rest"))]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> OutsidePlace:
    if request.param == "sqlite":
        return SqlitePlace(tmp_path)
    if request.param == "rest":
        return rest_place(request)
    metastore: HiveMetastore = request.getfixturevalue("hive")
    metastore.clear()
    return HivePlace(metastore)


def rest_place(request: pytest.FixtureRequest, name: str = "lake") -> RestPlace:
    """Return the REST catalog *name* without tables."""
    found = RestPlace(request.getfixturevalue("rest"), name)
    found.clear()
    return found


def described(metadata: TableMetadata, pointer: str, number: int) -> TableMetadata:
    """Return the metadata that follows *metadata* at *pointer*: a version more, the snapshot *number*."""
    assert isinstance(metadata, TableMetadataV2)
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": number,
            "parent-snapshot-id": metadata.current_snapshot_id,
            "sequence-number": metadata.last_sequence_number + 1,
            "timestamp-ms": metadata.last_updated_ms + 1,
            "manifest-list": f"{metadata.location}/metadata/{number}.avro",
            "summary": {"operation": "append"},
            "schema-id": metadata.current_schema_id,
        }
    )
    return with_snapshot(metadata, snapshot, pointer)


def _same(metadata: TableMetadata) -> TableMetadata:
    return metadata


class CatalogContract:
    """Cases of every catalog."""

    @pytest.fixture
    def tables(self, place: OutsidePlace, tmp_path: Path) -> Iterator[IcebergFormat]:
        with closing(IcebergFormat(place.url, f"{tmp_path}/ware house", swaps=False)) as opened:
            yield opened

    @pytest.fixture
    def catalog(self, place: OutsidePlace, tmp_path: Path) -> Iterator[PointerCatalog]:
        with closing(open_catalog(place.url, f"{tmp_path}/ware house", makes_tables=True)) as opened:
            yield opened

    def test_engines_load_the_table_that_was_made(self, place: OutsidePlace, tables: IcebergFormat) -> None:
        """R17: by pyiceberg's own client, with all kinds of columns."""
        made = tables.create(TABLE, COLUMNS)
        loaded = place.outsider().load_table(("shop", "flights"))
        assert (loaded.metadata_location, str(loaded.metadata.table_uuid)) == (made.pointer, made.table_uuid)
        assert [field.name for field in loaded.schema().fields] == [*COLUMNS.names, "_epoch"]
        assert tables.create(TABLE, COLUMNS) == made, "once"

    def test_a_table_that_is_not_there_has_no_pointer(self, catalog: PointerCatalog) -> None:
        assert catalog.pointers([TABLE, replace(TABLE, name=TableName("delays"))]) == [None, None]

    def test_a_pointer_moves_by_compare_and_set(self, tables: IcebergFormat, catalog: PointerCatalog) -> None:
        """R17: also to where it is, and back; a lost comparison changes nothing."""
        pointer = tables.create(TABLE, COLUMNS).pointer
        loaded = tables._catalog.load(TABLE)
        assert loaded is not None
        second, third = (described(loaded.metadata, pointer, number) for number in (2, 3))
        for expected, new, wanted, moves in (
            (pointer, f"{pointer}.2", second, True),
            (pointer, f"{pointer}.3", third, False),
            (f"{pointer}.2", f"{pointer}.2", second, True),
            (f"{pointer}.2", pointer, loaded.metadata, True),
        ):
            assert catalog.move(TABLE, expected, new, partial(_same, wanted)) is moves
            assert catalog.pointers([TABLE]) == [new if moves else f"{pointer}.2"]
        assert catalog.pointers([TABLE]) == [pointer]
        other = replace(TABLE, name=TableName("delays"))
        assert catalog.move(other, pointer, f"{pointer}.2", lambda: loaded.metadata) is False
        assert catalog.pointers([other]) == [None]

    def test_an_entry_is_removed_by_compare_and_delete(
        self, tables: IcebergFormat, catalog: PointerCatalog
    ) -> None:
        """R39: only while its pointer is the expected one; its name is free then, and its files stay."""
        pointer = tables.create(TABLE, COLUMNS).pointer
        assert not catalog.remove(TABLE, f"{pointer}.2")
        assert catalog.pointers([TABLE]) == [pointer]
        assert catalog.remove(TABLE, pointer)
        assert not catalog.remove(TABLE, pointer)
        assert catalog.pointers([TABLE]) == [None]
        tables.register(TABLE, pointer)
        assert catalog.pointers([TABLE]) == [pointer]

    def test_one_of_many_moves_at_once_wins(self, tables: IcebergFormat, catalog: PointerCatalog) -> None:
        """R17: the others are told that they have not moved it."""
        pointer = tables.create(TABLE, COLUMNS).pointer
        loaded = tables._catalog.load(TABLE)
        assert loaded is not None
        wanted = {
            f"{pointer}.{number}": described(loaded.metadata, pointer, number) for number in range(1, 5)
        }
        with ThreadPoolExecutor(4) as pool:
            moved = list(pool.map(lambda new: catalog.move(TABLE, pointer, new, lambda: wanted[new]), wanted))
        assert sum(moved) == 1
        assert catalog.pointers([TABLE]) == [list(wanted)[moved.index(True)]]

    def test_one_of_many_creations_at_once_wins(self, tables: IcebergFormat) -> None:
        """All return its table, and the others leave no file behind."""
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: tables.create(TABLE, COLUMNS), range(4)))
        assert len({info.table_uuid for info in found}) == 1
        folder = Path(found[0].pointer.removeprefix("file://")).parent
        assert [f"file://{path}" for path in folder.iterdir()] == [found[0].pointer]

    def test_a_creation_that_is_answered_twice_keeps_its_file(
        self, tables: IcebergFormat, catalog: PointerCatalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first reply was lost, and the repeated request finds the entry that the first one has made."""
        insert = catalog.insert

        def twice(table: Table, pointer: str, metadata: TableMetadata) -> bool:
            insert(table, pointer, metadata)
            return insert(table, pointer, metadata)

        monkeypatch.setattr(tables._catalog._pointers, "insert", twice)
        made = tables.create(TABLE, COLUMNS)
        assert tables.describe(TABLE) == made
        assert Path(made.pointer.removeprefix("file://")).exists()

    def test_a_dropped_table_is_registered_again(self, place: OutsidePlace, tables: IcebergFormat) -> None:
        """R17: with its identity; a second time changes nothing."""
        made = tables.create(TABLE, COLUMNS)
        place.outsider().drop_table(("shop", "flights"))
        assert tables.describe(TABLE) is None
        for _ in range(2):
            tables.register(TABLE, made.pointer)
            assert tables.describe(TABLE) == made

    def test_the_catalog_is_checked_and_made(self, place: OutsidePlace) -> None:
        """Questions of `airflow epochs db check` and `db upgrade`, which may be repeated."""
        make_catalog(place.url)
        make_catalog(place.url)
        assert check_catalog(place.url)


class TestCatalogs(CatalogContract):
    """SQLite and Hive."""


class RemarkCases:
    """Catalogs in which other programs keep more than pointers."""

    def test_what_others_keep_there_stays(self, place: RemarkedPlace, tmp_path: Path) -> None:
        """R17: a move changes the pointer and the columns alone."""
        with closing(IcebergFormat(place.url, f"{tmp_path}/w", swaps=False)) as tables:
            pointer = tables.create(TABLE, COLUMNS).pointer
            place.remark("shop", "flights")
            before = place.remarks("shop", "flights")
            assert "the number" in str(before)
            assert tables._catalog.move(TABLE, pointer, pointer)
            assert place.remarks("shop", "flights") == before


class TestHive(RemarkCases):
    """The Hive metastore alone."""

    @pytest.fixture
    def place(self, hive: HiveMetastore) -> HivePlace:
        hive.clear()
        return HivePlace(hive)

    @pytest.fixture
    def catalog(self, place: HivePlace, tmp_path: Path) -> PointerCatalog:
        return open_catalog(place.url, str(tmp_path))

    @pytest.mark.parametrize(
        ("domain", "name", "field"),
        [
            ("shop", "Flights", "table"),
            ("Shop", "flights", "domain"),
            ("shop", "flüge", "table"),
            ("s.p", "f", "domain"),
        ],
    )
    def test_names_that_the_catalog_would_change_are_refused(
        self, catalog: PointerCatalog, domain: str, name: str, field: str
    ) -> None:
        """Two tables would be one otherwise."""
        table = Table(TableName(name), domain=DomainName(domain), format="iceberg")
        with pytest.raises(InvalidInput, match="a name that the Hive metastore keeps as it is") as refused:
            catalog.pointers([table])
        assert refused.value.field == field

    def test_a_table_of_another_kind_is_named(
        self, place: HivePlace, catalog: PointerCatalog, tmp_path: Path
    ) -> None:
        """It is neither taken for an Iceberg table nor for none."""
        place.make_parquet_table("shop", "flights", f"file://{tmp_path}/plain")
        with pytest.raises(InvalidInput, match="found: EXTERNAL_TABLE"):
            catalog.pointers([TABLE])

    def test_columns_that_the_metastore_refuses_do_not_stop_the_pointer(
        self, place: HivePlace, tmp_path: Path
    ) -> None:
        """R17: it takes no column of another type at the place of one before; engines see the new columns."""
        tables = IcebergFormat(place.url, f"{tmp_path}/w", swaps=False)
        made = tables.create(TABLE, pa.schema([("id", pa.int64())]))
        tables.replace(TABLE, made, pa.schema([("id", pa.string()), ("at", pa.date32())]))
        loaded = place.outsider().load_table(("shop", "flights"))
        assert str(loaded.metadata.table_uuid) != made.table_uuid
        assert [str(field.field_type) for field in loaded.schema().fields] == [
            "string",
            "date",
            "timestamptz",
        ]

    def test_a_lock_of_another_program_is_waited_for_and_named(
        self, place: HivePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """R17: as long as it is held the pointer stays where it is; the next touch moves it."""
        tables = IcebergFormat(place.url, f"{tmp_path}/w", swaps=False)
        pointer = tables.create(TABLE, COLUMNS).pointer
        monkeypatch.setattr(hive_catalog, "_LOCK_WAIT_S", 0.3)
        with place.locked("shop", "flights"), pytest.raises(StoreUnavailable, match=r"lock of shop\.flights"):
            tables._catalog.move(TABLE, pointer, pointer)
        assert tables._catalog.move(TABLE, pointer, pointer)

    def test_a_pointer_is_compared_where_the_metastore_does_not(
        self, place: HivePlace, catalog: PointerCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """R17: servers before HIVE-26882 take an entry whatever its pointer is."""
        tables = IcebergFormat(place.url, f"{tmp_path}/w", swaps=False)
        pointer = tables.create(TABLE, COLUMNS).pointer
        made = tables._catalog.load(TABLE)
        assert made is not None
        context = hive_catalog._context
        monkeypatch.setattr(hive_catalog, "_context", lambda **_compared: context())
        for expected, moves in ((f"{pointer}.2", False), (pointer, True)):
            assert catalog.move(TABLE, expected, f"{pointer}.3", lambda: made.metadata) is moves
            assert catalog.pointers([TABLE]) == [f"{pointer}.3" if moves else pointer]

    def test_nothing_moves_under_a_lock_that_the_metastore_has_ended(
        self, place: HivePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """R17: this process stood still for longer than the lock lasts, and others have moved the pointer since."""
        tables = IcebergFormat(place.url, f"{tmp_path}/w", swaps=False)
        pointer = tables.create(TABLE, COLUMNS).pointer
        take = hive_catalog._Lock.take

        def ended(lock: hive_catalog._Lock, client: Any) -> None:
            take(lock, client)
            client.unlock(ttypes.UnlockRequest(lockid=lock._id))

        monkeypatch.setattr(hive_catalog._Lock, "take", ended)
        with pytest.raises(StoreUnavailable, match=r"has ended the lock of shop\.flights"):
            tables._catalog.move(TABLE, pointer, pointer)

    def test_the_first_server_that_answers_is_asked(self, place: HivePlace, tmp_path: Path) -> None:
        port = free_port()
        catalog = open_catalog(f"hive://127.0.0.1:{port},127.0.0.1:{place.port}", str(tmp_path))
        assert catalog.pointers([TABLE]) == [None]
        with pytest.raises(StoreUnavailable, match="the Hive metastore does not answer"):
            open_catalog(f"hive://ada@127.0.0.1:{port}", str(tmp_path)).pointers([TABLE])


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("hive://metastore", "hive://"),
        ("hive://me:secret@metastore:9083", "hive://"),
        ("glue://", "glue://"),
        ("glue://AKIA:secret@eu-central-1", "glue://"),
        ("glue://12@eu-central-1", "glue://"),
        ("rest://ada:secret@catalog.example?warehouse=lake", "rest://"),
        ("rest://ada:secret@catalog.example?https=no", "rest://"),
        ("rest://ada@secret@catalog.example", "rest://"),
    ],
)
def test_an_address_of_another_form_is_refused(url: str, expected: str) -> None:
    """No message holds a password."""
    with pytest.raises(InvalidInput, match=expected) as refused:
        open_catalog(url, "/srv/warehouse")
    assert "secret" not in str(refused.value)


def test_a_region_without_credentials_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A typed error that says where to look; nothing was asked."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", f"{tmp_path}/none")
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/none")
    with pytest.raises(StoreUnavailable, match="the Glue catalog does not answer, .*credentials"):
        open_catalog("glue://eu-central-1", str(tmp_path)).pointers([TABLE])


@pytest.mark.parametrize(("scheme", "client"), [("hive", "thrift"), ("glue", "boto3")])
def test_a_catalog_without_its_client_names_the_extra(
    scheme: str, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"airflow_provider.tables.iceberg.catalogs.{scheme}", raising=False)
    monkeypatch.setitem(sys.modules, client, None)
    with pytest.raises(InvalidInput, match=f"an installed client of .*{client}.* extra '{scheme}'"):
        open_catalog(f"{scheme}://eu-central-1", "/srv/warehouse")
