"""Random walks of a commit group: tasks, people and deaths in any order (R40)."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job
from tests.contract.coordination_world import DOMAIN, PAST_TTL, Rows, World, barrier, day, owner
from tests.contract.groups import WHY, Chain, work
from tests.contract.interruptions import Died, Interruption, worker
from tests.contract.restating import sound

DAYS = (1, 2, 3)
STEPS = 40


class Walk:
    """One walk. :ivar visible: what readers were shown of each day. :ivar alone: days that a skip has broken up."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.random, self.chain = world, Random(seed), Chain.of(world)
        self.visible: dict[int, Rows] = {}
        self.generations = 0
        self.alone: set[int] = set()

    def run(self) -> None:
        for _ in range(STEPS):
            number = self.random.choice(DAYS)
            act = self.random.choices(
                [self._work, self._die, self._clear, self._abandon, self._skip, self._fail],
                [8, 8, 3, 1, 1, 2],
            )[0]
            with suppress(EpochError, Died):
                act(number)
            self.world.clock.advance(PAST_TTL)
            self.look()
        for number in DAYS * len(self.chain.jobs):
            for job in self.chain.jobs:
                epoch = self.world.coordinator.epoch(DOMAIN, job.name, day(number))
                if epoch is None or epoch.record.committed is None:
                    by = owner("end", generation=self._next())
                    self._compute(by, number, job)
        self.look()
        assert set(self.visible) == set(DAYS)
        assert sound(self.world)

    def _work(self, number: int) -> None:
        only, by = self.random.choice(self.chain.jobs), owner(try_number=self._next())
        self._compute(by, number, only)

    def _compute(self, by: Owner, number: int, only: Job) -> None:
        work(self.world.coordinator, self.world, self.chain.jobs, by, number, only=only)

    def _die(self, number: int) -> None:
        def die() -> None:
            raise Died

        dying = worker(self.world, Interruption(self.random.randrange(60), die))
        work(dying, self.world, self.chain.jobs, owner(try_number=self._next()), number)

    def _clear(self, number: int) -> None:
        only, by = self.random.choice(self.chain.jobs), owner(generation=self._next())
        if number not in self.visible:
            self._compute(by, number, only)

    def _abandon(self, number: int) -> None:
        name = f"flights {barrier(number):%Y-%m-%dT%H:%M:%SZ}"
        self.world.coordinator.restatements.abandon(DOMAIN, name, **WHY)

    def _skip(self, number: int) -> None:
        job = self.random.choice(self.chain.jobs)
        self.world.coordinator.skip(DOMAIN, job.name, day(number), "nothing came", by="me")
        self.alone.add(number)

    def _fail(self, number: int) -> None:
        by = owner(try_number=self._next())
        attempt = self.world.coordinator.begin(self.random.choice(self.chain.jobs), day(number), by)
        if isinstance(attempt, Attempt):
            self.world.coordinator.abort(attempt, "it failed")

    def _next(self) -> int:
        self.generations += 1
        return self.generations

    def look(self) -> None:
        """Each day is shown whole or not at all, and never changes, unless a user has skipped a part of it."""
        for number in DAYS:
            found = self._seen(number)
            if found and number not in self.alone:
                assert len(found) == len(self.chain.jobs), (number, found)
                assert self.visible.setdefault(number, found) == found
            elif len(found) == len(self.chain.jobs):
                self.visible.setdefault(number, found)

    def _seen(self, number: int) -> Rows:
        found: Rows = {}
        for job in self.chain.jobs:
            with suppress(EpochError):
                rows = self.world.rows(str(job.name), at=barrier(number))[str(job.name)]
                if self.world.cut(str(job.name), at=barrier(number)).barrier == barrier(number):
                    found[str(job.name)] = [row for row in rows if row[0] == number]
        return found


@pytest.mark.parametrize("seed", range(12))
def test_a_reader_never_gets_a_part_of_a_barrier(world: World, seed: int) -> None:
    """R40: whatever tasks, people and deaths come in which order."""
    Walk(world, seed).run()
