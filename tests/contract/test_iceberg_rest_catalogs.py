"""REST catalogs alone: their server writes a description of its own for each commit, and has some routes only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, update_table_metadata

from airflow_provider.domain.errors import InvalidInput, StoreUnavailable
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.topology import Table
from airflow_provider.tables.base import Prepared, Publication
from airflow_provider.tables.factory import check_catalog
from airflow_provider.tables.iceberg.catalogs import rest as rest_catalog
from airflow_provider.tables.iceberg.catalogs.base import Move, PointerCatalog
from airflow_provider.tables.iceberg.catalogs.opening import open_catalog
from airflow_provider.tables.iceberg.format import IcebergFormat
from airflow_provider.testing.table_cases.backend import Publisher, batch, day, new_publisher
from tests.contract.outside_backend import OutsideBackend
from tests.contract.outside_catalogs import RestPlace
from tests.contract.test_iceberg_catalogs import COLUMNS, TABLE, described, rest_place
from tests.servers.iceberg_rest import RestCatalogServer
from tests.servers.ports import free_port

pytestmark = pytest.mark.thorough

OTHER = replace(TABLE, name=TableName("delays"))


@pytest.fixture
def place(request: pytest.FixtureRequest) -> RestPlace:
    return rest_place(request, getattr(request, "param", "lake"))


@pytest.fixture
def tables(place: RestPlace, tmp_path: Path) -> Iterator[IcebergFormat]:
    with closing(IcebergFormat(place.url, f"{tmp_path}/w", swaps=False)) as opened:
        yield opened


@pytest.fixture
def catalog(place: RestPlace, tmp_path: Path) -> Iterator[PointerCatalog]:
    with closing(open_catalog(place.url, str(tmp_path))) as opened:
        yield opened


def made(tables: IcebergFormat, table: Table = TABLE) -> tuple[str, TableMetadata]:
    """Create *table*; return its pointer and its description."""
    pointer = tables.create(table, COLUMNS).pointer
    loaded = tables._catalog.load(table)
    assert loaded is not None
    return pointer, loaded.metadata


def names_in(place: RestPlace) -> list[str]:
    return [name for _, name in place.outsider().list_tables("shop")]


def meanwhile(monkeypatch: pytest.MonkeyPatch, request: str, does: Callable[[], object]) -> None:
    """Let another process do something right before the package's next *request*, a method of pyiceberg's client."""
    real = getattr(rest_catalog._Client, request)

    def late(client: Any, *given: Any) -> Any:
        monkeypatch.undo()
        does()
        return real(client, *given)

    monkeypatch.setattr(rest_catalog._Client, request, late)


def test_a_commit_between_look_and_move_is_seen(
    tables: IcebergFormat, catalog: PointerCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R17: the server compares the snapshot, and refuses the move."""
    pointer, metadata = made(tables)
    other = described(metadata, pointer, 7)
    meanwhile(
        monkeypatch, "commit_table", lambda: catalog.move(TABLE, pointer, f"{pointer}.7", lambda: other)
    )
    assert not catalog.move(TABLE, pointer, f"{pointer}.8", lambda: described(metadata, pointer, 8))
    assert catalog.pointers([TABLE]) == [f"{pointer}.7"]


def test_what_another_program_committed_is_not_taken_for_the_own_version(
    place: RestPlace, tables: IcebergFormat, catalog: PointerCatalog
) -> None:
    """R17: a tag or columns of another program make the server's own file the pointer; a property does not."""
    pointer, metadata = made(tables)
    assert catalog.move(TABLE, pointer, f"{pointer}.2", lambda: described(metadata, pointer, 2))
    place.remark("shop", "flights")
    remarks = place.remarks("shop", "flights")
    assert catalog.pointers([TABLE]) == [f"{pointer}.2"]
    assert catalog.move(TABLE, f"{pointer}.2", f"{pointer}.2", lambda: described(metadata, pointer, 2))
    assert place.remarks("shop", "flights") == remarks == ("the number", "7"), "they stay"
    place.outsider().load_table(("shop", "flights")).manage_snapshots().create_tag(2, "audit").commit()
    found = place.outsider().load_table(("shop", "flights"))
    assert catalog.pointers([TABLE]) == [found.metadata_location]
    assert not catalog.move(TABLE, f"{pointer}.2", f"{pointer}.3", lambda: described(metadata, pointer, 3))
    with found.update_schema() as changing:
        changing.rename_column("price", "cost")
    assert catalog.pointers([TABLE]) == [place.outsider().load_table(("shop", "flights")).metadata_location]


