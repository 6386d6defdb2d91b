"""R33: a domain stays in its warehouse; another one is refused before any work, and before anything is deleted."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider.coordination.coordinator import Coordinator
from airflow_provider.coordination.cuts import Cuts
from airflow_provider.coordination.doctor import examine
from airflow_provider.coordination.leases import Leases
from airflow_provider.coordination.moving import move_domain
from airflow_provider.coordination.recovery import recover
from airflow_provider.coordination.retention import Retention
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.coordination.warehouses import WrongWarehouse
from airflow_provider.domain.cut import Level
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.records import topology_key
from airflow_provider.domain.topology import EpochJob, EpochTable
from airflow_provider.stores.base import MetadataStore, Put, SameStore, Transaction
from airflow_provider.stores.factory import upgrade_schema
from airflow_provider.tables.factory import TableFormats
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner

ELSEWHERE = "file:///elsewhere/warehouse"


def beside(world: World, warehouse: str) -> TableFormats:
    """The world's formats as a process has them that names another warehouse."""
    found = copy(world.formats)
    found.warehouse = warehouse
    return found


def remembered(store: MetadataStore) -> str:
    key = topology_key(DOMAIN)
    return str(store.read(DOMAIN, [key]).records[key].record.warehouse)


def forget(store: MetadataStore) -> None:
    """Let the domain be as an older version made it."""
    key = topology_key(DOMAIN)
    reading = store.read(DOMAIN, [key])
    put = Put(key, replace(reading.records[key].record, warehouse=""))
    store.transact(Transaction(domain=DOMAIN, store=SameStore(reading.head.incarnation), updates=(put,)))


def wrong_begin(world: World, formats: TableFormats) -> None:
    world.worker(formats=formats).begin(world.job("d"), day(2), owner())


def wrong_registration(world: World, formats: TableFormats) -> None:
    world.worker(formats=formats).register(world.job("other"))


def wrong_publish(world: World, formats: TableFormats) -> None:
    attempt = world.begin(world.job("d"), day(2))
    world.write(attempt)
    world.worker(formats=formats).publish(attempt)


def wrong_cut(world: World, formats: TableFormats) -> None:
    Cuts(world.store, formats).cut(DOMAIN, ["d"])


def wrong_uncommitted_cut(world: World, formats: TableFormats) -> None:
    Cuts(world.store, formats).cut(DOMAIN, ["d"], level=Level.READ_UNCOMMITTED)


def wrong_lease(world: World, formats: TableFormats) -> None:
    world.leases.acquire(world.cut("d"), name="report", owner="ada")
    Leases(world.store, Cuts(world.store, formats), clock=world.clock).find(DOMAIN, "report")


def wrong_sweep(world: World, formats: TableFormats) -> None:
    Retention(world.store, formats, clock=world.clock).sweep(DOMAIN)


def wrong_withdrawal(world: World, formats: TableFormats) -> None:
    Retention(world.store, formats, clock=world.clock).withdraw(DOMAIN, "d", barrier(1))


def wrong_recovery(world: World, formats: TableFormats) -> None:
    recover(world.worker(formats=formats), DOMAIN)


WRONG: tuple[Callable[[World, TableFormats], None], ...] = (
    wrong_begin,
    wrong_registration,
    wrong_publish,
    wrong_cut,
    wrong_uncommitted_cut,
    wrong_lease,
    wrong_sweep,
    wrong_withdrawal,
    wrong_recovery,
)


@pytest.mark.parametrize("wrong", WRONG)
def test_another_warehouse_is_refused(world: World, wrong: Callable[[World, TableFormats], None]) -> None:
    """It names both, and nothing of what is published changes."""
    world.run(world.job("d"), day(1))
    before, data = world.rows("d"), world.data()
    with pytest.raises(WrongWarehouse, match="give .* as the warehouse") as refused:
        wrong(world, beside(world, ELSEWHERE))
    assert (refused.value.recorded, refused.value.given) == (world.formats.warehouse, ELSEWHERE)
    assert world.rows("d") == before
    assert data <= world.data()


def test_the_doctor_names_both_warehouses(world: World) -> None:
    """What else it would find beside a wrong one says nothing of the domain."""
    world.run(world.job("d"), day(1))
    (found,) = examine(world.store, beside(world, ELSEWHERE), DOMAIN).urgent
    assert world.formats.warehouse in found.found
    assert ELSEWHERE in found.found


def test_a_domain_of_an_older_version_learns_its_warehouse_when_it_begins(world: World) -> None:
    """Once; until then nothing is compared."""
    world.run(world.job("d"), day(1))
    forget(world.store)
    wrong_cut(world, beside(world, ELSEWHERE))
    world.begin(world.job("d"), day(2))
    assert remembered(world.store) == world.formats.warehouse
    with pytest.raises(WrongWarehouse):
        wrong_cut(world, beside(world, ELSEWHERE))


