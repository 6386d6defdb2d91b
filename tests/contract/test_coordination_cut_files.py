"""Cut files as readers get them: from a cut, for as long as the cut can be read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from airflow_provider.client.epochs import Epochs
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import InvalidInput, LeaseExpired
from airflow_provider.domain.topology import Job, Table
from airflow_provider.tables import storage
from airflow_provider.tables.capabilities import TableCapability
from airflow_provider.tables.iceberg.format import IcebergFormat
from airflow_provider.testing.local_epochs import LocalEpochs
from tests.contract.coordination_world import DOMAIN, Backend, World, barrier, day, owner, values_of
from tests.documents import HOW_TO, blocks

PAST_READING = DEFAULTS.read_grace + timedelta(seconds=1)
PAST_GRACE = DEFAULTS.retention_grace + timedelta(minutes=1)


@pytest.fixture
def world(quick_path: Path, empty_sqlite: Path) -> Iterator[World]:
    world = Backend("iceberg", quick_path, empty_sqlite).world()
    yield world
    world.close()


@pytest.fixture
def in_memory(quick_path: Path, empty_sqlite: Path) -> Iterator[World]:
    world = Backend("memory", quick_path, empty_sqlite).world()
    yield world
    world.close()


def opened(world: World) -> Epochs:
    return Epochs(world.worker(), DOMAIN)


def rows_at(uri: str) -> list[tuple[int, int]]:
    return values_of(StaticTable.from_metadata(uri).scan().to_arrow())


def there(uri: str) -> bool:
    return not storage.missing([uri])


def test_every_cut_has_its_own_files(world: World) -> None:
    """R19: also beyond a gap, at earlier barriers, and of a full table; the same cut asked again has the same files."""
    tables = [world.table("d"), world.table("e", kind="full")]
    job = world.job("j", tables)
    for number in (1, 2, 4):
        world.run(job, day(number), [number, 10 * number])
    for number in (1, 2):
        cut = opened(world).cut(["d", "e"], at=barrier(number))
        found = {table: cut[table].metadata_location() for table in cut}
        assert {table: rows_at(uri) for table, uri in found.items()} == world.rows(
            "d", "e", at=barrier(number)
        )
        again = opened(world).cut(tables, at=barrier(number))
        assert {table: again[table].metadata_location() for table in again} == found
    world.run(job, day(3), [3])
    cut = opened(world).cut(["d", "e"])
    assert {table: rows_at(cut[table].metadata_location()) for table in cut} == world.rows("d", "e")


def test_unpublished_rows_are_refused(world: World) -> None:
    job = world.job("j", [world.table("d")])
    world.run(job, day(1), [1])
    cut = opened(world).cut("d", level="read_uncommitted")
    with pytest.raises(InvalidInput, match="committed rows") as refused:
        cut["d"].metadata_location()
    assert (refused.value.field, refused.value.value) == ("cut", "read_uncommitted")


def test_a_format_without_cut_files_is_named(in_memory: World) -> None:
    in_memory.run(in_memory.job("j", [in_memory.table("d")]), day(1), [1])
    with pytest.raises(InvalidInput, match="lacks the capability 'cut files'") as refused:
        opened(in_memory).cut("d")["d"].metadata_location()
    assert (refused.value.missing, refused.value.table) == ((TableCapability.CUT_FILES,), "d")


def test_a_cut_that_is_over_has_no_file(world: World) -> None:
    """R22: before nothing is written; and what ends while it is written is not returned."""
    world.run(world.job("j", [world.table("d")]), day(1), [1])
    cut = opened(world).cut("d")
    world.clock.advance(PAST_READING)
    with pytest.raises(LeaseExpired):
        cut["d"].metadata_location()


def test_a_cut_that_ends_while_its_file_is_written_is_not_returned(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R22: the files of the state may be gone by then."""
    world.run(world.job("j", [world.table("d")]), day(1), [1])
    cut, write = opened(world).cut("d"), IcebergFormat.cut_file

    def slowly(*arguments: object) -> object:
        world.clock.advance(PAST_READING)
        return write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(IcebergFormat, "cut_file", slowly)
    with pytest.raises(LeaseExpired):
        cut["d"].metadata_location()


def test_the_recipe_of_the_how_to(tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "read"}
    (recipe,) = (block for block in blocks(HOW_TO / "read.md", "python") if "def late_flights" in block.text)
    exec(recipe.text, names)  # noqa: S102 - it is the page's
    job = Job("load", outputs=[Table("flights")], cadence="@daily")
    with LocalEpochs(tmp_path) as local:
        for number, delays in ((1, [10, 90]), (2, [61, 60, 300])):
            rows = [{"carrier": "AA", "dep_delay": delay} for delay in delays]
            local.commit(job, f"2024-05-0{number}", {"flights": rows})
    assert names["late_flights"](f"sqlite:///{tmp_path}/epochs.db", "run") == 3


def test_a_cut_file_stays_as_long_as_a_lease_holds_its_version(world: World) -> None:
    """R24: and goes with it."""
    job = world.job("j", [world.table("d")])
    world.run(job, day(1), [1])
    epochs = opened(world)
    lease = epochs.lease("d", name="report", ttl=timedelta(days=30))
    held = lease.cut["d"].metadata_location()
    world.run(job, day(1), [2], owner("second"))
    between = epochs.cut("d")["d"].metadata_location()
    world.run(job, day(1), [3], owner("third"))
    world.clock.advance(PAST_GRACE)
    deleted = world.retention.vacuum(DOMAIN).deleted
    assert between in deleted
    assert (there(held), there(between)) == (True, False)
    assert rows_at(held) == values_of(lease.cut["d"].to_arrow()) == [(1, 1)]
    assert lease.cut["d"].metadata_location() == held
    lease.drop()
    assert held in world.retention.vacuum(DOMAIN).deleted
    assert not there(held)
    assert rows_at(epochs.cut("d")["d"].metadata_location()) == [(1, 3)]