def test_columns_that_come_back_have_the_servers_number(
    place: RestPlace, tables: IcebergFormat, catalog: PointerCatalog
) -> None:
    """R32: a server gives equal columns one number, so that each snapshot must say that one."""
    pointer, metadata = made(tables)
    first = metadata.schema()
    second = Schema(*first.fields[1:], schema_id=1)
    for number, schema in ((1, second), (2, first.model_copy(update={"schema_id": 2}))):
        changes = (
            AddSchemaUpdate(schema=schema),
            SetCurrentSchemaUpdate.model_validate({"schema-id": number}),
        )
        metadata = described(update_table_metadata(metadata, changes), f"{pointer}.{number - 1}", number)
        expected = pointer if number == 1 else f"{pointer}.{number - 1}"
        assert catalog.move(TABLE, expected, f"{pointer}.{number}", lambda found=metadata: found)  # type: ignore[misc]
        assert catalog.pointers([TABLE]) == [f"{pointer}.{number}"]
    found = place.outsider().load_table(("shop", "flights"))
    assert [snapshot.schema_id for snapshot in found.metadata.snapshots] == [1, 0]
    assert found.schema().column_names == first.column_names


@pytest.mark.parametrize("place", ["lake", "copies"], indirect=True)
def test_a_table_is_replaced_by_one_of_another_identity(place: RestPlace, tables: IcebergFormat) -> None:
    """R17: no commit can do that: it is registered in place of the one before, which leaves no entry."""
    before = tables.create(TABLE, COLUMNS)
    after = tables.replace(TABLE, before, pa.schema([("id", pa.string())]))
    assert after.table_uuid != before.table_uuid
    assert str(place.outsider().load_table(("shop", "flights")).metadata.table_uuid) == after.table_uuid
    assert names_in(place) == ["flights"]
    assert tables.describe(TABLE) == after


