"""R33: a domain stays in its warehouse; another one is refused before any work, and before anything is deleted."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from copy import copy
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.fs import FileSystem
from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider.coordination.commits.places import WrongWarehouse
from airflow_provider.coordination.commits.sealed import DomainMoving
from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.reading.leases import Leases
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.coordination.upkeep import move
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.move import MovedDomain, move_domain
from airflow_provider.coordination.upkeep.recover import recover
from airflow_provider.coordination.upkeep.retention import Retention
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Conflict, InvalidInput, Unavailable
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.records import table_key, topology_key
from airflow_provider.domain.topology import Job, Table, previous
from airflow_provider.stores.base import MetadataStore, Put, SameStore, Transaction
from airflow_provider.stores.factory import new_incarnation, upgrade_schema
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.iceberg import manifest_files, relocating
from airflow_provider.tables.iceberg.file_io import DurableFileIO
from airflow_provider.tables.relocating import Relocation
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


def wrong_vacuum(world: World, formats: TableFormats) -> None:
    Retention(world.store, formats, clock=world.clock).vacuum(DOMAIN)


def wrong_expiry(world: World, formats: TableFormats) -> None:
    Retention(world.store, formats, clock=world.clock).expire(DOMAIN, "d", barrier(1))


def wrong_recovery(world: World, formats: TableFormats) -> None:
    recover(world.worker(formats=formats).context, DOMAIN)


WRONG: tuple[Callable[[World, TableFormats], None], ...] = (
    wrong_begin,
    wrong_registration,
    wrong_publish,
    wrong_cut,
    wrong_uncommitted_cut,
    wrong_lease,
    wrong_vacuum,
    wrong_expiry,
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

TABLE = Table("d", domain=DOMAIN, format="iceberg")
JOB = Job("d", outputs=[TABLE], cadence="@daily", origin=day(1).start, on_rerun="new_revision")

OTHER = Job("other", outputs=[Table("other", domain=DOMAIN)], cadence="@daily")


def compute(coordinator: EpochService, number: int) -> None:
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
        compute(service, 1)
    return place


def files(place: Path) -> set[Path]:
    return {path for path in (place / "warehouse").rglob("*") if path.is_file()}


def refuse_all(place: Path) -> None:
    with EpochService.open(Settings.local(place)) as service:
        for request in (
            lambda: compute(service, 2),
            lambda: service.cuts.cut(DOMAIN, ["d"]),
            lambda: service.retention.vacuum(DOMAIN),
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
        compute(service, 2)


def test_a_moved_folder_is_refused_until_its_old_path_leads_to_it(folder: Path) -> None:
    """A link there does, and so does moving it back."""
    other = folder.with_name("other")
    folder.rename(other)
    refuse_all(other)
    folder.symlink_to(other, target_is_directory=True)
    with EpochService.open(Settings.local(folder)) as service:
        compute(service, 2)
        service.retention.vacuum(DOMAIN)
        assert examine(service.store, service.formats, DOMAIN).urgent == ()
        found = service.cuts.read(service.cuts.cut(DOMAIN, ["d"]), "d")
        assert sorted(found["number"].to_pylist()) == [1, 2]
    folder.unlink()
    other.rename(folder)
    with EpochService.open(Settings.local(folder)) as service:
        compute(service, 3)
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
        for request in (lambda: compute(service, 2), lambda: service.register(OTHER)):
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
                found = (source.context, target.context, DOMAIN)
                if warehouse == ELSEWHERE:
                    with pytest.raises(WrongWarehouse):
                        move_domain(*found, source_place="source", target_place="target")
                    continue
                move_domain(*found, source_place="source", target_place="target")
                assert remembered(target.store) == here.warehouse


# --- a copy that takes the place of its original -------------------------------------------------------------------

TOTAL = Table("total", domain=DOMAIN, format="iceberg", kind="full")
BOTH = Job("both", inputs=[TABLE, previous(TOTAL)], outputs=[TOTAL], cadence="@daily", origin=day(1).start)


def total(coordinator: EpochService, number: int) -> None:
    attempt = coordinator.begin(BOTH, day(number), owner())
    assert isinstance(attempt, Attempt)
    write_rows(coordinator, attempt, "total", pa.table({"sum": [number * 10]}))
    coordinator.publish(attempt)


def rows_of(service: EpochService, number: int) -> dict[str, list[object]]:
    cut = service.cuts.cut(DOMAIN, ["d", "total"], at=barrier(number))
    found = {name: service.cuts.read(cut, name) for name in ("d", "total")}
    return {name: rows[rows.column_names[0]].to_pylist() for name, rows in found.items()}


@dataclass(frozen=True)
class Copied:
    """A folder with some epochs, a copy of its warehouse elsewhere, and an empty store beside that."""

    source: Settings
    target: Settings

    @property
    def original(self) -> Path:
        return Path(self.source.warehouse.removeprefix("file://"))

    @property
    def copy(self) -> Path:
        return Path(self.target.warehouse.removeprefix("file://"))

    def move(self, *, warehouse: bool = True, spelled: str = "") -> MovedDomain:
        with EpochService.open(self.source) as here, EpochService.open(self.target) as there:
            return move_domain(
                here.context,
                there.context,
                DOMAIN,
                source_place=f"source{spelled}",
                target_place=f"target{spelled}",
                warehouse=warehouse,
            )

    def copied_again(self) -> None:
        shutil.rmtree(self.copy)
        shutil.copytree(self.original, self.copy)

    def made_anew(self) -> None:
        """Lose the target's store, and make another one at its address."""
        for path in self.copy.parent.glob("second.db*"):
            path.unlink()
        upgrade_schema(self.target.store_url)

    def dies(self, monkeypatch: pytest.MonkeyPatch, *, warehouse: bool = True) -> None:
        """Move, and die once the records are in the target."""

        def dies(_mover: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(move._Mover, "_move_pointers", dies)
            with pytest.raises(KeyboardInterrupt):
                self.move(warehouse=warehouse)


@pytest.fixture
def copied(folder: Path, quick_path: Path) -> Copied:
    with EpochService.open(Settings.local(folder)) as service:
        for number in (1, 2, 3):
            if number > 1:
                compute(service, number)
            total(service, number)
        left = service.begin(JOB, day(4), owner())  # silent when the domain is moved
        assert isinstance(left, Attempt)
        write_rows(service, left, "d", pa.table({"number": [4]}))
        service.abort(left, "it failed")
    source = Settings.local(folder)
    target = Settings(store_url=f"sqlite:///{quick_path}/second.db", warehouse=f"file://{quick_path}/moved")
    upgrade_schema(target.store_url)
    shutil.copytree(folder / "warehouse", quick_path / "moved")
    return Copied(source, target)


def as_it_was(copied: Copied) -> None:
    """Assert that the domain lives in the copy, and needs nothing of the original."""
    shutil.rmtree(copied.original, ignore_errors=True)
    with EpochService.open(copied.target) as service:
        assert remembered(service.store) == copied.target.warehouse
        assert [rows_of(service, number) for number in (1, 2, 3)] == [
            {"d": list(range(1, number + 1)), "total": [number * 10]} for number in (1, 2, 3)
        ]
        for name, expected in (("d", [1, 2, 3]), ("total", [30])):  # engines without cuts
            with SqlCatalog(
                "epochs", uri=copied.target.store_url, warehouse=copied.target.warehouse
            ) as catalog:
                assert sorted(catalog.load_table((DOMAIN, name)).scan().to_arrow()[0].to_pylist()) == expected
        compute(service, 4)
        total(service, 4)
        assert rows_of(service, 4) == {"d": [1, 2, 3, 4], "total": [40]}
        assert examine(service.store, service.formats, DOMAIN).symptoms == ()
        service.retention.expire(DOMAIN, "total", barrier(1))
        service.retention.vacuum(DOMAIN)
    named = [file for file in copied.copy.rglob("*") if file.suffix in (".avro", ".json")]
    assert len(named) > 10
    assert not [file for file in named if str(copied.original).encode() in file.read_bytes()]
    for file in (file for file in named if file.name.startswith("snap-")):
        for manifest in manifest_files.read_list(DurableFileIO(), f"file://{file}"):
            path = Path(
                manifest.manifest_path.removeprefix("file://")
            )  # others than pyiceberg read so many bytes
            assert not path.exists() or path.stat().st_size == manifest.manifest_length


def test_a_copy_takes_the_place_of_its_original(copied: Copied) -> None:
    """R33: every cut, the catalog and the next epochs need nothing of the original, which the move leaves as it was."""
    before = {file: file.read_bytes() for file in files(copied.original.parent)}
    moved = copied.move()
    assert {file: file.read_bytes() for file in files(copied.original.parent)} == before
    assert moved.tables == ("d", "total")
    assert copied.move() == moved
    as_it_was(copied)


@pytest.mark.parametrize("written", range(0, 24, 4))
def test_a_move_to_a_copy_that_dies_is_run_again(
    copied: Copied, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """R33: after any number of files that were written anew."""
    whole, done = relocating._replace, count()

    def dies(found: FileSystem, path: str, content: bytes) -> None:
        if next(done) >= written:
            raise KeyboardInterrupt
        whole(found, path, content)

    with monkeypatch.context() as patched:
        patched.setattr(relocating, "_replace", dies)
        with pytest.raises(KeyboardInterrupt):
            copied.move()
    copied.move()
    as_it_was(copied)


@pytest.mark.parametrize("name", ["1.avro", "1.metadata.json"])
def test_a_copy_of_half_a_file_is_named(tmp_path: Path, name: str) -> None:
    """R22, R33: it is copied again, and the move is run again."""
    (tmp_path / name).write_bytes(b"Obj\x01{")
    with pytest.raises(Unavailable, match=f"{tmp_path}/{name} is damaged: it was not copied whole"):
        relocating.relocate(Relocation(old="file:///old", new=f"file://{tmp_path}"))


@pytest.mark.parametrize("kind", [".metadata.json", ".avro", ".parquet"])
def test_a_copy_that_is_not_whole_is_refused(copied: Copied, kind: str) -> None:
    """R33, I6: nothing is opened there; once the rest was copied, the move is run again."""
    with EpochService.open(copied.source) as service:
        ref = service.store.read(DOMAIN, [table_key(DOMAIN, "d")]).records[table_key(DOMAIN, "d")].record.ref
    lost = {
        ".metadata.json": ref.metadata,
        ".avro": ref.location,
        ".parquet": next(
            str(file)
            for file in files(copied.original.parent)
            if file.suffix == ".parquet" and "/d/" in str(file)
        ),
    }[kind]
    path = copied.copy / Path(lost.removeprefix("file://")).relative_to(copied.original)
    path.unlink()
    with pytest.raises(Unavailable, match="not there" if kind == ".metadata.json" else "were not copied"):
        copied.move()
    if kind != ".metadata.json":
        with EpochService.open(copied.target) as service, pytest.raises(DomainMoving):
            service.register(OTHER)
    else:  # nothing was done
        with EpochService.open(copied.source) as service:
            compute(service, 4)
        copied.copied_again()
        copied.move()
        return
    shutil.copy(copied.original / path.relative_to(copied.copy), path)
    copied.move()
    as_it_was(copied)


@pytest.mark.parametrize("leads", [True, False])
def test_a_move_goes_on_to_the_warehouse_to_which_it_has_begun(
    copied: Copied, monkeypatch: pytest.MonkeyPatch, leads: bool
) -> None:
    """R33: with and without the files, by turns, it would mix the names of both; neither way could it end then."""
    stays = replace(copied, target=replace(copied.target, warehouse=copied.source.warehouse))
    begun, other = (copied, stays) if leads else (stays, copied)
    begun.dies(monkeypatch, warehouse=leads)
    with pytest.raises(WrongWarehouse) as refused:
        other.move(warehouse=not leads)
    assert refused.value.recorded == begun.target.warehouse
    begun.move(warehouse=leads)
    with EpochService.open(begun.target) as service:
        assert rows_of(service, 3) == {"d": [1, 2, 3], "total": [30]}


@pytest.mark.parametrize("who", ["made anew", "target", "source", "spelled"])
def test_a_move_goes_on_with_a_store_that_was_replaced(
    copied: Copied, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """R33: restored, promoted, made anew at its address, or named otherwise: the domain is sealed in both stores."""
    copied.dies(monkeypatch)
    if who == "made anew":
        copied.made_anew()
    elif who != "spelled":
        new_incarnation((copied.target if who == "target" else copied.source).store_url)
    spelled = ":5432" if who == "spelled" else ""
    moved = copied.move(spelled=spelled)
    assert copied.move() == copied.move(spelled=spelled) == moved
    as_it_was(copied)


def backed_up(store: Path, to: Path) -> None:
    with closing(sqlite3.connect(store)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)


def test_a_move_whose_source_has_lost_commits_ends_in_a_target_made_anew(
    copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33: the target has more than the restored source, which the error says how to end."""
    path = Path(copied.source.store_url.removeprefix("sqlite:///"))
    backup = path.with_suffix(".backup")
    backed_up(path, backup)
    with EpochService.open(copied.source) as service:
        compute(service, 4)
    copied.copied_again()
    copied.dies(monkeypatch)
    backed_up(backup, path)
    new_incarnation(copied.source.store_url)
    with pytest.raises(Conflict, match="make the target anew at its address"):
        copied.move()
    copied.made_anew()
    copied.copied_again()
    copied.move()
    as_it_was(copied)


def test_folder_that_is_no_copy_is_refused(copied: Copied) -> None:
    """R33: the same warehouse, and a folder within the original's."""
    for warehouse in (copied.source.warehouse, f"{copied.source.warehouse}/{DOMAIN}"):
        with pytest.raises(InvalidInput) as refused:
            replace(copied, target=replace(copied.target, warehouse=warehouse)).move()
        assert refused.value.field == "warehouse"


def test_texts_that_look_like_a_file_stay() -> None:
    """Only what lies in the folder is led to another, however its scheme is spelled."""
    names = Relocation(old="s3://b/w/d", new="file:///n/d")
    assert names.uri("s3a://b/w/d/x.avro") == "file:///n/d/x.avro"
    assert names.within({"a": ["s3://b/w/dd/x", 1, None], "s3://b/w/d": "s3://b/w/d"}) == {
        "a": ["s3://b/w/dd/x", 1, None],
        "s3://b/w/d": "file:///n/d",
    }
    assert Relocation(old="file:///o", new="s3://b").uri("file:/o/x") == "s3://b/x"