def test_the_schemes_of_s3_are_one(world: World) -> None:
    """Spark's settings say s3a where others say s3."""
    world.worker(formats=beside(world, "s3://bucket/tables")).register(world.job("d"))
    world.worker(formats=beside(world, "s3a://bucket/tables")).register(world.job("e"))
    with pytest.raises(WrongWarehouse):
        world.worker(formats=beside(world, "s3a://other/tables")).register(world.job("f"))


# --- folders: the store's file and the tables beside it ----------------------------------------------------------

TABLE = EpochTable("d", domain=DOMAIN, format="iceberg")
JOB = EpochJob("d", outputs=[TABLE], cadence="@daily", origin=day(1).start, on_rerun="new_revision")

OTHER = EpochJob("other", outputs=[EpochTable("other", domain=DOMAIN)], cadence="@daily")


def compute(coordinator: Coordinator, number: int) -> None:
    attempt = coordinator.begin(JOB, day(number), owner())
    assert isinstance(attempt, Attempt)
    write_rows(coordinator, attempt, "d", pa.table({"number": [number]}))
    coordinator.publish(attempt)


@pytest.fixture
def folder(quick_path: Path) -> Path:
    """One epoch in a local folder."""
    place = quick_path / "first"
    place.mkdir()
    settings = Settings.local(place)
    upgrade_schema(settings.store_url)
    with EpochService.open(settings) as service:
        compute(service.coordinator, 1)
    return place


def files(place: Path) -> set[Path]:
    return {one for one in (place / "warehouse").rglob("*") if one.is_file()}


def refuse_all(place: Path) -> None:
    with EpochService.open(Settings.local(place)) as service:
        for request in (
            lambda: compute(service.coordinator, 2),
            lambda: service.cuts.cut(DOMAIN, ["d"]),
            lambda: service.retention.sweep(DOMAIN),
        ):
            with pytest.raises(WrongWarehouse):
                request()


def test_a_copied_folder_does_not_touch_its_original(folder: Path) -> None:
    """Neither is written to, and the original goes on."""
    twin = folder.with_name("twin")
    shutil.copytree(folder, twin)
    before = files(folder), files(twin)
    refuse_all(twin)
    assert (files(folder), files(twin)) == before
    with EpochService.open(Settings.local(folder)) as service:
        compute(service.coordinator, 2)


def test_a_moved_folder_is_refused_until_its_old_path_leads_to_it(folder: Path) -> None:
    """A link there does, and so does moving it back."""
    other = folder.with_name("other")
    folder.rename(other)
    refuse_all(other)
    folder.symlink_to(other, target_is_directory=True)
    with EpochService.open(Settings.local(folder)) as service:
        compute(service.coordinator, 2)
        service.retention.sweep(DOMAIN)
        assert examine(service.store, service.formats, DOMAIN).urgent == ()
        found = service.cuts.read(service.cuts.cut(DOMAIN, ["d"]), "d")
        assert sorted(found["number"].to_pylist()) == [1, 2]
    folder.unlink()
    other.rename(folder)
    with EpochService.open(Settings.local(folder)) as service:
        compute(service.coordinator, 3)
        assert service.cuts.read(service.cuts.cut(DOMAIN, ["d"]), "d").num_rows == 3


def test_a_folder_that_was_copied_before_its_domain_knew_its_warehouse_is_not_taken_for_its_own(
    folder: Path,
) -> None:
    """None of the tables has a file in it."""
    twin = folder.with_name("twin")
    with EpochService.open(Settings.local(folder)) as service:
        forget(service.store)
    shutil.copytree(folder, twin)
    with EpochService.open(Settings.local(twin)) as service:
        for request in (lambda: compute(service.coordinator, 2), lambda: service.coordinator.register(OTHER)):
            with pytest.raises(WrongWarehouse, match=f"files in file://{folder}/warehouse"):
                request()
        assert remembered(service.store) == ""


def test_a_move_to_another_store_keeps_the_warehouse(folder: Path) -> None:
    """The other store remembers it, and neither may name another one."""
    here = Settings.local(folder)
    url = f"sqlite:///{folder}/second.db"
    upgrade_schema(url)
    with EpochService.open(here) as source:
        for warehouse in (ELSEWHERE, here.warehouse):
            with EpochService.open(Settings(store_url=url, warehouse=warehouse)) as target:
                found = (source.coordinator, target.coordinator, DOMAIN)
                if warehouse == ELSEWHERE:
                    with pytest.raises(WrongWarehouse):
                        move_domain(*found, source_place="source", target_place="target")
                    continue
                move_domain(*found, source_place="source", target_place="target")
                assert remembered(target.store) == here.warehouse