def test_a_commit_between_look_and_replacement_stays(
    place: RestPlace, tables: IcebergFormat, catalog: PointerCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R17: the table is looked at once more under a name by which no other program commits."""
    pointer, metadata = made(tables)
    other = described(metadata, pointer, 7)
    meanwhile(
        monkeypatch, "rename_table", lambda: catalog.move(TABLE, pointer, f"{pointer}.7", lambda: other)
    )
    elsewhere, another = made(tables, OTHER)
    assert not catalog.move(TABLE, pointer, elsewhere, lambda: another)
    assert catalog.pointers([TABLE]) == [f"{pointer}.7"]
    assert sorted(names_in(place)) == ["delays", "flights"]


def test_a_table_that_comes_back_during_a_replacement_stays(
    place: RestPlace, tables: IcebergFormat, catalog: PointerCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R17: the entry of before stays, too, under its other name: nothing is dropped that may have rows."""
    pointer, _ = made(tables)
    elsewhere, another = made(tables, OTHER)
    created: list[str] = []
    meanwhile(
        monkeypatch,
        "register_table",
        lambda: created.append(tables.create(TABLE, COLUMNS).pointer),
    )
    assert not catalog.move(TABLE, pointer, elsewhere, lambda: another)
    assert catalog.pointers([TABLE]) == created != [pointer]
    assert [name.startswith("flights__epochs_") for name in sorted(names_in(place))] == [False, False, True]


def moves_of(both: dict[Table, tuple[str, TableMetadata]], number: int) -> list[Move]:
    return [
        Move(
            table=table,
            expected=pointer,
            pointer=f"{pointer}.{number}",
            metadata=partial(described, metadata, pointer, number),
        )
        for table, (pointer, metadata) in both.items()
    ]


@pytest.mark.parametrize(("place", "moves"), [("lake", True), ("plain", False)], indirect=["place"])
def test_pointers_of_several_tables_move_at_once(
    tables: IcebergFormat, catalog: PointerCatalog, moves: bool
) -> None:
    """R17: where the server commits several tables; elsewhere the caller moves each."""
    both = {table: made(tables, table) for table in (TABLE, OTHER)}
    assert catalog.move_together(moves_of(both, 2)) is moves
    wanted = [f"{pointer}.2" if moves else pointer for pointer, _ in both.values()]
    assert catalog.pointers(list(both)) == wanted


@pytest.mark.parametrize("request_", ["load_table", "commit_together"])
def test_of_several_pointers_none_moves_if_one_was_moved(
    tables: IcebergFormat, catalog: PointerCatalog, monkeypatch: pytest.MonkeyPatch, request_: str
) -> None:
    """R17: before the package looks, and between its look and its request."""
    both = {table: made(tables, table) for table in (TABLE, OTHER)}
    pointer, metadata = both[OTHER]
    other = described(metadata, pointer, 7)
    meanwhile(monkeypatch, request_, lambda: catalog.move(OTHER, pointer, f"{pointer}.7", lambda: other))
    assert not catalog.move_together(moves_of(both, 2))
    assert catalog.pointers([TABLE, OTHER]) == [both[TABLE][0], f"{pointer}.7"]


@pytest.mark.parametrize("place", ["plain"], indirect=True)
def test_a_server_that_cannot_rename_replaces_nothing(tables: IcebergFormat) -> None:
    before = tables.create(TABLE, COLUMNS)
    with pytest.raises(InvalidInput, match=r"the route POST .*tables/rename"):
        tables.replace(TABLE, before, pa.schema([("id", pa.string())]))
    assert tables.describe(TABLE) == before


def test_a_server_that_registers_no_tables_is_refused(rest: RestCatalogServer) -> None:
    """When it is first asked, which `airflow epochs db check` does; the message names the route."""
    with pytest.raises(InvalidInput, match=r"the route POST .*/register"):
        check_catalog(rest.url("bare"))


def test_a_secret_is_given_to_the_server_and_shown_to_no_one(rest: RestCatalogServer) -> None:
    assert check_catalog(rest.url("guarded", "ada:secret"))
    assert check_catalog(rest.url("guarded", ":token-of-ada"))
    for user in ("", "ada:sesame", ":of-ben"):
        with pytest.raises(StoreUnavailable, match="the REST catalog does not answer, or refuses") as refused:
            check_catalog(rest.url("guarded", user))
        assert "sesame" not in str(refused.value)


def test_a_server_that_is_not_there_does_not_answer() -> None:
    with pytest.raises(StoreUnavailable, match="the REST catalog does not answer"):
        check_catalog(f"rest://127.0.0.1:{free_port()}?https=off")


def test_tables_of_one_commit_are_shown_at_once(
    place: RestPlace, quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R17: by one request; if a pointer had stayed behind, each table moves alone."""
    with OutsideBackend(quick_path, place) as backend:
        publisher = new_publisher(backend)
        first = publisher.table()
        both = (first, replace(first, name=TableName("delays")))
        for table in both:
            publisher.create(table)

        def prepared(number: int, *tables: Table) -> list[tuple[Publication, Prepared]]:
            staged = [(table, publisher.stage(table, day(number), [batch([number])])) for table in tables]
            made = [publisher.publication(table, (day(number), rows)) for table, rows in staged]
            return [(publication, publisher.format.prepare(publication)) for publication in made]

        one = prepared(0, *both)
        with monkeypatch.context() as patch:
            patch.delattr(RestCatalog, "commit_table")
            publisher.commit(*one)
        assert [pointer_of(publisher, table) for table in both] == [
            publisher.refs[table].metadata for table in both
        ]
        publisher.record(*prepared(1, first))
        publisher.commit(*prepared(2, *both))
        assert [pointer_of(publisher, table) for table in both] == [
            publisher.refs[table].metadata for table in both
        ]


def pointer_of(publisher: Publisher, table: Table) -> str:
    info = publisher.format.describe(table)
    assert info is not None
    return info.pointer
