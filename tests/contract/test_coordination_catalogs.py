"""R33: a domain stays in its catalog; another one is refused before any work, and takes the tables over on request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import LongType, NestedField

from airflow_provider.coordination.commits.places import WrongCatalog
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.move import move_domain
from airflow_provider.coordination.upkeep.recover import recover
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import EpochBusy
from airflow_provider.domain.records import topology_key
from airflow_provider.domain.topology import Job, Table
from airflow_provider.stores.base import CATALOG_NAME, MetadataStore, Put, SameStore, Transaction
from airflow_provider.stores.factory import upgrade_schema
from airflow_provider.tables.errors import TableRecreated
from airflow_provider.tables.factory import OWN_CATALOG
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, barrier, day, owner

TABLE = Table("d", domain=DOMAIN, format="iceberg")
JOB = Job("d", outputs=[TABLE], cadence="@daily", origin=day(1).start, on_rerun="new_revision")
OTHER = Job("other", outputs=[Table("other", domain=DOMAIN, format="iceberg")], cadence="@daily")


def begun(service: EpochService, number: int) -> Attempt:
    attempt = service.begin(JOB, day(number), owner())
    assert isinstance(attempt, Attempt)
    write_rows(service, attempt, "d", pa.table({"number": [number]}))
    return attempt


def compute(service: EpochService, number: int) -> None:
    service.publish(begun(service, number))


def committed(service: EpochService) -> list[int]:
    return sorted(service.cuts.read(service.cuts.cut(DOMAIN, ["d"]), "d")["number"].to_pylist())


def remembered(store: MetadataStore) -> str:
    key = topology_key(DOMAIN)
    return str(store.read(DOMAIN, [key]).records[key].record.catalog)


def pointed(place: Path) -> list[int]:
    """Rows that an engine reads by the catalog in the file at *place*."""
    catalog = SqlCatalog(CATALOG_NAME, uri=f"sqlite:///{place}")
    found = catalog.load_table((DOMAIN, "d")).metadata_location
    catalog.close()
    return sorted(StaticTable.from_metadata(found).scan().to_arrow()["number"].to_pylist())


class Places:
    """A store, and connections to it that name catalogs in files beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.own = Settings.local(folder)
        upgrade_schema(self.own.store_url)

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.db"

    def open(self, catalog: str = "") -> EpochService:
        """Open the store beside the catalog of that name, or beside its own."""
        url = f"sqlite:///{self.file(catalog)}" if catalog else None
        return EpochService.open(replace(self.own, catalog_url=url))


@pytest.fixture
def places(quick_path: Path) -> Places:
    """One epoch, committed beside catalog "a"."""
    found = Places(quick_path)
    with found.open("a") as service:
        compute(service, 1)
    return found


def wrong_publish(places: Places, wrong: EpochService) -> None:
    with places.open("a") as service:
        attempt = begun(service, 2)
    wrong.publish(attempt)


WRONG: dict[str, Callable[[Places, EpochService], object]] = {
    "begin": lambda _, wrong: compute(wrong, 2),
    "registration": lambda _, wrong: wrong.register(OTHER),
    "publish": wrong_publish,
    "vacuum": lambda _, wrong: wrong.retention.vacuum(DOMAIN),
    "expiry": lambda _, wrong: wrong.retention.expire(DOMAIN, "d", barrier(1)),
    "recovery": lambda _, wrong: recover(wrong.context, DOMAIN),
}


@pytest.mark.parametrize("catalog", ["b", ""])
@pytest.mark.parametrize("request_", WRONG.values(), ids=WRONG.keys())
def test_another_catalog_is_refused(
    places: Places, catalog: str, request_: Callable[[Places, EpochService], object]
) -> None:
    """It names both, and nothing changes; cuts need no catalog."""
    with places.open(catalog) as wrong:
        with pytest.raises(WrongCatalog, match="recover --new-catalog") as refused:
            request_(places, wrong)
        assert refused.value.recorded == f"sqlite:///{places.file('a')}"
        assert refused.value.given == (f"sqlite:///{places.file('b')}" if catalog else OWN_CATALOG)
        assert committed(wrong) == [1]
        (symptom,) = examine(wrong.store, wrong.formats, DOMAIN).urgent
        assert str(places.file("a")) in symptom.found
    assert not places.file("b").exists()


