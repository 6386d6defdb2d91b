"""Work that was begun before `airflow epochs db upgrade`, by a process that stays open, and ends after it (R36)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.topology import Job
from airflow_provider.stores.factory import open_store, upgrade_schema
from tests.contract.coordination_world import Backend, World, day, owner
from tests.contract.test_sqlite_store import make_older


@dataclass(frozen=True)
class Upgrading:
    """A store of the first format, which :meth:`upgraded` raises. :param older: a process that was open before."""

    world: World
    url: str
    older: EpochService

    def upgraded(self) -> EpochService:
        """Upgrade the store; return a process that opens it then."""
        upgrade_schema(self.url)
        return self.world.worker(open_store(self.url, now=self.world.clock.now))

    def run(self, by: EpochService, job: Job, number: int, generation: int = 0) -> None:
        self.world.coordinator = by
        self.world.run(job, day(number), [number], owner(f"run {generation}", generation=generation))


@pytest.fixture
def upgrading(quick_path: Path, empty_sqlite: Path) -> Iterator[Upgrading]:
    world = Backend("sqlite", quick_path, empty_sqlite).world()
    assert world.path is not None
    url = f"sqlite:///{world.path}"
    make_older(url, world.path)
    yield Upgrading(world, url, world.worker(open_store(url, now=world.clock.now)))
    world.close()


def test_rows_that_stay_are_labelled_by_a_process_of_before_the_upgrade(upgrading: Upgrading) -> None:
    """R18, R36: the label is a field that older formats lack, and was left out for as long as the process ran."""
    world = upgrading.world
    both = world.job("pair", [world.table("whole"), world.table("late")])
    upgrading.run(upgrading.upgraded(), both, 1)
    upgrading.run(upgrading.older, world.job("pair", [world.table("whole")]), 1, generation=1)
    (label,) = world.cut("whole", "late").outdated
    assert label.table == "late"


def test_a_process_of_before_the_upgrade_shows_engines_what_cuts_read(upgrading: Upgrading) -> None:
    """R17, R36: in a store of the first format engines by the catalog see epochs beyond a gap, too."""
    world, job = upgrading.world, upgrading.world.job("t")
    upgrading.run(upgrading.older, job, 1)
    attempt = world.begin(job, day(3))
    world.write(attempt, [3])
    upgrading.run(upgrading.upgraded(), job, 5)
    assert world.engine_rows("t") == [(1, 1)]
    upgrading.older.publish(attempt)
    assert world.engine_rows("t") == [(1, 1)]
    upgrading.run(upgrading.older, job, 2, generation=1)
    assert world.engine_rows("t") == [(1, 1), (2, 2), (3, 3)] == world.rows("t")["t"]