def test_a_domain_of_an_older_version_learns_its_catalog_when_it_begins(places: Places) -> None:
    with places.open("a") as service:
        key = topology_key(DOMAIN)
        reading = service.store.read(DOMAIN, [key])
        put = Put(key, replace(reading.records[key].record, catalog=""))
        service.store.transact(
            Transaction(domain=DOMAIN, store=SameStore(reading.head.incarnation), updates=(put,))
        )
        compute(service, 2)
        assert remembered(service.store) == f"sqlite:///{places.file('a')}"


@pytest.mark.parametrize("to", ["b", ""])
def test_a_change_of_catalogs_enters_the_tables_and_keeps_the_rows(places: Places, to: str) -> None:
    """From a catalog that follows to another, and to the store's own; the former one is refused afterwards."""
    with places.open("a") as former:
        compute(former, 2)
        with places.open(to) as service:
            (table,) = recover(service.context, DOMAIN, new_catalog=True).tables
            assert (table.restored, table.problem) == (True, "")
            again = recover(service.context, DOMAIN, new_catalog=True)
            assert [table.restored for table in again.tables] == [False]
            compute(service, 3)
            service.retention.vacuum(DOMAIN)
            assert committed(service) == [1, 2, 3]
        with pytest.raises(WrongCatalog):
            compute(former, 4)
    assert pointed(places.file(to) if to else Path(places.own.store_url.removeprefix("sqlite:///"))) == [
        1,
        2,
        3,
    ]


def test_a_change_back_moves_the_entry_that_stayed(places: Places) -> None:
    with places.open("b") as service:
        recover(service.context, DOMAIN, new_catalog=True)
        compute(service, 2)
    with places.open("a") as service:
        (table,) = recover(service.context, DOMAIN, new_catalog=True).tables
        assert (table.restored, table.moved) == (False, True)
        compute(service, 3)
    assert pointed(places.file("a")) == [1, 2, 3]


def test_a_change_waits_for_live_attempts(places: Places) -> None:
    """They go on by the former catalog."""
    with places.open("a") as former, places.open("b") as service:
        attempt = begun(former, 2)
        with pytest.raises(EpochBusy, match="pause the DAGs") as refused:
            recover(service.context, DOMAIN, new_catalog=True)
        assert len(refused.value.holders) == 1
        assert remembered(service.store) == f"sqlite:///{places.file('a')}"
        former.publish(attempt)
        recover(service.context, DOMAIN, new_catalog=True)
        assert committed(service) == [1, 2]


def test_a_change_refuses_a_catalog_that_has_another_table_of_the_name(places: Places) -> None:
    catalog = SqlCatalog(CATALOG_NAME, uri=f"sqlite:///{places.file('b')}", warehouse=places.own.warehouse)
    catalog.create_namespace(DOMAIN)
    schema = Schema(NestedField(1, "number", LongType(), required=False))
    catalog.create_table((DOMAIN, "d"), schema, location=f"file://{places.folder}/foreign")
    catalog.close()
    with places.open("b") as service:
        with pytest.raises(TableRecreated):
            recover(service.context, DOMAIN, new_catalog=True)
        assert remembered(service.store) == f"sqlite:///{places.file('a')}"


def test_a_move_to_another_store_takes_the_catalog_beside_it(places: Places) -> None:
    url = f"sqlite:///{places.file('second')}"
    upgrade_schema(url)
    settings = Settings(store_url=url, warehouse=places.own.warehouse)
    with places.open("a") as source, EpochService.open(settings) as target:
        move_domain(source.context, target.context, DOMAIN, source_place="source", target_place="target")
        assert remembered(target.store) == OWN_CATALOG
        compute(target, 2)
        assert committed(target) == [1, 2]
